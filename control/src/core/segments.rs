//! Segments and sketches from epoch to epoch, over generations.

use std::collections::{HashMap, HashSet, VecDeque};

use measure::cell::Cell;
use measure::lds::DelayCells;
use measure::observation::SegmentIndex;
use measure::rli::Method;
use measure::shard::Shard;
use measure::time::{Epoch, TickRate};

use super::classes::Classes;
use super::segment::{self, SegmentState};
use crate::contain::{Part, contain};
use crate::decode::EpochCells;
use crate::estimate;
use crate::merge::Closed;
use contract::change::Change;
use contract::config;
use contract::ids::{GenerationId, PortIndex};
use records::snapshot::{ClassDelays, Segment, SegmentName, Sketch, UnusableEpochs};
use std::sync::Arc;

/// All segments. One that is in both of two generations, by the names of its ports and its class, keeps
/// its number and its totals.
#[derive(Debug)]
pub(super) struct Segments {
    rate: TickRate,
    /// By number; `None` for numbers that are free.
    states: Vec<Option<SegmentState>>,
    numbers: HashMap<Arc<SegmentName>, u32>,
    vacant: Vec<u32>,
    classes: Classes,
    /// One for each generation that is alive, the newest last.
    plans: VecDeque<Plan>,
    /// By port: the last figures of its sketch.
    sketches: Vec<Option<Sketch>>,
    /// By port: epochs in which its link went down or came up, first and last.
    disturbed: Vec<Option<(Epoch, Epoch)>>,
    /// The sketches of the last whole epoch, until they are taken.
    cells: Option<EpochCells>,
    /// Epochs whose sketches were replaced before they were taken.
    untaken_cells: u64,
}

/// Which segments and sketches a generation has.
#[derive(Debug)]
struct Plan {
    generation: GenerationId,
    interval_ms: u32,
    /// In the order of the shards'.
    segments: Vec<config::Segment>,
    /// Their numbers.
    numbers: Vec<u32>,
    /// The port of each sketch, and its name.
    sketches: Vec<(usize, String)>,
    /// By number of a segment: its index, and its sketch.
    by_number: Arc<Vec<Option<(SegmentIndex, usize)>>>,
    /// By number of a segment: how delays between references are estimated.
    methods: Arc<Vec<Option<Method>>>,
    /// A sketch without packets.
    empty: Option<Arc<DelayCells>>,
}

impl Segments {
    pub fn new(rate: TickRate) -> Self {
        Self {
            rate,
            states: Vec::new(),
            numbers: HashMap::new(),
            vacant: Vec::new(),
            classes: Classes::default(),
            plans: VecDeque::new(),
            sketches: Vec::new(),
            disturbed: Vec::new(),
            cells: None,
            untaken_cells: 0,
        }
    }

    /// Adds the segments of a new generation.
    pub fn begin(&mut self, change: &Change) {
        let config = &change.config;
        let config::Resolved {
            segments,
            rli_methods,
            sketch_ports,
            ..
        } = config.resolve();
        let numbers: Vec<u32> = segments
            .iter()
            .map(|segment| self.number_for(segment::name(config, segment)))
            .collect();
        let mut by_number = vec![None; self.states.len()];
        let mut methods = vec![None; self.states.len()];
        for (segment, &number) in segments.iter().zip(&numbers) {
            let method = rli_methods[segment.egress];
            methods[number as usize] = method.filter(|_| segment.is_inside());
        }
        for (index, &number) in (0..).zip(&numbers) {
            let sketch = change.layout.sketch_of.get(usize::from(index));
            by_number[number as usize] =
                sketch.map(|&sketch| (SegmentIndex(index), usize::from(sketch)));
        }
        let sketches = sketch_ports.into_iter().filter_map(|port| {
            let name = &config.ports.get(port)?.name;
            Some((port, name.clone()))
        });
        let ports = config.ports.len().max(self.disturbed.len());
        self.sketches.resize(ports, None);
        self.disturbed.resize(ports, None);
        self.plans.push_back(Plan {
            generation: change.number,
            interval_ms: config.measurement.interval_ms,
            numbers,
            sketches: sketches.collect(),
            by_number: Arc::new(by_number),
            methods: Arc::new(methods),
            empty: change.layout.lds.as_ref().map(|layout| {
                let nothing =
                    std::iter::repeat_n((Cell::default(), Cell::default()), layout.cells());
                Arc::new(DelayCells::from_halves(layout, nothing))
            }),
            segments,
        });
    }

