//! The error of constructors with arguments out of range.

/// An argument that is out of range, or several that do not fit together. The message says what was given and what
/// to give instead. Callers show it; none depends on which argument it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidArgument(String);

/// Returns an error with the message unless the condition holds.
pub(crate) fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), InvalidArgument> {
    if holds {
        return Ok(());
    }
    Err(InvalidArgument(message()))
}
