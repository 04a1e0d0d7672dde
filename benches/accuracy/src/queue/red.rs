//! Random early detection (Floyd and Jacobson, IEEE/ACM Transactions on Networking 1993).

use rand::RngExt;
use rand_pcg::Pcg64;

use super::serialisation_ps;

/// Weight of the newest length of the queue in its average.
const WEIGHT: f64 = 0.002;
/// The highest probability of a drop between the thresholds.
const PROBABILITY_MAX: f64 = 0.1;
/// What an idle link is taken to have sent: packets of this size.
const IDLE_PACKET_BYTES: u32 = 500;

#[derive(Debug, Clone)]
pub(super) struct Red {
    /// Nothing is dropped below this average backlog, in bytes,
    least_bytes: f64,
    /// and everything above this one.
    most_bytes: f64,
    average_bytes: f64,
    /// Packets let in since the last drop, while between the thresholds.
    since_drop: u32,
    idle_from_ps: Option<u64>,
}

impl Red {
    /// Between a quarter and three quarters of a buffer.
    pub(super) fn new(buffer_bytes: u64) -> Self {
        Self {
            least_bytes: 0.25 * buffer_bytes as f64,
            most_bytes: 0.75 * buffer_bytes as f64,
            average_bytes: 0.0,
            since_drop: 0,
            idle_from_ps: None,
        }
    }

    /// The queue has run empty.
    pub(super) fn idle_from(&mut self, at_ps: u64) {
        self.idle_from_ps = Some(at_ps);
    }

    /// Whether a packet that finds `backlog_bytes` is dropped.
    pub(super) fn drops(
        &mut self,
        backlog_bytes: u64,
        now_ps: u64,
        capacity_bps: u64,
        rng: &mut Pcg64,
    ) -> bool {
        if let Some(idle_from_ps) = self.idle_from_ps.take() {
            // As if small packets had found the queue empty all the while.
            let packet_ps = serialisation_ps(IDLE_PACKET_BYTES, capacity_bps).max(1);
            let packets = now_ps.saturating_sub(idle_from_ps) as f64 / packet_ps as f64;
            self.average_bytes *= (1.0 - WEIGHT).powf(packets);
        }
        self.average_bytes += WEIGHT * (backlog_bytes as f64 - self.average_bytes);
        let span = self.most_bytes - self.least_bytes;
        let above = self.average_bytes - self.least_bytes;
        if above < 0.0 {
            self.since_drop = 0;
            return false;
        }
        if above >= span {
            self.since_drop = 0;
            return true;
        }
        // Spread evenly: the drop probability rises with each packet let in.
        let base = PROBABILITY_MAX * above / span;
        let left = 1.0 - f64::from(self.since_drop) * base;
        let drop = left <= base || rng.random::<f64>() < base / left;
        self.since_drop = if drop { 0 } else { self.since_drop + 1 };
        drop
    }
}
