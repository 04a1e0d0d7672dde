//! What one worker accumulates over one epoch: a synopsis for each segment.

use crate::histogram::Histogram;
use crate::lda::{LdaLayout, LdaPair};
use crate::moments::Moments;
use crate::sight::{End, SegmentIndex, Sight};
use crate::synopsis::{ShapeMismatch, Synopsis};
use crate::time::TickRate;

/// Plain counts of a segment, which the estimators are held against.
///
/// Over an engine's life, and with nothing queued, `sent = received + dropped + late`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets seen at the sender's end.
    pub sent: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
    /// Packets seen at the receiver's end in time.
    pub received: u64,
    /// Bytes of these.
    pub received_bytes: u64,
    /// Packets dropped between the ends: lost.
    pub dropped: u64,
    /// Packets that came to the receiver's end after their epoch was sealed: counted in the epoch
    /// that saw them, never inserted, never lost.
    pub late: u64,
}

/// All that is kept of one segment.
#[derive(Debug, Clone)]
pub struct SegmentSynopsis {
    /// Plain counts.
    pub tally: Tally,
    /// Exact moments of the stamped delay.
    pub moments: Moments,
    /// Distribution of the stamped delay.
    pub histogram: Histogram,
    /// The estimator: both ends' halves.
    pub lda: LdaPair,
}

/// One worker's share of one epoch.
#[derive(Debug, Clone)]
pub struct Shard {
    segments: Vec<SegmentSynopsis>,
}
