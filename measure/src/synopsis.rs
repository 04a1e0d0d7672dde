//! Accumulating data structures that can be merged.

/// Two synopses of different shape (sizes, probabilities, seeds) cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "synopses differ in {what}: {left} here, {right} there; both must come from one generation"
)]
pub struct ShapeMismatch {
    /// What differs, in words.
    pub what: &'static str,
    /// The value on the side added to.
    pub left: u64,
    /// The value on the side added.
    pub right: u64,
}

impl ShapeMismatch {
    /// Returns an error unless both sides are equal in `what`.
    pub(crate) fn check(what: &'static str, left: u64, right: u64) -> Result<(), Self> {
        if left == right {
            return Ok(());
        }
        Err(Self { what, left, right })
    }
}

/// A data structure that one point accumulates over one epoch.
///
/// Synopses are linear: `a.merge(b)` equals the synopsis of both streams of observations, whatever their
/// order and however the stream was split (over workers, queues or time).
pub trait Synopsis {
    /// Adds the sums of another shard.
    ///
    /// # Errors
    /// [`ShapeMismatch`] if their shapes differ; nothing is added then.
    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch>;

    /// Removes everything recorded; the shape stays.
    fn clear(&mut self);
}
