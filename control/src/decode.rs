//! Joint decoding of sketches: estimates for the flows that are tracked, epoch by epoch, and for any
//! flow that somebody asks about.
//!
//! ```text
//!  core: cells of an epoch + flows' counts --Job--> thread: measure::lds::decode --Results--> core
//!        one job under way at most; what comes meanwhile waits in one sum of epochs
//! ```
//!
//! The thread is not the control core's: decoding takes a good part of an epoch, and the core has a
//! filtering database, links and generations to tend every few milliseconds. Nothing queues up: while a
//! job is under way, epochs are added to one sum of cells, or go undecoded and are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use measure::lds::{
    DecodeOptions, Decoded, DelayCells, FlowDelay, FlowTable, LdsLayout, Source, decode,
};
use measure::packet::{FlowKey, Hasher};
use measure::sight::SegmentIndex;
use measure::time::{Epoch, TickRate};

use crate::flows::{FlowNumber, FlowSums};
use crate::snapshot::{FlowEstimate, FlowMethod};

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
    /// Its place in the directory, and who it has to be there.
    pub number: FlowNumber,
    pub key: FlowKey,
    pub segment: u32,
    /// Its segment in the generation of the cells.
    pub index: SegmentIndex,
    /// What stamps say of the same packets.
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

/// What came of it.
#[derive(Debug)]
pub(crate) struct Results {
    /// The last epoch.
    pub epoch: Epoch,
    /// Epochs in the sum.
    pub epochs: u32,
    /// How long it took.
    pub duration: Duration,
    /// Flows that were asked for.
    pub flows: usize,
    /// Estimates of flows.
    pub estimates: Vec<(JobFlow, FlowEstimate)>,
    /// Median of |estimate - stamped mean| / stamped mean.
    pub error_ratio_median: Option<f64>,
    /// Sketches that could not be decoded.
    pub failed: usize,
}

/// The thread that decodes.
#[derive(Debug)]
struct DecodeThread {
    jobs: Option<SyncSender<Job>>,
    results: Receiver<Results>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DecodeThread {
    fn start(hasher: Hasher, rate: TickRate) -> std::io::Result<Self> {
        let (jobs, to_do) = sync_channel::<Job>(1);
        let (done, results) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            while let Ok(job) = to_do.recv() {
                let Some(results) = work(&job, &hasher, rate, &stopped) else {
                    return;
                };
                if done.send(results).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("vernier-decode".to_owned())
            .spawn(work)?;
        Ok(Self {
            jobs: Some(jobs),
            results,
            stop,
            thread: Some(thread),
        })
    }

    /// Whether the job is under way; if not it is lost.
    fn give(&self, job: Job) -> bool {
        let given = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
        given.is_some_and(|given| given.is_ok())
    }

    fn take(&self) -> Option<Results> {
        self.results.try_recv().ok()
    }
}

impl Drop for DecodeThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        // A result that nobody takes must not hold it.
        while self.results.recv().is_ok() {}
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the decoding thread panicked");
        }
    }
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

/// Holds an estimate against the stamped mean of the same packets.
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

/// Flows as decoding takes them.
#[derive(Debug, Default)]
struct Lists {
    columns: Vec<u32>,
    packets: Vec<f64>,
    weights: Vec<f64>,
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
        lists
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
        self.packets.push(packets);
        self.weights.push(f64::from(layout.weight(index)));
    }

    fn table(&self) -> FlowTable<'_> {
        FlowTable {
            columns: &self.columns,
            packets: Some(&self.packets),
            weights: Some(&self.weights),
            features: &[],
            features_per_flow: 0,
        }
    }
}

/// What an estimate rests on; `None` where there is nothing that it could.
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
    FlowEstimate {
        method,
        epoch,
        epochs,
        packets,
        mean_ns: rate.to_ns(delay.mean_ticks),
        bound_ns: bound_ns
            .is_finite()
            .then(|| bound_ns.max(rate.resolution_ns())),
        is_within_bound: None,
    }
}

#[cfg(test)]
mod tests;
