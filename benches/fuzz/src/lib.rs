//! Fuzz targets: every parser of bytes from outside.
//!
//! A target is a function of bytes that panics where something that must hold does not. libFuzzer
//! calls it with what it makes up (`make fuzz`, `src/bin`); the test suite calls it with the
//! committed corpus (`tests/corpus.rs`).
//!
//! - [`frame`]: Ethernet frames to flow and packet hashes.
//! - [`codec`]: control frames, synopses' binary forms, fragments put together.
//! - [`csv`]: files that other programs hand over.
#![forbid(unsafe_code)]
#![expect(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a panic is how a target tells libFuzzer what it found"
)]

mod codec;
mod csv;
mod frame;

pub use codec::codec;
pub use csv::csv;
pub use frame::frame;

/// A target by name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target, by the name of its corpus.
pub const TARGETS: [Target; 3] = [("frame", frame), ("codec", codec), ("csv", csv)];
