//! SCTP's common header (RFC 9260, 3.1), as far as it is read here.

/// Bytes of the header.
pub const BYTES: usize = 12;

/// Where the fields are.
pub mod field {
    use crate::packet::header::Field;

    /// Port of the sender.
    pub const SOURCE_PORT: Field = 0..2;
    /// Port of the receiver.
    pub const DESTINATION_PORT: Field = 2..4;
    /// Verification tag.
    pub const TAG: Field = 4..8;
}
