//! What keeps the system's clock, and how well.

use std::time::Duration;

use measure::wire::frame::ClockState;

use contract::config::WireClock;

/// How fast a clock runs away that was kept until now, in parts of 10^9: what a quartz does when its
/// temperature changes.
const HOLDOVER_PPB: f64 = 10_000.0;

/// A clock that may be off by more follows nothing: ten milliseconds, a quarter of an hour after it was
/// lost.
const HOLDOVER_ERROR_NS_MAX: f64 = 10e6;

/// What the kernel says of the system's clock (`adjtimex(2)`), as the program that keeps it has set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelClock {
    /// Whether somebody keeps it: neither `STA_UNSYNC` nor `STA_CLOCKERR`.
    pub is_synchronised: bool,
    /// `esterror` in microseconds.
    pub estimated_error_us: u64,
    /// `maxerror` in microseconds.
    pub error_us_max: u64,
}

impl KernelClock {
    /// What it is off by in nanoseconds. linuxptp sets only the greatest error, chrony and ntpd both:
    /// the lesser one is the one that somebody keeps. Nothing is closer than their unit.
    fn error_ns(&self) -> f64 {
        let error_us = self.estimated_error_us.min(self.error_us_max);
        error_us.max(1) as f64 * 1e3
    }
}

/// Follows what the clock follows.
#[derive(Debug)]
pub struct Discipline {
    configured: WireClock,
    /// When the clock was last kept, by a clock that never steps, and what it was off by.
    kept: Option<(Duration, f64)>,
}

impl Discipline {
    /// As the configuration says.
    pub fn new(configured: WireClock) -> Self {
        Self {
            configured,
            kept: None,
        }
    }

    /// Another configuration.
    pub fn configure(&mut self, configured: WireClock) {
        self.configured = configured;
    }

    /// The PTP domain that is configured.
    pub fn ptp_domain(&self) -> u8 {
        self.configured.ptp_domain
    }

    /// Takes what the kernel says `now`, by a clock that never steps: the state, and what the clock is
    /// off by in nanoseconds.
    pub fn look(&mut self, now: Duration, kernel: Option<KernelClock>) -> (ClockState, f64) {
        if let Some(error_ns) = self.configured.error_ns {
            return (ClockState::Locked, f64::from(error_ns));
        }
        if let Some(kernel) = kernel.filter(|kernel| kernel.is_synchronised) {
            let error_ns = kernel.error_ns();
            self.kept = Some((now, error_ns));
            return (ClockState::Locked, error_ns);
        }
        let Some((since, error_ns)) = self.kept else {
            return (ClockState::Free, HOLDOVER_ERROR_NS_MAX);
        };
        let error_ns = error_ns + now.saturating_sub(since).as_secs_f64() * HOLDOVER_PPB;
        if error_ns > HOLDOVER_ERROR_NS_MAX {
            self.kept = None;
            return (ClockState::Free, HOLDOVER_ERROR_NS_MAX);
        }
        (ClockState::HoldingOver, error_ns)
    }

    /// Somebody set the clock: what was known of it is known no more, unless somebody still keeps it.
    pub fn stepped(&mut self) {
        self.kept = None;
    }
}
