//! Link state advertisements in wire format (RFC 2328, appendix A.4; RFC 5250, appendix A.2).

use std::net::Ipv4Addr;

use thiserror::Error;

/// Length of an LSA's header.
pub const HEADER_BYTES: usize = 20;
/// Age at which an LSA is no longer valid, in seconds (`MaxAge`).
pub const AGE_MAX_S: u16 = 3_600;

/// Types of LSAs, `LS type`.
pub const ROUTER: u8 = 1;
/// Transit networks.
pub const NETWORK: u8 = 2;
/// Opaque LSAs that stay in their area.
pub const OPAQUE_AREA: u8 = 10;

/// The header of an LSA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// In seconds; at [`AGE_MAX_S`], the LSA is withdrawn.
    pub age_s: u16,
    /// `LS type`.
    pub kind: u8,
    /// Link state ID; its meaning depends on the type.
    pub id: Ipv4Addr,
    /// The router that originated it.
    pub advertiser: Ipv4Addr,
    /// Length including this header, in bytes.
    pub length: u16,
}

/// An LSA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lsa {
    /// Its header.
    pub header: Header,
    /// Its content.
    pub body: Body,
}

/// Content of an LSA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A router's links (A.4.2).
    Router(Vec<Link>),
    /// The routers of a transit network (A.4.3).
    Network {
        /// The network's mask.
        mask: Ipv4Addr,
        /// IDs of its routers.
        attached: Vec<Ipv4Addr>,
    },
    /// An application's message to its area; the high byte of the link state ID is the application's type.
    Opaque(Vec<u8>),
    /// Another type, which is not parsed.
    Other,
}

/// A link of a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The kind of its target.
    pub kind: LinkKind,
    /// ID of the neighbour, address of the transit network's designated router, or address of the stub
    /// network.
    pub id: Ipv4Addr,
    /// The router's own address on the link (or the interface's index if it has none); for a stub network,
    /// the mask.
    pub data: Ipv4Addr,
    /// Cost of sending over this link.
    pub cost: u16,
}

/// Target of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// Another router.
    PointToPoint,
    /// A network with several routers.
    Transit,
    /// A network without another router.
    Stub,
    /// A virtual link to a router at another border of an area.
    Virtual,
}

/// Why bytes are not a valid LSA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LsaError {
    /// Bytes are missing.
    #[error("{place}: expected {needed} more bytes, found {found}")]
    Short {
        /// The field.
        place: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes left.
        found: usize,
    },
    /// The length in the header differs from the number of bytes.
    #[error("length: {length} bytes by the header, {found} received")]
    Length {
        /// Length in the header.
        length: u16,
        /// Bytes received.
        found: usize,
    },
    /// A link of unknown type.
    #[error("link {index}: type {kind} is not between 1 and 4 (RFC 2328, A.4.2)")]
    LinkKind {
        /// Index of the link, from 0.
        index: usize,
        /// Its type.
        kind: u8,
    },
    /// There are bytes after the end.
    #[error("{place}: {bytes} bytes too many")]
    Long {
        /// What they follow.
        place: &'static str,
        /// Their number.
        bytes: usize,
    },
}

/// Reads bytes from the front.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, place: &'static str, bytes: usize) -> Result<&'a [u8], LsaError> {
        let short = LsaError::Short {
            place,
            needed: bytes,
            found: self.0.len(),
        };
        let (head, rest) = self.0.split_at_checked(bytes).ok_or(short)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        place: &'static str,
    ) -> Result<[u8; N], LsaError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(place, N)?);
        Ok(array)
    }

    fn u16(&mut self, place: &'static str) -> Result<u16, LsaError> {
        self.array(place).map(u16::from_be_bytes)
    }

    pub(crate) fn address(&mut self, place: &'static str) -> Result<Ipv4Addr, LsaError> {
        self.array::<4>(place).map(Ipv4Addr::from)
    }
}

impl Header {
    /// Parses a header.
    ///
    /// # Errors
    /// Bytes are missing.
    pub fn parse(bytes: &[u8]) -> Result<Self, LsaError> {
        let mut read = Reader(bytes);
        let age_s = read.u16("LS age")?;
        let [_options, kind] = read.array("LS type")?;
        let id = read.address("link state ID")?;
        let advertiser = read.address("advertising router")?;
        read.take("LS sequence number and checksum", 6)?;
        Ok(Self {
            age_s,
            kind,
            id,
            advertiser,
            length: read.u16("length")?,
        })
    }
}

impl Lsa {
    /// Parses one LSA, which takes all of the bytes. (The receiving router has verified its checksum.)
    ///
    /// # Errors
    /// It violates RFC 2328.
    pub fn parse(bytes: &[u8]) -> Result<Self, LsaError> {
        let header = Header::parse(bytes)?;
        if usize::from(header.length) != bytes.len() {
            return Err(LsaError::Length {
                length: header.length,
                found: bytes.len(),
            });
        }
        let body = &bytes[HEADER_BYTES..];
        let body = match header.kind {
            ROUTER => Body::Router(router(body)?),
            NETWORK => network(body)?,
            OPAQUE_AREA => Body::Opaque(body.to_vec()),
            _ => Body::Other,
        };
        Ok(Self { header, body })
    }
}

fn router(body: &[u8]) -> Result<Vec<Link>, LsaError> {
    let mut read = Reader(body);
    read.take("flags of a router", 2)?;
    let links = read.u16("number of links")?;
    let links: Result<Vec<_>, _> = (0..usize::from(links))
        .map(|index| link(index, &mut read))
        .collect();
    let links = links?;
    if read.0.is_empty() {
        return Ok(links);
    }
    Err(LsaError::Long {
        place: "links of a router",
        bytes: read.0.len(),
    })
}

