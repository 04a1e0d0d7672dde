//! Joint decoding of sketches: estimates for tracked flows, epoch by epoch, and for any flow on request.
//!
//! ```text
//!  core: cells of an epoch + flows' counts --Job--> thread: measure::decoding --Results--> core
//!        at most one job in progress; epochs that close meanwhile are added to one sum
//! ```
//!
//! Decoding takes a good part of an epoch, and the core polls filtering database, links and generations
//! every few milliseconds, so decoding has its own thread. Nothing queues up: while a job is in progress,
//! epochs are added to one sum of cells, or are skipped and counted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use contract::config::Decode;
use contract::ids::GenerationId;
use measure::chooser::{self, Candidate, choose};
use measure::decoding::{CountedFlow, FlowDecoder, FlowMeans, of_references};
use measure::lds::DelayCells;
use measure::observation::SegmentIndex;
use measure::packet::{FlowKey, Hasher};
use measure::rli::{self, FlowDelay};
use measure::statistics::median;
use measure::time::{Epoch, TickRate};
use records::snapshot::{
    Decoding, FlowEstimate, FlowList, FlowMethod, FlowName, FlowRecord, JudgedEstimates,
    SegmentName, SketchedFlow,
};

use crate::background::{Background, ResultMode};
use crate::contain::Part;
use crate::flows::{Directory, FlowNumber, FlowSums};

/// A flow to decode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobFlow {
    /// Its index in the directory, which may since belong to another flow.
    pub number: FlowNumber,
    pub key: FlowKey,
    pub segment: u32,
    /// Its segment in the generation of the cells.
    pub index: SegmentIndex,
    /// The stamped sums of the same packets.
    pub counted: FlowSums,
    /// Estimates by references, if its segment has references.
    pub references: Option<(FlowDelay, rli::Method)>,
}

/// One sketch and all flows in it.
#[derive(Debug)]
struct JobSketch {
    cells: Arc<DelayCells>,
    flows: Vec<JobFlow>,
}

/// A decoding job.
#[derive(Debug)]
struct Job {
    /// The last epoch.
    epoch: Epoch,
    epochs: u32,
    components: usize,
    sketches: Vec<JobSketch>,
}

/// The result of a job.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// How long it took.
    pub duration: Duration,
    /// Number of flows to decode.
    pub flows: usize,
    /// Estimates of flows: the best one of each, followed by those of each method.
    pub estimates: Vec<(JobFlow, Arc<[FlowEstimate]>)>,
    /// Their comparison with stamps.
    pub verdicts: Verdicts,
    /// Sketches that could not be decoded.
    pub failed: usize,
}

