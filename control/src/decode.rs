//! Joint decoding of sketches: estimates for the flows that are tracked, epoch by epoch, and for any
//! flow on request.
//!
//! ```text
//!  core: cells of an epoch + flows' counts --Job--> thread: measure::lds::decode --Results--> core
//!        one job under way at most; what comes meanwhile waits in one sum of epochs
//! ```
//!
//! The thread is not the control core's: decoding takes a good part of an epoch, and the core polls
//! filtering database, links and generations every few milliseconds. Nothing queues up: while a job is
//! under way, epochs are added to one sum of cells, or are skipped and counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use measure::lds::{
    DecodeOptions, Decoded, DelayCells, FEATURES_MAX, FlowDelay, FlowTable, LdsLayout, Source,
    decode,
};
use measure::observation::SegmentIndex;
use measure::packet::{FlowKey, Hasher};
use measure::time::{Epoch, TickRate};

use crate::flows::{FlowNumber, FlowSums};
use records::snapshot::{FlowEstimate, FlowMethod};

mod ask;
mod plan;

pub use ask::Sketches;
pub(crate) use plan::{Decoder, EpochCells};

/// Packets that a flow must have to count in the median of errors.
const PACKETS_FOR_ERROR: u64 = 10;

/// The nominal 98 % bound in standard deviations of the posterior.
const DEVIATIONS: f64 = 3.0;

/// A flow to decode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobFlow {
    /// Its index in the directory, where it may have been replaced since.
    pub number: FlowNumber,
    pub key: FlowKey,
    pub segment: u32,
    /// Its segment in the generation of the cells.
    pub index: SegmentIndex,
    /// The stamped sums of the same packets.
    pub counted: FlowSums,
}

/// One sketch and all flows in it.
#[derive(Debug)]
struct JobSketch {
    cells: Arc<DelayCells>,
    flows: Vec<JobFlow>,
}

/// What is to be decoded.
#[derive(Debug)]
struct Job {
    /// The last epoch.
    epoch: Epoch,
    epochs: u32,
    components: usize,
    sketches: Vec<JobSketch>,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) struct Results {
    /// The last epoch.
    pub epoch: Epoch,
    /// Epochs in the sum.
    pub epochs: u32,
    /// How long it took.
    pub duration: Duration,
    /// Flows that were to be decoded.
    pub flows: usize,
    /// Estimates of flows.
    pub estimates: Vec<(JobFlow, FlowEstimate)>,
    /// Median of |estimate - stamped mean| / stamped mean.
    pub error_ratio_median: Option<f64>,
    /// Sketches that could not be decoded.
    pub failed: usize,
}

/// `None` where it was stopped.
fn work(job: &Job, hasher: &Hasher, rate: TickRate, stop: &AtomicBool) -> Option<Results> {
    let began = Instant::now();
    let mut results = Results {
        epoch: job.epoch,
        epochs: job.epochs,
        duration: Duration::ZERO,
        flows: 0,
        estimates: Vec::new(),
        error_ratio_median: None,
        failed: 0,
    };
    let mut errors = Vec::new();
    for sketch in &job.sketches {
        results.flows += sketch.flows.len();
        let lists = Lists::new(sketch.cells.layout(), hasher, &sketch.flows);
        let options = options(job.components);
        let cancelled = || stop.load(Ordering::Relaxed);
        match decode(&sketch.cells, lists.table(), &options, cancelled) {
            Ok(decoded) => {
                for (flow, delay) in sketch.flows.iter().zip(&decoded.flows) {
                    let method = method(&decoded, delay, job.epochs);
                    let of = (job.epoch, job.epochs, flow.counted.packets);
                    let estimate = method.map(|method| estimate(method, delay, of, rate));
                    let Some(mut estimate) = estimate else {
                        continue;
                    };
                    judge(&mut estimate, flow, rate, &mut errors);
                    results.estimates.push((*flow, estimate));
                }
            }
            Err(_) if cancelled() => return None,
            Err(error) => {
                tracing::warn!(epoch = job.epoch.0, "a sketch cannot be decoded: {error}");
                results.failed += 1;
            }
        }
    }
    results.error_ratio_median = median(&mut errors);
    results.duration = began.elapsed();
    Some(results)
}

fn options(components: usize) -> DecodeOptions {
    DecodeOptions {
        components,
        sweeps: if components > 1 { 20 } else { 10 },
        ..DecodeOptions::default()
    }
}

