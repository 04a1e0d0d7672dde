//! Packets on their way out.

use measure::flows::FlowObservation;
use measure::observation::{Observation, Observations};
use measure::time::Ticks;

use crate::packet_io::{BURST, Tag};

/// Packets that leave together: three views of each, side by side.
#[derive(Debug, Clone, Copy)]
pub struct Departed<'a> {
    /// What was known of them in the switch.
    pub tags: &'a [Tag],
    /// As they were seen to leave; as many. Alike ones arrived together, too.
    pub observations: Observations<'a>,
    /// Their flows: as many, or none where flows are not kept.
    pub seen: &'a [FlowObservation],
}

impl<'a> Departed<'a> {
    /// None at all.
    pub fn none() -> Self {
        Self {
            tags: &[],
            observations: Observations::alike(&[]),
            seen: &[],
        }
    }

    /// When each left.
    #[inline]
    pub(super) fn times(&self) -> impl DoubleEndedIterator<Item = Ticks> + use<'a> {
        let both = self.tags.iter().zip(self.observations.as_slice());
        both.map(|(tag, observation)| tag.arrived.plus(observation.delay))
    }

    #[inline]
    pub(super) fn split_at(&self, packets: usize) -> (Self, Self) {
        let tags = self.tags.split_at(packets.min(self.tags.len()));
        let observations = self.observations.cut(packets);
        let seen = self.seen.split_at(packets.min(self.seen.len()));
        let part = |tags, observations, seen| Self {
            tags,
            observations,
            seen,
        };
        (
            part(tags.0, observations.0, seen.0),
            part(tags.1, observations.1, seen.1),
        )
    }

    /// Takes packets of one segment, one epoch and one time off the front, a burst at most; `None` at
    /// the end.
    #[inline]
    pub(super) fn take_run(&mut self) -> Option<Self> {
        let first = self.observations.first()?;
        if self.observations.are_alike() {
            return Some(std::mem::replace(self, self.split_at(self.tags.len()).1));
        }
        let departed = self.times().next()?;
        let mut both = self.observations.iter().zip(self.times());
        let is_alike = |(observation, time): &(&Observation, Ticks)| {
            (observation.segment, observation.epoch, *time)
                == (first.segment, first.epoch, departed)
        };
        let differs = both.position(|one| !is_alike(&one));
        let alike = differs.unwrap_or(self.tags.len()).min(BURST);
        let (run, rest) = self.split_at(alike);
        *self = rest;
        Some(run)
    }
}
