//! Messages of FRR's OSPF API (`ospfd/ospf_api.h`; all numbers in network byte order).
//!
//! Requests are answered on the connection on which they arrive. Changes are announced on a second connection, which
//! ospfd opens to the client's port plus 1.

use std::net::Ipv4Addr;

use super::lsa::{AGE_MAX_S, HEADER_BYTES, Header, Lsa, LsaError, OPAQUE_AREA, Reader};

/// Length of a message's header: version, type, length of the body (two bytes), sequence number (four).
pub const HEADER: usize = 8;
/// Version of the interface, the same since FRR's first release.
pub const VERSION: u8 = 1;

const REGISTER_OPAQUE: u8 = 1;
const REGISTER_EVENT: u8 = 3;
const SYNC_DATABASE: u8 = 4;
const ORIGINATE: u8 = 5;
const SYNC_ROUTER_ID: u8 = 19;
const REPLY: u8 = 10;
const UPDATED: u8 = 12;
const DELETED: u8 = 13;
const ROUTER_ID: u8 = 20;

/// A request to ospfd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Announce changes of LSAs of these types from now on.
    Watch(&'static [u8]),
    /// Send all LSAs of these types.
    Database(&'static [u8]),
    /// Send the router ID; the answer follows all earlier announcements.
    RouterId,
    /// Allow this client to originate area-wide opaque LSAs of an opaque type.
    Register(u8),
    /// Originate an opaque LSA in an area, or replace it.
    Originate {
        /// The area.
        area: Ipv4Addr,
        /// The opaque type, which must be registered.
        opaque_type: u8,
        /// The LSA's body; its length must be a multiple of 4.
        body: Vec<u8>,
    },
}

impl Request {
    /// Encodes the message. No body is empty, since ospfd 8.4 crashes on such a message (an assertion in
    /// `stream_new`).
    pub fn emit(&self, sequence: u32) -> Vec<u8> {
        let (kind, body) = match self {
            Self::Watch(types) => (REGISTER_EVENT, filter(types)),
            Self::Database(types) => (SYNC_DATABASE, filter(types)),
            Self::RouterId => (SYNC_ROUTER_ID, vec![0; 4]),
            Self::Register(opaque_type) => (REGISTER_OPAQUE, vec![OPAQUE_AREA, *opaque_type, 0, 0]),
            Self::Originate {
                area,
                opaque_type,
                body,
            } => (ORIGINATE, originate(*area, *opaque_type, body)),
        };
        let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
        let mut message = vec![VERSION, kind];
        message.extend(length.to_be_bytes());
        message.extend(sequence.to_be_bytes());
        message.extend(body);
        message
    }
}

/// Encodes an `lsa_filter_type`: a bit for each type, from bit 0 for type 1; of any origin (2); of all
/// areas (0).
fn filter(types: &[u8]) -> Vec<u8> {
    let mask = types
        .iter()
        .fold(0_u16, |mask, kind| mask | 1 << (kind - 1));
    let [high, low] = mask.to_be_bytes();
    vec![high, low, 2, 0]
}

fn originate(area: Ipv4Addr, opaque_type: u8, body: &[u8]) -> Vec<u8> {
    // No interface, which only LSAs of a link need.
    let mut message = vec![0; 4];
    message.extend(area.octets());
    // Age and options; ospfd fills in the other zeros.
    message.extend([0, 1, 0, OPAQUE_AREA]);
    message.extend([opaque_type, 0, 0, 0]);
    message.extend([0; 10]);
    let length = u16::try_from(HEADER_BYTES + body.len()).unwrap_or(u16::MAX);
    message.extend(length.to_be_bytes());
    message.extend(body);
    message
}

/// A message from ospfd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A request succeeded or was refused.
    Reply {
        /// The request's sequence number.
        sequence: u32,
        /// 0, or an error code.
        code: i8,
    },
    /// An LSA has changed, or was requested.
    Changed(Change),
    /// The router's ID.
    RouterId {
        /// The request's sequence number; 0: unsolicited.
        sequence: u32,
        /// The router ID.
        id: Ipv4Addr,
    },
    /// Anything else.
    Other,
}

/// A new, changed or withdrawn LSA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The LSA is valid.
    Valid {
        /// Its area.
        area: Ipv4Addr,
        /// The LSA.
        lsa: Lsa,
    },
    /// The LSA is withdrawn.
    Gone {
        /// Its area.
        area: Ipv4Addr,
        /// Its header.
        header: Header,
    },
}

/// Why a message cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The interface has another version.
    #[error("version {0} of the OSPF API, expected {VERSION}")]
    Version(u8),
    /// The content is invalid.
    #[error("message of type {kind}: {reason}")]
    Content {
        /// The message's type (`ospf_api.h`).
        kind: u8,
        /// The error.
        reason: LsaError,
    },
}

