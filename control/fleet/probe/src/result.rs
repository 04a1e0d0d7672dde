//! Results of a session for an interval: plain serde records for any reporter.

use std::net::SocketAddr;
use std::ops::AddAssign;

use measure::histogram::Histogram;
use measure::moments::Moments;
use measure::time::TickRate;
use serde::Serialize;

use crate::clock::Offset;
use crate::socket::Stamped;
use crate::wire::{ClockSource, Format, Kind, UnixNs, number};

/// Identifies a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionId {
    /// Its name.
    pub name: String,
    /// Name of the node where the reflector stands.
    pub node: String,
    /// The class of traffic that it represents.
    pub class: String,
    /// The sender's address and port.
    pub from: SocketAddr,
    /// The reflector's address and port.
    pub to: SocketAddr,
    /// Its identifier (RFC 8972, section 3), 1 to 65,535.
    pub ssid: u16,
    /// DSCP of the requests, 0 to 63.
    pub dscp: u8,
}

/// One session in one interval: all packets sent in it, each answered or timed out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionResult {
    /// The session.
    #[serde(flatten)]
    pub id: SessionId,
    /// Number of the interval since the start of the program, from 0.
    pub interval: u64,
    /// Its start, in ms since 1970.
    pub start_unix_ms: u64,
    /// Its length, in ms; `None` if it has no end, as that of a measurement by command line.
    pub length_ms: Option<u64>,
    /// Counts of packets and replies.
    #[serde(flatten)]
    pub counts: Counts,
    /// Time from sending a request to receiving its reply, minus the time in the reflector. `None` without replies.
    pub round_trip: Option<Delays>,
    /// From sender to reflector, by the clocks: see `one_way`.
    pub forward: Option<Delays>,
    /// From reflector to sender, likewise.
    pub backward: Option<Delays>,
    /// How to read one-way delays.
    pub one_way: OneWay,
    /// The sender's clock.
    pub sender_clock: ClockQuality,
    /// The reflector's clock, by its last reply. `None` without replies.
    pub reflector_clock: Option<ClockQuality>,
    /// The difference of both clocks, and whether one was set.
    pub clocks: Offset,
    /// The source of this end's timestamps, the one farthest from the wire if there were several. `None`
    /// without replies.
    pub stamps: Option<StampedBy>,
    /// Contents of the last reply's TLVs.
    pub extensions: Option<Extensions>,
    /// Why replies were rejected. `None`: none were.
    pub rejected_for: Option<String>,
    /// Why the system refused to send the last request that failed. `None`: it sent all.
    pub not_sent_for: Option<String>,
    /// Why requests were not delivered, by the last ICMP message. `None`: there was none.
    pub unreachable: Option<String>,
}

contract::record! {
    /// Counts of packets and replies. `sent` is the sum of `received` and `lost`. Duplicates, late and unusable
    /// replies are counted separately.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
    pub struct Counts {
        /// Packets sent, in closed intervals.
        #[metric(Counter = "vernier_probe_sent_packets_total")]
        pub sent: u64,
        /// Packets answered in time.
        #[metric(Counter = "vernier_probe_received_packets_total")]
        pub received: u64,
        /// Packets not answered in time.
        #[metric(Counter = "vernier_probe_lost_packets_total")]
        pub lost: u64,
        /// Replies to packets that had been answered already.
        #[metric(Counter = "vernier_probe_duplicate_packets_total")]
        pub duplicates: u64,
        /// Replies that arrived after the reply to a later packet.
        #[metric(Counter = "vernier_probe_reordered_packets_total")]
        pub reordered: u64,
        /// Replies that arrived after their time-out.
        #[metric(Counter = "vernier_probe_late_packets_total")]
        pub late: u64,
        /// Packets that were due but not sent.
        #[metric(Counter = "vernier_probe_not_sent_packets_total")]
        pub not_sent: u64,
        /// Replies whose delays are not counted because a clock was set.
        #[metric(Counter = "vernier_probe_unusable_packets_total")]
        pub unusable: u64,
        /// Replies that failed verification or match no packet.
        #[metric(Counter = "vernier_probe_rejected_packets_total")]
        pub rejected: u64,
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.late += other.late;
        self.not_sent += other.not_sent;
        self.unusable += other.unusable;
        self.rejected += other.rejected;
    }
}

