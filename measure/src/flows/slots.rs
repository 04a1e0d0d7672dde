//! What is sent at an epoch's rollover: counters by slot.

use super::counters::Added;
use super::counters::has_histogram;
use super::histograms::Histograms;
use super::{FlowCounters, FlowEstimates, FlowObservation, Slot};
use crate::histogram::SmallHistogram;
use crate::observation::End;
use crate::prefetch::prefetch;
use crate::rli::Estimates;
use crate::synopsis::{ShapeMismatch, Synopsis};
use crate::time::TickRate;

/// Counters of all slots over one epoch, and of what has no slot.
///
/// Two add up where a slot is the same flow's in both: those of one worker, or of workers
/// whose tables are kept alike.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSlots {
    /// The last is [`Slot::OTHER`]'s.
    entries: Entries,
    histograms: Option<Box<Histograms>>,
}

/// What is kept for each slot.
#[derive(Debug, Clone, PartialEq)]
enum Entries {
    Counted(Box<[FlowCounters]>),
    Estimated(Box<[Tracked]>),
}

/// Counters and estimates of a flow side by side: an estimate follows its packet so soon that the
/// line is still there.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C, align(64))]
struct Tracked {
    counters: FlowCounters,
    estimates: FlowEstimates,
}

const _: () = assert!(size_of::<Tracked>() == 64, "one cache line");

/// The entry of a slot: the last for [`Slot::OTHER`] and for slots beyond the others.
#[inline]
fn entry<T>(entries: &mut [T], Slot(slot): Slot) -> Option<&mut T> {
    if (slot as usize) < entries.len() {
        return entries.get_mut(slot as usize);
    }
    entries.last_mut()
}

/// Asks the cache for the entries of a burst.
#[inline]
fn prefetch_all<T>(entries: &[T], slots: &[Slot]) {
    for &Slot(slot) in slots {
        prefetch(entries, slot as usize);
    }
}

/// Adds to the entries of a burst; whether one of them has a histogram.
#[inline]
fn add_all<T>(
    entries: &mut [T],
    delay: u64,
    packets: impl Iterator<Item = (Slot, u32)>,
    counters: impl Fn(&mut T) -> &mut FlowCounters,
) -> bool {
    let square = u128::from(delay) * u128::from(delay);
    let mut flags = 0;
    for (slot, bytes) in packets {
        if let Some(entry) = entry(entries, slot) {
            let counters = counters(entry);
            counters.add(bytes, delay, square);
            flags |= counters.flags();
        }
    }
    has_histogram(flags)
}

impl FlowSlots {
    /// Empty counters for `slots` slots: 32 bytes a slot.
    pub fn new(slots: usize) -> Self {
        let counters = vec![FlowCounters::default(); slots.saturating_add(1)];
        Self {
            entries: Entries::Counted(counters.into_boxed_slice()),
            histograms: None,
        }
    }

    /// Keeps sums of estimates as well: 32 bytes a slot more.
    #[must_use]
    pub fn with_estimates(self) -> Self {
        let counters = (0..=self.slots()).map(|slot| *self.entries.counters(slot));
        let tracked = counters.map(|counters| Tracked {
            counters,
            estimates: FlowEstimates::default(),
        });
        Self {
            entries: Entries::Estimated(tracked.collect()),
            ..self
        }
    }

    /// Can keep histograms of `number` slots, at most 65,535, as well, of delays in ticks of `rate`: 512 bytes
    /// each, and 2 bytes a slot.
    #[must_use]
    pub fn with_histograms(self, number: usize, rate: TickRate) -> Self {
        let histograms = || Box::new(Histograms::new(number, self.slots(), rate));
        Self {
            histograms: (number > 0).then(histograms),
            ..self
        }
    }

    /// What [histograms](Self::with_histograms) take.
    pub fn histogram_bytes(number: usize, slots: usize) -> usize {
        match number {
            0 => 0,
            number => Histograms::bytes(number, slots),
        }
    }

    /// Keeps histograms of these slots until the next [clear](Synopsis::clear), of as many as there is room
    /// for.
    pub fn keep_histograms(&mut self, slots: impl IntoIterator<Item = Slot>) {
        let Some(histograms) = &mut self.histograms else {
            return;
        };
        for slot in slots {
            if histograms.keep(slot) {
                self.entries.counters_mut(slot.0 as usize).set_histogram();
            }
        }
    }

    /// The delays of a slot's packets; `None` where no histogram is kept of it.
    pub fn histogram(&self, slot: Slot) -> Option<&SmallHistogram> {
        self.histograms.as_ref()?.of(slot)
    }

    /// Slots, without [`Slot::OTHER`].
    pub fn slots(&self) -> usize {
        self.entries.len() - 1
    }

    /// Whether a slot has counters of its own.
    #[inline]
    pub(crate) fn has(&self, Slot(slot): Slot) -> bool {
        (slot as usize) < self.slots()
    }

    /// What was counted for a slot, or for [`Slot::OTHER`].
    pub fn counters(&self, slot: Slot) -> &FlowCounters {
        self.entries.counters(self.place(slot))
    }