/// Removes the first message from the received bytes and parses it; `None` if it is incomplete. A message is at most
/// 64 KiB long. An invalid message is removed, too, so that the next one can be parsed.
///
/// # Errors
/// The message cannot be parsed. After one of another version, nothing can.
pub fn next(received: &mut Vec<u8>) -> Result<Option<Answer>, MessageError> {
    let Some((&[version, kind, high, low, s3, s2, s1, s0], rest)) =
        received.split_first_chunk::<HEADER>()
    else {
        return Ok(None);
    };
    if version != VERSION {
        return Err(MessageError::Version(version));
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    let sequence = u32::from_be_bytes([s3, s2, s1, s0]);
    let answer = answer(kind, sequence, body);
    received.drain(..HEADER + length);
    answer
        .map(Some)
        .map_err(|reason| MessageError::Content { kind, reason })
}

fn answer(kind: u8, sequence: u32, body: &[u8]) -> Result<Answer, LsaError> {
    let mut read = Reader(body);
    match kind {
        REPLY => {
            let [code] = read.array("error code")?;
            let code = code.cast_signed();
            Ok(Answer::Reply { sequence, code })
        }
        UPDATED | DELETED => {
            read.address("interface")?;
            let area = read.address("area")?;
            read.take("origin", 4)?;
            let header = Header::parse(read.0)?;
            let change = if kind == DELETED || header.age_s >= AGE_MAX_S {
                Change::Gone { area, header }
            } else {
                let lsa = Lsa::parse(read.0)?;
                Change::Valid { area, lsa }
            };
            Ok(Answer::Changed(change))
        }
        ROUTER_ID => {
            let id = read.address("router id")?;
            Ok(Answer::RouterId { sequence, id })
        }
        _ => Ok(Answer::Other),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::lsa::tests::lsa;
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&[1, kind, length[0], length[1], 0, 0, 0, 7], body].concat()
    }

    #[test]
    fn messages_are_taken_one_by_one() {
        let reply = message(REPLY, &[0xfe, 0, 0, 0]);
        let id = message(ROUTER_ID, &[10, 0, 0, 1]);
        let mut received = [&reply[..], &id, &[1, REPLY]].concat();
        let expected = Answer::Reply {
            sequence: 7,
            code: -2,
        };
        assert_eq!(next(&mut received), Ok(Some(expected)));
        let expected = Answer::RouterId {
            sequence: 7,
            id: Ipv4Addr::new(10, 0, 0, 1),
        };
        assert_eq!(next(&mut received), Ok(Some(expected)));
        assert_eq!(next(&mut received), Ok(None));
        assert_eq!(received, [1, REPLY]);
        let error = next(&mut vec![9, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(error.to_string(), "version 9 of the OSPF API, expected 1");
    }

    #[test]
    fn an_aged_lsa_is_gone() {
        let mut bytes = lsa(OPAQUE_AREA, [200, 0, 0, 0], [1; 4], b"VRNR");
        bytes[..2].copy_from_slice(&AGE_MAX_S.to_be_bytes());
        let body = [&[0; 12], &bytes[..]].concat();
        let found = next(&mut message(UPDATED, &body)).unwrap().unwrap();
        assert!(
            matches!(found, Answer::Changed(Change::Gone { .. })),
            "{found:?}"
        );
    }

    #[test]
    fn what_cannot_be_read_does_not_block_what_follows() {
        let mut received = message(UPDATED, &[0; 20]);
        received.extend(message(REPLY, &[0; 4]));
        let error = next(&mut received).unwrap_err().to_string();
        assert_eq!(
            error,
            "message of type 12: advertising router: expected 4 more bytes, found 0"
        );
        assert!(next(&mut received).unwrap().is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_end(mut received in prop::collection::vec(any::<u8>(), 0..200), kind in 0_u8..22) {
            if received.len() > 3 {
                (received[0], received[1], received[2], received[3]) = (1, kind, 0, received[3] % 64);
            }
            for _ in 0..40 {
                let before = received.len();
                match next(&mut received) {
                    Ok(None) | Err(MessageError::Version(_)) => return Ok(()),
                    _ => prop_assert!(received.len() < before),
                }
            }
        }

        #[test]
        fn no_request_is_empty(sequence in any::<u32>(), body in prop::collection::vec(any::<u8>(), 0..8)) {
            let area = Ipv4Addr::UNSPECIFIED;
            let all = [
                Request::Watch(&[1, 2, 10]),
                Request::Database(&[1]),
                Request::RouterId,
                Request::Register(200),
                Request::Originate { area, opaque_type: 200, body },
            ];
            for request in all {
                let message = request.emit(sequence);
                prop_assert!(message.len() > HEADER);
                let length = usize::from(u16::from_be_bytes([message[2], message[3]]));
                prop_assert_eq!(message.len(), HEADER + length);
            }
        }
    }
}
