//! Times of stamps, and of a link.

use measure::rli::Link;
use measure::time::{TickRate, Ticks};

/// Ticks to nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
    pub(super) rate: TickRate,
}

impl Units {
    #[inline]
    pub(super) fn ns(&self, instant: Ticks) -> u64 {
        self.rate.ticks_to_ns(instant.0)
    }
}

/// When a port's link has sent all that it took, for streams that take idle times into account.
#[derive(Debug, Default)]
pub(super) struct LinkClock {
    pub(super) link: Option<Link>,
    free_at_ns: Option<u64>,
    pub(super) streams: Vec<usize>,
}

impl LinkClock {
    /// A packet was sent. If the link had nothing to send when it arrived: since when.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a float to an integer saturates"
    )]
    pub(super) fn sent(
        &mut self,
        arrived_ns: u64,
        departed_ns: u64,
        len_bytes: u32,
    ) -> Option<u64> {
        let busy_ns = self.link?.serialisation_ns(len_bytes) as u64;
        let begins_ns = self
            .free_at_ns
            .map_or(departed_ns, |free_at_ns| free_at_ns.max(departed_ns));
        let free_at_ns = self.free_at_ns.replace(begins_ns.saturating_add(busy_ns));
        free_at_ns.filter(|free_at_ns| *free_at_ns <= arrived_ns)
    }
}