    /// What was estimated for a slot, or for [`Slot::OTHER`]; `None` where nothing is estimated.
    pub fn estimates(&self, slot: Slot) -> Option<&FlowEstimates> {
        match &self.entries {
            Entries::Counted(_) => None,
            Entries::Estimated(tracked) => Some(&tracked[self.place(slot)].estimates),
        }
    }

    /// The slots whose packets were counted, or lost, without [`Slot::OTHER`].
    pub fn filled(&self) -> impl Iterator<Item = (Slot, &FlowCounters)> + '_ {
        (0..)
            .map(Slot)
            .zip((0..self.slots()).map(|place| self.entries.counters(place)))
            .filter(|(_, counters)| counters.packets() > 0 || counters.lost() > 0)
    }

    /// Adds the estimated delay of a packet of each of the slots; ignored where estimates are not kept.
    /// Never allocates, never fails.
    pub fn record_estimates(&mut self, estimates: &Estimates<'_, Slot>) {
        let Entries::Estimated(tracked) = &mut self.entries else {
            return;
        };
        let added = Added::new(&estimates.estimate);
        // Not asked for: the packets themselves were counted there a moment ago.
        for &slot in estimates.flows {
            if let Some(entry) = entry(tracked, slot) {
                entry.estimates.add(&added);
            }
        }
    }

    /// Adds a packet of a slot's flow that was lost between the ends, or one of [`Slot::OTHER`]'s.
    pub fn record_lost(&mut self, slot: Slot) {
        let place = self.place(slot);
        self.entries.counters_mut(place).add_lost();
    }

    /// Asks the cache for what a burst will be [added](Self::add) to, a while before it is.
    #[inline]
    pub(crate) fn prefetch(&self, slots: &[Slot]) {
        match &self.entries {
            Entries::Counted(counters) => prefetch_all(counters, slots),
            Entries::Estimated(tracked) => prefetch_all(tracked, slots),
        }
    }

    /// Adds packets of one stamped delay, each by its slot and its bytes.
    #[inline]
    pub(crate) fn add(&mut self, delay: u64, slots: &[Slot], bytes: &[u32]) {
        let packets = slots.iter().copied().zip(bytes.iter().copied());
        let has_histogram = match &mut self.entries {
            Entries::Counted(counters) => add_all(counters, delay, packets, |entry| entry),
            Entries::Estimated(tracked) => {
                add_all(tracked, delay, packets, |entry| &mut entry.counters)
            }
        };
        if has_histogram && let Some(histograms) = &mut self.histograms {
            histograms.add(delay, slots);
        }
    }

    fn place(&self, Slot(slot): Slot) -> usize {
        (slot as usize).min(self.slots())
    }
}

impl Entries {
    fn len(&self) -> usize {
        match self {
            Self::Counted(counters) => counters.len(),
            Self::Estimated(tracked) => tracked.len(),
        }
    }

    fn counters(&self, place: usize) -> &FlowCounters {
        match self {
            Self::Counted(counters) => &counters[place],
            Self::Estimated(tracked) => &tracked[place].counters,
        }
    }

    fn counters_mut(&mut self, place: usize) -> &mut FlowCounters {
        match self {
            Self::Counted(counters) => &mut counters[place],
            Self::Estimated(tracked) => &mut tracked[place].counters,
        }
    }

    /// Entries with estimates; none where they are not kept.
    fn tracked(&self) -> &[Tracked] {
        match self {
            Self::Counted(_) => &[],
            Self::Estimated(tracked) => tracked,
        }
    }
}

impl Synopsis for FlowSlots {
    type Item = FlowObservation;

    /// Adds stamped delays, from the receiver's end.
    #[inline]
    fn record(&mut self, end: End, observations: &[FlowObservation]) {
        if end == End::Sender {
            return;
        }
        for &FlowObservation { slot, bytes, delay } in observations {
            self.add(delay, &[slot], &[bytes]);
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        let same =
            |what, left: usize, right: usize| ShapeMismatch::check(what, left as u64, right as u64);
        same("number of flow slots", self.slots(), other.slots())?;
        same(
            "number of slots with estimates",
            self.entries.tracked().len(),
            other.entries.tracked().len(),
        )?;
        match (&mut self.entries, &other.entries) {
            (Entries::Counted(mine), Entries::Counted(theirs)) => {
                for (mine, theirs) in mine.iter_mut().zip(theirs) {
                    mine.merge(theirs);
                }
            }
            (Entries::Estimated(mine), Entries::Estimated(theirs)) => {
                for (mine, theirs) in mine.iter_mut().zip(theirs) {
                    mine.counters.merge(&theirs.counters);
                    mine.estimates.merge(&theirs.estimates);
                }
            }
            // Refused above.
            _ => {}
        }
        if let (Some(mine), Some(theirs)) = (&mut self.histograms, &other.histograms) {
            mine.merge(theirs);
        }
        Ok(())
    }

    fn clear(&mut self) {
        match &mut self.entries {
            Entries::Counted(counters) => counters.fill(FlowCounters::default()),
            Entries::Estimated(tracked) => tracked.fill(Tracked::default()),
        }
        if let Some(histograms) = &mut self.histograms {
            histograms.clear();
        }
    }
}
