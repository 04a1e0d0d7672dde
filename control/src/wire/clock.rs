//! The system's clock and its quality: workers read TAI from the line maintained here ([`SharedLine`]).
//!
//! The clock is read between two readings of the counter, and the tightest of several attempts is used; the line fits
//! the readings of the last two seconds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use measure::time::{TickRate, Ticks};
use wire::exchange::ClockView;
use wire::frame::ClockState;

use crate::data_plane::{DataPlane, KernelClock, NS_PER_S, SystemTime};
use contract::config::WireClock;
use contract::labelled_enum;
use contract::wire::clock::{SharedLine, TaiLine};

/// Drift of a clock that is no longer synchronised, in parts of 10^9: that of a quartz when its temperature
/// changes.
const HOLDOVER_PPB: f64 = 10_000.0;

/// A clock with a greater error counts as free: ten milliseconds, a quarter of an hour after
/// synchronisation was lost.
const HOLDOVER_ERROR_NS_MAX: f64 = 10e6;

labelled_enum! {
    /// Kind of a clock's claimed error.
    pub enum ErrorSource {
        /// The configured error: a bound.
        Configured = "configured",
        /// The kernel's `esterror`: an estimate; from chrony and ntpd a standard deviation, which the clock's error
        /// may exceed.
        Estimated = "estimated",
        /// The kernel's `maxerror`: a bound.
        Maximum = "maximum",
    }
}

impl KernelClock {
    /// Its error in nanoseconds, and the kind. linuxptp sets only `maxerror`, chrony and ntpd both: the smaller
    /// one is the one that was set. At least one unit.
    fn error_ns(&self) -> (f64, ErrorSource) {
        let (error_us, source) = if self.estimated_error_us < self.error_us_max {
            (self.estimated_error_us, ErrorSource::Estimated)
        } else {
            (self.error_us_max, ErrorSource::Maximum)
        };
        (error_us.max(1) as f64 * 1e3, source)
    }
}

/// Tracks the state of the clock.
#[derive(Debug)]
struct Discipline {
    configured: WireClock,
    /// When the clock was last synchronised, by a clock that never steps, and its error.
    kept: Option<(Duration, f64)>,
    /// Kind of the last returned error, if the clock is not free.
    source: ErrorSource,
}

impl Discipline {
    fn new(configured: WireClock) -> Self {
        Self {
            configured,
            kept: None,
            source: ErrorSource::Configured,
        }
    }

    /// Takes the kernel's state at `now`, by a clock that never steps; returns the clock's state, and its
    /// error in nanoseconds.
    fn look(&mut self, now: Duration, kernel: Option<KernelClock>) -> (ClockState, f64) {
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
}

/// Interval between readings.
const PERIOD: Duration = Duration::from_millis(100);

/// Interval while there are few readings.
const PERIOD_AT_FIRST: Duration = Duration::from_millis(10);

/// Age of the readings used for the line.
const WINDOW: Duration = Duration::from_secs(2);

/// With fewer readings nothing is known of the clock: neither that it is synchronised nor that it was set.
const READINGS_MIN: usize = 8;

/// Attempts at each reading; the tightest counts.
const ATTEMPTS: usize = 5;

/// Width beyond which a reading is discarded, if it is also wider than the tightest by this factor.
const WIDTH_NS: f64 = 10_000.0;
const WIDTHS: f64 = 4.0;

/// A step exceeds the usual noise by this factor,
const STEP_NOISES: f64 = 50.0;

/// and at least this,
const STEP_NS_MIN: f64 = 5_000.0;

/// or this in any case.
const STEP_NS: f64 = 1e6;

/// Weight of the newest residual in the usual noise.
const NOISE_WEIGHT: f64 = 0.1;

/// Last known state of the clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockStatus {
    /// The part sent in hellos. Its error includes the line's.
    pub view: ClockView,
    /// Kind of the error, apart from the line's.
    pub error_source: ErrorSource,
    /// The greatest distance of a reading from the line, plus the readings' width.
    pub fit_error_ns: f64,
    /// Number of times that the clock was set.
    pub steps: u64,
    /// The last of them, in nanoseconds.
    pub last_step_ns: Option<f64>,
}

/// Both clocks at once.
#[derive(Debug, Clone, Copy)]
struct Reading {
    ticks: Ticks,
    /// Ticks between the two readings of the counter.
    width_ticks: u64,
    system: SystemTime,
}

/// Maintains the line.
#[derive(Debug)]
pub struct TaiClock {
    rate: TickRate,
    line: Arc<SharedLine>,
    present: Option<TaiLine>,
    readings: VecDeque<Reading>,
    discipline: Discipline,
    noise_ns: f64,
    status: ClockStatus,
}

