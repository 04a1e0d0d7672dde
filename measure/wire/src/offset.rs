//! Bounds of the offset between two clocks, from the least delays of both directions.
//!
//! No packet arrives before it was sent. Let the other end's clock be ahead by `o`. A packet that takes `d` to get here
//! shows `d - o`, and one that takes as long to get there `d + o`. With the least delays `here` and `there` of one epoch,
//! and `d` no less than [`delay_min_ns`](OffsetWatch::new):
//!
//! ```text
//!  delay_min - here  <=  o  <=  there - delay_min
//! ```
//!
//! This needs no assumption about the path, which may be asymmetric. If the clocks together are off by no more than
//! they claim, some offset within the claim is in this interval. If none is, a claim is wrong, and so are the delays
//! of both directions: one direction's are too small, the other's too great by the same amount.
//!
//! # What cannot be distinguished
//!
//! Which of the two clocks is wrong, because they are only known relative to each other. An offset for which all
//! delays remain possible is not detected either.

use arrayvec::ArrayVec;

use crate::SegmentOutcome;
use crate::exchange::OffsetView;
use measure::time::Epoch;

/// Departing epochs remembered: as many as may pass until an arriving epoch is judged.
const DEPARTED_MAX: usize = 8;

/// Epochs of the two directions are compared if they share at least this part of their length. The ends' epochs do
/// not begin at the same time.
const SHARED: u64 = 8;

/// Range of the offset of the other end's clock from this end's, in nanoseconds; positive if the other one is ahead.
///
/// An empty interval, with `at_least_ns` above `at_most_ns`, shows that the offset has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OffsetBounds {
    /// From the least delay of arriving packets; `None` without any.
    pub at_least_ns: Option<f64>,
    /// From the least delay of departing packets; `None` if the other end reports none.
    pub at_most_ns: Option<f64>,
}

impl OffsetBounds {
    /// Whether it excludes every offset of clocks that together are off by at most `error_ns`.
    pub fn contradicts(&self, error_ns: f64) -> bool {
        self.at_least_ns.is_some_and(|ns| ns > error_ns)
            || self.at_most_ns.is_some_and(|ns| ns < -error_ns)
    }
}

/// Time of an epoch, in nanoseconds of a clock that never steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
}

impl Span {
    /// The epoch of this length that has just ended.
    pub fn until(to_ns: u64, length_ns: u64) -> Self {
        Self {
            from_ns: to_ns.saturating_sub(length_ns),
            to_ns,
        }
    }

    fn length_ns(self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    fn shares_with(self, other: Self) -> bool {
        let from_ns = self.from_ns.max(other.from_ns);
        let shared_ns = self.to_ns.min(other.to_ns).saturating_sub(from_ns);
        let least_ns = self.length_ns().min(other.length_ns()) / SHARED;
        shared_ns > 0 && shared_ns >= least_ns
    }
}

/// A departing epoch.
#[derive(Debug, Clone, Copy)]
struct Departed {
    epoch: Epoch,
    span: Span,
    /// The least delay, as measured by the other end.
    least_ns: Option<f64>,
}

/// Keeps the least delays of departing epochs until arriving epochs are judged by them.
#[derive(Debug, Clone)]
pub struct OffsetWatch {
    delay_min_ns: f64,
    /// The error claimed by both clocks together when an epoch was last judged.
    error_ns: f64,
    departed: ArrayVec<Departed, DEPARTED_MAX>,
    /// The latest arriving epoch.
    arrived: Option<(Span, Option<f64>)>,
}

impl OffsetWatch {
    /// Watches a path with a least possible delay of `delay_min_ns` in either direction.
    pub fn new(delay_min_ns: f64) -> Self {
        Self {
            delay_min_ns,
            // Unknown claims cannot be contradicted.
            error_ns: f64::INFINITY,
            departed: ArrayVec::new(),
            arrived: None,
        }
    }

    /// Notes that a departing epoch has ended. Omit epochs in which the clock was set.
    pub fn depart(&mut self, epoch: Epoch, span: Span) {
        if self.departed.is_full() {
            self.departed.remove(0);
        }
        self.departed.push(Departed {
            epoch,
            span,
            least_ns: None,
        });
    }

    /// Takes the least delay of a departing epoch, or a delay that is no less, as measured by the other
    /// end.
    pub fn hear(&mut self, epoch: Epoch, least_ns: f64) {
        let departed = self.departed.iter_mut().find(|one| one.epoch == epoch);
        if let Some(departed) = departed {
            departed.least_ns = least(departed.least_ns, Some(least_ns));
        }
    }

    /// Takes the least delay of an arriving epoch, and returns the range of the offset in it, as far as known.
    pub fn arrive(&mut self, span: Span, least_ns: Option<f64>) -> OffsetBounds {
        self.arrived = Some((span, least_ns));
        self.latest()
    }

    /// Returns the range of the offset in the latest arriving epoch, including everything received since.
    pub fn latest(&self) -> OffsetBounds {
        let Some((span, here_ns)) = self.arrived else {
            return OffsetBounds::default();
        };
        let departed = self.departed.iter();
        let of_span = departed.filter(|departed| departed.span.shares_with(span));
        let there_ns = of_span.fold(None, |ns, departed| least(ns, departed.least_ns));
        OffsetBounds {
            at_least_ns: here_ns.map(|here_ns| self.delay_min_ns - here_ns),
            at_most_ns: there_ns.map(|there_ns| there_ns - self.delay_min_ns),
        }
    }

    /// Takes an arriving epoch; returns `false` if clocks that are off by at most `error_ns` together could not have
    /// shown the delays of both directions.
    pub(crate) fn see(
        &mut self,
        span: Span,
        least_delay_ns: Option<i64>,
        outcomes: &[SegmentOutcome],
        error_ns: f64,
    ) -> bool {
        self.error_ns = error_ns;
        let least_ns = least_delay_ns.map(|ns| ns as f64);
        // Without references: the least delay is at most the mean, with the mean's own bound.
        let means = outcomes.iter().filter_map(|outcome| {
            let chosen = outcome.chosen?;
            Some(chosen.mean_ns + (chosen.bound_ns? - error_ns).max(0.0))
        });
        let least_ns = least_ns.or_else(|| means.reduce(f64::min));
        let bounds = self.arrive(span, least_ns);
        !bounds.contradicts(error_ns)
    }

    /// Whether a path can have this mean delay: never a negative one, whatever the clocks claim, and one below
    /// `delay_min_ns` only within their claims.
    pub(crate) fn is_possible(&self, mean_ns: f64) -> bool {
        mean_ns >= 0.0 && mean_ns + self.error_ns >= self.delay_min_ns
    }

    /// The published state.
    pub(crate) fn view(&self) -> OffsetView {
        OffsetView {
            bounds: self.latest(),
            error_ns: self.error_ns,
        }
    }

    /// Forgets all epochs, because another session begins.
    pub fn reset(&mut self) {
        self.departed.clear();
        self.arrived = None;
    }
}

fn least(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}

#[cfg(test)]
mod tests;
