//! Sessions between two ends of a wire: keys, nonces, and the handshake that makes a session of them.
//!
//! Someone who does not hold a key can neither make a frame that is accepted (SipHash-2-4-128 as a
//! MAC; forging succeeds with probability 2^-128 a try) nor have an old one accepted once more
//! (sessions from mutual nonces, with keys of their own; a replay window for each kind of frame).
//! Frames are not secret. Without a key they are accepted on trusted ports only
//! ([`KeyRing::trusting`]), and the tag is a mere checksum.

mod handshake;
mod key;

pub use handshake::{Handshake, Heard, Nonces, Sessions};
pub use key::{Key, KeyId, KeyRing, KeyRingError, Nonce, Session, SessionId, TAG_BYTES};

#[cfg(test)]
mod tests;
