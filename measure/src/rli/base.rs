//! The delay that a packet has without any wait: propagation, and what clocks differ by.

use super::config::ReceiverConfig;

/// Learns the base delay from references and the busy periods that they were sent in.
///
/// A reference was sent no earlier than its busy period began, so that (begin - send time) is the
/// base delay at most, and the base delay itself for one sent together with the packet that opened
/// the busy period: those behind such a packet, and those that found the link idle. The greatest
/// that was seen twice is taken, so that a single stamp that is wrong does no harm; a window of
/// references at a time, so that clocks may drift.
#[derive(Debug, Clone, Copy)]
pub(super) struct BaseDelay {
    known_ns: Option<f64>,
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

    /// The base delay, as far as is known.
    pub(super) fn known_ns(&self) -> Option<f64> {
        self.known_ns
    }

    /// Learns from a reference whose busy period began `bound_ns` after it was sent.
    pub(super) fn learn(&mut self, bound_ns: f64) {
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
