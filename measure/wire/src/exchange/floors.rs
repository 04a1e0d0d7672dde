//! The clocks of both ends, as the least delay of each epoch shows them.

use crate::{FloorSample, FloorVerdict, FloorWatch, SegmentOutcome};
use measure::time::Epoch;

use super::status::{ExchangeCounters, FloorView};

/// Least step that is detected, in nanoseconds.
const STEP_NS_MIN: f64 = 1_000.0;

/// Delays that scatter so many times more than usual come from a queue.
const SCATTER: f64 = 4.0;

/// Watches the floor over a session.
#[derive(Debug, Default)]
pub(super) struct Floors {
    watch: FloorWatch,
    view: FloorView,
    /// The usual scatter of delays, in nanoseconds.
    usual_ns: Option<f64>,
}

impl Floors {
    /// Takes an epoch; `false` where its delays are not to be trusted.
    pub fn see(
        &mut self,
        (epoch, at_ns): (Epoch, u64),
        floor_ns: Option<i64>,
        outcomes: &[SegmentOutcome],
        error_ns: f64,
        counters: &mut ExchangeCounters,
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
        self.view.drift = self.watch.drift();
        let (FloorVerdict::Stepped(step) | FloorVerdict::Sank(step)) = verdict else {
            return true;
        };
        counters.clock_steps += 1;
        self.view.step = Some(step);
        !matches!(verdict, FloorVerdict::Sank(_))
    }

    /// Another session: clocks and path may have changed. What was seen is still shown.
    pub fn reset(&mut self) {
        self.watch = FloorWatch::new();
        self.usual_ns = None;
    }

    pub fn view(&self) -> FloorView {
        self.view
    }
}
