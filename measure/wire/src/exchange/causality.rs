//! Whether delays are possible: no packet arrives before it was sent, and clocks that are as exact as they claim show none that did.

use crate::{OffsetWatch, SealedWire, SegmentOutcome, Span};
use measure::time::Epoch;

use super::Moment;
use super::status::OffsetView;

/// Judges epochs of both directions by each other.
#[derive(Debug)]
pub(super) struct Causality {
    watch: OffsetWatch,
    delay_min_ns: f64,
    /// The error that both clocks together claimed when an epoch was last judged.
    error_ns: f64,
}

impl Causality {
    /// Of a path that takes no packet less than that, in either direction.
    pub fn new(delay_min_ns: u32) -> Self {
        let delay_min_ns = f64::from(delay_min_ns);
        Self {
            watch: OffsetWatch::new(delay_min_ns),
            delay_min_ns,
            // Nothing contradicts claims that are not known.
            error_ns: f64::INFINITY,
        }
    }

    /// Notes that an epoch of departing packets has just ended.
    pub fn depart(&mut self, sealed: &SealedWire, now: Moment, epoch_ns: u64) {
        // Of two times of one clock the other end can say nothing.
        if !sealed.shard.marks.is_clock_set {
            let span = Span::until(now.monotonic_ns, epoch_ns);
            self.watch.depart(sealed.epoch, span);
        }
    }

    /// Takes the least delay of what left in an epoch, or a delay that is no less, as the other end has it.
    pub fn hear(&mut self, epoch: Epoch, least_ns: f64) {
        self.watch.hear(epoch, least_ns);
    }

    /// Takes an epoch of what arrived; returns `false` where clocks that are off by no more than `error_ns` together
    /// could not have shown the delays of both directions.
    pub fn see(
        &mut self,
        span: Span,
        least_delay_ns: Option<i64>,
        outcomes: &[SegmentOutcome],
        error_ns: f64,
    ) -> bool {
        self.error_ns = error_ns;
        let least_ns = least_delay_ns.map(|ns| ns as f64);
        // Without references: no packet's delay is greater than a mean is, with its own bound.
        let means = outcomes.iter().filter_map(|outcome| {
            let chosen = outcome.chosen?;
            Some(chosen.mean_ns + (chosen.bound_ns? - error_ns).max(0.0))
        });
        let least_ns = least_ns.or_else(|| means.reduce(f64::min));
        let bounds = self.watch.arrive(span, least_ns);
        !bounds.contradicts(error_ns)
    }

    /// Whether a path can have this mean delay: none below 0, whatever the clocks claim, and one below `delay_min_ns` only
    /// within their claims.
    pub fn is_possible(&self, mean_ns: f64) -> bool {
        mean_ns >= 0.0 && mean_ns + self.error_ns >= self.delay_min_ns
    }

    /// Another session: clocks and path may have changed.
    pub fn reset(&mut self) {
        self.watch.reset();
    }

    pub fn view(&self) -> OffsetView {
        OffsetView {
            bounds: self.watch.latest(),
            error_ns: self.error_ns,
        }
    }
}
