//! Segments and sketches across epochs and generations.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use contract::change::Change;
use contract::config::{self, Config};
use contract::ids::{GenerationId, PortIndex};
use contract::limits::LAST_MINUTE_BYTES;
use measure::cell::Cell;
use measure::histogram::{Histogram, Trimmed};
use measure::lds::DelayCells;
use measure::moments::Moments;
use measure::observation::SegmentIndex;
use measure::rli::Method;
use measure::shard::{SegmentSynopsis, Shard, Tally};
use measure::synopsis::ShapeMismatch;
use measure::time::{Epoch, TickRate};
use records::history::{History, Sample};
use records::snapshot::{
    ClassDelays, Delays, EpochFigures, MinutePart, Segment, SegmentName, Sketch, Totals,
    UnusableEpochs,
};

use crate::contain::{Part, contain};
use crate::decode::EpochCells;
use crate::estimate;
use crate::merge::Closed;

/// All segments. A segment of two generations, identified by the names of its ports and its class, keeps
/// its number and its totals.
#[derive(Debug)]
pub(super) struct Segments {
    rate: TickRate,
    /// By number; `None` for free numbers.
    states: Vec<Option<SegmentState>>,
    numbers: HashMap<Arc<SegmentName>, u32>,
    vacant: Vec<u32>,
    classes: Classes,
    /// One for each live generation, the newest last.
    plans: VecDeque<Plan>,
    /// By port: the latest figures of its sketch.
    sketches: Vec<Option<Sketch>>,
    /// By port: first and last epoch disturbed by a change of its link.
    disturbed: Vec<Option<(Epoch, Epoch)>>,
    /// The sketches of the last complete epoch, until they are taken.
    cells: Option<EpochCells>,
    /// Epochs whose sketches were replaced before they were taken.
    untaken_cells: u64,
}

