//! The binary form of synopses: fragments of sealed ones, and how they are put together again.
//!
//! ```text
//!  synopsis --> fragments --> Fragment ==> FragmentView --> Assembler --> elements, missing ranges
//! ```
//!
//! Two switches that share a wire segment exchange synopses. Tables of bytes are in [`fragment`] and
//! [`shape`]; the frames that carry fragments are in [`frame`](crate::frame).
//!
//! - Everything is big-endian, as in all protocols around it: a capture reads as numbers.
//! - Each fragment has one form only: what parses is written again byte for byte.
//! - Nothing is allocated for what bytes from outside announce, and no bytes can cause a panic.
//! - Writing allocates nothing.

mod assembler;
mod bytes;
mod element;
mod error;
pub mod fragment;
pub mod shape;

pub use assembler::{AssembleError, Assembler, TooLarge};
pub use bytes::{Number, Put, Reader, Slot};
pub use element::Element;
pub use error::ParseError;
pub use fragment::{Fragment, FragmentError, FragmentView, fragments};
pub use shape::{Shape, SketchShape};