/// `None` if it was stopped.
fn work(job: &Job, hasher: &Hasher, rate: TickRate, stop: &AtomicBool) -> Option<Results> {
    let began = Instant::now();
    let mut results = Results::default();
    for sketch in &job.sketches {
        results.flows += sketch.flows.len();
        let counted = sketch.flows.iter().map(|flow| CountedFlow {
            references: (flow.references.as_ref()).map(|(delay, method)| (delay, *method)),
            flow: hasher.flow_hash(&flow.key),
            segment: flow.index,
            packets: flow.counted.packets,
        });
        let counted: Vec<CountedFlow> = counted.collect();
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

/// Estimates of all flows of an epoch without decoding: by references, with `methods` by number of the segment.
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

/// Ticks in a nanosecond.
fn ticks_per_ns(rate: TickRate) -> f64 {
    1.0 / rate.to_ns(1.0)
}

/// The decoder for flows of a sketch of this switch.
fn decoder(cells: &DelayCells, components: usize, rate: TickRate) -> FlowDecoder<'_> {
    FlowDecoder {
        cells,
        components,
        ticks_per_ns: ticks_per_ns(rate),
        // A stamp is truncated to a whole tick.
        floor_ticks: 1.0,
        // A stream of references is one queue.
        is_fifo: true,
    }
}

/// The best estimate, followed by those of each method, over (last epoch, epochs, the flow's packets in them).
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

/// The published name of a method; `None` for methods without estimates of single flows.
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

/// The sketches of the last epoch, which contain every flow.
#[derive(Debug, Clone)]
pub struct Sketches {
    pub(crate) hasher: Hasher,
    pub(crate) rate: TickRate,
    pub(crate) components: usize,
    pub(crate) cells: EpochCells,
    /// By number of a segment.
    pub(crate) names: Vec<Arc<SegmentName>>,
}

/// Compares contents; all sketches of one switch have the same hash.
impl PartialEq for Sketches {
    fn eq(&self, other: &Self) -> bool {
        self.cells == other.cells
    }
}

impl Sketches {
    /// The flow `key` on every segment where it is not in `list`; empty if a sketch shows that there were
    /// no packets. Flows of the list are decoded together with it, so this takes some hundred milliseconds
    /// with 100,000 flows.
    pub fn ask(&self, key: &FlowKey, list: &FlowList) -> Vec<SketchedFlow> {
        let tracked = list.of(FlowName::Key(*key)).map(|record| record.segment);
        let tracked: HashSet<u32> = tracked.collect();
        let sketches = self.cells.sketches.iter().enumerate();
        let valid = sketches.filter_map(|(sketch, cells)| Some((sketch, cells.as_ref()?)));
        valid
            .flat_map(|(sketch, cells)| self.ask_one(sketch, cells, key, &tracked, list))
            .collect()
    }

    fn ask_one(
        &self,
        sketch: usize,
        cells: &DelayCells,
        key: &FlowKey,
        tracked: &HashSet<u32>,
        list: &FlowList,
    ) -> Vec<SketchedFlow> {
        let flow = self.hasher.flow_hash(key);
        let segments = (0..).zip(self.cells.segments.iter());
        let segments = segments.filter_map(|(number, at)| {
            let (index, _) = at.filter(|&(_, other)| other == sketch)?;
            (!tracked.contains(&number)).then_some((index, number))
        });
        let segments: Vec<(SegmentIndex, u32)> = segments.collect();
        let numbers: HashMap<SegmentIndex, u32> = segments.iter().copied().collect();
        let listed = self.listed(sketch, list);
        let asked = decoder(cells, self.components, self.rate)
            .ask(&listed, flow, segments.iter().map(|&(index, _)| index))
            .inspect_err(|error| tracing::warn!("a flow cannot be decoded: {error}"))
            .unwrap_or_default();
        let answers = asked.iter().filter_map(|asked| {
            let name = self.names.get(*numbers.get(&asked.segment)? as usize)?;
            let joint = asked.means.as_ref().and_then(|means| means.chosen);
            let joint = joint.filter(|chosen| chosen.method == chooser::Method::Joint);
            // If none of its packets arrived, its cells contain only other flows.
            let best = joint.filter(|_| asked.packets > 0).or(asked.paper);
            let of = (self.cells.epoch, 1, asked.packets);
            Some(SketchedFlow {
                segment: SegmentName::clone(name),
                packets_max: asked.packets,
                lost_packets_max: asked.lost,
                estimate: best.and_then(|best| estimate(&best, of, self.rate)),
            })
        });
        answers.collect()
    }

    /// The list's flows in a sketch with packets in its epoch.
    fn listed(&self, sketch: usize, list: &FlowList) -> Vec<CountedFlow<'_>> {
        let is_here = |record: &&FlowRecord| {
            record.last_epoch == self.cells.epoch.0 && record.last.packets > 0
        };
        let listed = list.flows.iter().filter(is_here).filter_map(|record| {
            let at = self.cells.segments.get(record.segment as usize);
            let (segment, _) = at?.filter(|&(_, other)| other == sketch)?;
            Some(CountedFlow {
                flow: self.hasher.flow_hash(record.key()?),
                segment,
                packets: record.last.packets,
                references: None,
            })
        });
        listed.collect()
    }
}

/// Sizes of flows: the least number of packets, and the name.
const SIZES: [(u64, &str); 4] = [
    (1, "1-9"),
    (10, "10-99"),
    (100, "100-999"),
    (1_000, "1000-"),
];

/// The method name for judging the best estimates.
const CHOSEN: &str = "chosen";

/// A method, and the index of a size.
type Kind = (&'static str, usize);

/// Comparison of estimates of one kind.
#[derive(Debug, Default)]
struct Verdict {
    within_bound: u64,
    beyond_bound: u64,
    without_bound: u64,
    error_ratios: Vec<f64>,
}

/// Comparison of one decoding's estimates.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    kinds: BTreeMap<Kind, Verdict>,
}

impl Verdicts {
    /// Compares the estimates of a flow, the best one followed by those of each method, and notes in each whether it
    /// is within its bound.
    pub fn judge(&mut self, estimates: &mut [FlowEstimate], counted: &FlowSums, rate: TickRate) {
        let Some(stamped_ns) = counted.mean_ticks().map(|ticks| rate.to_ns(ticks)) else {
            return;
        };
        let mut sizes = SIZES.iter();
        let size = sizes.rposition(|&(least, _)| counted.packets >= least);
        for (nth, estimate) in estimates.iter_mut().enumerate() {
            let error_ns = (estimate.mean_ns - stamped_ns).abs();
            estimate.is_within_bound = estimate.bound_ns.map(|bound_ns| error_ns <= bound_ns);
            let method = if nth == 0 {
                CHOSEN
            } else {
                estimate.method.label()
            };
            let verdict = self.kinds.entry((method, size.unwrap_or(0))).or_default();
            *match estimate.is_within_bound {
                Some(true) => &mut verdict.within_bound,
                Some(false) => &mut verdict.beyond_bound,
                None => &mut verdict.without_bound,
            } += 1;
            if stamped_ns > 0.0 {
                verdict.error_ratios.push(error_ns / stamped_ns);
            }
        }
    }
}

