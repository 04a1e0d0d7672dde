//! What accumulates: one trait, four verbs.

use std::ops::Deref;

use crate::observation::End;
use crate::time::Epoch;

/// Two synopses of different shape (sizes, probabilities, seeds) cannot be added.
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

/// Something that one point accumulates over one epoch.
///
/// Synopses are linear: `a.merge(b)` equals the synopsis of both streams of observations, whatever the
/// order and however the stream was split (over workers, queues or time).
pub trait Synopsis {
    /// What is recorded: an [`Observation`](crate::observation::Observation), or what was made of one.
    type Item;

    /// Adds a burst of items seen at one end of the segment.
    ///
    /// Never allocates, never fails.
    fn record(&mut self, end: End, items: &[Self::Item]);

    /// Closes the synopsis of `epoch`: from here on it can be read and merged, not recorded into.
    fn seal(self: Box<Self>, epoch: Epoch) -> Sealed<Self>
    where
        Self: Sized,
    {
        Sealed {
            epoch,
            synopsis: self,
        }
    }

    /// Adds what another shard accumulated.
    ///
    /// # Errors
    /// [`ShapeMismatch`] when the two were not made alike; nothing is added then.
    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch>;

    /// Forgets everything recorded; the shape stays.
    fn clear(&mut self);
}

/// A synopsis that takes no more observations. Ownership of it is what travels from worker to control
/// core and back.
#[derive(Debug)]
pub struct Sealed<S> {
    epoch: Epoch,
    pub(crate) synopsis: Box<S>,
}

impl<S: Synopsis> Sealed<S> {
    /// The epoch it holds.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Empties it for another epoch.
    pub fn reopen(mut self) -> Box<S> {
        #[cfg(feature = "planted")]
        if self.epoch.0 % 16 == 7 && crate::planted::is(crate::planted::Bug::StaleShard) {
            return self.synopsis;
        }
        self.synopsis.clear();
        self.synopsis
    }
}

impl<S> Deref for Sealed<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.synopsis
    }
}
