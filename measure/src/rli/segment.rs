//! The mean delay of a whole segment, from what references carry.

use super::delay_sum::DelaySum;
use super::reference::StreamSums;

/// The mean delay of all regular packets of a segment, summed over the intervals between references
/// that arrived.
///
/// Where both ends counted the same packets, the difference of their sums of times is the sum of
/// these packets' delays, exactly. Where some were lost, times are taken relative to the interval's
/// left reference, and the sender's sum is scaled down to the packets received: what the lost ones
/// add to the error is how uneven their ranks in the interval were, not when in the epoch the interval was.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SegmentDelay {
    exact_packets: u64,
    exact_sum_ns: i128,
    scaled_packets: u64,
    scaled_sum_ns: f64,
    sent: u64,
    unusable_packets: u64,
}

impl SegmentDelay {
    /// Adds an interval: what either end saw between two references, and the delay sum that
    /// follows.
    pub(super) fn add_interval(&mut self, sent: &StreamSums, sum: &DelaySum) {
        self.sent = self.sent.wrapping_add(sent.count);
        match *sum {
            DelaySum::Exact {
                packets, sum_ns, ..
            } => {
                self.exact_packets = self.exact_packets.wrapping_add(packets);
                self.exact_sum_ns = self.exact_sum_ns.wrapping_add(i128::from(sum_ns));
            }
            DelaySum::Scaled {
                packets, sum_ns, ..
            } => {
                self.scaled_packets = self.scaled_packets.wrapping_add(packets);
                self.scaled_sum_ns += sum_ns;
            }
            DelaySum::Unknown { packets } => {
                self.unusable_packets = self.unusable_packets.wrapping_add(packets);
            }
        }
    }

    /// Packets received that the mean speaks for.
    pub fn packets(&self) -> u64 {
        self.exact_packets.wrapping_add(self.scaled_packets)
    }

    /// Those of them in intervals whose sum is exact.
    pub fn exact_packets(&self) -> u64 {
        self.exact_packets
    }

    /// Packets received in intervals that say nothing: the sender counted none there.
    pub fn unusable_packets(&self) -> u64 {
        self.unusable_packets
    }

    /// Packets sent in these intervals.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Sum of delays in nanoseconds.
    pub fn sum_ns(&self) -> f64 {
        self.exact_sum_ns as f64 + self.scaled_sum_ns
    }

    /// Mean delay in nanoseconds; `None` without packets.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.packets() > 0).then(|| self.sum_ns() / self.packets() as f64)
    }

    /// Adds another stream or another epoch.
    pub fn merge(&mut self, other: &Self) {
        self.exact_packets = self.exact_packets.wrapping_add(other.exact_packets);
        self.exact_sum_ns = self.exact_sum_ns.wrapping_add(other.exact_sum_ns);
        self.scaled_packets = self.scaled_packets.wrapping_add(other.scaled_packets);
        self.scaled_sum_ns += other.scaled_sum_ns;
        self.sent = self.sent.wrapping_add(other.sent);
        self.unusable_packets = self.unusable_packets.wrapping_add(other.unusable_packets);
    }
}