/// Comparison of all estimates so far.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    kinds: BTreeMap<Kind, JudgedEstimates>,
}

impl Judgement {
    /// Adds further comparisons.
    pub fn add(&mut self, verdicts: Verdicts) {
        for ((method, size), mut verdict) in verdicts.kinds {
            let judged = self
                .kinds
                .entry((method, size))
                .or_insert_with(|| JudgedEstimates {
                    method: method.to_owned(),
                    size: SIZES[size].1.to_owned(),
                    within_bound: 0,
                    beyond_bound: 0,
                    without_bound: 0,
                    error_ratio_median: None,
                });
            judged.within_bound += verdict.within_bound;
            judged.beyond_bound += verdict.beyond_bound;
            judged.without_bound += verdict.without_bound;
            judged.error_ratio_median = median(&mut verdict.error_ratios);
        }
    }

    /// By method and size of flows.
    pub fn shown(&self) -> Vec<JudgedEstimates> {
        self.kinds.values().cloned().collect()
    }
}

/// The sketches of an epoch, merged over all workers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EpochCells {
    pub epoch: Epoch,
    pub generation: GenerationId,
    /// By sketch; `None` if it is invalid because a link was disturbed.
    pub sketches: Vec<Option<Arc<DelayCells>>>,
    /// By number of a segment: its index in the generation, and its sketch.
    pub segments: Arc<Vec<Option<(SegmentIndex, usize)>>>,
    /// By number of a segment: how delays between its references are estimated.
    pub methods: Arc<Vec<Option<rli::Method>>>,
}

/// Epochs to be decoded together.
#[derive(Debug)]
struct Sum {
    cells: EpochCells,
    epochs: u32,
}

/// Decides when to decode, and keeps counts.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// If results are awaited, they took no time.
    mode: ResultMode,
    thread: Option<Background<Job, Results>>,
    interval: Duration,
    settings: Option<Decode>,
    /// The decoding in progress: the last epoch, and the number of epochs.
    under_way: Option<(Epoch, u32)>,
    /// Whether epochs are summed because one takes too long.
    sums: bool,
    sum: Option<Sum>,
    given_at: Option<Instant>,
    shown: Decoding,
    /// Comparison of estimates with stamps.
    pub judged: Judgement,
}

impl Decoder {
    /// A decoder that is off.
    pub fn new(mode: ResultMode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }

    /// Applies settings; the thread is started when first needed.
    pub fn set(
        &mut self,
        settings: Option<Decode>,
        interval: Duration,
        hasher: &Hasher,
        rate: TickRate,
    ) {
        self.interval = interval;
        if settings.is_some() && self.thread.is_none() {
            let hasher = hasher.clone();
            let work = move |job: Job, stop: &_| work(&job, &hasher, rate, stop);
            self.thread = Background::start(Part::Decode, "vernier-decode", self.mode, work);
        }
        self.settings = settings;
        if self.settings.is_none() {
            self.drop_sum();
        }
    }

    /// The published state; `None` if nothing is decoded.
    pub fn shown(&self) -> Option<Decoding> {
        self.settings.as_ref().map(|_| self.shown)
    }

    /// Counts epochs that closed faster than they were taken.
    pub fn skip(&mut self, epochs: u64) {
        if self.settings.is_some() {
            self.shown.skipped_epochs += epochs;
        }
    }

    /// Takes a closed epoch. Returns whether its estimates are being computed, and expected within the next
    /// epoch.
    pub fn close(&mut self, cells: &EpochCells, flows: &mut Directory, now: Instant) -> bool {
        let Some(settings) = self.settings.clone() else {
            return false;
        };
        if !self.sums && self.under_way.is_none() {
            self.drop_sum();
            let job = self.job(&settings, cells, 1, flows, |flow| {
                (flow.last == cells.epoch).then_some((flow.recent, flow.recent_references))
            });
            return self.give(job, now);
        }
        self.add(cells, flows);
        let is_due = self.given_at.is_none_or(|at| {
            now.saturating_duration_since(at) >= Duration::from_secs(settings.interval_s.into())
        });
        if is_due
            && self.under_way.is_none()
            && let Some(sum) = self.sum.take()
        {
            let job = self.job(&settings, &sum.cells, sum.epochs, flows, |flow| {
                let pending = std::mem::take(&mut flow.pending);
                Some((pending, std::mem::take(&mut flow.pending_references)))
            });
            self.give(job, now);
        }
        false
    }

