//! Learns properties of a link: its busy periods, from the departures of all its packets; the delay of a packet
//! without wait, which is propagation and clock offset; and the error and bend of references, each left out in turn.

use super::config::ReceiverConfig;
use super::curve::{Anchor, CurvePoint, RunningBend};
use super::interval::Mark;
use super::since_ns;

/// A time in which the link had nothing to send. No packet waits at its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Idle {
    /// When the last busy period ended.
    pub(super) from_ns: u64,
    /// When the next one began.
    pub(super) to_ns: u64,
}

/// Detects idle times: a service starts later than the previous departure.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BusyPeriods {
    departed_ns: Option<u64>,
    /// Start of the current busy period, if known.
    pub(super) since_ns: Option<u64>,
    /// From the end of the first to the start of the last busy period since this was last taken.
    pub(super) idle: Option<Idle>,
    /// The first idle time since this was last taken.
    pub(super) first: Option<Idle>,
}

impl BusyPeriods {
    /// Notes the departure of any packet at `departed_ns`, `serialisation_ns` after its service began.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "over 0, and a float to an integer saturates"
    )]
    pub(super) fn packet(&mut self, departed_ns: u64, serialisation_ns: f64) {
        let previous_ns = self.departed_ns.replace(departed_ns);
        let Some(from_ns) = previous_ns else { return };
        if since_ns(departed_ns, from_ns) - serialisation_ns <= ReceiverConfig::IDLE_TOLERANCE_NS {
            return;
        }
        let to_ns = departed_ns.wrapping_sub(serialisation_ns.round() as u64);
        self.idle(Idle { from_ns, to_ns });
    }

    /// Notes that the link had nothing to send.
    #[inline]
    pub(super) fn idle(&mut self, idle: Idle) {
        self.since_ns = Some(idle.to_ns);
        let from_ns = self.idle.map_or(idle.from_ns, |earlier| earlier.from_ns);
        self.idle = Some(Idle { from_ns, ..idle });
        self.first.get_or_insert(idle);
    }
}

/// Learns the base delay from references and the busy periods in which they were sent.
///
/// A reference was sent no earlier than its busy period began, so (beginning - send time) is at most the
/// base delay. It equals the base delay for a reference sent together with the packet that opened the busy
/// period: one behind such a packet, or one that found the link idle. The greatest value seen twice is
/// used, so that a single wrong stamp does no harm, over a window of references, so that clocks may drift.
#[derive(Debug, Clone, Copy)]
pub(super) struct BaseDelay {
    /// The base delay, if known.
    pub(super) known_ns: Option<f64>,
    best_ns: f64,
    hits: u32,
    seen: u32,
}

impl Default for BaseDelay {
    /// Nothing is known.
    fn default() -> Self {
        Self {
            known_ns: None,
            best_ns: f64::NEG_INFINITY,
            hits: 0,
            seen: 0,
        }
    }
}

impl BaseDelay {
    /// References of a window.
    const WINDOW: u32 = 256;

    /// Learns from a reference whose busy period began `bound_ns` after it was sent.
    fn learn(&mut self, bound_ns: f64) {
        self.seen += 1;
        // Stamps agree within this.
        let tolerance_ns = ReceiverConfig::IDLE_TOLERANCE_NS;
        if bound_ns > self.best_ns + tolerance_ns {
            self.best_ns = bound_ns;
            self.hits = 1;
        } else if bound_ns >= self.best_ns - tolerance_ns {
            self.hits += 1;
            self.best_ns += (bound_ns - self.best_ns) / f64::from(self.hits);
        }
        let confirmed = self.hits >= 2;
        let full = self.seen >= Self::WINDOW;
        if confirmed && (full || self.known_ns.is_none_or(|known_ns| known_ns < self.best_ns)) {
            self.known_ns = Some(self.best_ns);
        }
        if full {
            self.seen = 0;
            self.hits = 0;
            self.best_ns = f64::NEG_INFINITY;
        }
    }
}

/// Running figures of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Learnt {
    pub(super) base: BaseDelay,
    /// The usual bend.
    pub(super) bend: RunningBend,
    /// Mean of the squared errors of references.
    pub(super) squared_error_ns2: f64,
}

impl Learnt {
    /// Weight of the newest error in the running mean.
    const ERROR_WEIGHT: f64 = 0.125;

    /// Least weight of an error relative to the mean, because some references are on the line by chance.
    /// Chosen so that the nominal 98 % bound of RLI covers 98 %.
    const ERROR_LEAST: f64 = 0.1;

    /// Learns the base delay from a reference behind an idle time.
    pub(super) fn base_delay(&mut self, mark: &Mark) {
        if let Some(began_ns) = mark.busy_since_ns {
            self.base.learn(since_ns(began_ns, mark.sent_ns));
        }
    }

    /// Leaves `mark` out: learns its distance from the line between its neighbours (its error), and from
    /// the line between the anchors around it (the bend). `idle_behind` is the first idle time between it
    /// and `right`.
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
        if let Some(base_ns) = self.base.known_ns {
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