/// The segments and sketches of a generation.
#[derive(Debug)]
struct Plan {
    generation: GenerationId,
    interval_ms: u32,
    /// In the order of the shards.
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
            .map(|segment| self.number_for(segment_name(config, segment)))
            .collect();
        let mut by_number = vec![None; self.states.len()];
        let mut methods = vec![None; self.states.len()];
        for ((index, segment), &number) in (0..).zip(&segments).zip(&numbers) {
            let method = rli_methods[segment.egress];
            methods[number as usize] = method.filter(|_| segment.is_inside());
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
            // Each of two generations has at most 65,536.
            let number = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
            assert!(number < u32::MAX, "too many segments");
            self.states.push(state);
            number
        };
        self.numbers.insert(name, number);
        number
    }

    /// Ends a generation: segments that no other generation has are forgotten.
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

    /// The number of a generation's segment.
    pub fn number_of(
        &self,
        generation: GenerationId,
        SegmentIndex(index): SegmentIndex,
    ) -> Option<u32> {
        let mut plans = self.plans.iter();
        let plan = plans.find(|plan| plan.generation == generation)?;
        plan.numbers.get(usize::from(index)).copied()
    }

    /// The names of all segments, by number; empty ones for free numbers.
    pub fn names(&self) -> Vec<Arc<SegmentName>> {
        let name = |state: &SegmentState| Arc::clone(&state.name);
        let states = self.states.iter().map(Option::as_ref);
        states
            .map(|state| state.map(name).unwrap_or_default())
            .collect()
    }

    /// By number of a segment of the newest generation: how delays between its references are estimated.
    pub fn rli_methods(&self) -> Arc<Vec<Option<Method>>> {
        let newest = self.plans.back();
        newest.map_or_else(Arc::default, |plan| Arc::clone(&plan.methods))
    }

    /// Notes that the link of a port changed in epoch `present`. It and the previous epoch are disturbed,
    /// because the change was noticed some time after it happened.
    pub fn disturb(&mut self, port: PortIndex, present: Epoch) {
        let Some(disturbed) = self.disturbed.get_mut(port.index()) else {
            return;
        };
        let first = Epoch(present.0.saturating_sub(1));
        *disturbed = match *disturbed {
            // Between two close flaps, an epoch or two may be lost unnecessarily.
            Some((earlier, last)) if last.0 + 4 > first.0 => Some((earlier, present)),
            _ => Some((first, present)),
        };
    }

    fn is_disturbed(&self, port: usize, epoch: Epoch) -> bool {
        let disturbed = self.disturbed.get(port).copied().flatten();
        disturbed.is_some_and(|(first, last)| (first..=last).contains(&epoch))
    }

    /// Adds a closed epoch; returns it.
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

    /// Counts an epoch lost to a panic.
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
                    tracing::error!(epoch = epoch.0, "cannot add to totals: {error}");
                }
                None => state.unusable.internal += 1,
            }
        }
        contain(Part::Estimate, || {
            self.classes.close(epoch, plan.interval_ms, self.rate);
        });
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

    /// The sketches of the last complete epoch, if not taken yet, and the number of epochs whose sketches
    /// were replaced before they were taken.
    pub fn take_cells(&mut self) -> (Option<EpochCells>, u64) {
        (self.cells.take(), std::mem::take(&mut self.untaken_cells))
    }

    /// Whether there is a segment with this number.
    pub fn is_known(&self, number: u32) -> bool {
        matches!(self.states.get(number as usize), Some(Some(_)))
    }

    /// The newest generation's segments, in the order of the configuration; `present` is the open epoch.
    pub fn publish(&self, present: Epoch) -> Vec<Segment> {
        let Some(plan) = self.plans.back() else {
            return Vec::new();
        };
        let segments = plan.segments.iter().zip(&plan.numbers);
        let published = segments.filter_map(|(segment, &number)| {
            let state = self.states.get(number as usize)?.as_ref()?;
            Some(Segment {
                is_around: !segment.is_inside(),
                ..state.segment(present, plan.interval_ms, self.rate)
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

/// The names of a segment's ports and class.
fn segment_name(config: &Config, segment: &config::Segment) -> SegmentName {
    let [ingress, egress] = config.segment_ends(segment);
    SegmentName {
        ingress,
        egress,
        class: config.class_name(segment.class).to_owned(),
    }
}

/// A segment.
#[derive(Debug)]
pub(super) struct SegmentState {
    pub name: Arc<SegmentName>,
    pub unusable: UnusableEpochs,
    last: Option<EpochFigures>,
    tally: Tally,
    moments: Moments,
    histogram: Histogram,
    estimated_epochs: u64,
    within_bound_epochs: u64,
    history: History,
    minute: Minute,
}

impl SegmentState {
    pub fn new(name: Arc<SegmentName>, rate: TickRate) -> Self {
        Self {
            name,
            unusable: UnusableEpochs::default(),
            last: None,
            tally: Tally::default(),
            moments: Moments::default(),
            histogram: Histogram::new(rate),
            estimated_epochs: 0,
            within_bound_epochs: 0,
            history: History::default(),
            minute: Minute::new(),
        }
    }

    /// Adds an epoch that every worker measured. Counts of a disturbed epoch are exact and added to the
    /// totals; its estimates are dropped.
    pub fn add(
        &mut self,
        epoch: Epoch,
        synopsis: &SegmentSynopsis,
        is_disturbed: bool,
        method: Option<Method>,
        rate: TickRate,
        interval_ms: u32,
    ) -> Result<(), ShapeMismatch> {
        self.tally.merge(&synopsis.tally);
        self.moments.merge(&synopsis.moments);
        self.histogram.merge(&synopsis.histogram)?;
        if is_disturbed {
            self.unusable.link += 1;
            return Ok(());
        }
        let Some(figures) = estimate::figures(epoch, synopsis, method, rate) else {
            return Ok(());
        };
        match &figures.lda {
            Some(lda) => {
                self.estimated_epochs += 1;
                self.within_bound_epochs += u64::from(lda.is_within_bound);
            }
            None => self.unusable.too_few_cells += u64::from(synopsis.lda.is_some()),
        }
        self.history
            .add(epoch.0, interval_ms, &sample(synopsis, &figures, rate));
        self.minute
            .add(epoch, interval_ms, &synopsis.moments, &synopsis.histogram);
        self.last = Some(figures);
        Ok(())
    }

    /// The published segment; `present` is the open epoch.
    pub fn segment(&self, present: Epoch, interval_ms: u32, rate: TickRate) -> Segment {
        let seconds_per_tick = 1.0 / rate.hz() as f64;
        Segment {
            ingress: self.name.ingress.clone(),
            egress: self.name.egress.clone(),
            class: self.name.class.clone(),
            is_around: false,
            last: self.last.clone(),
            last_minute: self.minute.figures(present, interval_ms, rate),
            minute_parts: self.minute.parts(present, interval_ms),
            history: self.history.clone(),
            total: Totals {
                counts: estimate::counts(&self.tally),
                delay_sum_s: self.moments.sum_ticks() as f64 * seconds_per_tick,
                delay_squared_sum_s2: self.moments.sum_of_squares_ticks2() as f64
                    * seconds_per_tick.powi(2),
                buckets: estimate::buckets(&self.histogram),
                unusable_epochs: self.unusable,
                estimated_epochs: self.estimated_epochs,
                within_bound_epochs: self.within_bound_epochs,
            },
        }
    }
}

fn sample(synopsis: &SegmentSynopsis, figures: &EpochFigures, rate: TickRate) -> Sample {
    let moments = &synopsis.moments;
    let stamped = figures.stamped.unwrap_or_default();
    Sample {
        packets: moments.count(),
        lost_packets: figures.counts.dropped_packets,
        sum_ns: rate.to_ns(moments.sum_ticks() as f64),
        squares_ns2: moments.sum_of_squares_ticks2() as f64 * rate.to_ns(1.0).powi(2),
        max_ns: stamped.max_ns,
        p50_ns: stamped.p50_ns,
        p99_ns: stamped.p99_ns,
        estimate_ns: figures.lda.map(|lda| (lda.mean_ns, lda.bound_ns)),
    }
}

/// All classes of measured segments.
#[derive(Debug, Default)]
pub(super) struct Classes(Vec<ClassState>);

/// A class.
#[derive(Debug)]
struct ClassState {
    /// One of its segments, current or former.
    name: Arc<SegmentName>,
    /// The epoch being summed.
    moments: Moments,
    histogram: Histogram,
    last: Option<(Epoch, Delays)>,
    minute: Minute,
}

impl Classes {
    /// Adds one segment's part of an epoch to its class.
    pub fn add(
        &mut self,
        name: &Arc<SegmentName>,
        synopsis: &SegmentSynopsis,
        rate: TickRate,
    ) -> Result<(), ShapeMismatch> {
        if synopsis.moments.count() == 0 {
            return Ok(());
        }
        let is_of_class = |class: &ClassState| class.name.class == name.class;
        let index = self.0.iter().position(is_of_class);
        let index = index.unwrap_or_else(|| {
            self.0.push(ClassState {
                name: Arc::clone(name),
                moments: Moments::default(),
                histogram: Histogram::new(rate),
                last: None,
                minute: Minute::new(),
            });
            self.0.len() - 1
        });
        let class = &mut self.0[index];
        class.moments.merge(&synopsis.moments);
        class.histogram.merge(&synopsis.histogram)
    }

    /// Ends an epoch: all its segments were added.
    pub fn close(&mut self, epoch: Epoch, interval_ms: u32, rate: TickRate) {
        for class in &mut self.0 {
            if let Some(stamped) = estimate::stamped(&class.moments, &class.histogram, rate) {
                let packets = class.moments.count();
                class.last = Some((epoch, Delays { packets, stamped }));
                let (moments, histogram) = (&class.moments, &class.histogram);
                class.minute.add(epoch, interval_ms, moments, histogram);
                class.moments = Moments::default();
                class.histogram.clear();
            }
        }
    }

    /// Forgets other classes.
    pub fn retain(&mut self, is_known: impl Fn(&str) -> bool) {
        self.0.retain(|class| is_known(&class.name.class));
    }

    /// Every class with packets; `present` is the open epoch.
    pub fn publish(&self, present: Epoch, interval_ms: u32, rate: TickRate) -> Vec<ClassDelays> {
        let with_packets = self.0.iter().filter_map(|class| {
            let (epoch, last) = class.last?;
            Some(ClassDelays {
                class: class.name.class.clone(),
                epoch: epoch.0,
                last,
                last_minute: class.minute.figures(present, interval_ms, rate),
            })
        });
        with_packets.collect()
    }
}

/// Length of a part. Epochs are at most a minute long.
const PART_MS: u64 = MinutePart::SECONDS as u64 * 1_000;

/// Parts of a minute, including the open one.
const PARTS: usize = 12;

/// Most bytes of one minute.
const BYTES_MAX: usize =
    size_of::<Minute>() + PARTS * (size_of::<MinuteSlice>() + COUNTS_BYTES + Trimmed::BYTES_MAX);

/// The two counts of an `Arc`.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

// The memory budget counts exactly this.
const _: () = assert!(BYTES_MAX == LAST_MINUTE_BYTES);

/// The epochs that ended in the last minute.
#[derive(Debug)]
pub(super) struct Minute {
    /// Oldest first. Some may be older than a minute.
    parts: VecDeque<MinuteSlice>,
}

/// The epochs that ended in a span of five seconds.
#[derive(Debug)]
struct MinuteSlice {
    /// Index of the span, counted from the first epoch.
    index: u64,
    moments: Moments,
    /// Shared with published data once the part has ended.
    histogram: Arc<Trimmed>,
}

/// The span in which an epoch begins.
fn part_of(Epoch(epoch): Epoch, interval_ms: u32) -> u64 {
    epoch.saturating_mul(interval_ms.into()) / PART_MS
}

/// Whether this part is too old for the minute that ends with part `index`.
fn is_over(part: &MinuteSlice, index: u64) -> bool {
    part.index + PARTS as u64 <= index
}

impl Minute {
    pub fn new() -> Self {
        Self {
            parts: VecDeque::with_capacity(PARTS),
        }
    }

    /// Adds an epoch. Epochs come in order; an earlier one is added to the open part.
    pub fn add(
        &mut self,
        epoch: Epoch,
        interval_ms: u32,
        moments: &Moments,
        histogram: &Histogram,
    ) {
        if moments.count() == 0 {
            return;
        }
        let index = part_of(Epoch(epoch.0 + 1), interval_ms);
        self.parts.retain(|part| !is_over(part, index));
        if self.parts.back().is_none_or(|open| open.index < index) {
            self.parts.push_back(MinuteSlice {
                index,
                moments: Moments::default(),
                histogram: Arc::default(),
            });
        }
        let Some(open) = self.parts.back_mut() else {
            return;
        };
        Arc::make_mut(&mut open.histogram).add(histogram);
        open.moments.merge(moments);
    }

    /// The finished parts of that minute.
    pub fn parts(&self, present: Epoch, interval_ms: u32) -> Vec<MinutePart> {
        let index = part_of(present, interval_ms);
        let parts = self.parts.iter();
        let ended = parts.filter(|part| !is_over(part, index) && part.index < index);
        let part = |part: &MinuteSlice| MinutePart {
            index: part.index,
            histogram: Arc::clone(&part.histogram),
        };
        ended.map(part).collect()
    }

    /// The minute that ends with the open epoch `present`; `None` without packets.
    pub fn figures(&self, present: Epoch, interval_ms: u32, rate: TickRate) -> Option<Delays> {
        let index = part_of(present, interval_ms);
        let parts = self.parts.iter().filter(|part| !is_over(part, index));
        let (mut moments, mut histogram) = (Moments::default(), Histogram::new(rate));
        for part in parts {
            moments.merge(&part.moments);
            histogram.add_trimmed(&part.histogram);
        }
        let stamped = estimate::stamped(&moments, &histogram, rate)?;
        Some(Delays {
            packets: moments.count(),
            stamped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::tests::rate;
    use proptest::prelude::*;

    /// An epoch with one packet of each delay, in ticks.
    fn epoch_of(delays: &[u64]) -> (Moments, Histogram) {
        let (mut moments, mut histogram) = (Moments::default(), Histogram::new(rate()));
        for &delay in delays {
            moments.add_delays(delay, 1);
            histogram.add_delays(delay, 1);
        }
        (moments, histogram)
    }

    fn add(minute: &mut Minute, epoch: u64, interval_ms: u32, delays: &[u64]) {
        let (moments, histogram) = epoch_of(delays);
        minute.add(Epoch(epoch), interval_ms, &moments, &histogram);
    }

    #[test]
    fn what_is_longer_ago_than_a_minute_is_forgotten() {
        let mut minute = Minute::new();
        add(&mut minute, 0, 250, &[2_000_000]);
        for epoch in 1..4 * 59 {
            add(&mut minute, epoch, 250, &[2_000]);
        }
        let figures = |minute: &Minute, present| minute.figures(Epoch(present), 250, rate());
        let last = figures(&minute, 4 * 59).unwrap();
        assert_eq!(last.packets, 4 * 59);
        assert!((last.stamped.max_ns - 1e6).abs() < 1e-9, "{last:?}");
        assert!((last.stamped.p50_ns - 1e3).abs() < 63.0, "{last:?}");
        let later = figures(&minute, 4 * 60).unwrap();
        assert!((later.stamped.max_ns - 1e3).abs() < 1e-9, "{later:?}");
        let parts = |present| minute.parts(Epoch(present), 250);
        let counted = parts(4 * 59);
        let packets = counted.iter().flat_map(|part| part.histogram.buckets());
        // All but those of the part that is open: epochs that ended from second 55 on.
        assert_eq!(packets.map(|(_, packets)| packets).sum::<u64>(), 4 * 55 - 1);
        assert_eq!(
            counted.iter().map(|part| part.index).collect::<Vec<_>>(),
            (0..11).collect::<Vec<_>>()
        );
        assert!(parts(4 * 120).is_empty());
        assert_eq!(figures(&minute, 4 * 120), None, "silence");
        add(&mut minute, 4 * 500, 250, &[8]);
        assert_eq!(figures(&minute, 4 * 500 + 1).unwrap().packets, 1);
        assert_eq!(minute.parts.len(), 1);
    }

    #[test]
    fn an_epoch_of_a_minute_is_shown_until_the_next_has_ended() {
        let mut minute = Minute::new();
        add(&mut minute, 7, 60_000, &[10, 20]);
        let packets = |minute: &Minute, present| {
            let figures = minute.figures(Epoch(present), 60_000, rate());
            figures.map(|last| last.packets)
        };
        assert_eq!(packets(&minute, 8), Some(2));
        assert_eq!(packets(&minute, 9), None);
        add(&mut minute, 8, 60_000, &[30]);
        assert_eq!(packets(&minute, 9), Some(1));
    }

    proptest! {
        #[test]
        fn the_minute_is_the_sum_of_its_epochs(
            epochs in proptest::collection::vec(proptest::collection::vec(1_u64..1 << 40, 0..5), 1..55)
        ) {
            let mut minute = Minute::new();
            let mut all = Vec::new();
            for (epoch, delays) in (0..).zip(&epochs) {
                add(&mut minute, epoch, 1_000, delays);
                all.extend_from_slice(delays);
            }
            let (moments, histogram) = epoch_of(&all);
            let expected = estimate::stamped(&moments, &histogram, rate());
            let figures = minute.figures(Epoch(epochs.len() as u64), 1_000, rate());
            prop_assert_eq!(figures.map(|last| last.stamped), expected);
            prop_assert!(minute.parts.len() <= PARTS && minute.parts.capacity() <= PARTS);
        }
    }
}
