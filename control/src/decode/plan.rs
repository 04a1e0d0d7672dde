//! Which epochs are decoded, alone or in a sum.

use std::sync::Arc;
use std::time::{Duration, Instant};

use measure::lds::DelayCells;
use measure::observation::SegmentIndex;
use measure::packet::Hasher;
use measure::rli::{FlowDelay, Method};
use measure::time::{Epoch, TickRate};

use super::judge::Judgement;
use super::{Job, JobFlow, JobSketch, Results, work};
use crate::background::{Background, ResultMode};
use crate::contain::Part;
use crate::flows::{Directory, FlowSums};
use contract::config::Decode;
use contract::ids::GenerationId;
use records::snapshot::Decoding;

/// The sketches of an epoch, as all workers filled them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EpochCells {
    pub epoch: Epoch,
    pub generation: GenerationId,
    /// By sketch; `None` where it is not valid, since a link was disturbed.
    pub sketches: Vec<Option<Arc<DelayCells>>>,
    /// By number of a segment: its index in the generation, and its sketch.
    pub segments: Arc<Vec<Option<(SegmentIndex, usize)>>>,
    /// Likewise: how delays between its references are estimated.
    pub methods: Arc<Vec<Option<Method>>>,
}

/// Epochs that wait to be decoded together.
#[derive(Debug)]
struct Sum {
    cells: EpochCells,
    epochs: u32,
}

/// Decides when to decode, and keeps count.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// Where results are awaited, they took no time.
    mode: ResultMode,
    thread: Option<Background<Job, Results>>,
    interval: Duration,
    settings: Option<Decode>,
    /// What is being decoded: the last epoch, and how many.
    under_way: Option<(Epoch, u32)>,
    /// Epochs are summed, since one takes too long.
    sums: bool,
    sum: Option<Sum>,
    given_at: Option<Instant>,
    shown: Decoding,
    /// How estimates compare with stamps.
    pub judged: Judgement,
}

impl Decoder {
    /// Not decoding yet.
    pub fn new(mode: ResultMode) -> Self {
        Self {
            mode,
            thread: None,
            interval: Duration::ZERO,
            settings: None,
            under_way: None,
            sums: false,
            sum: None,
            given_at: None,
            shown: Decoding::default(),
            judged: Judgement::default(),
        }
    }

    /// Takes new settings; the thread is started when it is first needed.
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
            self.thread = Background::start(Part::Decode, "vernier-decode", self.mode, work)
                .inspect_err(|error| {
                    tracing::error!("the system gives no thread to decode with: {error}");
                })
                .ok();
        }
        self.settings = settings;
        if self.settings.is_none() {
            self.drop_sum();
        }
    }

    /// What is published of it; `None` where nothing is decoded.
    pub fn shown(&self) -> Option<Decoding> {
        self.settings.as_ref().map(|_| self.shown)
    }

    /// Epochs closed faster than they were taken.
    pub fn skip(&mut self, epochs: u64) {
        if self.settings.is_some() {
            self.shown.skipped_epochs += epochs;
        }
    }

    /// Takes an epoch that has closed. Whether its estimates are under way, and expected within the next
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

    /// Adds an epoch to the sum. A new generation begins a new sum; an epoch with a sketch that is not valid
    /// is left out.
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
        match &mut self.sum {
            None => {
                self.sum = Some(Sum {
                    cells: cells.clone(),
                    epochs: 1,
                });
            }
            Some(sum) => {
                let pairs = sum.cells.sketches.iter_mut().zip(&cells.sketches);
                for (sum, more) in pairs {
                    if let (Some(sum), Some(more)) = (sum, more)
                        && let Err(error) = Arc::make_mut(sum).add_epoch(more)
                    {
                        tracing::error!("sketches of one generation do not add up: {error}");
                    }
                }
                sum.epochs += 1;
                sum.cells.epoch = cells.epoch;
            }
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

    /// Epochs that were summed will not be decoded.
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
        let mut sketches: Vec<Option<JobSketch>> = cells
            .sketches
            .iter()
            .map(|cells| {
                Some(JobSketch {
                    cells: Arc::clone(cells.as_ref()?),
                    flows: Vec::new(),
                })
            })
            .collect();
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
        let sketches: Vec<JobSketch> = sketches.into_iter().flatten().collect();
        if sketches.len() < cells.sketches.len() {
            self.shown.skipped_epochs += u64::from(epochs);
        }
        Job {
            epoch: cells.epoch,
            epochs,
            components: settings.components.into(),
            sketches: sketches
                .into_iter()
                .filter(|sketch| !sketch.flows.is_empty())
                .collect(),
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

    /// Enters what has been decoded since the last time into the directory; the last epoch of it, even
    /// where it gave no result.
    pub fn take(&mut self, flows: &mut Directory) -> Option<Epoch> {
        let results = self.thread.as_mut()?.take()?;
        let (epoch, epochs) = self.under_way.take()?;
        let Ok(results) = results else {
            self.shown.skipped_epochs += u64::from(epochs);
            return Some(epoch);
        };
        self.sums = self.mode == ResultMode::Polled && results.duration > self.interval * 4 / 5;
        let Results {
            epoch,
            epochs,
            duration,
            flows: number,
            estimates,
            verdicts,
            failed,
        } = results;
        let shown = &mut self.shown;
        shown.epoch = Some(epoch.0);
        shown.epochs = epochs;
        shown.flows = number as u64;
        shown.duration_s = duration.as_secs_f64();
        shown.runs += 1;
        if failed > 0 {
            shown.skipped_epochs += u64::from(epochs);
        }
        self.judged.add(verdicts);
        for (of, estimates) in estimates {
            if let Some(flow) = flows.flow_mut(of.number, of.key, of.segment) {
                flow.estimates = Some(estimates);
            }
        }
        Some(epoch)
    }
}
