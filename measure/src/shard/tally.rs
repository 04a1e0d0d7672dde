//! Plain counts.

use crate::observation::{End, Observation};
use crate::synopsis::{ShapeMismatch, Synopsis};

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

impl Tally {
    /// Counts packets that were seen at both ends.
    #[inline]
    pub(super) fn pass(&mut self, packets: u64, bytes: u64) {
        self.sent += packets;
        self.sent_bytes += bytes;
        self.received += packets;
        self.received_bytes += bytes;
    }

    /// Counts packets that came to the receiver's end after their epoch was sealed.
    pub(super) fn late(&mut self, packets: u64, bytes: u64) {
        self.sent += packets;
        self.sent_bytes += bytes;
        self.late += packets;
    }

    /// Takes packets out again that were recorded at one end: the exact inverse.
    pub fn unrecord(&mut self, end: End, observations: &[Observation]) {
        let (packets, bytes) = (observations.len() as u64, bytes_of(observations));
        let (counted, counted_bytes) = match end {
            End::Sender => (&mut self.sent, &mut self.sent_bytes),
            End::Receiver => (&mut self.received, &mut self.received_bytes),
        };
        *counted = counted.wrapping_sub(packets);
        *counted_bytes = counted_bytes.wrapping_sub(bytes);
    }
}

/// Bytes of all frames.
#[inline]
fn bytes_of(observations: &[Observation]) -> u64 {
    observations
        .iter()
        .map(|observation| u64::from(observation.bytes))
        .sum()
}

impl Synopsis for Tally {
    type Item = Observation;

    #[inline]
    fn record(&mut self, end: End, observations: &[Observation]) {
        let (packets, bytes) = (observations.len() as u64, bytes_of(observations));
        match end {
            End::Sender => {
                self.sent += packets;
                self.sent_bytes += bytes;
            }
            End::Receiver => {
                self.received += packets;
                self.received_bytes += bytes;
            }
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.sent = self.sent.wrapping_add(other.sent);
        self.sent_bytes = self.sent_bytes.wrapping_add(other.sent_bytes);
        self.received = self.received.wrapping_add(other.received);
        self.received_bytes = self.received_bytes.wrapping_add(other.received_bytes);
        self.dropped = self.dropped.wrapping_add(other.dropped);
        self.late = self.late.wrapping_add(other.late);
        Ok(())
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}
