//! What references teach about themselves, each left out in turn.

use super::base::BaseDelay;
use super::busy::Idle;
use super::curve::{Anchor, Bend, CurvePoint, RunningBend};
use super::interval::Mark;
use super::since_ns;

/// Running figures of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Learnt {
    base: BaseDelay,
    bend: RunningBend,
    /// Mean of the squared errors of references.
    squared_error_ns2: f64,
}

impl Learnt {
    /// Of the newest error in the running mean.
    const ERROR_WEIGHT: f64 = 0.125;

    /// Share of the mean that an error counts at least: some references lie on the line by chance.
    /// Chosen so that the nominal 98 % bound of RLI covers 98 %.
    const ERROR_LEAST: f64 = 0.1;

    /// The base delay, as far as is known.
    pub(super) fn base_ns(&self) -> Option<f64> {
        self.base.known_ns()
    }

    /// The usual bend.
    pub(super) fn bend(&self) -> Bend {
        self.bend.value()
    }

    /// The usual squared error of a reference.
    pub(super) fn squared_error_ns2(&self) -> f64 {
        self.squared_error_ns2
    }

    /// A reference behind an idle time tells of the base delay.
    pub(super) fn base_delay(&mut self, mark: &Mark) {
        if let Some(began_ns) = mark.busy_since_ns {
            self.base.learn(since_ns(began_ns, mark.sent_ns));
        }
    }

    /// Leaves `mark` out: how far it is from the line between its neighbours (its error), and
    /// from the line between the anchors around it (the bend). `idle_behind` is the first idle time
    /// between it and `right`.
    pub(super) fn leave_out(
        &mut self,
        left: &Mark,
        mark: &mut Mark,
        right: &Mark,
        idle_behind: Option<Idle>,
    ) {
        let origin_ns = mark.received_ns;
        let here = mark.anchor(origin_ns);
        let between = |left: Anchor, right: Anchor| {
            CurvePoint::between(left, right, here.start_ns, f64::NEG_INFINITY, 0.0)
        };
        let (mut left, mut right) = (left.anchor(origin_ns), right.anchor(origin_ns));
        let squared_error_ns2 = (here.wait_ns - between(left, right).line).powi(2);
        self.squared_error_ns2 += Self::ERROR_WEIGHT * (squared_error_ns2 - self.squared_error_ns2);
        let least_ns2 = Self::ERROR_LEAST * self.squared_error_ns2;
        mark.squared_error_ns2 = Some(squared_error_ns2.max(least_ns2));
        if let Some(base_ns) = self.base.known_ns() {
            let empty = |at_ns: u64| Anchor {
                start_ns: since_ns(at_ns, origin_ns),
                wait_ns: base_ns,
            };
            if let Some(began) = mark.busy_since_ns.map(empty)
                && began.start_ns > left.start_ns
            {
                left = began;
            }
            if let Some(idle) = idle_behind {
                right = empty(idle.from_ns);
            }
        }
        self.bend.learn(here.wait_ns, &between(left, right));
    }
}