/// Delays of packets, in ns. One-way delays are negative if the clocks differ by more than the delay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Delays {
    /// Number of packets.
    pub samples: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation, over n.
    pub deviation_ns: f64,
    /// Minimum.
    pub min_ns: i64,
    /// Median, to an eighth of an octave.
    pub p50_ns: f64,
    /// 90th percentile, with the same precision.
    pub p90_ns: f64,
    /// 99th percentile, with the same precision.
    pub p99_ns: f64,
    /// 99.9th percentile, with the same precision.
    pub p999_ns: f64,
    /// Maximum.
    pub max_ns: i64,
}

/// How to read one-way delays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OneWay {
    /// Both clocks are synchronised: one-way delays are right to within the sum of both error estimates.
    Absolute,
    /// The clocks are not synchronised: differences and deviations are valid, means and quantiles include
    /// the clocks' offset.
    #[default]
    Relative,
}

contract::record! {
    /// Quality of a clock; the metrics are those of the reflector's.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize)]
    pub struct ClockQuality {
        /// Whether the reflector reports a synchronised clock.
        #[metric(Gauge = "vernier_probe_reflector_clock_synchronised")]
        pub is_synchronised: bool,
        /// Error estimate of the reflector's clock.
        #[metric(Gauge = "vernier_probe_reflector_clock_error_seconds", per_unit = 1e9)]
        pub error_ns: f64,
    }
}

/// Sources of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StampedBy {
    /// Of outgoing requests.
    pub sent: Stamped,
    /// Of incoming replies.
    pub received: Stamped,
}

/// Contents of a reflector's TLVs (RFC 8972, section 4). A field is `None` if the TLV was not requested or not
/// answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Extensions {
    /// Source of the reflector's time.
    pub clock: Option<ClockSource>,
    /// How the reflector timestamped the arrival: 1 hardware, 2 software, 3 control plane.
    pub received_method: Option<u8>,
    /// How it timestamped the reply, with the same codes.
    pub sent_method: Option<u8>,
    /// DSCP of the request on arrival.
    pub dscp_received: Option<u8>,
    /// ECN of the request on arrival.
    pub ecn_received: Option<u8>,
    /// Whether the reflector's policy refused the requested DSCP of the reply.
    pub is_dscp_refused: Option<bool>,
    /// Packets received by the reflector in this session.
    pub reflector_received: Option<u32>,
    /// Packets sent by the reflector in this session.
    pub reflector_sent: Option<u32>,
    /// Sequence number of the previous reply, and its actual time of transmission in ns since 1970.
    pub follow_up: Option<(u32, u64)>,
    /// The request's source and destination ports at the reflector.
    pub ports: Option<(u16, u16)>,
    /// TLVs unknown to the reflector.
    pub unrecognised: u32,
    /// Whether the reflector found a malformed TLV.
    pub is_malformed: bool,
    /// Whether the TLVs' HMAC failed at either end; if so, all other fields are `None`.
    pub is_not_authentic: bool,
}

