//! What is counted for one flow.

use crate::moments;
use crate::rli::{Estimate, FlowDelay};

/// Exact figures of one flow's stamped delays: 32 bytes, so that two flows share a cache line.
///
/// Exact while delays stay under 2^48 ticks (as stamps do), packets under 2^32, bytes under 2^40 (1 TB),
/// the sum of delays under 2^64 ticks (195 years at 3 GHz) and that of squares under 2^96; all wrap
/// beyond. Losses stay at 2^23 - 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct FlowCounters {
    sum: u64,
    /// Bytes in the lower 40 bits, lost packets in the 23 above: packets that pass touch both with one
    /// addition. The uppermost says whether delays go into a histogram, too.
    bytes_and_lost: u64,
    squares_low: u64,
    squares_high: u32,
    packets: u32,
}

/// Where losses begin.
const LOST_SHIFT: u32 = 40;
/// One packet lost.
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

    /// Adds a packet that was lost.
    pub(super) fn add_lost(&mut self) {
        if self.lost() < LOST_MAX {
            self.bytes_and_lost += LOST_ONE;
        }
    }

    /// Delays go into a histogram, too, until the counters are cleared.
    pub(super) fn set_histogram(&mut self) {
        self.bytes_and_lost |= HISTOGRAM;
    }

    /// What [`has_histogram`] reads.
    #[inline]
    pub(super) fn flags(&self) -> u64 {
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

    /// Standard deviation of the delays seen (over n, not n - 1); `None` without packets.
    pub fn stddev_ticks(&self) -> Option<f64> {
        moments::stddev(
            self.packets(),
            self.sum.into(),
            self.sum_of_squares_ticks2(),
        )
    }

    /// Adds a packet; `square` is its delay's.
    #[inline]
    pub(super) fn add(&mut self, bytes: u32, delay: u64, square: u128) {
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

    pub(super) fn merge(&mut self, other: &Self) {
        self.add_squares(other.sum_of_squares_ticks2());
        self.sum = self.sum.wrapping_add(other.sum);
        self.packets = self.packets.wrapping_add(other.packets);
        let bytes = self.bytes().wrapping_add(other.bytes()) & BYTES_MASK;
        let lost = (self.lost() + other.lost()).min(LOST_MAX);
        self.bytes_and_lost = self.bytes_and_lost & HISTOGRAM | lost << LOST_SHIFT | bytes;
    }
}

/// Whether one of the counters whose [flags](FlowCounters::flags) were combined by `|` has a histogram.
#[inline]
pub(super) const fn has_histogram(flags: u64) -> bool {
    flags & HISTOGRAM != 0
}

/// One flow's estimated delays: what [`FlowDelay`] is made of (Lee, Duffield and Kompella, SIGCOMM 2010,
/// equations 2 to 6, and the bound), in 32 bytes.
///
/// Packets are counted modulo 2^32. What an interval's packets may be wrong by together is exact for 65,535 of
/// them, and where fewer than 65,536 intervals lie between two of the flow's packets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C, align(32))]
pub struct FlowEstimates {
    /// Of delays in nanoseconds, and of their squares.
    sums: [f64; 2],
    /// Of squared errors in square microseconds, and of their squares by interval: so they stay within what these hold.
    errors: [f32; 2],
    packets: u32,
    /// The interval of the latest packet, and the flow's packets in it.
    interval: u16,
    interval_packets: u16,
}

const _: () = assert!(size_of::<FlowEstimates>() == 32, "beside its counters");

/// Square nanoseconds of a square microsecond.
const NS2_PER_US2: f64 = 1e6;

/// What an estimate adds to each of many flows: computed once for all that left together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Added<'e> {
    estimate: &'e Estimate,
    sums: [f64; 2],
    interval: u16,
    /// Errors of the first packet of a flow in the interval.
    first: [f32; 2],
}

impl<'e> Added<'e> {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "intervals modulo 2^16")]
    pub(super) fn new(estimate: &'e Estimate) -> Self {
        Self {
            estimate,
            sums: [estimate.delay_ns, estimate.delay_ns * estimate.delay_ns],
            interval: estimate.interval as u16,
            first: errors_of_another(estimate, 0),
        }
    }
}

/// As [`FlowEstimates`] keeps them.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
fn errors_of_another(estimate: &Estimate, packets: u16) -> [f32; 2] {
    let added = estimate.error_of_another(packets.into());
    [
        (added.squared_ns2 / NS2_PER_US2) as f32,
        (added.square_ns4 / NS2_PER_US2.powi(2)) as f32,
    ]
}

fn add_all<T: Copy + std::ops::AddAssign>(sums: &mut [T; 2], more: &[T; 2]) {
    sums[0] += more[0];
    sums[1] += more[1];
}

impl FlowEstimates {
    /// Packets whose delay was estimated.
    pub fn packets(&self) -> u64 {
        self.packets.into()
    }

    /// What they say together.
    pub fn delay(&self) -> FlowDelay {
        let [errors_us2, squares_us4] = self.errors.map(f64::from);
        FlowDelay::from_sums(
            self.packets(),
            self.sums,
            [errors_us2 * NS2_PER_US2, squares_us4 * NS2_PER_US2.powi(2)],
        )
    }

    /// Adds the estimate for one of its packets.
    #[inline]
    pub(super) fn add(&mut self, added: &Added<'_>) {
        self.packets = self.packets.wrapping_add(1);
        add_all(&mut self.sums, &added.sums);
        // Most flows have one packet in an interval.
        if self.interval == added.interval {
            return self.add_error_of_another(added.estimate);
        }
        self.interval = added.interval;
        self.interval_packets = 1;
        add_all(&mut self.errors, &added.first);
    }

    #[inline(never)]
    fn add_error_of_another(&mut self, estimate: &Estimate) {
        let errors = errors_of_another(estimate, self.interval_packets);
        add_all(&mut self.errors, &errors);
        self.interval_packets = self.interval_packets.saturating_add(1);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.packets = self.packets.wrapping_add(other.packets);
        add_all(&mut self.sums, &other.sums);
        add_all(&mut self.errors, &other.errors);
    }
}
