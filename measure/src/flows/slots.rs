//! What travels at the turn: counters by slot.

use super::{FlowCounters, FlowEstimates, FlowSight, Slot};
use crate::codec::{ParseError, Put, Reader, Shape, whole};
use crate::prefetch::prefetch;
use crate::sight::End;
use crate::synopsis::{ShapeMismatch, Synopsis};

/// Counters a burst asks the cache for at once: more would push each other out.
const BURST: usize = 32;

/// Counters of all slots over one epoch, and of what has no slot.
///
/// Two add up where a slot stands for the same flow in both: those of one worker, or of workers
/// whose tables are kept alike.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSlots {
    /// The last is [`Slot::OTHER`]'s.
    counters: Box<[FlowCounters]>,
    /// As many, or none where nothing is estimated.
    estimates: Box<[FlowEstimates]>,
}

/// The entry of a slot: the last for [`Slot::OTHER`] and for slots beyond the others.
#[inline]
fn place<T>(entries: &[T], Slot(slot): Slot) -> usize {
    (slot as usize).min(entries.len().saturating_sub(1))
}

impl FlowSlots {
    /// Empty counters for `slots` slots: 32 bytes a slot.
    pub fn new(slots: usize) -> Self {
        Self {
            counters: vec![FlowCounters::default(); slots.saturating_add(1)].into_boxed_slice(),
            estimates: Box::default(),
        }
    }

    /// Keeps sums of estimates as well: 32 bytes a slot more.
    #[must_use]
    pub fn with_estimates(mut self) -> Self {
        self.estimates = vec![FlowEstimates::default(); self.counters.len()].into_boxed_slice();
        self
    }

    /// Slots, without [`Slot::OTHER`].
    pub fn slots(&self) -> usize {
        self.counters.len() - 1
    }

    /// What was counted for a slot, or for [`Slot::OTHER`].
    pub fn counters(&self, slot: Slot) -> &FlowCounters {
        &self.counters[place(&self.counters, slot)]
    }

    /// What was estimated for a slot, or for [`Slot::OTHER`]; `None` where nothing is estimated.
    pub fn estimates(&self, slot: Slot) -> Option<&FlowEstimates> {
        self.estimates.get(place(&self.estimates, slot))
    }

    /// The slots in which packets were counted, without [`Slot::OTHER`].
    pub fn filled(&self) -> impl Iterator<Item = (Slot, &FlowCounters)> + '_ {
        (0..)
            .map(Slot)
            .zip(&self.counters[..self.slots()])
            .filter(|(_, counters)| counters.packets() > 0)
    }

    /// Adds an estimated delay in ticks, signed since the ends' clocks may differ, that is the same
    /// for a packet of each of `slots`; ignored where estimates are not kept. Never allocates, never
    /// fails.
    pub fn record_estimates(&mut self, slots: &[Slot], delay_ticks: i64) {
        let magnitude = u128::from(delay_ticks.unsigned_abs());
        let square = magnitude * magnitude;
        for burst in slots.chunks(BURST) {
            for &slot in burst {
                prefetch(&self.estimates, place(&self.estimates, slot));
            }
            for &slot in burst {
                let place = place(&self.estimates, slot);
                if let Some(sums) = self.estimates.get_mut(place) {
                    sums.add(delay_ticks, square);
                }
            }
        }
    }
}

impl Synopsis for FlowSlots {
    type Item = FlowSight;

    /// Adds stamped delays, from the receiver's end.
    #[inline]
    fn record(&mut self, end: End, sights: &[FlowSight]) {
        if end == End::Sender {
            return;
        }
        for burst in sights.chunks(BURST) {
            for sight in burst {
                prefetch(&self.counters, place(&self.counters, sight.slot));
            }
            for sight in burst {
                let place = place(&self.counters, sight.slot);
                if let Some(counters) = self.counters.get_mut(place) {
                    counters.add(sight);
                }
            }
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        let same = |what, left: usize, right: usize| {
            let (left, right) = (left as u64, right as u64);
            (left == right)
                .then_some(())
                .ok_or(ShapeMismatch { what, left, right })
        };
        same("number of flow slots", self.slots(), other.slots())?;
        same(
            "number of slots with estimates",
            self.estimates.len(),
            other.estimates.len(),
        )?;
        for (mine, theirs) in self.counters.iter_mut().zip(&other.counters) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.estimates.iter_mut().zip(&other.estimates) {
            mine.merge(theirs);
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.counters.fill(FlowCounters::default());
        self.estimates.fill(FlowEstimates::default());
    }

    /// Counters, whether there are estimates (1 byte: 0 or 1), and estimates.
    fn encode(&self, out: &mut Vec<u8>) {
        let slots = u32::try_from(self.slots()).unwrap_or(u32::MAX - 1);
        let counters = Shape::FlowCounters { slots };
        let estimates = Shape::FlowEstimates { slots };
        let keeps_estimates = !self.estimates.is_empty();
        whole::encode(&counters, End::Receiver, self.counters.iter().copied(), out);
        out.put_number(u8::from(keeps_estimates));
        if keeps_estimates {
            whole::encode(
                &estimates,
                End::Receiver,
                self.estimates.iter().copied(),
                out,
            );
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (slots, counters) = match whole::decode(reader, End::Receiver)? {
            (Shape::FlowCounters { slots }, counters) => (slots, counters),
            (other, _) => return Err(whole::unexpected(&other)),
        };
        let estimates = match reader.number("estimates kept")? {
            0_u8 => Vec::new(),
            1 => match whole::decode(reader, End::Receiver)? {
                (shape, estimates) if shape == (Shape::FlowEstimates { slots }) => estimates,
                (other, _) => return Err(whole::unexpected(&other)),
            },
            other => return Err(ParseError::value("estimates kept", other, "0 or 1")),
        };
        Ok(Self {
            counters: counters.into(),
            estimates: estimates.into(),
        })
    }
}
