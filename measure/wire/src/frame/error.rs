//! What is wrong with a frame from outside.

use super::{FRAME_BYTES_MAX, VERSION};

/// Bytes that are no control frame of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Some other frame of the same ethertype or port: data.
    #[error("not a control frame: it does not begin with VRNR")]
    Magic,
    /// From a switch of another version.
    #[error(
        "the other end sends control frames of version {version}, this switch has version {VERSION}: update the older one"
    )]
    Version {
        /// The version found.
        version: u8,
    },
    /// A kind that this version does not have.
    #[error("control frame of kind {kind}, which version {VERSION} does not have")]
    Kind {
        /// The kind's number.
        kind: u8,
    },
    /// Less than it announces.
    #[error("control frame cut off after {bytes} bytes")]
    Truncated {
        /// Bytes there are.
        bytes: usize,
    },
    /// More than it announces.
    #[error("{left} bytes behind the control frame's tag")]
    Trailing {
        /// How many more.
        left: usize,
    },
    /// Larger than any control frame.
    #[error("control frame of {bytes} bytes; the most is {FRAME_BYTES_MAX}")]
    Oversized {
        /// Bytes there are.
        bytes: usize,
    },
}
