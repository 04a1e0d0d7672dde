//! The control frames of a wire segment, version 2.1.
//!
//! ```text
//!  Hello, Marker, Stash, Reference ----+                        +--> Handshake (session)
//!                                      v                        |
//!  fragments (codec) ----------> Sealer::seal ==> Verifier::open --+--> Message --> Assembler (codec)
//!                   ^         header, tag      tag, session,    |                    |
//!                   |                          replay           |                    v
//!                   +-------------- Request <-------------------+--------------- missing ranges
//! ```
//!
//! Two switches that share a wire segment exchange *control frames*: a header, a body by [`Kind`],
//! a tag. Tables of bytes are beside what they describe: [`header`] (header and tag), [`hello`],
//! [`marker`], [`stash`], [`codec::fragment`](crate::codec::fragment), [`mod@reference`],
//! [`request`], [`report`], [`floor`]. Vectors made by another implementation are in `frame/golden`.
//!
//! - Everything is big-endian, as in all protocols around it. Tags are the bytes that SipHash's
//!   authors put out.
//! - Every body has a representation with `parse` and `emit` (large ones a view of the received
//!   bytes beside it), and one form only: what parses is written again byte for byte.
//! - What is added without changing what is there raises the minor version, which hellos carry. A kind of frame is sent to ends
//!   whose minor version has it. Version 2.0 is that of 0.1.0 up to 78f1034.
//! - Nothing is accepted before its tag, session and sequence are checked.
//! - Writing allocates nothing: frames are sealed where they are sent from.

mod error;
pub mod floor;
pub mod header;
pub mod hello;
pub mod marker;
mod message;
pub mod reference;
pub mod report;
pub mod request;
mod seal;
pub mod stash;
mod window;

pub use super::session::TAG_BYTES;
pub use error::FrameError;
pub use floor::Floor;
pub use header::{
    FRAME_BYTES_DEFAULT, FRAME_BYTES_MAX, Frame, HEADER_BYTES, Header, Kind, MAGIC, VERSION,
    VERSION_MINOR, body_room,
};
pub use hello::{Claim, ClockState, Hello, Mismatch, NAME_MAX, PortName, SHAPES_MAX, seed_check};
pub use marker::Marker;
pub use message::{Body, Message};
pub use reference::{FRAME_BYTES as REFERENCE_FRAME_BYTES, Reference};
pub use report::{EpochFate, Report};
pub use request::{RANGES_MAX, Request};
pub use seal::{OpenError, SealError, Sealer, Subject, Verifier};
pub use stash::{Side, Stash, StashView, Stashed};
pub use window::ReplayWindow;

#[cfg(test)]
mod tests;
