//! A trace in a sketch, and what the decoders make of it.

use anyhow::Result;
use measure::lds::{DecodeOptions, Decoded, DelayCells, FlowTable, LdsLayout, LdsPair, decode};
use measure::observation::{End, Observation, SegmentIndex};
use measure::packet::PacketHash;
use measure::synopsis::Synopsis;
use measure::time::EpochTag;

use super::trace::{LossMask, Packet, Trace};
use reporting::statistics::{error_percent, whole};

/// Observations are recorded in bursts, as a switch does.
const BURST: usize = 64;
/// Flows of the acceptance trace, for which sizes of sketches are given.
const FLOWS: f64 = 146_000.0;

/// A sketch with the list of flows that went into it, one entry a flow.
#[derive(Debug, Clone)]
pub struct Sketched {
    /// The cells of both ends.
    pub cells: DelayCells,
    /// Base columns, R entries a flow.
    pub columns: Vec<u32>,
    /// Weight of each flow's packets; empty: all 1.
    pub weights: Vec<f64>,
}

/// What decoding may use besides the cells.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// Packets of each flow at the receiver's end; `None`: not known.
    pub packets: Option<&'a [f64]>,
    /// One feature of each flow, not a number where it has none; empty: no feature.
    pub feature: &'a [f64],
    /// K.
    pub components: usize,
}

/// As many columns for this trace as `columns` are for 146,000 flows.
pub fn columns_for(trace: &Trace, columns: u32) -> u32 {
    let scaled = f64::from(columns) * trace.flows() as f64 / FLOWS;
    u32::try_from(whole(scaled.ceil())).map_or(u32::MAX, |columns| columns.max(1))
}

impl Sketched {
    /// Sends `trace` through a sketch. `class_of` tells a flow's class: a segment of its own.
    pub fn new(
        trace: &Trace,
        layout: &LdsLayout,
        losses: &LossMask,
        class_of: impl Fn(usize) -> u16,
    ) -> Self {
        let mut recorder = Recorder::new(layout);
        let mut columns = Vec::with_capacity(trace.flows() * layout.rows());
        let mut weights = Vec::new();
        for flow in 0..trace.flows() {
            let segment = SegmentIndex(class_of(flow));
            let hash = trace.flow_hash(flow);
            columns.extend_from_slice(&layout.base_columns(hash, segment)[..layout.rows()]);
            if !layout.weights().is_empty() {
                weights.push(f64::from(layout.weight(segment)));
            }
            for (packet_hash, packet) in trace.of_flow(flow) {
                let observation = observation(
                    packet_hash,
                    packet,
                    Observation {
                        flow: hash,
                        segment,
                        ..EMPTY
                    },
                );
                let lost = losses.takes(packet_hash, packet.sent_ns);
                recorder.add(observation, packet.delay_ns().filter(|_| !lost));
            }
        }
        Self {
            cells: recorder.finish(),
            columns,
            weights,
        }
    }

    /// How many flows.
    pub fn flows(&self) -> usize {
        self.columns.len() / self.cells.layout().rows()
    }

    /// A flow's base columns.
    pub fn columns_of(&self, flow: usize) -> &[u32] {
        let rows = self.cells.layout().rows();
        &self.columns[flow * rows..(flow + 1) * rows]
    }

    /// The paper's estimator for every flow, in nanoseconds; the segment's mean for flows without
    /// a usable cell.
    pub fn paper(&self) -> Vec<f64> {
        let mean = self.cells.segment_mean_ticks().unwrap_or(f64::NAN);
        (0..self.flows())
            .map(|flow| {
                let estimate = self.cells.estimate_at(self.columns_of(flow));
                estimate.map_or(mean, |estimate| estimate.mean_ticks)
            })
            .collect()
    }

    /// Joint decoding of every flow.
    ///
    /// # Errors
    /// When the lists do not fit each other.
    pub fn joint(&self, known: Known<'_>) -> Result<Decoded> {
        let table = FlowTable {
            columns: &self.columns,
            packets: known.packets,
            weights: (!self.weights.is_empty()).then_some(&self.weights),
            features: known.feature,
            features_per_flow: usize::from(!known.feature.is_empty()),
            known: None,
        };
        let options = DecodeOptions {
            components: known.components,
            sweeps: if known.components > 1 { 20 } else { 10 },
            ..DecodeOptions::default()
        };
        Ok(decode(&self.cells, table, &options, || false)?)
    }

    /// The same cells with a shorter list: only flows that `listed` names.
    #[must_use]
    pub fn listing(&self, listed: &[usize]) -> Self {
        Self {
            cells: self.cells.clone(),
            columns: listed
                .iter()
                .flat_map(|&flow| self.columns_of(flow).iter().copied())
                .collect(),
            weights: listed
                .iter()
                .filter_map(|&flow| self.weights.get(flow).copied())
                .collect(),
        }
    }
}

/// Decoded means in nanoseconds.
pub fn means(decoded: &Decoded) -> Vec<f64> {
    decoded.flows.iter().map(|flow| flow.mean_ticks).collect()
}

/// Relative errors in per cent of `flows`.
pub fn errors(
    estimates: &[f64],
    truth: &[f64],
    flows: impl IntoIterator<Item = usize>,
) -> Vec<f64> {
    flows
        .into_iter()
        .filter_map(|flow| Some(error_percent(*estimates.get(flow)?, *truth.get(flow)?)))
        .collect()
}

const EMPTY: Observation = Observation {
    flow: measure::packet::FlowHash(0),
    packet: PacketHash(0),
    time: 0,
    delay: 0,
    bytes: 0,
    segment: SegmentIndex(0),
    epoch: EpochTag(0),
};

fn observation(hash: PacketHash, packet: Packet, of_flow: Observation) -> Observation {
    Observation {
        packet: hash,
        time: packet.sent_ns,
        bytes: packet.bytes,
        ..of_flow
    }
}

/// Collects bursts at both ends.
struct Recorder {
    pair: LdsPair,
    sent: Vec<Observation>,
    received: Vec<Observation>,
}

impl Recorder {
    fn new(layout: &LdsLayout) -> Self {
        Self {
            pair: LdsPair::new(layout),
            sent: Vec::with_capacity(BURST),
            received: Vec::with_capacity(BURST),
        }
    }

    /// A packet; lost where it has no delay.
    fn add(&mut self, mut observation: Observation, delay_ns: Option<u32>) {
        self.sent.push(observation);
        if let Some(delay_ns) = delay_ns.map(u64::from) {
            observation.time += delay_ns;
            observation.delay = delay_ns;
            self.received.push(observation);
        }
        if self.sent.len() == BURST {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.pair.record(End::Sender, &self.sent);
        self.pair.record(End::Receiver, &self.received);
        self.sent.clear();
        self.received.clear();
    }

    fn finish(mut self) -> DelayCells {
        self.flush();
        self.pair.delays()
    }
}
