//! What the system's clock is synchronised to, and how well.

use std::time::Duration;

use wire::frame::ClockState;

use contract::config::WireClock;
use contract::labelled_enum;

/// How fast a clock drifts that is not synchronised any more, in parts of 10^9: as a quartz does when its
/// temperature changes.
const HOLDOVER_PPB: f64 = 10_000.0;

/// A clock with a greater error follows nothing: ten milliseconds, a quarter of an hour after
/// synchronisation was lost.
const HOLDOVER_ERROR_NS_MAX: f64 = 10e6;

labelled_enum! {
    /// What a clock's claimed error is.
    pub enum ErrorSource {
        /// What the configuration says: at most.
        Configured = "configured",
        /// The kernel's `esterror`: an estimate, of chrony and ntpd a standard deviation. The clock may be off by more.
        Estimated = "estimated",
        /// The kernel's `maxerror`: at most.
        Maximum = "maximum",
    }
}

/// The kernel's state of the system's clock (`adjtimex(2)`), as the program that synchronises it sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelClock {
    /// Whether it is synchronised: neither `STA_UNSYNC` nor `STA_CLOCKERR`.
    pub is_synchronised: bool,
    /// `esterror` in microseconds: an estimate of the error, no bound.
    pub estimated_error_us: u64,
    /// `maxerror` in microseconds: a bound of the error.
    pub error_us_max: u64,
}

impl KernelClock {
    /// Its error in nanoseconds, and which it is. linuxptp sets only `maxerror`, chrony and ntpd both: the lesser
    /// one is the one that is set. It is no less than its unit.
    fn error_ns(&self) -> (f64, ErrorSource) {
        let (error_us, source) = if self.estimated_error_us < self.error_us_max {
            (self.estimated_error_us, ErrorSource::Estimated)
        } else {
            (self.error_us_max, ErrorSource::Maximum)
        };
        (error_us.max(1) as f64 * 1e3, source)
    }
}

/// Follows the state of the clock.
#[derive(Debug)]
pub struct Discipline {
    configured: WireClock,
    /// When the clock was last synchronised, by a clock that never steps, and its error.
    kept: Option<(Duration, f64)>,
    source: ErrorSource,
}

impl Discipline {
    /// As the configuration says.
    pub fn new(configured: WireClock) -> Self {
        Self {
            configured,
            kept: None,
            source: ErrorSource::Configured,
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

    /// Takes the kernel's state `now`, by a clock that never steps; the clock's state, and its error in
    /// nanoseconds.
    pub fn look(&mut self, now: Duration, kernel: Option<KernelClock>) -> (ClockState, f64) {
        if let Some(error_ns) = self.configured.error_ns {
            self.source = ErrorSource::Configured;
            return (ClockState::Locked, f64::from(error_ns));
        }
        if let Some(kernel) = kernel.filter(|kernel| kernel.is_synchronised) {
            let (error_ns, source) = kernel.error_ns();
            self.source = source;
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

    /// What the error is that was last returned, where the clock is not free.
    pub fn source(&self) -> ErrorSource {
        self.source
    }

    /// The clock was set: nothing is known of it any more, unless it is still synchronised.
    pub fn stepped(&mut self) {
        self.kept = None;
    }
}
