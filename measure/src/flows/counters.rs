//! What is counted for one flow.

use crate::moments;

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

/// Figures of one flow's estimated delays: c, m and v of Lee, Duffield and Kompella (SIGCOMM
/// 2010, equations 2 to 6). 32 bytes.
///
/// Exact while the sum stays within 2^63 ticks either way, and that of squares under 2^128.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct FlowEstimates {
    sum_of_squares: u128,
    sum: i64,
    packets: u64,
}

impl FlowEstimates {
    /// Packets whose delay was estimated: c.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Sum of estimates in ticks: m.
    pub fn sum_ticks(&self) -> i64 {
        self.sum
    }

    /// Sum of squared estimates in ticks squared: v.
    pub fn sum_of_squares_ticks2(&self) -> u128 {
        self.sum_of_squares
    }

    /// Mean of the estimates, m / c; `None` without packets.
    pub fn mean_ticks(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.sum as f64 / self.packets as f64)
    }

    /// Standard deviation of the estimates, the root of v / c - (m / c)^2 (equation 6 as printed
    /// divides by c^2); `None` without packets.
    pub fn stddev_ticks(&self) -> Option<f64> {
        moments::stddev(
            self.packets,
            self.sum.unsigned_abs().into(),
            self.sum_of_squares,
        )
    }

    /// Adds an estimate; `square` is its square.
    #[inline]
    pub(super) fn add(&mut self, delay_ticks: i64, square: u128) {
        self.sum_of_squares = self.sum_of_squares.wrapping_add(square);
        self.sum = self.sum.wrapping_add(delay_ticks);
        self.packets = self.packets.wrapping_add(1);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.sum_of_squares = self.sum_of_squares.wrapping_add(other.sum_of_squares);
        self.sum = self.sum.wrapping_add(other.sum);
        self.packets = self.packets.wrapping_add(other.packets);
    }
}
