//! Segments on the wire.

use contract::record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::segment::title;
use super::{Delay, Flow, Labelled};

record! {
    /// The clock that one-way delays on the wire are measured by.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct WireClock {
        /// State of synchronisation: `locked`, `holding_over` or `free`; a free clock gives no figures.
        pub state: String,
        /// Error that this switch's clock claims, part of every bound on the wire; `error_source` names its kind.
        #[metric(Gauge = "vernier_wire_clock_error_seconds", per_unit = 1e9)]
        pub error_ns: f64,
        /// Kind of the claim: `configured`, `estimated` (the kernel's `esterror`; from chrony and ntpd a standard
        /// deviation, which the clock's error may exceed) or `maximum` (`maxerror`, a bound).
        pub error_source: String,
        /// Part of the clock's error that comes from converting time stamp counter readings to time.
        #[metric(Gauge = "vernier_wire_clock_fit_error_seconds", per_unit = 1e9)]
        pub fit_error_ns: f64,
        /// Offset of TAI from UTC in the kernel, in seconds.
        #[metric(Gauge = "vernier_wire_clock_tai_offset_seconds")]
        pub tai_utc_s: i16,
        /// PTP domain, as configured.
        pub ptp_domain: u8,
        /// Times that the clock was set while the switch ran; epochs around a step have no figures.
        #[metric(Counter = "vernier_wire_clock_steps_total")]
        pub steps: u64,
        /// The last step in nanoseconds, negative for backward; `None` before the first.
        pub last_step_ns: Option<f64>,
    }
}

record! {
    /// A port that measures the path to a port of another switch.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Wire {
        /// Name of the port.
        pub port: String,
        /// State of the session between both ends: `waiting`, `mismatch`, `established`, `lost` or `loop`.
        pub session: String,
        /// Why the ends disagree, and what to do; `None` if they agree.
        pub mismatch: Option<String>,
        /// Whether no data passes because the port is looped to this same switch.
        #[metric(Gauge = "vernier_wire_blocked")]
        pub is_blocked: bool,
        /// The other end, as it last described itself; `None` before its first hello.
        pub peer: Option<WirePeer>,
        /// Most bits a second for control frames.
        pub share_bps: f64,
        /// Bits a second of control frames over the last second or so.
        pub control_bps: f64,
        /// Totals since the switch started.
        pub total: WireTotals,
        /// Least delay of references that arrived in the last epoch; signed, because clocks differ.
        #[metric(Gauge = "vernier_wire_least_delay_seconds", per_unit = 1e9)]
        pub floor_ns: Option<f64>,
        /// The last step of one end's clock relative to the other's, from the least delay, in nanoseconds.
        pub floor_step_ns: Option<f64>,
        /// Drift between the clocks of both ends, if it exceeds noise.
        #[metric(Gauge = "vernier_wire_clock_drift_ratio", per_unit = 1e9)]
        pub drift_ns_per_s: Option<f64>,
        /// Least offset of the other end's clock from this one, from the least delay of arrivals in the last epoch;
        /// above 0 if the other clock is ahead.
        #[metric(Gauge = "vernier_wire_clock_offset_min_seconds", per_unit = 1e9)]
        pub offset_min_ns: Option<f64>,
        /// Greatest offset of the other end's clock from this one, from the least delay of packets sent at the same
        /// time.
        #[metric(Gauge = "vernier_wire_clock_offset_max_seconds", per_unit = 1e9)]
        pub offset_max_ns: Option<f64>,
        /// Whether the clocks' claimed errors exclude every offset between the least and the greatest: at least one
        /// of them is wrong.
        #[metric(Gauge = "vernier_wire_clock_contradicted")]
        pub is_clock_contradicted: bool,
        /// The contradiction in words; `None` if both claims can be true.
        pub contradiction: Option<String>,
        /// The LDA for departing packets as last announced; both ends record by it.
        pub lda: WireLda,
        /// Both directions of every segment: departing first, then arriving.
        pub segments: Vec<WireSegment>,
        /// The flows of the last decoded epoch; `None` before the first.
        pub flows: Option<WireFlows>,
    }
}

