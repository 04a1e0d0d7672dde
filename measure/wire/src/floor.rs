//! What the least delay of each epoch says of the clocks.
//!
//! The fastest reference of an epoch found every queue empty: its delay is the path's, plus what the
//! clocks differ by. While neither path nor clocks change it stays where it is, but for noise. A
//! [step](Step) moves it at once and for good, a drift a little with every epoch.
//!
//! # What cannot be distinguished
//!
//! - A change of route, or of anything that delays every packet alike, is a step as well.
//! - A queue that never empties in an epoch lifts the floor too. It is distinguished from a step where it
//!   loses packets or makes delays scatter ([`FloorSample::is_calm`]), or where it empties again
//!   within three epochs. A queue that stands at one height, quietly and for longer, is called a
//!   step; when it empties, that is another one.
//! - Steps and drifts under the floor's own noise are not seen, nor rises of less than delays scatter
//!   by within an epoch.
//!
//! So a step need not spoil a delay: that of a route or a queue is a true one, and a clock that is
//! set is reported by its own switch. Only a floor under all that were seen before, which no queue
//! explains, makes its epoch one not to be trusted.

use std::collections::VecDeque;

use crate::SegmentOutcome;
use measure::statistics::median;
use measure::time::Epoch;

/// Epochs that are remembered.
const WINDOW: usize = 32;
/// Epochs that tell what is usual.
const LEARN: usize = 4;
/// A step is more than this many times what the floor usually moves from epoch to epoch.
const STEP_SPREADS: f64 = 8.0;
/// A rise that stays for so many epochs is a step.
const CONFIRM: usize = 3;
/// Epochs that a rise may go on unsettled before it is taken for what is usual.
const UNSETTLED_MAX: usize = 16;
/// A slope is more than this many times its standard error,
const DRIFT_ERRORS: f64 = 5.0;
/// and is estimated from as many epochs at least.
const DRIFT_EPOCHS: usize = 8;

/// One epoch's floor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloorSample {
    /// The epoch.
    pub epoch: Epoch,
    /// When: nanoseconds of any clock that does not step.
    pub at_ns: u64,
    /// The least delay of a reference in nanoseconds.
    pub floor_ns: i64,
    /// No packet was lost, and delays did not scatter more than usual: nothing speaks of a queue.
    pub is_calm: bool,
    /// What delays usually scatter by within an epoch, in nanoseconds: a rise of less is what queues
    /// do, which may be a little longer at their shortest.
    pub scatter_ns: f64,
}

/// The clocks' offset changed at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The first epoch with the new offset all through, or a part of it.
    pub since: Epoch,
    /// By how much, in nanoseconds.
    pub by_ns: f64,
}

/// What one more epoch says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FloorVerdict {
    /// Nothing unusual, or not enough is known.
    Steady,
    /// The floor has moved: the clocks' offset, the path, or a queue that stands or stood.
    Stepped(Step),
    /// It has moved to where it never was before, down: no queue does that, and the epoch's delays are
    /// not to be trusted.
    Sank(Step),
}

/// Watches the floor of one segment.
#[derive(Debug, Clone, Default)]
pub struct FloorWatch {
    least_ns: f64,
    /// The lowest of all, however the level moved since.
    lowest_ever: Option<f64>,
    /// Time and floor of what is usual.
    usual: VecDeque<(u64, f64)>,
    /// The epochs since the floor rose, with their floors.
    risen: Vec<(Epoch, u64, f64)>,
}

impl FloorWatch {
    /// Takes an epoch's floor. Steps of less than `least_ns` are not looked for: what bounds have
    /// room for anyway.
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

    /// How the clocks run apart, in nanoseconds a second, where that is more than noise.
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

    /// The lowest of what is usual, and where it is now.
    fn levels(&self) -> (f64, f64) {
        let (lowest, _) = range(self.usual.iter().map(|(_, floor)| *floor));
        let recent = self.usual.iter().rev().take(LEARN);
        let mut recent: Vec<f64> = recent.map(|(_, floor)| *floor).collect();
        (lowest, median(&mut recent).unwrap_or(0.0))
    }

    /// How far the floor may move before it is a step.
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

    /// From now on another level is usual.
    fn step(&mut self, sample: &FloorSample, by_ns: f64, known: &[(Epoch, u64, f64)]) -> Step {
        let since = self.risen.first().filter(|_| !known.is_empty());
        let since = since.map_or(sample.epoch, |(epoch, _, _)| *epoch);
        // What is usual has moved as a whole: its noise is still known.
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

/// Delays that scatter so many times more than usual come from a queue.
const SCATTER: f64 = 4.0;

/// The clocks, as the least delays of epochs show them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FloorView {
    /// The latest, in nanoseconds.
    pub floor_ns: Option<i64>,
    /// The latest step.
    pub step: Option<Step>,
    /// How the clocks run apart, in nanoseconds a second, where that is more than noise.
    pub drift_ns_per_s: Option<f64>,
}

/// Watches the floor over a session.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    watch: FloorWatch,
    view: FloorView,
    /// The usual scatter of delays, in nanoseconds.
    usual_ns: Option<f64>,
}

impl Floors {
    /// Takes an epoch and counts a step of a clock. Returns `false` if its delays cannot be trusted.
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

    /// Another session: clocks and path may have changed. What was seen is still shown.
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