impl Extensions {
    /// Adds the contents of one TLV.
    pub(crate) fn take(&mut self, kind: Kind, value: &[u8], format: Format, near: UnixNs) {
        match (kind, value) {
            (Kind::TimestampInformation, &[source, received, _, sent]) => {
                self.clock = ClockSource::of(source);
                self.received_method = Some(received);
                self.sent_method = Some(sent);
            }
            (Kind::ClassOfService, &[first, second, ..]) => {
                self.dscp_received = Some((first & 3) << 4 | second >> 4);
                self.ecn_received = Some(second >> 2 & 3);
                self.is_dscp_refused = Some(second & 3 != 0);
            }
            (Kind::DirectMeasurement, value) => {
                self.reflector_received = number(value, 4);
                self.reflector_sent = number(value, 8);
            }
            (Kind::FollowUpTelemetry, value) => {
                let bits = number(value, 4).zip(number(value, 8));
                let bits = bits.map(|(high, low)| u64::from(high) << 32 | u64::from(low));
                let bits = bits.filter(|bits| *bits != 0);
                let at = bits.and_then(|bits| format.decode(bits, near));
                self.follow_up = number(value, 0).zip(at.map(|at| at.0));
            }
            (Kind::Location, &[to_high, to_low, from_high, from_low, ..]) => {
                let from = u16::from_be_bytes([from_high, from_low]);
                self.ports = Some((from, u16::from_be_bytes([to_high, to_low])));
            }
            _ => {}
        }
    }
}

/// A least delay beyond this is the clocks' offset.
const OFFSET_NS: i64 = 1 << 40;

impl Delays {
    /// Statistics of samples in ns; `None` if there are none.
    pub fn of(samples: impl ExactSizeIterator<Item = i64> + Clone) -> Option<Self> {
        let min_ns = samples.clone().min()?;
        // A bucket is an eighth of a delay wide, which is too coarse for a delay that includes an offset: subtract it
        // first.
        let base_ns = if (0..OFFSET_NS).contains(&min_ns) {
            0
        } else {
            min_ns
        };
        let (mut moments, rate) = (Moments::default(), TickRate::from_hz(1_000_000_000));
        let mut histogram = Box::new(Histogram::new(rate));
        for sample in samples.clone() {
            let delay_ns = sample.abs_diff(base_ns);
            moments.add_delays(delay_ns, 1);
            histogram.add_delays(delay_ns, 1);
        }
        let [p50, p90, p99, p999] = histogram.quantiles_ns([0.5, 0.9, 0.99, 0.999], &moments)?;
        let base = base_ns as f64;
        Some(Self {
            samples: moments.count(),
            mean_ns: base + moments.mean_ticks()?,
            deviation_ns: moments.stddev_ticks()?,
            min_ns,
            p50_ns: base + p50,
            p90_ns: base + p90,
            p99_ns: base + p99,
            p999_ns: base + p999,
            max_ns: samples.max()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn delays_are_those_of_the_samples(
            spans in proptest::collection::vec(0_i64..10_000_000, 1..200),
            offset_ns in prop_oneof![Just(0_i64), -1_i64 << 60..1 << 60],
        ) {
            let mut samples: Vec<i64> = spans.iter().map(|span| span + offset_ns).collect();
            let delays = Delays::of(samples.iter().copied()).unwrap();
            samples.sort_unstable();
            prop_assert_eq!(delays.samples, samples.len() as u64);
            prop_assert_eq!(delays.min_ns, samples[0]);
            prop_assert_eq!(delays.max_ns, samples[samples.len() - 1]);
            let mean = spans.iter().sum::<i64>() as f64 / spans.len() as f64;
            prop_assert!((delays.mean_ns - offset_ns as f64 - mean).abs() <= 1.0 + offset_ns.abs() as f64 * 1e-15);
            let median = samples[samples.len().div_ceil(2) - 1];
            let span = (median - samples[0].min(median)) as f64 + 10_000_000.0;
            prop_assert!((delays.p50_ns - median as f64).abs() <= span / 8.0 + offset_ns.abs() as f64 * 1e-15);
            prop_assert!(delays.p50_ns <= delays.p90_ns && delays.p90_ns <= delays.p99_ns);
        }
    }

    #[test]
    fn of_nothing_nothing_is_said() {
        assert_eq!(Delays::of([].into_iter()), None);
    }
}