impl TaiClock {
    /// A clock that maintains `line`; the counter runs at about `rate`.
    pub fn new(rate: TickRate, line: Arc<SharedLine>) -> Self {
        let configured = WireClock::default();
        Self {
            rate,
            line,
            present: None,
            readings: VecDeque::new(),
            discipline: Discipline::new(configured),
            noise_ns: 0.0,
            status: ClockStatus {
                view: ClockView {
                    state: ClockState::Free,
                    error_ns: u32::MAX,
                    tai_utc_s: 0,
                    ptp_domain: configured.ptp_domain,
                },
                error_source: ErrorSource::Configured,
                fit_error_ns: 0.0,
                steps: 0,
                last_step_ns: None,
            },
        }
    }

    /// Applies another configuration.
    pub fn configure(&mut self, configured: WireClock) {
        self.discipline.configured = configured;
    }

    /// Forgets all readings, after a panic.
    pub fn start_anew(&mut self) {
        let configured = self.discipline.configured;
        *self = Self::new(self.rate, Arc::clone(&self.line));
        self.configure(configured);
    }

    /// The line; `None` before the first look.
    pub fn line(&self) -> Option<TaiLine> {
        self.present
    }

    /// Reads the clocks if due, and updates the line. Costs about a microsecond, ten times a second.
    pub fn look(&mut self, source: &mut dyn DataPlane) -> ClockStatus {
        if !self.is_due(source.now()) {
            return self.status;
        }
        let mut reading = read(source);
        if self.is_too_wide(&reading) {
            return self.status;
        }
        if let Some(first_ns) = self.step_ns(&reading) {
            // A thread interrupted between two readings would show a false step.
            reading = read(source);
            match self.step_ns(&reading) {
                Some(step_ns) if (step_ns - first_ns).abs() < self.step_limit_ns(&reading) => {
                    self.step(step_ns);
                }
                Some(_) => return self.status,
                None => {}
            }
        }
        self.take(reading);
        let now = Duration::from_nanos(whole(self.rate.to_ns(reading.ticks.0 as f64)));
        let (state, error_ns) = self.discipline.look(now, source.kernel_clock());
        self.status.error_source = self.discipline.source;
        let is_known = self.readings.len() >= READINGS_MIN;
        self.status.view = ClockView {
            state: if is_known { state } else { ClockState::Free },
            error_ns: u32::try_from(whole((error_ns + self.status.fit_error_ns).ceil()))
                .unwrap_or(u32::MAX),
            tai_utc_s: reading.system.tai_utc_s,
            ptp_domain: self.discipline.configured.ptp_domain,
        };
        self.status
    }

    /// Nanoseconds from the newest reading to `ticks`; infinite before the first.
    fn since_newest_ns(&self, ticks: Ticks) -> f64 {
        let newest = self.readings.back();
        newest.map_or(f64::INFINITY, |newest| {
            self.rate.to_ns(ticks.since(newest.ticks) as f64)
        })
    }

    fn is_due(&self, ticks: Ticks) -> bool {
        let period = if self.readings.len() < READINGS_MIN {
            PERIOD_AT_FIRST
        } else {
            PERIOD
        };
        self.since_newest_ns(ticks) >= period.as_nanos() as f64
    }

    /// Whether the newest reading is no older than the window.
    fn is_fresh(&self, reading: &Reading) -> bool {
        self.since_newest_ns(reading.ticks) <= WINDOW.as_nanos() as f64
    }

    /// Whether to discard a reading during which the thread was interrupted. It reads again at the next
    /// call, as long as the line is fresh and other readings were better.
    fn is_too_wide(&self, reading: &Reading) -> bool {
        let tightest = self.readings.iter().map(|one| self.width_ns(one));
        let usual_ns = WIDTHS * tightest.fold(f64::INFINITY, f64::min);
        self.is_fresh(reading) && self.width_ns(reading) > usual_ns.max(WIDTH_NS)
    }

    fn width_ns(&self, reading: &Reading) -> f64 {
        self.rate.to_ns(reading.width_ticks as f64)
    }

    /// Least distance from the line at which a reading is a step.
    fn step_limit_ns(&self, reading: &Reading) -> f64 {
        if !self.is_fresh(reading) || self.readings.len() < READINGS_MIN {
            // The line has the counter's nominal rate, or is old.
            return STEP_NS + self.width_ns(reading);
        }
        (STEP_NOISES * self.noise_ns).clamp(STEP_NS_MIN, STEP_NS) + self.width_ns(reading)
    }

    /// A reading's distance from the line, if that is a step.
    fn step_ns(&self, reading: &Reading) -> Option<f64> {
        let off_ns = off_ns(&self.present?, reading);
        (off_ns.abs() > self.step_limit_ns(reading)).then_some(off_ns)
    }

