//! Counters by slot: counts and estimates for each flow, and histograms for a few slots, which are sent together at
//! an epoch's rollover.

use super::Slot;
use crate::histogram::SmallHistogram;
use crate::moments;
use crate::prefetch::prefetch;
use crate::rli::{Estimate, Estimates, FlowDelay};
use crate::time::TickRate;

/// Exact figures of one flow's stamped delays: 32 bytes, so that two flows share a cache line.
///
/// Exact while delays are below 2^48 ticks (as stamps are), packets below 2^32, bytes below 2^40 (1 TB),
/// the sum of delays below 2^64 ticks (195 years at 3 GHz) and that of squares below 2^96; all wrap beyond
/// that. Losses saturate at 2^23 - 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct FlowCounters {
    sum: u64,
    /// Bytes in the lower 40 bits, lost packets in the 23 bits above, so that a packet updates both with
    /// one addition. The highest bit says whether delays are also added to a histogram.
    bytes_and_lost: u64,
    squares_low: u64,
    squares_high: u32,
    packets: u32,
}

/// Position of the losses.
const LOST_SHIFT: u32 = 40;
/// One lost packet.
const LOST_ONE: u64 = 1 << LOST_SHIFT;
/// Bytes.
const BYTES_MASK: u64 = LOST_ONE - 1;
/// Whether there is a histogram.
const HISTOGRAM: u64 = 1 << 63;
/// Most losses.
const LOST_MAX: u64 = (HISTOGRAM - 1) >> LOST_SHIFT;

const _: () = assert!(size_of::<FlowCounters>() == 32, "two a cache line");

impl FlowCounters {
    /// Packets.
    pub fn packets(&self) -> u64 {
        self.packets.into()
    }

    /// Bytes of these.
    pub fn bytes(&self) -> u64 {
        self.bytes_and_lost & BYTES_MASK
    }

    /// Packets that were lost between the ends.
    pub fn lost(&self) -> u64 {
        self.bytes_and_lost >> LOST_SHIFT & LOST_MAX
    }

    /// Adds a lost packet.
    fn add_lost(&mut self) {
        if self.lost() < LOST_MAX {
            self.bytes_and_lost += LOST_ONE;
        }
    }

    /// Adds delays to a histogram as well, until the counters are cleared.
    fn set_histogram(&mut self) {
        self.bytes_and_lost |= HISTOGRAM;
    }

    /// Input of [`has_histogram`].
    #[inline]
    fn flags(&self) -> u64 {
        self.bytes_and_lost
    }

    /// Sum of delays in ticks.
    pub fn sum_ticks(&self) -> u64 {
        self.sum
    }

    /// Sum of squared delays in ticks squared.
    pub fn sum_of_squares_ticks2(&self) -> u128 {
        u128::from(self.squares_high) << 64 | u128::from(self.squares_low)
    }

    /// Mean delay; `None` without packets.
    pub fn mean_ticks(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.sum as f64 / f64::from(self.packets))
    }

    /// Standard deviation of the recorded delays (over n, not n - 1); `None` without packets.
    pub fn stddev_ticks(&self) -> Option<f64> {
        moments::stddev(
            self.packets(),
            self.sum.into(),
            self.sum_of_squares_ticks2(),
        )
    }

    /// Adds a packet; `square` is the square of its delay.
    #[inline]
    fn add(&mut self, bytes: u32, delay: u64, square: u128) {
        self.add_squares(square);
        self.sum = self.sum.wrapping_add(delay);
        self.packets = self.packets.wrapping_add(1);
        self.bytes_and_lost = self.bytes_and_lost.wrapping_add(bytes.into());
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^96")]
    fn add_squares(&mut self, squares: u128) {
        let sum = self.sum_of_squares_ticks2().wrapping_add(squares);
        self.squares_low = sum as u64;
        self.squares_high = (sum >> 64) as u32;
    }
}

/// Whether one of the counters whose [flags](FlowCounters::flags) were combined with `|` has a histogram.
#[inline]
const fn has_histogram(flags: u64) -> bool {
    flags & HISTOGRAM != 0
}

/// One flow's estimated delays: the sums behind [`FlowDelay`] (Lee, Duffield and Kompella, SIGCOMM 2010,
/// equations 2 to 6, and the bound), in 32 bytes.
///
/// Packets are counted modulo 2^32. The joint error of an interval's packets is exact for 65,535 of them, and
/// if fewer than 65,536 intervals lie between two of the flow's packets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C, align(32))]
pub struct FlowEstimates {
    /// Of delays in nanoseconds, and of their squares.
    sums: [f64; 2],
    /// Sums of squared errors in square microseconds, and of squared errors by interval: in this unit they stay in
    /// range.
    errors: [f32; 2],
    packets: u32,
    /// The interval of the latest packet, and the flow's number of packets in it.
    interval: u16,
    interval_packets: u16,
}

const _: () = assert!(size_of::<FlowEstimates>() == 32, "beside its counters");