    fn number_for(&mut self, name: SegmentName) -> u32 {
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let name = Arc::new(name);
        let state = Some(SegmentState::new(Arc::clone(&name), self.rate));
        let number = if let Some(number) = self.vacant.pop() {
            self.states[number as usize] = state;
            number
        } else {
            // Each of two generations has 65,536 at most.
            let number = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
            assert!(number < u32::MAX, "too many segments");
            self.states.push(state);
            number
        };
        self.numbers.insert(name, number);
        number
    }

    /// A generation is over: segments that no other has are forgotten.
    pub fn end(&mut self, generation: GenerationId) {
        let is_over = |plan: &Plan| plan.generation == generation;
        let index = self.plans.iter().position(is_over);
        let Some(plan) = index.and_then(|index| self.plans.remove(index)) else {
            return;
        };
        let others = self.plans.iter().flat_map(|plan| &plan.numbers);
        let kept: HashSet<u32> = others.copied().collect();
        for number in plan.numbers {
            if kept.contains(&number) {
                continue;
            }
            if let Some(state) = self.states[number as usize].take() {
                self.numbers.remove(&state.name);
                self.vacant.push(number);
            }
        }
        let states = &self.states;
        let is_of = |class: &str, state: &SegmentState| state.name.class == class;
        (self.classes).retain(|class| states.iter().flatten().any(|state| is_of(class, state)));
    }

    fn plan(&self, generation: GenerationId) -> Option<&Plan> {
        let mut plans = self.plans.iter();
        plans.find(|plan| plan.generation == generation)
    }

    /// The number of a generation's segment.
    pub fn number_of(
        &self,
        generation: GenerationId,
        SegmentIndex(index): SegmentIndex,
    ) -> Option<u32> {
        let plan = self.plan(generation)?;
        plan.numbers.get(usize::from(index)).copied()
    }

    /// The names of all segments, by number; empty ones where there is none.
    pub fn names(&self) -> Vec<Arc<SegmentName>> {
        let states = self.states.iter();
        let name = |state: &Option<SegmentState>| {
            state
                .as_ref()
                .map_or_else(Arc::default, |state| Arc::clone(&state.name))
        };
        states.map(name).collect()
    }

    /// By number of a segment of the newest generation: how delays between its references are estimated.
    pub fn rli_methods(&self) -> Arc<Vec<Option<Method>>> {
        let newest = self.plans.back();
        newest.map_or_else(Arc::default, |plan| Arc::clone(&plan.methods))
    }

    /// The link of a port went down or came up in epoch `present`. It and the epoch before are
    /// disturbed: the change was seen some time after it happened.
    pub fn disturb(&mut self, port: PortIndex, present: Epoch) {
        let Some(disturbed) = self.disturbed.get_mut(port.index()) else {
            return;
        };
        let first = Epoch(present.0.saturating_sub(1));
        *disturbed = match *disturbed {
            // An epoch or two between two flaps that are close may be lost without need.
            Some((earlier, last)) if last.0 + 4 > first.0 => Some((earlier, present)),
            _ => Some((first, present)),
        };
    }

    fn is_disturbed(&self, port: usize, epoch: Epoch) -> bool {
        let disturbed = self.disturbed.get(port).copied().flatten();
        disturbed.is_some_and(|(first, last)| (first..=last).contains(&epoch))
    }

    /// Adds an epoch that has closed; returns it.
    pub fn close(&mut self, closed: &Closed<'_, Shard>) -> Epoch {
        match *closed {
            Closed::Whole(epoch, generation, sum) => {
                self.add(epoch, generation, sum);
                epoch
            }
            Closed::Missed(epoch, epochs) => {
                tracing::debug!(epoch = epoch.0, epochs, "epochs went unmeasured");
                self.count_unusable(|unusable| unusable.missed_shard += epochs);
                epoch
            }
            Closed::Mixed(epoch) => {
                tracing::debug!(epoch = epoch.0, "epoch measured in two generations");
                self.count_unusable(|unusable| unusable.generation += 1);
                epoch
            }
            Closed::Spoiled(epoch) => {
                self.spoil();
                epoch
            }
        }
    }

    /// A fault of this program cost an epoch.
    pub fn spoil(&mut self) {
        self.count_unusable(|unusable| unusable.internal += 1);
    }