record! {
    /// How departing packets are spread over the banks of the LDA, the same for all segments of the wire.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct WireLda {
        /// Lost packets in an epoch of a segment that the first adaptive bank is prepared for; absent if the banks
        /// are fixed.
        #[metric(Gauge = "vernier_wire_lda_prepared_lost_packets")]
        pub prepared_losses: Option<f64>,
        /// Share of packets that are sampled by any bank of the LDA.
        #[metric(Gauge = "vernier_wire_lda_sampled_ratio")]
        pub sampled_ratio: f64,
        /// The banks, those that sample the fewest packets first.
        pub banks: Vec<WireLdaBank>,
    }
}

record! {
    /// A bank of a wire's LDA.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct WireLdaBank {
        /// Its rows.
        pub rows: u32,
        /// Share of packets that it samples.
        pub probability: f64,
    }
}

record! {
    /// The other end of a wire.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct WirePeer {
        /// Its switch's number.
        pub switch: u32,
        /// Index of its port.
        pub port: u16,
        /// The name of that port there.
        pub port_name: String,
        /// Version of its wire protocol, such as `2.1`; 2.0 up to 78f1034.
        pub protocol: String,
        /// State of its clock.
        pub clock: String,
        /// Error that the other end's clock claims, as reported by that end.
        #[metric(Gauge = "vernier_wire_peer_clock_error_seconds", per_unit = 1e9)]
        pub clock_error_ns: u32,
        /// Offset of TAI from UTC in its kernel, in seconds.
        pub tai_utc_s: i16,
        /// PTP domain of its clock.
        pub ptp_domain: u8,
    }
}

record! {
    /// Totals of a wire. All of them only rise.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct WireTotals {
        /// Control frames sent, by kind.
        #[metric(Counter = "vernier_wire_control_frames_sent_total", label = "kind")]
        pub sent_frames: Vec<Labelled>,
        /// Control frames received and authenticated, by kind.
        #[metric(Counter = "vernier_wire_control_frames_believed_total", label = "kind")]
        pub believed_frames: Vec<Labelled>,
        /// Control frames received and rejected, by reason.
        #[metric(Counter = "vernier_wire_control_frames_disbelieved_total", label = "reason")]
        pub disbelieved_frames: Vec<Labelled>,
        /// Bytes of control frames sent on the link, with preamble, frame check sequence and gap.
        #[metric(Counter = "vernier_wire_control_bytes_total")]
        pub sent_bytes: u64,
        /// Bytes of references among the control frames sent.
        #[metric(Counter = "vernier_wire_reference_bytes_total")]
        pub reference_bytes: u64,
        /// Bytes of data sent on the link, without the control frames.
        #[metric(Counter = "vernier_wire_data_bytes_total")]
        pub data_bytes: u64,
        /// References that were due but withheld, because their share of the link was used up.
        #[metric(Counter = "vernier_wire_references_withheld_total")]
        pub references_withheld: u64,
        /// Other events on the wire: sessions, requests, reports, packets moved to another epoch.
        #[metric(Counter = "vernier_wire_events_total", label = "event")]
        pub events: Vec<Labelled>,
    }
}

record! {
    /// One direction of one segment on the wire.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct WireSegment {
        /// Where its packets are sent: a port, or `port:peer`, the port at the other end.
        pub from: String,
        /// Where they arrive.
        pub to: String,
        /// The class of packets; `all` on a direct link.
        pub class: String,
        /// Whether packets arrive here; if not, the other end measured and reported them.
        pub is_incoming: bool,
        /// Packets sent in epochs whose counts are known at both ends.
        #[metric(Counter = "vernier_wire_sent_packets_total")]
        pub sent_packets: u64,
        /// Packets received in epochs whose counts are known at both ends.
        #[metric(Counter = "vernier_wire_received_packets_total")]
        pub received_packets: u64,
        /// Packets lost in these epochs; signed, because a packet missing from one epoch may be counted in
        /// another.
        pub lost_packets: i64,
        /// Packets lost on the wire; the highest count so far, because a packet missing from one epoch may be
        /// counted in the next.
        #[metric(Counter = "vernier_wire_lost_packets_total")]
        pub lost_packets_max: u64,
        /// Epochs by outcome: usable, or the reason for having no figures.
        #[metric(Counter = "vernier_wire_epochs_total", label = "fate")]
        pub epochs: Vec<Labelled>,
        /// Outcome of the latest epoch; `None` before the first.
        pub fate: Option<String>,
        /// The last usable epoch, if the latest is not much later.
        pub last: Option<WireFigures>,
    }
}

