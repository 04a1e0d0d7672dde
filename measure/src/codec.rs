//! The binary form of synopses and control frames, version 2.
//!
//! ```text
//!  Hello, Marker, Stash, Reference ----+                        +--> Handshake (sessions)
//!                                      v                        |
//!  synopsis --> fragments --> Sealer::seal ==> Verifier::open --+--> Message --> Assembler
//!                   ^         header, tag      tag, session,    |                    |
//!                   |                          replay           |                    v
//!                   +-------------- Request <-------------------+--------- missing ranges, halves
//! ```
//!
//! Two switches that share a wire segment speak in *control frames*: a header, a body by [`Kind`],
//! a tag. Tables of bytes are beside what they describe: [`frame`] (header and tag), [`hello`],
//! [`marker`], [`stash`], [`fragment`] with [`shape`], [`mod@reference`], [`request`],
//! [`report`]. Vectors made by another implementation are in `codec/golden`.
//!
//! - Everything is big-endian, as in all protocols around it: a capture reads as numbers. Tags are
//!   the bytes that SipHash's authors put out.
//! - Every body has a representation with `parse` and `emit` (large ones a view of the received
//!   bytes beside it), and one form only: what parses is written again byte for byte.
//! - Nothing is believed before its tag, session and sequence are checked, nothing is allocated for
//!   what bytes from outside announce, and no bytes can cause a panic.
//! - Writing allocates nothing: frames are sealed where they are sent from.
//!
//! # What is claimed
//!
//! Who does not hold a key can neither make a frame that is believed (SipHash-2-4-128 as a MAC;
//! forging succeeds with probability 2^-128 a try) nor have an old one believed once more
//! (sessions from mutual nonces, with keys of their own; a replay window for each kind). Frames are not secret. Without
//! a key they are believed on trusted ports only ([`KeyRing::trusting`]), and the tag is a mere
//! checksum.

mod assembler;
mod bytes;
mod element;
mod error;
pub mod fragment;
pub mod frame;
pub mod handshake;
pub mod hello;
mod key;
pub mod marker;
mod message;
pub mod reference;
pub mod report;
pub mod request;
mod seal;
pub mod shape;
pub mod stash;
mod window;

pub use assembler::{AssembleError, Assembler, TooLarge};
pub use bytes::{Number, Put, Reader, Slot};
pub use element::Element;
pub use error::{FrameError, ParseError};
pub use fragment::{Fragment, FragmentError, FragmentView, fragments};
pub use frame::{
    FRAME_BYTES_DEFAULT, FRAME_BYTES_MAX, Frame, HEADER_BYTES, Header, Kind, MAGIC, TAG_BYTES,
    VERSION,
};
pub use handshake::{Handshake, Heard, Nonces, Sessions};
pub use hello::{Claim, ClockState, Hello, Mismatch, NAME_MAX, PortName, SHAPES_MAX, seed_check};
pub use key::{Key, KeyId, KeyRing, KeyRingError, Nonce, Session, SessionId};
pub use marker::Marker;
pub use message::{Body, Message};
pub use reference::{FRAME_BYTES as REFERENCE_FRAME_BYTES, Reference};
pub use report::{Chosen, EpochFate, Report};
pub use request::{RANGES_MAX, Request};
pub use seal::{OpenError, SealError, Sealer, Subject, Verifier};
pub use shape::{Shape, SketchShape};
pub use stash::{Side, Stash, StashView, Stashed};
pub use window::ReplayWindow;

#[cfg(test)]
mod tests;
