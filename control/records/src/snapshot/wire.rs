//! Segments on the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Labelled;

/// The clock that one-way delays on the wire are measured by.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireClock {
    /// What it follows: `locked`, `holding_over` or `free`; a free clock gives no numbers.
    pub state: String,
    /// It is off by so many nanoseconds at most; added to every bound.
    pub error_ns: f64,
    /// The part of it that is the line through the time stamp counter.
    pub fit_error_ns: f64,
    /// Offset of TAI from UTC that the kernel reckons with, in seconds.
    pub tai_utc_s: i16,
    /// PTP domain, as configured.
    pub ptp_domain: u8,
    /// Times that somebody set it while the switch ran.
    pub steps: u64,
    /// The last of them in nanoseconds, negative for backward; `None` before the first.
    pub last_step_ns: Option<f64>,
}

/// A port that measures the path to a port of another switch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wire {
    /// Name of the port.
    pub port: String,
    /// How its ends stand to each other: `waiting`, `mismatch`, `established`, `lost` or `loop`.
    pub session: String,
    /// Why the ends do not agree, and what to do; `None` where they do.
    pub mismatch: Option<String>,
    /// The port is looped to this very switch: no data passes.
    pub is_blocked: bool,
    /// The other end, as it last said; `None` before it was heard.
    pub peer: Option<WirePeer>,
    /// Bits a second that control frames may take.
    pub share_bps: f64,
    /// What they took over the last second or so.
    pub control_bps: f64,
    /// Since the switch started.
    pub total: WireTotals,
    /// The least delay of what arrives here, as references gave it last, in nanoseconds; signed.
    pub floor_ns: Option<f64>,
    /// By how much the clocks of both ends last stepped against each other, as the least delay
    /// showed it, in nanoseconds.
    pub floor_step_ns: Option<f64>,
    /// How fast the clocks of both ends run apart, in nanoseconds a second; `None` while that is no more
    /// than noise.
    pub drift_ns_per_s: Option<f64>,
    /// Both directions of every segment: those that leave, then those that arrive.
    pub segments: Vec<WireSegment>,
    /// The flows of the epoch that was decoded last; `None` before the first.
    pub flows: Option<WireFlows>,
}

/// The other end of a wire.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WirePeer {
    /// Its switch's number.
    pub switch: u32,
    /// Index of its port.
    pub port: u16,
    /// The name of that port there.
    pub port_name: String,
    /// What its clock follows.
    pub clock: String,
    /// Its clock is off by so many nanoseconds at most.
    pub clock_error_ns: u32,
    /// Offset of TAI from UTC that it reckons with, in seconds.
    pub tai_utc_s: i16,
    /// PTP domain of its clock.
    pub ptp_domain: u8,
}

/// What a wire has counted. Everything in it only rises.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireTotals {
    /// Control frames sent, by kind.
    pub sent_frames: Vec<Labelled>,
    /// Control frames that came in and were accepted, by kind.
    pub believed_frames: Vec<Labelled>,
    /// Control frames that came in and were rejected, by reason.
    pub disbelieved_frames: Vec<Labelled>,
    /// Bytes of control frames on the link, with preamble, frame check sequence and gap.
    pub sent_bytes: u64,
    /// Those of references among them.
    pub reference_bytes: u64,
    /// Bytes of data on the link.
    pub data_bytes: u64,
    /// References that were due and kept back, for the share was used up.
    pub references_withheld: u64,
    /// What happened besides, by what it was.
    pub events: Vec<Labelled>,
}

/// One direction of one segment on the wire.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireSegment {
    /// Where its packets are sent from: a port, or `port:peer`, the port at its other end.
    pub from: String,
    /// Where they arrive.
    pub to: String,
    /// The class of packets; `all` on a direct link.
    pub class: String,
    /// Whether they arrive here; if not the other end has measured and reported them.
    pub is_incoming: bool,
    /// Packets sent in epochs whose counts are known at both ends, since the switch started.
    pub sent_packets: u64,
    /// Packets received in them.
    pub received_packets: u64,
    /// Packets lost in them; signed, since a packet that one epoch misses another has.
    pub lost_packets: i64,
    /// The greatest that this number was: what a counter shows, which only rises.
    pub lost_packets_max: u64,
    /// Epochs by what became of them.
    pub epochs: Vec<Labelled>,
    /// What became of the latest epoch; `None` before the first.
    pub fate: Option<String>,
    /// The last usable epoch, where the latest is not much later.
    pub last: Option<WireFigures>,
}