    fn count_unusable(&mut self, count: impl Fn(&mut UnusableEpochs)) {
        for state in self.states.iter_mut().flatten() {
            count(&mut state.unusable);
        }
    }

    fn add(&mut self, epoch: Epoch, generation: GenerationId, sum: &Shard) {
        let Some(plan) = self.plans.iter().find(|plan| plan.generation == generation) else {
            return;
        };
        let numbered = plan.segments.iter().zip(&plan.numbers);
        for ((segment, &number), synopsis) in numbered.zip(sum.segments()) {
            let is_disturbed = self.is_disturbed(segment.ingress, epoch)
                || self.is_disturbed(segment.egress, epoch);
            let Some(Some(state)) = self.states.get_mut(number as usize) else {
                continue;
            };
            let (rate, interval_ms) = (self.rate, plan.interval_ms);
            let method = plan.methods.get(number as usize).copied().flatten();
            let added = contain(Part::Estimate, || {
                state.add(epoch, synopsis, is_disturbed, method, rate, interval_ms)?;
                if is_disturbed || !segment.is_inside() {
                    return Ok(());
                }
                self.classes.add(&state.name, synopsis, rate)
            });
            match added {
                Some(Ok(())) => (),
                Some(Err(error)) => {
                    tracing::error!(epoch = epoch.0, "totals not added to: {error}");
                }
                None => state.unusable.internal += 1,
            }
        }
        let closed = contain(Part::Estimate, || {
            self.classes.close(epoch, plan.interval_ms, self.rate)
        });
        if let Some(Err(error)) = closed {
            tracing::error!(epoch = epoch.0, "not added to the last minute: {error}");
        }
        let mut cells = Vec::with_capacity(plan.sketches.len());
        for (index, (port, name)) in plan.sketches.iter().enumerate() {
            if self.is_disturbed(*port, epoch) {
                cells.push(None);
                continue;
            }
            let sketch = contain(Part::Estimate, || {
                estimate::sketch(epoch, sum, index, self.rate)
            });
            let Some(Some(sketch)) = sketch else {
                continue;
            };
            let filled = (sketch.filled_cells > 0).then(|| sum.sketches().get(index));
            let filled = filled.flatten().map(|sketch| Arc::new(sketch.delays()));
            cells.push(filled.or_else(|| plan.empty.clone()));
            self.sketches[*port] = Some(Sketch {
                port: name.clone(),
                ..sketch
            });
        }
        if !cells.is_empty() {
            let cells = EpochCells {
                epoch,
                generation,
                sketches: cells,
                segments: Arc::clone(&plan.by_number),
                methods: Arc::clone(&plan.methods),
            };
            self.untaken_cells += u64::from(self.cells.replace(cells).is_some());
        }
    }

    /// The sketches of the last whole epoch, if they were not taken yet, and how many epochs' were
    /// not taken before they were replaced.
    pub fn take_cells(&mut self) -> (Option<EpochCells>, u64) {
        (self.cells.take(), std::mem::take(&mut self.untaken_cells))
    }

    /// Whether there is a segment of that number.
    pub fn is_known(&self, number: u32) -> bool {
        matches!(self.states.get(number as usize), Some(Some(_)))
    }

    /// The newest generation's segments, in the order of the configuration; `present` is the epoch that is open.
    pub fn publish(&self, present: Epoch) -> Vec<Segment> {
        let Some(Plan {
            segments,
            numbers,
            interval_ms,
            ..
        }) = self.plans.back()
        else {
            return Vec::new();
        };
        let published = segments
            .iter()
            .zip(numbers)
            .filter_map(|(segment, &number)| {
                let state = self.states.get(number as usize)?.as_ref()?;
                Some(Segment {
                    is_around: !segment.is_inside(),
                    ..state.segment(present, *interval_ms, self.rate)
                })
            });
        published.collect()
    }

    /// Delays by class, likewise.
    pub fn publish_classes(&self, present: Epoch) -> Vec<ClassDelays> {
        let plan = self.plans.back();
        plan.map_or_else(Vec::new, |plan| {
            self.classes.publish(present, plan.interval_ms, self.rate)
        })
    }

    /// The newest generation's sketches.
    pub fn sketches(&self) -> Vec<Sketch> {
        let sketches = self.plans.back().map(|plan| plan.sketches.as_slice());
        let sketches = sketches.unwrap_or_default().iter();
        sketches
            .filter_map(|(port, _)| self.sketches.get(*port)?.clone())
            .collect()
    }
}