    /// Adds an epoch to the sum. A new generation starts a new sum; an epoch with an invalid sketch is left
    /// out.
    fn add(&mut self, cells: &EpochCells, flows: &mut Directory) {
        let sum = self.sum.as_ref();
        if sum.is_some_and(|sum| sum.cells.generation != cells.generation) {
            self.drop_sum();
        }
        if cells.sketches.iter().any(Option::is_none) {
            self.shown.skipped_epochs += 1;
            return;
        }
        let is_first = self.sum.is_none();
        if let Some(sum) = &mut self.sum {
            for (sum, more) in sum.cells.sketches.iter_mut().zip(&cells.sketches) {
                if let (Some(sum), Some(more)) = (sum, more)
                    && let Err(error) = Arc::make_mut(sum).add_epoch(more)
                {
                    tracing::error!("cannot add up sketches of one generation: {error}");
                }
            }
            sum.epochs += 1;
            sum.cells.epoch = cells.epoch;
        } else {
            let cells = cells.clone();
            self.sum = Some(Sum { cells, epochs: 1 });
        }
        for (_, flow) in flows.numbered_mut() {
            if is_first {
                flow.pending = FlowSums::default();
                flow.pending_references = FlowDelay::default();
            }
            if flow.last == cells.epoch {
                let recent = flow.recent;
                flow.pending.add(&recent);
                flow.pending_references.merge(&flow.recent_references);
            }
        }
    }

    /// Drops the sum; its epochs will not be decoded.
    pub fn drop_sum(&mut self) {
        let epochs = self.sum.take().map_or(0, |sum| sum.epochs);
        self.shown.skipped_epochs += u64::from(epochs);
    }

    fn job(
        &mut self,
        settings: &Decode,
        cells: &EpochCells,
        epochs: u32,
        flows: &mut Directory,
        mut counted: impl FnMut(&mut crate::flows::Flow) -> Option<(FlowSums, FlowDelay)>,
    ) -> Job {
        let sketches = cells.sketches.iter().map(|cells| {
            Some(JobSketch {
                cells: Arc::clone(cells.as_ref()?),
                flows: Vec::new(),
            })
        });
        let mut sketches: Vec<Option<JobSketch>> = sketches.collect();
        for (number, flow) in flows.numbered_mut() {
            let counted = counted(flow).filter(|(counted, _)| counted.packets > 0);
            let Some((counted, delay)) = counted else {
                continue;
            };
            let at = cells.segments.get(flow.segment as usize).copied().flatten();
            if let Some((index, sketch)) = at
                && let Some(Some(sketch)) = sketches.get_mut(sketch)
            {
                sketch.flows.push(JobFlow {
                    number,
                    key: flow.key,
                    segment: flow.segment,
                    index,
                    counted,
                    references: (cells.methods.get(flow.segment as usize).copied().flatten())
                        .map(|method| (delay, method)),
                });
            }
        }
        if sketches.iter().any(Option::is_none) {
            self.shown.skipped_epochs += u64::from(epochs);
        }
        let sketches = sketches.into_iter().flatten();
        let with_flows = sketches.filter(|sketch| !sketch.flows.is_empty());
        Job {
            epoch: cells.epoch,
            epochs,
            components: settings.components.into(),
            sketches: with_flows.collect(),
        }
    }

    fn give(&mut self, job: Job, now: Instant) -> bool {
        let (epoch, epochs) = (job.epoch, job.epochs);
        let is_given = self.thread.as_mut().is_some_and(|thread| thread.give(job));
        if !is_given {
            self.shown.skipped_epochs += u64::from(epochs);
            return false;
        }
        self.under_way = Some((epoch, epochs));
        self.given_at = Some(now);
        if epochs > 1 {
            self.shown.summed_epochs += u64::from(epochs);
        }
        true
    }

    /// Enters newly decoded estimates into the directory; returns their last epoch, even if there was no
    /// result.
    pub fn take(&mut self, flows: &mut Directory) -> Option<Epoch> {
        let results = self.thread.as_mut()?.take()?;
        let (epoch, epochs) = self.under_way.take()?;
        let Ok(results) = results else {
            self.shown.skipped_epochs += u64::from(epochs);
            return Some(epoch);
        };
        self.sums = self.mode == ResultMode::Polled && results.duration > self.interval * 4 / 5;
        let shown = &mut self.shown;
        shown.epoch = Some(epoch.0);
        shown.epochs = epochs;
        shown.flows = results.flows as u64;
        shown.duration_s = results.duration.as_secs_f64();
        shown.runs += 1;
        if results.failed > 0 {
            shown.skipped_epochs += u64::from(epochs);
        }
        self.judged.add(results.verdicts);
        for (of, estimates) in results.estimates {
            if let Some(flow) = flows.flow_mut(of.number, of.key, of.segment) {
                flow.estimates = Some(estimates);
            }
        }
        Some(epoch)
    }
}

#[cfg(test)]
mod tests;
