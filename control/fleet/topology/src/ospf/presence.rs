//! How a node advertises to its area that it measures: in an opaque LSA of our own.
//!
//! The paper proposes a bit of OSPF's *Options*, but all have been assigned since. Routers flood an opaque LSA of a
//! type for private use (RFC 5250, section 9: 128 to 255) without knowing it.
//!
//! ```text
//!  0      4         5      6           8
//!  | VRNR | version | role | reserved | TLVs: type u16, length u16, value, padded to 4 bytes (as RFC 3630, 2.3.2)
//! ```
//!
//! TLV 1 is the node's name. Unknown TLVs are skipped, and so are LSAs with another beginning: other programs may use
//! the same type.

use super::lsa::{LsaError, Reader};
use crate::topology::Role;

/// The opaque type.
pub const OPAQUE_TYPE: u8 = 200;
/// Limit of a name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

const MAGIC: &[u8; 4] = b"VRNR";
const VERSION: u8 = 1;
const TLV_NAME: u16 = 1;

/// A node's advertisement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presence {
    /// Its role in measurement.
    pub role: Role,
    /// Its name, if any, cut to [`NAME_BYTES_MAX`].
    pub name: Option<String>,
}

impl Presence {
    /// Encodes the body of the LSA.
    pub fn emit(&self) -> Vec<u8> {
        let role = match self.role {
            Role::Plain => 0,
            Role::MRouter => 1,
            Role::MServer => 2,
        };
        let mut body = MAGIC.to_vec();
        body.extend([VERSION, role, 0, 0]);
        if let Some(name) = &self.name {
            let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
            body.extend(TLV_NAME.to_be_bytes());
            // At most 64.
            body.extend([0, u8::try_from(name.len()).unwrap_or(0)]);
            body.extend(name.as_bytes());
            body.resize(body.len().next_multiple_of(4), 0);
        }
        body
    }

    /// Parses the body of an LSA; `None` if it is not ours, or of an unknown version.
    ///
    /// # Errors
    /// Bytes are missing.
    pub fn parse(body: &[u8]) -> Result<Option<Self>, LsaError> {
        let Some(body) = body.strip_prefix(MAGIC) else {
            return Ok(None);
        };
        let mut read = Reader(body);
        let [version, role, _, _] = read.array("version and role")?;
        let role = match (version, role) {
            (VERSION, 1) => Role::MRouter,
            (VERSION, 2) => Role::MServer,
            _ => return Ok(None),
        };
        let mut name = None;
        while !read.0.is_empty() {
            let [high, low] = read.array("type of a TLV")?;
            let kind = u16::from_be_bytes([high, low]);
            let length = usize::from(u16::from_be_bytes(read.array("length of a TLV")?));
            let value = read.take("value of a TLV", length)?;
            read.take("padding of a TLV", length.next_multiple_of(4) - length)?;
            let text = std::str::from_utf8(value).unwrap_or_default();
            let is_name = kind == TLV_NAME
                && (1..=NAME_BYTES_MAX).contains(&text.len())
                && !text.contains(char::is_control);
            if is_name {
                name = Some(text.to_owned());
            }
        }
        Ok(Some(Self { role, name }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_comes_back(name in prop::option::of("[a-zA-Z0-9é.-]{1,32}"), is_router in any::<bool>()) {
            let role = if is_router { Role::MRouter } else { Role::MServer };
            let presence = Presence { role, name };
            let body = presence.emit();
            prop_assert_eq!(body.len() % 4, 0);
            prop_assert_eq!(Presence::parse(&body), Ok(Some(presence)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..40), ours in any::<bool>()) {
            let head = if ours { &b"VRNR\x01\x01\0\0"[..] } else { b"" };
            let found = Presence::parse(&[head, &body].concat());
            if let Ok(Some(Presence { name: Some(name), .. })) = found {
                prop_assert!(name.len() <= NAME_BYTES_MAX);
            }
        }
    }

    #[test]
    fn what_others_put_there_is_skipped() {
        assert_eq!(Presence::parse(b"other"), Ok(None));
        assert_eq!(Presence::parse(b"VRNR\x02\x01\0\0"), Ok(None));
        let error = Presence::parse(b"VRNR\x01\x01\0\0\0\x01\0\x09C").unwrap_err();
        assert_eq!(
            error.to_string(),
            "value of a TLV: expected 9 more bytes, found 1"
        );
        // A TLV of a later version.
        let later = b"VRNR\x01\x02\0\0\0\x09\0\x01x\0\0\0";
        let expected = Presence {
            role: Role::MServer,
            name: None,
        };
        assert_eq!(Presence::parse(later), Ok(Some(expected)));
    }
}