record! {
    /// One segment on the wire over one epoch. Delays are in nanoseconds and signed, because clocks differ.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct WireFigures {
        /// The sender's epoch.
        pub epoch: u64,
        /// Packets sent; `None` if the sender's counts did not arrive.
        pub sent_packets: Option<u64>,
        /// Packets received; `None` if the other end measured it and does not report them.
        pub received_packets: Option<u64>,
        /// Packets lost; `None` unless both are known.
        pub lost_packets: Option<i64>,
        /// Packets first counted in a neighbouring epoch.
        pub moved_packets: u64,
        /// Standard deviation of the delay, from the LDA.
        #[metric(Gauge = "vernier_segment_estimated_delay_stddev_seconds", per_unit = 1e9)]
        pub stddev_ns: Option<f64>,
        /// Share of the LDA's cells that were usable.
        pub usable_cells_ratio: f64,
        /// Means by method: `lda`, and `rli-s` from references.
        pub estimates: Vec<WireEstimate>,
        /// The method whose bound is the smallest.
        pub chosen: Option<WireEstimate>,
    }
}

record! {
    /// A mean delay on the wire.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct WireEstimate {
        /// By which method.
        pub method: String,
        /// Mean delay in nanoseconds.
        #[metric(Gauge = "vernier_segment_estimated_delay_mean_seconds", per_unit = 1e9)]
        pub mean_ns: f64,
        /// Half-width of the nominal 98 % interval, including both clocks' errors; `None` if unknown.
        #[metric(Gauge = "vernier_segment_estimated_delay_bound_seconds", per_unit = 1e9)]
        pub bound_ns: Option<f64>,
        /// Packets in the mean; `None` if the other end does not report them.
        #[metric(Gauge = "vernier_segment_estimated_delay_effective_samples")]
        pub effective_samples: Option<u64>,
    }
}

record! {
    /// The flows of one epoch that arrived by a wire.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct WireFlows {
        /// The sender's epoch.
        pub epoch: u64,
        /// Flows in the last decoded epoch.
        #[metric(Gauge = "vernier_wire_flows")]
        pub number: u64,
        /// Packets of flows without a slot.
        pub other_packets: u64,
        /// Time to decode the flows of the last decoded epoch.
        #[metric(Gauge = "vernier_wire_decode_duration_seconds")]
        pub duration_s: f64,
        /// The flows with the most packets that have series of their own inside the switch, if their names are
        /// known.
        pub top: Vec<WireFlow>,
    }
}

/// A flow on a segment that arrives by a wire.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireFlow {
    /// The flow. Its estimate is the best one: the one with the smallest bound, or `combined` of two similar
    /// ones.
    #[serde(flatten)]
    pub flow: Flow,
    /// Whether its packets were counted individually. If not, `packets` is the sketch's upper limit and `bytes` is
    /// 0.
    pub is_counted: bool,
}

impl Wire {
    /// Continues the counts of the port's earlier exchange.
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
    /// Adds the counts of an earlier exchange of the same port.
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

impl WireFigures {
    /// The delay by the method whose bound is the smallest.
    pub fn delay(&self) -> Option<Delay<'_>> {
        let chosen = self.chosen.as_ref()?;
        Some(Delay {
            method: &chosen.method,
            epoch: self.epoch,
            samples: chosen.effective_samples,
            mean_ns: chosen.mean_ns,
            bound_ns: chosen.bound_ns,
            stddev_ns: self.stddev_ns,
            ..Delay::default()
        })
    }
}

impl WireSegment {
    /// `trunk>trunk:peer`.
    pub fn name(&self) -> String {
        format!("{}>{}", self.from, self.to)
    }

    /// `trunk>trunk:peer`, or `trunk>trunk:peer gold` with classes.
    pub fn title(&self) -> String {
        title(&self.from, &self.to, &self.class)
    }

    /// Adds the counts of an earlier exchange of the same port.
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
