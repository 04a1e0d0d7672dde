//! What a worker does when there is nothing to do.

use std::time::Duration;

use control::config::Idle;

/// Empty passes before a worker that may sleep does.
const PASSES_BEFORE_SLEEP: u32 = 64;

/// Longest sleep: what it adds to a packet's wait for its first sight.
const SLEEP: Duration = Duration::from_micros(50);

/// Rests between passes as configured.
#[derive(Debug)]
pub struct IdlePolicy {
    idle: Idle,
    empty_passes: u32,
}

impl IdlePolicy {
    /// A policy that has not rested yet.
    pub fn new(idle: Idle) -> Self {
        Self {
            idle,
            empty_passes: 0,
        }
    }

    /// To be called after each pass; `busy` says that packets moved or wait.
    #[inline]
    pub fn rest(&mut self, busy: bool) {
        if busy {
            self.empty_passes = 0;
            return;
        }
        match self.idle {
            Idle::Spin => {}
            Idle::Pause => std::hint::spin_loop(),
            Idle::Sleep => {
                self.empty_passes = self.empty_passes.saturating_add(1);
                if self.empty_passes > PASSES_BEFORE_SLEEP {
                    std::thread::sleep(SLEEP);
                } else {
                    std::hint::spin_loop();
                }
            }
        }
    }
}
