//! Joint decoding of sketches: estimates for the flows that are tracked, epoch by epoch, and for any
//! flow on request.
//!
//! ```text
//!  core: cells of an epoch + flows' counts --Job--> thread: measure::decoding --Results--> core
//!        one job under way at most; what comes meanwhile waits in one sum of epochs
//! ```
//!
//! The thread is not the control core's: decoding takes a good part of an epoch, and the core polls
//! filtering database, links and generations every few milliseconds. Nothing queues up: while a job is
//! under way, epochs are added to one sum of cells, or are skipped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use measure::chooser::{self, Candidate, choose};
use measure::decoding::{CountedFlow, FlowDecoder, FlowMeans, of_references};
use measure::lds::DelayCells;
use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, FlowKey, Hasher};
use measure::rli::{self, FlowDelay};
use measure::time::{Epoch, TickRate};

use crate::flows::{Directory, FlowNumber, FlowSums};
use records::snapshot::{FlowEstimate, FlowMethod};

mod ask;
mod judge;
mod plan;

pub use ask::Sketches;
pub(crate) use judge::Verdicts;
pub(crate) use plan::{Decoder, EpochCells};

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
    /// What references say of them, where its segment has any.
    pub references: Option<(FlowDelay, rli::Method)>,
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
    /// Estimates of flows: of each the one to use, and behind it those by each method.
    pub estimates: Vec<(JobFlow, Arc<[FlowEstimate]>)>,
    /// How they compare with stamps.
    pub verdicts: Verdicts,
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
        verdicts: Verdicts::default(),
        failed: 0,
    };
    for sketch in &job.sketches {
        results.flows += sketch.flows.len();
        let counted = sketch.flows.iter().map(|flow| Counted {
            references: (flow.references.as_ref()).map(|(delay, method)| (delay, *method)),
            ..Counted::new(
                hasher.flow_hash(&flow.key),
                flow.index,
                flow.counted.packets,
            )
        });
        let counted: Vec<Counted> = counted.collect();
        let cancelled = || stop.load(Ordering::Relaxed);
        match decoder(&sketch.cells, job.components, rate).decode(&counted, cancelled) {
            Ok(decoded) => {
                for (flow, means) in sketch.flows.iter().zip(&decoded.flows) {
                    let of = (job.epoch, job.epochs, flow.counted.packets);
                    let mut estimates = estimates(means, of, rate);
                    if estimates.is_empty() {
                        continue;
                    }
                    (results.verdicts).judge(&mut estimates, &flow.counted, rate);
                    results.estimates.push((*flow, Arc::from(estimates)));
                }
            }
            Err(_) if cancelled() => return None,
            Err(error) => {
                tracing::warn!(epoch = job.epoch.0, "a sketch cannot be decoded: {error}");
                results.failed += 1;
            }
        }
    }
    results.duration = began.elapsed();
    Some(results)
}

/// Estimates of all flows of an epoch where nothing is decoded: by references, with `methods` by number of a segment.
pub(crate) fn by_references(
    flows: &mut Directory,
    epoch: Epoch,
    methods: &[Option<rli::Method>],
    rate: TickRate,
) -> Verdicts {
    let mut verdicts = Verdicts::default();
    for (_, flow) in flows.numbered_mut() {
        let method = methods.get(flow.segment as usize).copied().flatten();
        let candidate = method.filter(|_| flow.last == epoch).and_then(|method| {
            let references = (&flow.recent_references, method);
            of_references(references, flow.recent.packets, ticks_per_ns(rate))
        });
        let means = FlowMeans {
            candidates: candidate.into_iter().collect(),
            chosen: choose(candidate, 1.0),
        };
        let mut estimates = estimates(&means, (epoch, 1, flow.recent.packets), rate);
        verdicts.judge(&mut estimates, &flow.recent, rate);
        if !estimates.is_empty() {
            flow.estimates = Some(Arc::from(estimates));
        }
    }
    verdicts
}

/// What a nanosecond is in ticks.
fn ticks_per_ns(rate: TickRate) -> f64 {
    1.0 / rate.to_ns(1.0)
}

/// How the flows of a sketch of this switch are decoded.
fn decoder(cells: &DelayCells, components: usize, rate: TickRate) -> FlowDecoder<'_> {
    FlowDecoder {
        cells,
        components,
        ticks_per_ns: ticks_per_ns(rate),
        // A stamp is cut to a whole tick.
        floor_ticks: 1.0,
        // A stream of references is one queue.
        is_fifo: true,
    }
}

/// A flow as decoding takes it.
struct Counted<'f> {
    flow: FlowHash,
    segment: SegmentIndex,
    packets: u64,
    references: Option<(&'f FlowDelay, rli::Method)>,
}

impl Counted<'_> {
    /// Without references.
    fn new(flow: FlowHash, segment: SegmentIndex, packets: u64) -> Self {
        Self {
            flow,
            segment,
            packets,
            references: None,
        }
    }
}

impl CountedFlow for Counted<'_> {
    fn flow(&self) -> FlowHash {
        self.flow
    }

    fn segment(&self) -> SegmentIndex {
        self.segment
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn references(&self) -> Option<(&FlowDelay, rli::Method)> {
        self.references
    }
}

/// The estimate to use, and behind it those by each method, over (last epoch, epochs, the flow's packets in them).
fn estimates(means: &FlowMeans, of: (Epoch, u32, u64), rate: TickRate) -> Vec<FlowEstimate> {
    let estimate = |candidate| estimate(candidate, of, rate);
    (means.chosen.iter().chain(&means.candidates))
        .filter_map(estimate)
        .collect()
}

fn estimate(
    candidate: &Candidate,
    (Epoch(epoch), epochs, packets): (Epoch, u32, u64),
    rate: TickRate,
) -> Option<FlowEstimate> {
    let bound_ns = rate.to_ns(candidate.bound_ticks);
    Some(FlowEstimate {
        method: match published(candidate.method)? {
            FlowMethod::LdsJoint if epochs > 1 => FlowMethod::LdsJointSum,
            method => method,
        },
        epoch,
        epochs,
        packets,
        mean_ns: rate.to_ns(candidate.mean_ticks),
        bound_ns: bound_ns
            .is_finite()
            .then(|| bound_ns.max(rate.resolution_ns())),
        is_within_bound: None,
    })
}

/// A method as it is published; `None` for those that say nothing of single flows.
pub(crate) fn published(method: chooser::Method) -> Option<FlowMethod> {
    Some(match method {
        chooser::Method::Joint => FlowMethod::LdsJoint,
        chooser::Method::Hybrid => FlowMethod::Hybrid,
        chooser::Method::Combined => FlowMethod::Combined,
        chooser::Method::LdsPaper => FlowMethod::LdsPaper,
        chooser::Method::Prior => FlowMethod::LdsPrior,
        chooser::Method::Rli(rli::Method::Left) => FlowMethod::RliL,
        chooser::Method::Rli(rli::Method::Linear) => FlowMethod::Rli,
        chooser::Method::Rli(rli::Method::Sums) => FlowMethod::RliS,
        chooser::Method::Rli(rli::Method::AnchoredSums) => FlowMethod::RliAs,
        chooser::Method::Stamped | chooser::Method::Lda => return None,
    })
}

#[cfg(test)]
mod tests;