/// One segment on the wire over one epoch. Delays are in nanoseconds and signed, for clocks differ.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireFigures {
    /// The sender's epoch.
    pub epoch: u64,
    /// Packets sent; `None` where the sender's counts did not arrive.
    pub sent_packets: Option<u64>,
    /// Packets received; `None` where the other end, whose figures these are, does not say.
    pub received_packets: Option<u64>,
    /// Packets lost; `None` unless both are known.
    pub lost_packets: Option<i64>,
    /// Packets that were counted in a neighbouring epoch at first.
    pub moved_packets: u64,
    /// Standard deviation of the delay, from the LDA.
    pub stddev_ns: Option<f64>,
    /// Share of the LDA's cells that were usable.
    pub usable_cells_ratio: f64,
    /// Means by method: `lda`, and `rli-s` where references tell of it.
    pub estimates: Vec<WireEstimate>,
    /// The method whose bound is the smallest.
    pub chosen: Option<WireEstimate>,
}

/// A mean delay on the wire.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireEstimate {
    /// By which method.
    pub method: String,
    /// Mean delay in nanoseconds.
    pub mean_ns: f64,
    /// Half-width of the nominal 98 % interval, with both clocks' errors; `None` where it is not known.
    pub bound_ns: Option<f64>,
    /// Packets that it rests on; `None` where the other end does not say.
    pub effective_samples: Option<u64>,
}

/// The flows of one epoch that arrived by a wire.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireFlows {
    /// The sender's epoch.
    pub epoch: u64,
    /// Flows in it.
    pub number: u64,
    /// Packets of flows that had no place.
    pub other_packets: u64,
    /// Seconds that decoding took.
    pub duration_s: f64,
    /// Those with most packets that have series of their own inside the switch, which knows their
    /// names.
    pub top: Vec<WireFlow>,
}

/// A flow on the wire in one epoch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireFlow {
    /// `source>destination/protocol`.
    pub flow: String,
    /// The class of its segment.
    pub class: String,
    /// Packets that arrived.
    pub packets: u64,
    /// The one to use: the smallest bound, or `combined` of two that are alike.
    pub estimate: Option<WireEstimate>,
    /// Means by method, of those that say something.
    pub estimates: Vec<WireEstimate>,
}

impl Wire {
    /// Goes on from where an earlier exchange of the port stopped.
    pub fn continue_from(&mut self, earlier: &Self) {
        self.total.add(&earlier.total);
        for segment in &mut self.segments {
            let same = |old: &&WireSegment| {
                (&old.class, old.is_incoming) == (&segment.class, segment.is_incoming)
            };
            if let Some(old) = earlier.segments.iter().find(same) {
                segment.add(old);
            }
        }
    }
}

impl WireTotals {
    /// Adds what an earlier exchange of the same port has counted.
    pub fn add(&mut self, earlier: &Self) {
        let lists = [
            (&mut self.sent_frames, &earlier.sent_frames),
            (&mut self.believed_frames, &earlier.believed_frames),
            (&mut self.disbelieved_frames, &earlier.disbelieved_frames),
            (&mut self.events, &earlier.events),
        ];
        for (own, earlier) in lists {
            add(own, earlier);
        }
        self.sent_bytes = self.sent_bytes.wrapping_add(earlier.sent_bytes);
        self.reference_bytes = self.reference_bytes.wrapping_add(earlier.reference_bytes);
        self.data_bytes = self.data_bytes.wrapping_add(earlier.data_bytes);
        self.references_withheld = self
            .references_withheld
            .wrapping_add(earlier.references_withheld);
    }
}

impl WireSegment {
    /// `trunk>trunk:peer`.
    pub fn name(&self) -> String {
        format!("{}>{}", self.from, self.to)
    }

    /// Adds what an earlier exchange of the same port has counted of it.
    pub fn add(&mut self, earlier: &Self) {
        self.sent_packets = self.sent_packets.wrapping_add(earlier.sent_packets);
        self.received_packets = self.received_packets.wrapping_add(earlier.received_packets);
        self.lost_packets = self.lost_packets.wrapping_add(earlier.lost_packets);
        add(&mut self.epochs, &earlier.epochs);
    }

    /// The estimate of this name in the last usable epoch.
    pub fn estimate(&self, method: &str) -> Option<&WireEstimate> {
        let mut estimates = self.last.as_ref()?.estimates.iter();
        estimates.find(|estimate| estimate.method == method)
    }
}

/// Adds one list of counts to another, by label.
fn add(own: &mut Vec<Labelled>, earlier: &[Labelled]) {
    for old in earlier {
        match own.iter_mut().find(|one| one.label == old.label) {
            Some(one) => one.packets = one.packets.wrapping_add(old.packets),
            None => own.push(old.clone()),
        }
    }
}
