//! What comes in, and what is known of a segment after its last report: all that explaining a path needs, as plain data, so that
//! who explains a path need not have the histories.

use records::station::MeasuringFault;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// What was measured of a segment over one interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// End of the interval, milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Its length in milliseconds, above 0.
    pub interval_ms: u32,
    /// Packets whose delay was measured; without any the figures of delay say nothing.
    pub packets: u64,
    /// Mean delay in nanoseconds. It can be negative where clocks differ.
    pub mean_ns: f64,
    /// Half-width of the mean's nominal 98 % interval in nanoseconds; `None` if it is not known, 0 if it is exact.
    pub bound_ns: Option<f64>,
    /// Standard deviation of the packets' delays, in nanoseconds.
    pub deviation_ns: Option<f64>,
    /// Their 99th percentile, in nanoseconds.
    pub p99_ns: Option<f64>,
    /// Packets that entered the segment; `None` if losses are not known.
    pub sent: Option<u64>,
    /// How many of these were lost.
    pub lost: u64,
    /// The two ends' clocks are not synchronised: the delays are not used.
    pub clock_unsynchronised: bool,
}

/// What can rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The mean delay.
    Delay,
    /// The share of packets lost.
    Loss,
}

impl Signal {
    /// Its name in answers.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Loss => "loss",
        }
    }
}

/// Seconds of milliseconds.
pub fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// How long a step of a clock is shown.
const STEP_SHOWN_MS: u64 = 600_000;

/// Bounds are this many standard errors wide: the half of 98 %.
pub const BOUND_ERRORS: f64 = 2.326;

/// A mean with its standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// The mean: nanoseconds, or a share of packets.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

/// A rise that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rise {
    /// By how much: nanoseconds, or a share of packets.
    pub by: f64,
    /// Its standard error.
    pub error: f64,
    /// From when it is dated, milliseconds since 1970 (UTC).
    pub since_ms: u64,
}

/// A clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// By how much the delays shifted, in nanoseconds.
    pub shift_ns: f64,
    /// When, milliseconds since 1970 (UTC).
    pub since_ms: u64,
}

/// What is known of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// End of its last interval, milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Delay now: since it rose, or over the last five intervals with packets. `None` without any.
    pub present_ns: Option<Mean>,
    /// Share of packets lost in the same time; `None` where losses are not known.
    pub present_loss: Option<Mean>,
    /// Usual delay; `None` before the first ten intervals.
    pub usual_ns: Option<f64>,
    /// Usual share of packets lost.
    pub usual_loss: f64,
    /// Standard deviation of the packets' delays in the last interval, in nanoseconds.
    pub deviation_ns: Option<f64>,
    /// Their 99th percentile.
    pub p99_ns: Option<f64>,
    /// There is history enough to find a rise of its delay.
    pub is_ready: bool,
    /// The rise of its delay, while it lasts.
    pub delay: Option<Rise>,
    /// The rise of its losses, while it lasts.
    pub loss: Option<Rise>,
    /// Since when the clocks of its ends are not synchronised.
    pub unsynchronised_since_ms: Option<u64>,
    /// The last step of a clock.
    pub step: Option<Step>,
    /// Since when there is no report, where there should be.
    pub silent_since_ms: Option<u64>,
}

impl Rise {
    /// Probability that at least half of the rise is there, by its standard error.
    pub fn confidence(&self) -> f64 {
        let normal = Normal::standard();
        normal.cdf(self.by / 2.0 / self.error.max(f64::MIN_POSITIVE))
    }
}

impl Finding {
    /// The rise of a signal, unless measuring is at fault.
    pub fn rise(&self, signal: Signal) -> Option<Rise> {
        let rise = match signal {
            Signal::Delay => (self.delay).filter(|_| self.unsynchronised_since_ms.is_none()),
            Signal::Loss => self.loss,
        };
        rise.filter(|_| self.silent_since_ms.is_none())
    }

    /// What is wrong with measuring it.
    pub fn faults(&self, segment: &str, now_ms: u64) -> Vec<MeasuringFault> {
        let silent = self.silent_since_ms.map(|since| (SILENT, since));
        let clock = self.unsynchronised_since_ms;
        let clock = clock.map(|since| (UNSYNCHRONISED, since));
        let faults = silent.into_iter().chain(clock);
        let faults = faults.map(|(what, since_ms)| fault(what, segment, since_ms));
        faults.chain(self.step_fault(segment, now_ms)).collect()
    }

    /// The last step of a clock, while it is shown.
    pub fn step_fault(&self, segment: &str, now_ms: u64) -> Option<MeasuringFault> {
        let shown = |step: &Step| now_ms.saturating_sub(step.since_ms) < STEP_SHOWN_MS;
        let step = self.step.filter(shown)?;
        let shift_us = step.shift_ns.abs() / 1e3;
        let words = format!(
            "both directions shifted by {shift_us:.1} us in opposite senses: a clock was set"
        );
        Some(fault(("clock_step", &words), segment, step.since_ms))
    }
}

/// No report for more than three intervals, or none at all.
pub(crate) const SILENT: (&str, &str) = (
    "silent",
    "its switch sends no reports: it is down, or cannot be reached",
);

const UNSYNCHRONISED: (&str, &str) = (
    "clock_unsynchronised",
    "the clock of one of its ends is not synchronised",
);

/// A fault of measuring a segment, in a word and in words; `since_ms` is 0 if its beginning is unknown.
pub(crate) fn fault((what, words): (&str, &str), segment: &str, since_ms: u64) -> MeasuringFault {
    MeasuringFault {
        what: what.to_owned(),
        place: segment.to_owned(),
        since_unix_s: (since_ms > 0).then(|| seconds(since_ms)),
        words: words.to_owned(),
    }
}
