//! ICMP (RFC 792) and `ICMPv6` (RFC 4443, 2.1), as far as they are read here.

/// Bytes of the header with the four bytes that depend on the type.
pub const BYTES: usize = 8;