/// Square nanoseconds in a square microsecond.
const NS2_PER_US2: f64 = 1e6;

/// What an estimate adds to each flow: computed once for all packets that left together.
#[derive(Debug, Clone, Copy)]
struct Added<'e> {
    estimate: &'e Estimate,
    sums: [f64; 2],
    interval: u16,
    /// Errors of a flow's first packet in the interval.
    first: [f32; 2],
}

impl<'e> Added<'e> {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "intervals modulo 2^16")]
    fn new(estimate: &'e Estimate) -> Self {
        Self {
            estimate,
            sums: [estimate.delay_ns, estimate.delay_ns * estimate.delay_ns],
            interval: estimate.interval as u16,
            first: errors_of_another(estimate, 0),
        }
    }
}

/// In the units of [`FlowEstimates`].
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
fn errors_of_another(estimate: &Estimate, packets: u16) -> [f32; 2] {
    let added = estimate.error_of_another(packets.into());
    [
        (added.squared_ns2 / NS2_PER_US2) as f32,
        (added.square_ns4 / NS2_PER_US2.powi(2)) as f32,
    ]
}

fn add_pairs<T: Copy + std::ops::AddAssign>(sums: &mut [T; 2], more: &[T; 2]) {
    sums[0] += more[0];
    sums[1] += more[1];
}

impl FlowEstimates {
    /// Packets whose delay was estimated.
    pub fn packets(&self) -> u64 {
        self.packets.into()
    }

    /// The estimate of the flow.
    pub fn delay(&self) -> FlowDelay {
        let [errors_us2, squares_us4] = self.errors.map(f64::from);
        FlowDelay::from_sums(
            self.packets(),
            self.sums,
            [errors_us2 * NS2_PER_US2, squares_us4 * NS2_PER_US2.powi(2)],
        )
    }

    /// Adds the estimate for one packet.
    #[inline]
    fn add(&mut self, added: &Added<'_>) {
        self.packets = self.packets.wrapping_add(1);
        add_pairs(&mut self.sums, &added.sums);
        // Most flows have one packet in an interval.
        if self.interval == added.interval {
            return self.add_error_of_another(added.estimate);
        }
        self.interval = added.interval;
        self.interval_packets = 1;
        add_pairs(&mut self.errors, &added.first);
    }

    #[inline(never)]
    fn add_error_of_another(&mut self, estimate: &Estimate) {
        let errors = errors_of_another(estimate, self.interval_packets);
        add_pairs(&mut self.errors, &errors);
        self.interval_packets = self.interval_packets.saturating_add(1);
    }
}

/// Histograms of some slots.
#[derive(Debug, Clone, PartialEq)]
struct Histograms {
    rate: TickRate,
    /// For each slot, its histogram counted from 1; 0 without one.
    of_slot: Box<[u16]>,
    /// Never grows beyond its capacity, so nothing is allocated after the start.
    kept: Vec<(Slot, SmallHistogram)>,
    room: usize,
}

impl Histograms {
    /// Most histograms, if `number` are requested.
    fn room(number: usize, slots: usize) -> usize {
        number.min(slots).min(u16::MAX.into())
    }

    /// What [`new`](Self::new) takes.
    fn bytes(number: usize, slots: usize) -> usize {
        let kept = Self::room(number, slots) * size_of::<(Slot, SmallHistogram)>();
        size_of::<Self>() + slots * size_of::<u16>() + kept
    }

    /// Allocates `number` histograms for `slots` slots.
    fn new(number: usize, slots: usize, rate: TickRate) -> Self {
        let room = Self::room(number, slots);
        Self {
            rate,
            of_slot: vec![0; slots].into_boxed_slice(),
            kept: Vec::with_capacity(room),
            room,
        }
    }

    /// Starts a histogram of a slot; returns `false` without room, or for an unknown slot.
    fn keep(&mut self, slot: Slot) -> bool {
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

    /// Returns the histogram of a slot.
    fn of(&self, slot: Slot) -> Option<&SmallHistogram> {
        let place = usize::from(*self.of_slot.get(slot.0 as usize)?);
        self.kept.get(place.checked_sub(1)?).map(|(_, kept)| kept)
    }

    /// Adds a packet's delay in ticks for each of the slots with a histogram.
    #[inline(never)]
    fn add(&mut self, delay: u64, slots: &[Slot]) {
        let delay_ns = self.rate.ticks_to_ns(delay);
        for slot in slots {
            let place = self.of_slot.get(slot.0 as usize).copied().unwrap_or(0);
            if let Some((_, kept)) = self.kept.get_mut(usize::from(place).wrapping_sub(1)) {
                kept.add(delay_ns, 1);
            }
        }
    }

    /// Removes all histograms.
    fn clear(&mut self) {
        for (Slot(slot), _) in self.kept.drain(..) {
            if let Some(of_slot) = self.of_slot.get_mut(slot as usize) {
                *of_slot = 0;
            }
        }
    }
}

/// Counters of all slots over one epoch, and of packets without a slot.
///
/// Counters of two workers cannot be added: each assigns slots to flows independently.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSlots {
    /// The last entry is [`Slot::OTHER`]'s.
    entries: Entries,
    histograms: Option<Box<Histograms>>,
}

