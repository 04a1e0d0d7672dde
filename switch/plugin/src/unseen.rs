//! Says, once, that the program has ports whose packets nothing shows.

use std::time::{Duration, Instant};

/// How often it is asked: that reads the names of all threads.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Whether it was said, and when it was asked last.
#[derive(Debug, Default)]
pub struct Unseen {
    is_said: bool,
    asked: Option<Instant>,
}

impl Unseen {
    /// Asks, if it is time.
    pub fn look(&mut self) {
        let is_due = |asked: Instant| asked.elapsed() >= ASK_EVERY;
        if self.is_said || !self.asked.is_none_or(is_due) {
            return;
        }
        self.asked = Some(Instant::now());
        if dpdk_bindings::misses_vhost() {
            self.is_said = true;
            tracing::warn!(
                "vhost-user ports of this program are not measured: it moves their packets by rte_vhost_dequeue_burst and \
                 rte_vhost_enqueue_burst, and libvernier_vhost.so is not preloaded (LD_PRELOAD; see plugin.md)"
            );
        }
    }
}
