//! What is measured of a session in an interval: plain records, with serde, for any reporter.

use std::net::SocketAddr;
use std::ops::AddAssign;

use measure::histogram::Histogram;
use measure::moments::Moments;
use measure::time::TickRate;
use serde::Serialize;

use crate::clock::Offset;
use crate::socket::Stamped;
use crate::wire::{ClockSource, Format, Kind, UnixNs, number};

/// Which session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionId {
    /// Its name.
    pub name: String,
    /// Name of the node where the reflector stands.
    pub node: String,
    /// The class of traffic that it stands for.
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

/// One session in one interval: all packets that were sent in it, each answered or timed out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionResult {
    /// The session.
    #[serde(flatten)]
    pub id: SessionId,
    /// Number of the interval since the start of the program, from 0.
    pub interval: u64,
    /// When it began, in ms since 1970.
    pub start_unix_ms: u64,
    /// How long it was, in ms.
    pub length_ms: u64,
    /// Packets and replies.
    #[serde(flatten)]
    pub counts: Counts,
    /// From the sending of requests to the arrival of replies, less the time in the reflector. `None` without replies.
    pub round_trip: Option<Delays>,
    /// From sender to reflector, as the clocks say: see `one_way`.
    pub forward: Option<Delays>,
    /// From reflector to sender, likewise.
    pub backward: Option<Delays>,
    /// What one-way delays are worth.
    pub one_way: OneWay,
    /// The sender's clock.
    pub sender_clock: ClockQuality,
    /// The reflector's clock, as its last reply says. `None` without replies.
    pub reflector_clock: Option<ClockQuality>,
    /// The difference of both clocks, and whether one was set.
    pub clocks: Offset,
    /// Who took this end's timestamps: the farthest from the wire that occurred. `None` without replies.
    pub stamps: Option<StampedBy>,
    /// What the last reply's TLVs say.
    pub extensions: Option<Extensions>,
    /// Why replies were rejected. `None`: none was.
    pub rejected_for: Option<String>,
    /// Why the system did not send the last request that it did not. `None`: it sent all.
    pub not_sent_for: Option<String>,
    /// Why requests were not delivered, as the last ICMP message has it. `None`: there was none.
    pub unreachable: Option<String>,
}

contract::record! {
    /// Packets and replies. Every packet is in one of `received` and `lost`; their sum is `sent`. Duplicates, late and unusable
    /// replies are counted beside.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
    pub struct Counts {
        /// Packets that were sent, of closed intervals.
        #[metric(Counter = "vernier_probe_sent_packets_total")]
        pub sent: u64,
        /// Packets that were answered in time.
        #[metric(Counter = "vernier_probe_received_packets_total")]
        pub received: u64,
        /// Packets that were not answered in time.
        #[metric(Counter = "vernier_probe_lost_packets_total")]
        pub lost: u64,
        /// Replies to packets that were answered already.
        #[metric(Counter = "vernier_probe_duplicate_packets_total")]
        pub duplicates: u64,
        /// Replies that arrived behind the reply to a later packet.
        #[metric(Counter = "vernier_probe_reordered_packets_total")]
        pub reordered: u64,
        /// Replies to packets whose time was over.
        #[metric(Counter = "vernier_probe_late_packets_total")]
        pub late: u64,
        /// Packets that were due and not sent.
        #[metric(Counter = "vernier_probe_not_sent_packets_total")]
        pub not_sent: u64,
        /// Replies whose delays are not counted: a clock was set.
        #[metric(Counter = "vernier_probe_unusable_packets_total")]
        pub unusable: u64,
        /// Replies that failed verification or belong to no packet.
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

/// Delays of packets, in ns. One-way delays are below 0 where the clocks differ by more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Delays {
    /// Packets.
    pub samples: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation, over n.
    pub deviation_ns: f64,
    /// Least.
    pub min_ns: i64,
    /// Median, to an eighth of an octave.
    pub p50_ns: f64,
    /// What 90 % did not exceed, likewise.
    pub p90_ns: f64,
    /// What 99 % did not exceed, likewise.
    pub p99_ns: f64,
    /// What 99.9 % did not exceed, likewise.
    pub p999_ns: f64,
    /// Greatest.
    pub max_ns: i64,
}

/// What one-way delays are worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OneWay {
    /// Both clocks are synchronised: to within both error estimates.
    Absolute,
    /// They are not: differences and deviations hold, means and quantiles have the clocks' offset in them.
    #[default]
    Relative,
}

contract::record! {
    /// How good a clock is; metrics are those of the reflector's.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize)]
    pub struct ClockQuality {
        /// Whether the reflector says that its clock is synchronised.
        #[metric(Gauge = "vernier_probe_reflector_clock_synchronised")]
        pub is_synchronised: bool,
        /// Error estimate of the reflector's clock.
        #[metric(Gauge = "vernier_probe_reflector_clock_error_seconds", per_unit = 1e9)]
        pub error_ns: f64,
    }
}

/// Who took timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StampedBy {
    /// Of requests that left.
    pub sent: Stamped,
    /// Of replies that arrived.
    pub received: Stamped,
}

/// What a reflector says in its TLVs (RFC 8972, section 4). A field is `None` where the TLV was not asked for, or not answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Extensions {
    /// How the reflector's clock is synchronised.
    pub clock: Option<ClockSource>,
    /// How the reflector took the time of arrival: 1 hardware, 2 software, 3 control plane.
    pub received_method: Option<u8>,
    /// How it took the time of the reply, likewise.
    pub sent_method: Option<u8>,
    /// DSCP of the request, as it arrived.
    pub dscp_received: Option<u8>,
    /// ECN of the request, as it arrived.
    pub ecn_received: Option<u8>,
    /// Whether the reflector's policy refused the DSCP that was asked for the way back.
    pub is_dscp_refused: Option<bool>,
    /// Packets that the reflector has received in this session.
    pub reflector_received: Option<u32>,
    /// Packets that the reflector has sent in this session.
    pub reflector_sent: Option<u32>,
    /// Sequence number of the reply before, and when it really left in ns since 1970.
    pub follow_up: Option<(u32, u64)>,
    /// The request's source and destination ports at the reflector.
    pub ports: Option<(u16, u16)>,
    /// TLVs that the reflector did not know.
    pub unrecognised: u32,
    /// Whether it found one malformed.
    pub is_malformed: bool,
    /// Whether the HMAC of TLVs failed, there or here: nothing else is said then.
    pub is_not_authentic: bool,
}

impl Extensions {
    /// Takes up what one TLV says.
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

/// Beyond this the least delay is the clocks' offset.
const OFFSET_NS: i64 = 1 << 40;

impl Delays {
    /// Of samples in ns; `None` of none.
    pub fn of(samples: impl ExactSizeIterator<Item = i64> + Clone) -> Option<Self> {
        let min_ns = samples.clone().min()?;
        // Buckets are an eighth of a delay wide: with an offset in it that would be nothing. Taken off first, it does not matter.
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
