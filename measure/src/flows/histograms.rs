//! Histograms of a few slots, chosen anew for each epoch.

use super::Slot;
use crate::histogram::SmallHistogram;
use crate::time::TickRate;

/// Histograms by slot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Histograms {
    rate: TickRate,
    /// For each slot: its histogram, counted from 1; 0 where it has none.
    of_slot: Box<[u16]>,
    /// Never grows over its capacity: nothing is allocated after the start.
    kept: Vec<(Slot, SmallHistogram)>,
    room: usize,
}

impl Histograms {
    /// How many of `number` histograms there can be.
    fn room(number: usize, slots: usize) -> usize {
        number.min(slots).min(u16::MAX.into())
    }

    /// What [`new`](Self::new) takes.
    pub fn bytes(number: usize, slots: usize) -> usize {
        let kept = Self::room(number, slots) * size_of::<(Slot, SmallHistogram)>();
        size_of::<Self>() + slots * size_of::<u16>() + kept
    }

    /// Room for `number` histograms of `slots` slots.
    pub fn new(number: usize, slots: usize, rate: TickRate) -> Self {
        let room = Self::room(number, slots);
        Self {
            rate,
            of_slot: vec![0; slots].into_boxed_slice(),
            kept: Vec::with_capacity(room),
            room,
        }
    }

    /// Keeps one of a slot; `false` where there is no room, or no such slot.
    pub fn keep(&mut self, slot: Slot) -> bool {
        let place = u16::try_from(self.kept.len() + 1);
        let (Some(of_slot), Ok(place)) = (self.of_slot.get_mut(slot.0 as usize), place) else {
            return false;
        };
        if *of_slot == 0 && self.kept.len() < self.room {
            *of_slot = place;
            self.kept.push((slot, SmallHistogram::default()));
        }
        *of_slot > 0
    }

    /// That of a slot.
    pub fn of(&self, slot: Slot) -> Option<&SmallHistogram> {
        let place = usize::from(*self.of_slot.get(slot.0 as usize)?);
        self.kept.get(place.checked_sub(1)?).map(|(_, kept)| kept)
    }

    /// Adds a packet of a delay in ticks to each of the slots that has a histogram.
    #[inline(never)]
    pub fn add(&mut self, delay: u64, slots: &[Slot]) {
        let delay_ns = self.rate.ticks_to_ns(delay);
        for slot in slots {
            let place = self.of_slot.get(slot.0 as usize).copied().unwrap_or(0);
            if let Some((_, kept)) = self.kept.get_mut(usize::from(place).wrapping_sub(1)) {
                kept.add(delay_ns, 1);
            }
        }
    }

    /// Adds what another has of the same slots.
    pub fn merge(&mut self, other: &Self) {
        for (slot, kept) in &mut self.kept {
            if let Some(theirs) = other.of(*slot) {
                kept.merge(theirs);
            }
        }
    }

    /// Keeps none.
    pub fn clear(&mut self) {
        for (Slot(slot), _) in self.kept.drain(..) {
            if let Some(of_slot) = self.of_slot.get_mut(slot as usize) {
                *of_slot = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::{FlowCounters, FlowSlots};
    use crate::synopsis::Synopsis;

    #[test]
    fn histograms_are_kept_of_the_slots_that_are_named_until_the_next_epoch() {
        let without = FlowSlots::new(4).with_histograms(2, TickRate::from_hz(2_000_000_000));
        for mut slots in [without.clone(), without.with_estimates()] {
            // There is room for two; there is no slot 9, and one that is named twice has one.
            slots.keep_histograms([9, 2, 2, 0, 1].map(Slot));
            for (slot, delay) in [(0, 2_000), (1, 4_000), (2, 6_000), (2, 200), (77, 8_000)] {
                slots.add(delay, &[Slot(slot), Slot(3)], &[64, 64]);
            }
            slots.record_lost(Slot(2));
            let max_ns = |slot| {
                let histogram = slots.histogram(Slot(slot));
                histogram.and_then(SmallHistogram::max_ns)
            };
            let greatest = [0, 1, 2, 3, 9].map(max_ns);
            assert_eq!(greatest, [Some(1_000), None, Some(3_000), None, None]);
            let counters = slots.counters(Slot(2));
            let counted = (counters.packets(), counters.bytes(), counters.lost());
            assert_eq!(counted, (2, 128, 1));
            let other = slots.clone();
            slots.merge(&other).unwrap();
            let histogram = slots.histogram(Slot(2)).unwrap();
            assert_eq!((histogram.count(), slots.counters(Slot(2)).lost()), (4, 2));
            slots.clear();
            assert_eq!(slots.filled().count(), 0);
            assert!(slots.histogram(Slot(2)).is_none());
            assert_eq!(slots.counters(Slot(2)), &FlowCounters::default());
        }
        let mut none = FlowSlots::new(2);
        none.keep_histograms([Slot(0)]);
        assert!(none.histogram(Slot(0)).is_none());
    }
}
