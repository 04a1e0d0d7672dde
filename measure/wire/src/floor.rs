//! What the least delay of each epoch shows about the clocks.
//!
//! The fastest reference of an epoch found every queue empty: its delay is the path's, plus the clocks'
//! offset. While neither path nor clocks change, the floor stays where it is, apart from noise. A
//! [step](Step) moves it at once and permanently, a drift a little with every epoch.
//!
//! # What cannot be distinguished
//!
//! - A change of route, or of anything that delays every packet alike, is a step as well.
//! - A queue that never empties within an epoch raises the floor, too. It is distinguished from a step if
//!   it loses packets or makes delays scatter ([`FloorSample::is_calm`]), or if it empties again within
//!   three epochs. A queue that stays at one height, quietly and for longer, is reported as a step; when it
//!   empties, that is another one.
//! - Steps and drifts below the floor's own noise are not detected, nor are rises smaller than the scatter
//!   of delays within an epoch.
//!
//! So a step need not invalidate a delay: that of a route or a queue is real, and a clock that is set is
//! reported by its own switch. Only a floor below all previous ones, which no queue explains, makes its
//! epoch untrustworthy.

use std::collections::VecDeque;

use crate::SegmentOutcome;
use measure::statistics::median;
use measure::time::Epoch;

/// Epochs remembered.
const WINDOW: usize = 32;
/// Epochs that define what is usual.
const LEARN: usize = 4;
/// A step is more than this many times the usual movement of the floor between epochs.
const STEP_SPREADS: f64 = 8.0;
/// A rise that lasts for this many epochs is a step.
const CONFIRM: usize = 3;
/// Epochs after which an unsettled rise counts as usual.
const UNSETTLED_MAX: usize = 16;
/// A slope must be more than this many times its standard error,
const DRIFT_ERRORS: f64 = 5.0;
/// and be estimated from at least this many epochs.
const DRIFT_EPOCHS: usize = 8;

/// One epoch's floor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloorSample {
    /// The epoch.
    pub epoch: Epoch,
    /// Time in nanoseconds of any clock that does not step.
    pub at_ns: u64,
    /// The least delay of a reference in nanoseconds.
    pub floor_ns: i64,
    /// Whether no packet was lost, and delays did not scatter more than usual, so that nothing suggests a
    /// queue.
    pub is_calm: bool,
    /// Usual scatter of delays within an epoch, in nanoseconds. A smaller rise may come from a queue, whose
    /// minimum may be slightly longer.
    pub scatter_ns: f64,
}

/// A sudden change of the clocks' offset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The first epoch entirely or partly with the new offset.
    pub since: Epoch,
    /// Size of the change in nanoseconds.
    pub by_ns: f64,
}

/// Verdict on another epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FloorVerdict {
    /// Nothing unusual, or not enough is known.
    Steady,
    /// The floor has moved: the clocks' offset, the path, or a queue that stands or stood.
    Stepped(Step),
    /// It has moved to an unprecedented low: no queue does that, so the epoch's delays cannot be trusted.
    Sank(Step),
}

/// Monitors the floor of one segment.
#[derive(Debug, Clone, Default)]
pub struct FloorWatch {
    least_ns: f64,
    /// The lowest floor of all, whatever steps followed.
    lowest_ever: Option<f64>,
    /// Time and floor of the usual epochs.
    usual: VecDeque<(u64, f64)>,
    /// The epochs since the floor rose, with their floors.
    risen: Vec<(Epoch, u64, f64)>,
}

impl FloorWatch {
    /// Adds an epoch's floor. Steps below `least_ns`, which bounds cover anyway, are ignored.
    pub fn see(&mut self, sample: &FloorSample, least_ns: f64) -> FloorVerdict {
        self.least_ns = least_ns;
        let floor = sample.floor_ns as f64;
        let before = self.lowest_ever.unwrap_or(floor);
        self.lowest_ever = Some(before.min(floor));
        if self.usual.len() < LEARN {
            self.remember(sample.at_ns, floor);
            return FloorVerdict::Steady;
        }
        let limit = self.limit();
        let (lowest, latest) = self.levels();
        if floor < lowest - limit {
            let step = self.step(sample, floor - latest, &[]);
            // No queue is shorter than an empty one.
            return if floor < before - limit {
                FloorVerdict::Sank(step)
            } else {
                FloorVerdict::Stepped(step)
            };
        }
        if floor <= latest + limit.max(sample.scatter_ns) {
            self.risen.clear();
            self.remember(sample.at_ns, floor);
            return FloorVerdict::Steady;
        }
        if !sample.is_calm {
            self.risen.clear();
            return FloorVerdict::Steady;
        }
        self.risen.push((sample.epoch, sample.at_ns, floor));
        let recent = self.risen.len().saturating_sub(CONFIRM);
        let recent = self.risen.get(recent..).unwrap_or_default().to_vec();
        let (least, most) = range(recent.iter().map(|(_, _, floor)| *floor));
        if recent.len() == CONFIRM && most - least <= limit {
            return FloorVerdict::Stepped(self.step(sample, least - latest, &recent));
        }
        if self.risen.len() >= UNSETTLED_MAX {
            self.usual.clear();
            self.risen.clear();
        }
        FloorVerdict::Steady
    }