fn link(index: usize, read: &mut Reader<'_>) -> Result<Link, LsaError> {
    let id = read.address("link ID")?;
    let data = read.address("link data")?;
    let [kind, metrics] = read.array("link type")?;
    let kind = match kind {
        1 => LinkKind::PointToPoint,
        2 => LinkKind::Transit,
        3 => LinkKind::Stub,
        4 => LinkKind::Virtual,
        kind => return Err(LsaError::LinkKind { index, kind }),
    };
    let cost = read.u16("metric of a link")?;
    // For types of service (A.4.2), which are not used.
    read.take("TOS metrics of a link", 4 * usize::from(metrics))?;
    Ok(Link {
        kind,
        id,
        data,
        cost,
    })
}

fn network(body: &[u8]) -> Result<Body, LsaError> {
    let mut read = Reader(body);
    let mask = read.address("network mask")?;
    let mut attached = Vec::with_capacity(read.0.len() / 4);
    while !read.0.is_empty() {
        attached.push(read.address("attached router")?);
    }
    Ok(Body::Network { mask, attached })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An LSA in wire format, with its length set.
    pub fn lsa(kind: u8, id: [u8; 4], advertiser: [u8; 4], body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(HEADER_BYTES + body.len()).unwrap();
        let mut bytes = vec![0, 1, 2, kind];
        bytes.extend(id);
        bytes.extend(advertiser);
        bytes.extend([0x80, 0, 0, 1, 0xab, 0xcd]);
        bytes.extend(length.to_be_bytes());
        bytes.extend(body);
        bytes
    }

    /// The body of a router's LSA: link type, id, data, cost.
    pub fn router_body(links: &[(u8, [u8; 4], [u8; 4], u16)]) -> Vec<u8> {
        let mut body = vec![0, 0];
        body.extend(u16::try_from(links.len()).unwrap().to_be_bytes());
        for (kind, id, data, cost) in links {
            body.extend(id);
            body.extend(data);
            body.extend([*kind, 0]);
            body.extend(cost.to_be_bytes());
        }
        body
    }

    /// A router LSA with two links, sent by FRR 8.4.
    const FROM_FRR: &str = "000002010aff00020aff000280000006cddf0048000000040a090100fffffffc030000010a\
        ff00060a090301010000010a090300fffffffc030000010aff0002ffffffff03000000";

    fn hex(text: &str) -> Vec<u8> {
        let text: String = text.split_whitespace().collect();
        let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(byte).collect()
    }

    #[test]
    fn a_router_of_frr() {
        use LinkKind::{PointToPoint, Stub};
        let lsa = Lsa::parse(&hex(FROM_FRR)).unwrap();
        assert_eq!(lsa.header.advertiser, Ipv4Addr::new(10, 255, 0, 2));
        let Body::Router(links) = lsa.body else {
            panic!("{lsa:?}")
        };
        let kinds: Vec<_> = links.iter().map(|link| link.kind).collect();
        assert_eq!(kinds, [Stub, PointToPoint, Stub, Stub]);
        let expected = Link {
            kind: PointToPoint,
            id: Ipv4Addr::new(10, 255, 0, 6),
            data: Ipv4Addr::new(10, 9, 3, 1),
            cost: 1,
        };
        assert_eq!(links[1], expected);
    }

    #[test]
    fn errors_name_the_place() {
        let good = lsa(
            ROUTER,
            [1; 4],
            [1; 4],
            &router_body(&[(1, [2; 4], [3; 4], 7)]),
        );
        Lsa::parse(&good).unwrap();
        let text = |bytes: &[u8]| Lsa::parse(bytes).unwrap_err().to_string();
        assert_eq!(
            text(&good[..7]),
            "link state ID: expected 4 more bytes, found 3"
        );
        assert_eq!(
            text(&good[..35]),
            "length: 36 bytes by the header, 35 received"
        );
        let body = router_body(&[(9, [2; 4], [3; 4], 7)]);
        assert!(text(&lsa(ROUTER, [1; 4], [1; 4], &body)).starts_with("link 0: type 9"));
        let mut long = router_body(&[]);
        long.push(0);
        assert_eq!(
            text(&lsa(ROUTER, [1; 4], [1; 4], &long)),
            "links of a router: 1 bytes too many"
        );
        assert_eq!(
            text(&lsa(NETWORK, [1; 4], [1; 4], &[255, 255, 255, 0, 1])),
            "attached router: expected 4 more bytes, found 1"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_lsa_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Lsa::parse(&bytes);
        }

        /// Bodies after a valid header reach deeper into the parser.
        #[test]
        fn any_body_is_read_or_an_error(kind in 0_u8..12, body in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Lsa::parse(&lsa(kind, [1; 4], [2; 4], &body));
        }

        #[test]
        fn links_come_back(links in prop::collection::vec((1_u8..5, any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u16>()), 0..9)) {
            let read = Lsa::parse(&lsa(ROUTER, [1; 4], [2; 4], &router_body(&links))).unwrap();
            let Body::Router(found) = read.body else { panic!("{read:?}") };
            for (link, (kind, id, data, cost)) in found.iter().zip(&links) {
                prop_assert_eq!(link.id.octets(), *id);
                prop_assert_eq!(link.data.octets(), *data);
                prop_assert_eq!(link.cost, *cost);
                prop_assert_eq!(link.kind as u8 + 1, *kind);
            }
            prop_assert_eq!(found.len(), links.len());
        }
    }
}
