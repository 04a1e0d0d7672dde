//! Why a reply is not taken.

/// Why a reply is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Rejection {
    #[error("too short, {bytes} of {least} bytes")]
    TooShort { bytes: usize, least: usize },
    #[error("the HMAC is wrong: the reflector has another key, or none")]
    NotAuthentic,
    #[error("the SSID is {got}, not {expected}")]
    OtherSession { got: u16, expected: u16 },
    #[error("no request has the sequence number {0}")]
    UnknownSequence(u32),
    #[error("the sender's timestamp is not that of the request")]
    OtherTimestamp,
}
