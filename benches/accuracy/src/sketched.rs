//! A trace in a sketch, and the decoders' estimates.

use anyhow::Result;
use measure::lds::{DecodeOptions, Decoded, DelayCells, FlowTable, LdsLayout, LdsPair, decode};
use measure::observation::SegmentIndex;
use reporting::statistics::whole;

use crate::recording::{self, record};
use crate::trace::{LossMask, Trace};

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

/// As many columns for this trace as `columns` are for 146,000 flows.
pub fn columns_for(trace: &Trace, columns: u32) -> u32 {
    let scaled = f64::from(columns) * trace.flows() as f64 / FLOWS;
    u32::try_from(whole(scaled.ceil())).map_or(u32::MAX, |columns| columns.max(1))
}

/// Sends `trace` through a sketch; `class_of` gives a flow's class, a segment of its own.
pub fn sketch(
    trace: &Trace,
    layout: &LdsLayout,
    losses: &LossMask,
    class_of: impl Fn(usize) -> u16,
) -> LdsPair {
    let mut pair = LdsPair::new(layout);
    let packets = (0..trace.flows()).flat_map(|flow| {
        let (hash, segment) = (trace.flow_hash(flow), SegmentIndex(class_of(flow)));
        trace.of_flow(flow).map(move |(packet_hash, packet)| {
            let is_lost = losses.takes(packet_hash, packet.sent_ns);
            recording::Packet {
                flow: hash,
                hash: packet_hash,
                segment,
                bytes: packet.bytes,
                sent: packet.sent_ns,
                delay: packet.delay_ns().filter(|_| !is_lost).map(u64::from),
            }
        })
    });
    record(|end, burst| pair.record(end, burst), packets);
    pair
}

impl Sketched {
    /// Sends `trace` through a sketch; `class_of` gives a flow's class, a segment of its own.
    pub fn new(
        trace: &Trace,
        layout: &LdsLayout,
        losses: &LossMask,
        class_of: impl Fn(usize) -> u16,
    ) -> Self {
        let pair = sketch(trace, layout, losses, &class_of);
        Self::of(&pair, trace, layout, class_of)
    }

    /// A sketch that `trace` went through.
    pub fn of(
        pair: &LdsPair,
        trace: &Trace,
        layout: &LdsLayout,
        class_of: impl Fn(usize) -> u16,
    ) -> Self {
        let mut columns = Vec::with_capacity(trace.flows() * layout.rows());
        let mut weights = Vec::new();
        for flow in 0..trace.flows() {
            let segment = SegmentIndex(class_of(flow));
            let base = layout.base_columns(trace.flow_hash(flow), segment);
            columns.extend(base.iter().take(layout.rows()));
            if !layout.weights().is_empty() {
                weights.push(f64::from(layout.weight(segment)));
            }
        }
        Self {
            cells: pair.delays(),
            columns,
            weights,
        }
    }

    pub fn flows(&self) -> usize {
        self.columns.len() / self.cells.layout().rows()
    }

    pub fn columns_of(&self, flow: usize) -> &[u32] {
        let rows = self.cells.layout().rows();
        &self.columns[flow * rows..(flow + 1) * rows]
    }

    /// A figure of each flow, from its base columns.
    pub fn each<T>(&self, figure: impl Fn(&[u32]) -> T) -> Vec<T> {
        let flows = 0..self.flows();
        flows.map(|flow| figure(self.columns_of(flow))).collect()
    }

    /// The paper's estimator for every flow, in nanoseconds; the segment's mean for flows without
    /// a usable cell.
    pub fn paper(&self) -> Vec<f64> {
        let mean = self.cells.segment_mean_ticks().unwrap_or(f64::NAN);
        self.each(|columns| {
            let estimate = self.cells.estimate_at(columns);
            estimate.map_or(mean, |estimate| estimate.mean_ticks)
        })
    }

    /// Joint decoding of every flow with so many components, as [`Self::decode`].
    pub fn joint(
        &self,
        components: usize,
        packets: Option<&[f64]>,
        feature: &[f64],
    ) -> Result<Decoded> {
        self.decode(packets, feature, &options(components))
    }

    /// Joint decoding of every flow: with its packets at the receiver's end, not a number where not known (`None`: none is
    /// known), and with a feature, not a number where it has none (empty: no flow has one).
    pub fn decode(
        &self,
        packets: Option<&[f64]>,
        feature: &[f64],
        options: &DecodeOptions,
    ) -> Result<Decoded> {
        let table = FlowTable {
            columns: &self.columns,
            packets,
            weights: (!self.weights.is_empty()).then_some(&self.weights),
            features: feature,
            features_per_flow: usize::from(!feature.is_empty()),
            known: None,
        };
        Ok(decode(&self.cells, table, options, || false)?)
    }

    /// The same cells with a shorter list: only flows that `listed` names.
    #[must_use]
    pub fn listing(&self, listed: &[usize]) -> Self {
        let columns = listed.iter().flat_map(|&flow| self.columns_of(flow));
        let weights = listed.iter().filter_map(|&flow| self.weights.get(flow));
        Self {
            cells: self.cells.clone(),
            columns: columns.copied().collect(),
            weights: weights.copied().collect(),
        }
    }
}

/// Sweeps of joint decoding that suffice for so many components.
pub fn options(components: usize) -> DecodeOptions {
    DecodeOptions {
        components,
        sweeps: if components > 1 { 20 } else { 10 },
        ..DecodeOptions::default()
    }
}

/// Decoded means in nanoseconds.
pub fn means(decoded: &Decoded) -> Vec<f64> {
    decoded.flows.iter().map(|flow| flow.mean_ticks).collect()
}
