//! An observation: one packet seen at one point.

use std::ops::{Deref, Range};

use crate::packet::{FlowHash, PacketHash};
use crate::time::EpochTag;

/// Which segment of the shard an observation belongs to: an index into its list of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentIndex(pub u16);

/// Which end of a segment a point is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Where packets enter the segment (inside a switch: the ingress port).
    Sender,
    /// Where packets leave the segment (inside a switch: the egress port).
    Receiver,
}

/// One packet seen at one point: 40 bytes, plain, with no mbuf in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Observation {
    /// Keyed hash of the packet's flow, the same at both ends.
    pub flow: FlowHash,
    /// Keyed hash of what no hop changes in the packet, the same at both ends.
    pub packet: PacketHash,
    /// When the point saw it, in ticks since the start of the packet's epoch. May wrap: synopses
    /// add modulo 2^64.
    pub time: u64,
    /// Ticks since the packet's stamp was set; 0 at the sender's end.
    pub delay: u64,
    /// Length of the frame in bytes, without the frame check sequence.
    pub bytes: u32,
    /// The segment it counts for.
    pub segment: SegmentIndex,
    /// The epoch it counts in.
    pub epoch: EpochTag,
}

const _: () = assert!(
    size_of::<Observation>() == 40,
    "an observation is five words"
);

/// Packets that passed both ends of one segment in one epoch with one delay, where it does not
/// matter which packets they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// How many, one or more.
    pub packets: u64,
    /// Bytes of all their frames, without frame check sequences.
    pub bytes: u64,
    /// Ticks since their stamps were set.
    pub delay: u64,
    /// The segment they count for.
    pub segment: SegmentIndex,
    /// The epoch they count in.
    pub epoch: EpochTag,
}

/// Observations in their order. Where they are known to be alike, they are not searched for parts that differ:
/// that would cost a burst as much as recording it in an LDA.
#[derive(Debug, Clone, Copy)]
pub struct Observations<'a> {
    observations: &'a [Observation],
    are_alike: bool,
}

impl<'a> Observations<'a> {
    /// Observations of one segment, one epoch and one delay. What is recorded of others would be wrong.
    #[inline]
    pub fn alike(observations: &'a [Observation]) -> Self {
        debug_assert!(
            observations.iter().all(|observation| {
                let of = |observation: &Observation| {
                    (observation.segment, observation.epoch, observation.delay)
                };
                of(observation) == of(&observations[0])
            }),
            "observations that differ"
        );
        Self {
            observations,
            are_alike: true,
        }
    }

    /// All of them, for as long as there are any.
    #[inline]
    pub fn as_slice(self) -> &'a [Observation] {
        self.observations
    }

    /// Whether it is known that they are alike.
    #[inline]
    pub fn are_alike(self) -> bool {
        self.are_alike
    }

    /// The first so many of them, or all, and the others.
    #[inline]
    pub fn cut(self, observations: usize) -> (Self, Self) {
        let (first, others) = self
            .observations
            .split_at(observations.min(self.observations.len()));
        let part = |observations| Self {
            observations,
            ..self
        };
        (part(first), part(others))
    }

    /// Those from number `part.start` to before `part.end`, as far as there are any.
    #[must_use]
    #[inline]
    pub fn part(self, part: Range<usize>) -> Self {
        let (before_end, _) = self.cut(part.end);
        before_end.cut(part.start).1
    }

    /// Parts in which each has `same` in common with the next: segment, epoch or delay.
    #[inline]
    pub fn split_by(
        self,
        same: impl FnMut(&Observation, &Observation) -> bool,
    ) -> impl Iterator<Item = Observations<'a>> {
        let none: &[Observation] = &[];
        let (whole, parts) = if self.are_alike && !self.observations.is_empty() {
            (Some(self), none)
        } else {
            (None, self.observations)
        };
        let parts = parts.chunk_by(same).map(Observations::from);
        whole.into_iter().chain(parts)
    }
}

impl<'a> From<&'a [Observation]> for Observations<'a> {
    #[inline]
    fn from(observations: &'a [Observation]) -> Self {
        Self {
            observations,
            are_alike: false,
        }
    }
}

impl<'a, const N: usize> From<&'a [Observation; N]> for Observations<'a> {
    fn from(observations: &'a [Observation; N]) -> Self {
        Self::from(observations.as_slice())
    }
}

impl<'a> From<&'a Vec<Observation>> for Observations<'a> {
    fn from(observations: &'a Vec<Observation>) -> Self {
        Self::from(observations.as_slice())
    }
}

impl Deref for Observations<'_> {
    type Target = [Observation];

    #[inline]
    fn deref(&self) -> &[Observation] {
        self.observations
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An observation in which only the delay matters.
    pub(crate) fn observation_with_delay(delay: u64) -> Observation {
        Observation {
            flow: FlowHash(0),
            packet: PacketHash(0),
            time: 0,
            delay,
            bytes: 64,
            segment: SegmentIndex(0),
            epoch: EpochTag(0),
        }
    }
}