    /// Drift between the clocks, in nanoseconds a second, if it exceeds noise.
    pub fn drift_ns_per_s(&self) -> Option<f64> {
        let samples = self.usual.len();
        let (first, _) = *self.usual.front()?;
        if samples < DRIFT_EPOCHS {
            return None;
        }
        let points = || {
            let seconds = |at: u64| at.wrapping_sub(first) as f64 / 1e9;
            self.usual
                .iter()
                .map(move |&(at, floor)| (seconds(at), floor))
        };
        let n = samples as f64;
        let (sum_x, sum_y) = points().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
        let (mean_x, mean_y) = (sum_x / n, sum_y / n);
        let squares: f64 = points().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let products: f64 = points().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        if squares <= 0.0 {
            return None;
        }
        let slope = products / squares;
        let residual = |(x, y): (f64, f64)| (y - mean_y - slope * (x - mean_x)).powi(2);
        let error = (points().map(residual).sum::<f64>() / (n - 2.0) / squares).sqrt();
        let (from, to) = range(points().map(|(x, _)| x));
        let is_told =
            slope.abs() > DRIFT_ERRORS * error && slope.abs() * (to - from) > self.least_ns;
        is_told.then_some(slope)
    }

    /// The lowest usual floor, and its current position.
    fn levels(&self) -> (f64, f64) {
        let (lowest, _) = range(self.usual.iter().map(|(_, floor)| *floor));
        let recent = self.usual.iter().rev().take(LEARN);
        let mut recent: Vec<f64> = recent.map(|(_, floor)| *floor).collect();
        (lowest, median(&mut recent).unwrap_or(0.0))
    }

    /// How far the floor may move before it counts as a step.
    fn limit(&self) -> f64 {
        let neighbours = self.usual.iter().zip(self.usual.iter().skip(1));
        let mut moves: Vec<f64> = neighbours
            .map(|((_, before), (_, after))| (after - before).abs())
            .collect();
        STEP_SPREADS * median(&mut moves).unwrap_or(0.0) + self.least_ns
    }

    fn remember(&mut self, at_ns: u64, floor: f64) {
        if self.usual.len() == WINDOW {
            self.usual.pop_front();
        }
        self.usual.push_back((at_ns, floor));
    }

    /// Makes another level the usual one.
    fn step(&mut self, sample: &FloorSample, by_ns: f64, known: &[(Epoch, u64, f64)]) -> Step {
        let since = self.risen.first().filter(|_| !known.is_empty());
        let since = since.map_or(sample.epoch, |(epoch, _, _)| *epoch);
        // The usual floors have moved together, so their noise is still known.
        for (_, floor) in &mut self.usual {
            *floor += by_ns;
        }
        self.risen.clear();
        self.remember(sample.at_ns, sample.floor_ns as f64);
        Step { since, by_ns }
    }
}

/// The least and the greatest.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, most), value| (least.min(value), most.max(value)),
    )
}

/// Least step that is detected, in nanoseconds.
const STEP_NS_MIN: f64 = 1_000.0;

/// Delays that scatter this many times more than usual come from a queue.
const SCATTER: f64 = 4.0;

/// The clocks, as shown by the least delays of epochs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FloorView {
    /// The latest, in nanoseconds.
    pub floor_ns: Option<i64>,
    /// The latest step.
    pub step: Option<Step>,
    /// Drift between the clocks, in nanoseconds a second, if it exceeds noise.
    pub drift_ns_per_s: Option<f64>,
}

/// Monitors the floor over a session.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    watch: FloorWatch,
    view: FloorView,
    /// The usual scatter of delays, in nanoseconds.
    usual_ns: Option<f64>,
}

impl Floors {
    /// Adds an epoch and counts a step of a clock. Returns `false` if its delays cannot be trusted.
    pub fn see(
        &mut self,
        (epoch, at_ns): (Epoch, u64),
        floor_ns: Option<i64>,
        outcomes: &[SegmentOutcome],
        error_ns: f64,
        clock_steps: &mut u64,
    ) -> bool {
        let Some(floor_ns) = floor_ns else {
            return true;
        };
        let scatter_ns = outcomes
            .iter()
            .filter_map(SegmentOutcome::stddev_ns)
            .fold(0.0, f64::max);
        let limit_ns = self.usual_ns.map(|usual| SCATTER * usual + STEP_NS_MIN);
        let has_lost = outcomes
            .iter()
            .any(|one| one.lost().is_some_and(|lost| lost > 0));
        let sample = FloorSample {
            epoch,
            at_ns,
            floor_ns,
            is_calm: !has_lost && limit_ns.is_none_or(|limit| scatter_ns <= limit),
            scatter_ns: self.usual_ns.unwrap_or(scatter_ns),
        };
        let verdict = self.watch.see(&sample, error_ns.max(STEP_NS_MIN));
        if sample.is_calm {
            let before = self.usual_ns.unwrap_or(scatter_ns);
            self.usual_ns = Some(0.75 * before + 0.25 * scatter_ns);
        }
        self.view.floor_ns = Some(floor_ns);
        self.view.drift_ns_per_s = self.watch.drift_ns_per_s();
        let (FloorVerdict::Stepped(step) | FloorVerdict::Sank(step)) = verdict else {
            return true;
        };
        *clock_steps += 1;
        self.view.step = Some(step);
        !matches!(verdict, FloorVerdict::Sank(_))
    }

    /// Starts another session: clocks and path may have changed. Previous results are still shown.
    pub fn reset(&mut self) {
        self.watch = FloorWatch::default();
        self.usual_ns = None;
    }

    pub fn view(&self) -> FloorView {
        self.view
    }
}

#[cfg(test)]
mod tests;
