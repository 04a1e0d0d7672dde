//! What a worker does without packets.

use std::fs;
use std::path::Path;
use std::time::Duration;

use contract::config::Idle;

/// Empty passes before a worker that may sleep does so: about 10 us.
const PASSES_BEFORE_SLEEP: u32 = 64;

/// Shortest and longest sleep; each is twice the previous one. The time that a packet waits because of a
/// sleep is not in its stamped delay, but in the gap between polls, which is exported.
const SLEEP_MIN: Duration = Duration::from_micros(1);
const SLEEP_MAX: Duration = Duration::from_micros(50);

/// How late the kernel may wake a worker; 50 us by default.
const TIMER_SLACK_NS: u32 = 1_000;

/// Pauses between passes as configured.
#[derive(Debug)]
pub struct IdlePolicy {
    idle: Idle,
    empty_passes: u32,
    sleep: Duration,
}

impl IdlePolicy {
    /// A new policy for the calling thread.
    pub fn new(idle: Idle) -> Self {
        if idle == Idle::Sleep {
            tighten_timers();
        }
        Self {
            idle,
            empty_passes: 0,
            sleep: SLEEP_MIN,
        }
    }

    /// Called after a pass in which packets moved, or stayed queued.
    #[inline]
    pub fn worked(&mut self) {
        self.empty_passes = 0;
    }

    /// Called after any other pass.
    #[inline]
    pub fn rest(&mut self) {
        match self.idle {
            Idle::Spin => {}
            Idle::Pause => std::hint::spin_loop(),
            Idle::Sleep => match self.nap() {
                Some(nap) => std::thread::sleep(nap),
                None => std::hint::spin_loop(),
            },
        }
    }

    /// Time to sleep after another empty pass, if any.
    fn nap(&mut self) -> Option<Duration> {
        self.empty_passes = self.empty_passes.saturating_add(1);
        if self.empty_passes <= PASSES_BEFORE_SLEEP {
            self.sleep = SLEEP_MIN;
            return None;
        }
        let nap = self.sleep;
        self.sleep = (2 * nap).min(SLEEP_MAX);
        Some(nap)
    }
}

/// Makes the kernel wake the calling thread on time (`prctl(PR_SET_TIMERSLACK)`, by its file).
fn tighten_timers() {
    let set = || {
        let thread = fs::read_link("/proc/thread-self")?;
        let thread = Path::new("/proc").join(thread.file_name().unwrap_or_default());
        fs::write(thread.join("timerslack_ns"), TIMER_SLACK_NS.to_string())
    };
    if let Err(error) = set() {
        tracing::debug!("sleeps may last 50 us longer: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_grow_while_nothing_comes_and_begin_anew() {
        let mut policy = IdlePolicy::new(Idle::Sleep);
        for _ in 0..2 {
            let naps: Vec<_> = (0..PASSES_BEFORE_SLEEP + 8).map(|_| policy.nap()).collect();
            let (spun, slept) = naps.split_at(PASSES_BEFORE_SLEEP as usize);
            assert!(spun.iter().all(Option::is_none));
            let micros: Vec<_> = slept.iter().map(|nap| nap.unwrap().as_micros()).collect();
            assert_eq!(micros, [1, 2, 4, 8, 16, 32, 50, 50]);
            policy.worked();
        }
    }

    #[test]
    fn a_thread_that_sleeps_wakes_on_time() {
        std::thread::spawn(|| {
            tighten_timers();
            let thread = fs::read_link("/proc/thread-self").unwrap();
            let file = Path::new("/proc").join(thread.file_name().unwrap());
            let slack = fs::read_to_string(file.join("timerslack_ns")).unwrap();
            assert_eq!(slack.trim(), "1000");
        })
        .join()
        .unwrap();
    }
}
