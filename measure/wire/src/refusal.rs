//! Control frames that are rejected.

use crate::codec::ParseError;
use crate::frame::{FrameError, OpenError};

/// Why a control frame was rejected: what to count it as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Not one whole frame of a known kind, or with a body that means nothing.
    Malformed,
    /// Of this other version of the protocol.
    Version(u8),
    /// Under a key that is not configured here, or under none.
    UnknownKey,
    /// With a wrong tag.
    Tag,
    /// Of another session than the present one, or of any while there is none.
    Session,
    /// Seen before, or too old to know.
    Replayed,
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Frame(FrameError::Version { version }) => Self::Version(version),
            OpenError::Frame(_) => Self::Malformed,
            OpenError::UnknownKey { .. } => Self::UnknownKey,
            OpenError::Tag { .. } => Self::Tag,
            OpenError::Session => Self::Session,
            OpenError::Replayed { .. } => Self::Replayed,
        }
    }
}

impl From<ParseError> for Refusal {
    fn from(_: ParseError) -> Self {
        Self::Malformed
    }
}
