//! Busy periods of a link, from the departures of all its packets.

use super::config::ReceiverConfig;
use super::since_ns;

/// A time in which the link had nothing to send. Nothing waits at its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Idle {
    /// When the last busy period ended.
    pub(super) from_ns: u64,
    /// When the next one began.
    pub(super) to_ns: u64,
}

/// Tells idle times: where a service starts later than the previous departure.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BusyPeriods {
    departed_ns: Option<u64>,
    /// When the present busy period began.
    since_ns: Option<u64>,
    /// Idle time since this was last taken; what is between several of them is left out.
    idle: Option<Idle>,
    /// The first idle time since this was last taken.
    first: Option<Idle>,
}

impl BusyPeriods {
    /// A packet of any kind departed at `departed_ns`, `serialisation_ns` after its service began.
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

    /// The link had nothing to send.
    #[inline]
    pub(super) fn idle(&mut self, idle: Idle) {
        self.since_ns = Some(idle.to_ns);
        let from_ns = self.idle.map_or(idle.from_ns, |earlier| earlier.from_ns);
        self.idle = Some(Idle { from_ns, ..idle });
        self.first.get_or_insert(idle);
    }

    /// When the present busy period began, as far as is known.
    pub(super) fn since_ns(&self) -> Option<u64> {
        self.since_ns
    }

    /// From the end of the first to the beginning of the last busy period since this was last
    /// asked.
    #[inline]
    pub(super) fn take_idle(&mut self) -> Option<Idle> {
        self.idle.take()
    }

    /// The first idle time since this was last asked.
    pub(super) fn take_first(&mut self) -> Option<Idle> {
        self.first.take()
    }
}
