//! Compares the sums of both ends over the packets between two references, which also gives the mean delay
//! of a whole segment.

use super::interval::Mark;
use super::reference::StreamSums;
use super::since_ns;

/// The sum of the delays of packets received between two references.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum DelaySum {
    /// Both ends counted the same packets.
    Exact {
        packets: u64,
        sum_ns: i64,
        /// The same sum with each delay, minus that of the left reference, multiplied by the number of
        /// packets before it; present if it cannot have wrapped.
        ranked_ns: Option<f64>,
    },
    /// Packets were lost: times relative to the left reference, the sender's sum scaled down to the number
    /// of packets received.
    Scaled {
        packets: u64,
        sum_ns: f64,
        /// Variance of the sum, assuming that lost packets are spread evenly over the interval.
        variance_ns2: f64,
    },
    /// The sender counted none.
    Unknown { packets: u64 },
}

impl DelaySum {
    /// Most packets whose ranked sums are used: they are valid for 2^16 packets whose delays differ by 2 s.
    const RANKED_PACKETS_MAX: u64 = 1 << 16;

    /// Compares the references at both ends of an interval.
    pub(super) fn between(left: &Mark, right: &Mark) -> Self {
        let sent = right.sent.since(&left.sent);
        let received = right.received.since(&left.received);
        let packets = received.count;
        if sent.agrees_with(&received) {
            let ranks = packets.wrapping_mul(packets.wrapping_sub(1)) / 2;
            let left_ns = left.received_ns.wrapping_sub(left.sent_ns);
            let ranked_ns = received
                .ranked_time_ns
                .wrapping_sub(sent.ranked_time_ns)
                .wrapping_sub(ranks.wrapping_mul(left_ns))
                .cast_signed();
            return Self::Exact {
                packets,
                sum_ns: received.time_ns.wrapping_sub(sent.time_ns).cast_signed(),
                ranked_ns: (packets <= Self::RANKED_PACKETS_MAX).then_some(ranked_ns as f64),
            };
        }
        if sent.count == 0 {
            return Self::Unknown { packets };
        }
        let relative = |time_ns: u64, count: u64, left_ns: u64| {
            let offset_ns = count.wrapping_mul(left_ns);
            time_ns.wrapping_sub(offset_ns).cast_signed() as f64
        };
        let (n, of) = (packets as f64, sent.count as f64);
        // Equal numbers but different packets: at least two differ.
        let lost = match sent.count.abs_diff(packets) {
            0 => 2.0,
            lost => lost as f64,
        };
        let length_ns = since_ns(right.received_ns, left.received_ns);
        Self::Scaled {
            packets,
            sum_ns: n * left.delay_ns + relative(received.time_ns, packets, left.received_ns)
                - n / of * relative(sent.time_ns, sent.count, left.sent_ns),
            variance_ns2: n * lost / of * length_ns * length_ns / 12.0,
        }
    }
}

/// The mean delay of all regular packets of a segment, summed over the intervals between references that
/// arrived.
///
/// If both ends counted the same packets, the difference of their sums of times is exactly the sum of these
/// packets' delays. If packets were lost, times are taken relative to the interval's left reference, and
/// the sender's sum is scaled down to the packets received. The error from lost packets then depends on how
/// unevenly they are ranked within the interval, not on the interval's position in the epoch.
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
    /// Adds an interval: the sums of both ends between two references, and the resulting sum of delays.
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

    /// Packets received that are included in the mean.
    pub fn packets(&self) -> u64 {
        self.exact_packets.wrapping_add(self.scaled_packets)
    }

    /// Those of them in intervals whose sum is exact.
    pub fn exact_packets(&self) -> u64 {
        self.exact_packets
    }

    /// Packets received in intervals without evidence: the sender counted none there.
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