/// The data of each slot.
#[derive(Debug, Clone, PartialEq)]
enum Entries {
    Counted(Box<[FlowCounters]>),
    Estimated(Box<[Tracked]>),
}

/// Counters and estimates of a flow, adjacent because an estimate follows its packet while the cache line
/// is still present.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C, align(64))]
struct Tracked {
    counters: FlowCounters,
    estimates: FlowEstimates,
}

const _: () = assert!(size_of::<Tracked>() == 64, "one cache line");

/// The entry of a slot: the last one for [`Slot::OTHER`] and for unknown slots.
#[inline]
fn entry<T>(entries: &mut [T], Slot(slot): Slot) -> Option<&mut T> {
    if (slot as usize) < entries.len() {
        return entries.get_mut(slot as usize);
    }
    entries.last_mut()
}

/// Prefetches the entries of a burst.
#[inline]
fn prefetch_all<T>(entries: &[T], slots: &[Slot]) {
    for &Slot(slot) in slots {
        prefetch(entries, slot as usize);
    }
}

/// Updates the entries of a burst; returns whether one of them has a histogram.
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

    /// Adds sums of estimates: 32 more bytes a slot.
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

    /// Adds room for histograms of `number` slots, at most 65,535, of delays in ticks of `rate`: 512 bytes
    /// each, and 2 bytes a slot.
    #[must_use]
    pub fn with_histograms(self, number: usize, rate: TickRate) -> Self {
        let histograms = || Box::new(Histograms::new(number, self.slots(), rate));
        Self {
            histograms: (number > 0).then(histograms),
            ..self
        }
    }

    /// Bytes of [histograms](Self::with_histograms).
    pub fn histogram_bytes(number: usize, slots: usize) -> usize {
        match number {
            0 => 0,
            number => Histograms::bytes(number, slots),
        }
    }

    /// Keeps histograms of these slots until the next [clear](crate::synopsis::Synopsis::clear), as far as there is
    /// room.
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

    /// The delays of a slot's packets; `None` without a histogram.
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

    /// The counters of a slot, or of [`Slot::OTHER`].
    pub fn counters(&self, slot: Slot) -> &FlowCounters {
        self.entries.counters(self.place(slot))
    }

    /// The estimates of a slot, or of [`Slot::OTHER`]; `None` if estimates are not kept.
    pub fn estimates(&self, slot: Slot) -> Option<&FlowEstimates> {
        match &self.entries {
            Entries::Counted(_) => None,
            Entries::Estimated(tracked) => Some(&tracked[self.place(slot)].estimates),
        }
    }

    /// The slots with counted or lost packets, without [`Slot::OTHER`].
    pub fn filled(&self) -> impl Iterator<Item = (Slot, &FlowCounters)> + '_ {
        (0..)
            .map(Slot)
            .zip((0..self.slots()).map(|place| self.entries.counters(place)))
            .filter(|(_, counters)| counters.packets() > 0 || counters.lost() > 0)
    }

    /// Adds the estimated delay of a packet for each of the slots; ignored if estimates are not kept. Never
    /// allocates or fails.
    pub fn record_estimates(&mut self, estimates: &Estimates<'_, Slot>) {
        let Entries::Estimated(tracked) = &mut self.entries else {
            return;
        };
        let added = Added::new(&estimates.estimate);
        // No prefetch: the packets themselves were just counted there.
        for &slot in estimates.flows {
            if let Some(entry) = entry(tracked, slot) {
                entry.estimates.add(&added);
            }
        }
    }

    /// Adds a lost packet of a slot's flow, or of [`Slot::OTHER`].
    pub fn record_lost(&mut self, slot: Slot) {
        let place = self.place(slot);
        self.entries.counters_mut(place).add_lost();
    }

    /// Prefetches the entries that a burst will be [added](Self::add) to.
    #[inline]
    pub(crate) fn prefetch(&self, slots: &[Slot]) {
        match &self.entries {
            Entries::Counted(counters) => prefetch_all(counters, slots),
            Entries::Estimated(tracked) => prefetch_all(tracked, slots),
        }
    }

    /// Adds packets of one stamped delay, each by its slot and its bytes.
    #[inline]
    pub fn add(&mut self, delay: u64, slots: &[Slot], bytes: &[u32]) {
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

    /// Clears all counts; the slots stay.
    pub fn clear(&mut self) {
        match &mut self.entries {
            Entries::Counted(counters) => counters.fill(FlowCounters::default()),
            Entries::Estimated(tracked) => tracked.fill(Tracked::default()),
        }
        if let Some(histograms) = &mut self.histograms {
            histograms.clear();
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
}