/// Compares an estimate with the stamped mean of the same packets.
fn judge(estimate: &mut FlowEstimate, flow: &JobFlow, rate: TickRate, errors: &mut Vec<f64>) {
    let Some(stamped) = flow.counted.mean_ticks().map(|ticks| rate.to_ns(ticks)) else {
        return;
    };
    let error = (estimate.mean_ns - stamped).abs();
    estimate.is_within_bound = estimate.bound_ns.map(|bound| error <= bound);
    if flow.counted.packets >= PACKETS_FOR_ERROR && stamped > 0.0 {
        errors.push(error / stamped);
    }
}

fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// Flows as decoding takes them. Delays of two segments of one sketch may be unrelated (other classes,
/// other queues): each segment but one is a feature of its flows.
#[derive(Debug, Default)]
struct Lists {
    columns: Vec<u32>,
    packets: Vec<f64>,
    weights: Vec<f64>,
    segments: Vec<SegmentIndex>,
    features: Vec<f64>,
    features_per_flow: usize,
}

impl Lists {
    fn new(layout: &LdsLayout, hasher: &Hasher, flows: &[JobFlow]) -> Self {
        let mut lists = Self::default();
        for flow in flows {
            lists.add(
                layout,
                hasher,
                &flow.key,
                flow.index,
                flow.counted.packets as f64,
            );
        }
        lists.set_features();
        lists
    }

    /// Makes features of the segments with most flows, as many as decoding takes.
    fn set_features(&mut self) {
        let mut flows: BTreeMap<SegmentIndex, usize> = BTreeMap::new();
        for segment in &self.segments {
            *flows.entry(*segment).or_default() += 1;
        }
        let mut ranked: Vec<(usize, SegmentIndex)> = flows
            .into_iter()
            .map(|(segment, flows)| (flows, segment))
            .collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        // The last, or all that are too many, are the flows without a feature.
        ranked.truncate(ranked.len().saturating_sub(1).min(FEATURES_MAX));
        self.features_per_flow = ranked.len();
        let is = |segment, other| f64::from(u8::from(segment == other));
        let features = self
            .segments
            .iter()
            .flat_map(|&segment| ranked.iter().map(move |&(_, other)| is(segment, other)));
        self.features = features.collect();
    }

    /// `packets` is NaN where they are not known.
    fn add(
        &mut self,
        layout: &LdsLayout,
        hasher: &Hasher,
        key: &FlowKey,
        index: SegmentIndex,
        packets: f64,
    ) {
        let columns = layout.base_columns(hasher.flow_hash(key), index);
        self.columns.extend_from_slice(&columns[..layout.rows()]);
        self.segments.push(index);
        self.packets.push(packets);
        self.weights.push(f64::from(layout.weight(index)));
    }

    fn table(&self) -> FlowTable<'_> {
        FlowTable {
            columns: &self.columns,
            packets: Some(&self.packets),
            weights: Some(&self.weights),
            features: &self.features,
            features_per_flow: self.features_per_flow,
            known: None,
        }
    }
}

/// The method of an estimate; `None` where there is no estimate.
fn method(decoded: &Decoded, delay: &FlowDelay, epochs: u32) -> Option<FlowMethod> {
    match delay.source {
        Source::Joint if epochs > 1 => Some(FlowMethod::LdsJointSum),
        Source::Joint => Some(FlowMethod::LdsJoint),
        Source::Prior => Some(FlowMethod::LdsPrior),
        Source::Paper => Some(FlowMethod::LdsPaper),
        Source::SegmentMean if decoded.fallback.is_some() => Some(FlowMethod::LdsPaper),
        Source::SegmentMean | Source::Nothing => None,
    }
}

/// An estimate over (last epoch, epochs, the flow's packets in them).
fn estimate(
    method: FlowMethod,
    delay: &FlowDelay,
    (Epoch(epoch), epochs, packets): (Epoch, u32, u64),
    rate: TickRate,
) -> FlowEstimate {
    let bound_ns = rate.to_ns(DEVIATIONS * delay.variance_ticks2.sqrt());
    // A flow without a usable cell has lost packets. The prior is that of flows without losses, which
    // were faster.
    let is_bounded = method != FlowMethod::LdsPrior && bound_ns.is_finite();
    FlowEstimate {
        method,
        epoch,
        epochs,
        packets,
        mean_ns: rate.to_ns(delay.mean_ticks),
        bound_ns: is_bounded.then(|| bound_ns.max(rate.resolution_ns())),
        is_within_bound: None,
    }
}

#[cfg(test)]
mod tests;