    fn step(&mut self, by_ns: f64) {
        self.status.steps += 1;
        self.status.last_step_ns = Some(by_ns);
        self.readings.clear();
        // Its error is unknown now, unless it is still synchronised.
        self.discipline.kept = None;
        self.line.count_step();
    }

    /// Adds a reading and fits the line to all of them.
    fn take(&mut self, reading: Reading) {
        let known = self.present.filter(|_| !self.readings.is_empty());
        if let Some(line) = known {
            let off_ns = off_ns(&line, &reading).abs();
            self.noise_ns += NOISE_WEIGHT * (off_ns - self.noise_ns);
        }
        self.readings.push_back(reading);
        let age_ns = |old: &Reading| self.rate.to_ns(reading.ticks.since(old.ticks) as f64);
        let window_ns = WINDOW.as_nanos() as f64;
        while self
            .readings
            .pop_front_if(|old| age_ns(old) > window_ns)
            .is_some()
        {}
        let ns_per_tick = self.slope(&reading);
        let line = self.through(&reading, ns_per_tick);
        let off = self.readings.iter().map(|one| off_ns(&line, one).abs());
        let width_ns = self.width_ns(&reading);
        self.status.fit_error_ns = off.fold(0.0, f64::max) + width_ns / 2.0;
        self.line.set(line);
        self.present = Some(line);
    }

    /// Nanoseconds in a tick: least squares if there are enough readings, else unchanged.
    fn slope(&self, newest: &Reading) -> f64 {
        const Q32: f64 = 4_294_967_296.0;
        let nominal = NS_PER_S as f64 / self.rate.hz() as f64;
        let before = self
            .present
            .map_or(nominal, |line| line.ns_per_tick_q32 as f64 / Q32);
        if self.readings.len() < READINGS_MIN {
            return before;
        }
        let (mean_x, mean_y) = self.centre(newest);
        let (mut xx, mut xy) = (0.0, 0.0);
        for one in &self.readings {
            let (x, y) = between(newest, one);
            xx += (x - mean_x) * (x - mean_x);
            xy += (x - mean_x) * (y - mean_y);
        }
        let slope = xy / xx;
        // A counter never differs from its nominal rate by more than a hundredth.
        let is_sound = (slope / nominal - 1.0).abs() < 0.01;
        if is_sound { slope } else { before }
    }

    /// Means of ticks and nanoseconds since the newest reading.
    fn centre(&self, newest: &Reading) -> (f64, f64) {
        let number = self.readings.len().max(1) as f64;
        let sums = self.readings.iter().fold((0.0, 0.0), |(x, y), one| {
            let (dx, dy) = between(newest, one);
            (x + dx, y + dy)
        });
        (sums.0 / number, sums.1 / number)
    }

    fn through(&self, newest: &Reading, ns_per_tick: f64) -> TaiLine {
        let (mean_x, mean_y) = self.centre(newest);
        let at_newest_ns = (mean_y - ns_per_tick * mean_x).round();
        #[expect(clippy::cast_possible_truncation, reason = "within seconds")]
        let at_newest_ns = at_newest_ns as i64;
        TaiLine {
            ticks: newest.ticks,
            tai_ns: newest.system.tai_ns.wrapping_add_signed(at_newest_ns),
            ns_per_tick_q32: whole((ns_per_tick * 4_294_967_296.0).round()),
        }
    }
}

/// Reads both clocks; uses the tightest of several attempts.
fn read(source: &mut dyn DataPlane) -> Reading {
    let mut attempt = || {
        let before = source.now();
        let system = source.system_time();
        let width_ticks = source.now().since(before);
        Reading {
            ticks: before.plus(width_ticks / 2),
            width_ticks,
            system,
        }
    };
    let first = attempt();
    (1..ATTEMPTS).fold(first, |best, _| {
        let next = attempt();
        let is_tighter = next.width_ticks < best.width_ticks;
        if is_tighter { next } else { best }
    })
}

/// A reading's distance from a line in nanoseconds.
fn off_ns(line: &TaiLine, reading: &Reading) -> f64 {
    let by_line = line.tai_ns(reading.ticks);
    reading.system.tai_ns.wrapping_sub(by_line).cast_signed() as f64
}

/// Ticks and nanoseconds from one reading to another; negative if the order is reversed.
fn between(from: &Reading, to: &Reading) -> (f64, f64) {
    let ticks = to.ticks.signed_since(from.ticks);
    let ns = to
        .system
        .tai_ns
        .wrapping_sub(from.system.tai_ns)
        .cast_signed();
    (ticks as f64, ns as f64)
}

fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and is not below 0"
    )]
    let whole = number.max(0.0) as u64;
    whole
}

#[cfg(test)]
mod tests;
