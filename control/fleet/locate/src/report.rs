//! What comes in, and what is known of a segment after its last report: all that explaining a path needs, as plain data, so that
//! who explains a path need not have the histories.

use measure::labelled_enum;
use prost::Message;
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

labelled_enum! {
    /// What can rise.
    pub enum Signal {
        /// The mean delay.
        Delay = "delay",
        /// The share of packets lost.
        Loss = "loss",
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

/// The localisation's findings about a segment, in the form in which a switch's state keeps them, so that all stations give the same.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Found {
    /// Delay now, in nanoseconds: since it rose, or over the last five intervals with packets. Absent without any.
    #[prost(float, optional, tag = "1")]
    pub present_ns: Option<f32>,
    /// Its standard error.
    #[prost(float, tag = "2")]
    pub present_error_ns: f32,
    /// Share of packets lost in the same time; absent where losses are not known.
    #[prost(float, optional, tag = "3")]
    pub present_loss: Option<f32>,
    /// Its standard error.
    #[prost(float, tag = "4")]
    pub present_loss_error: f32,
    /// Usual delay, in nanoseconds; absent before the first ten intervals with delays.
    #[prost(float, optional, tag = "5")]
    pub usual_ns: Option<f32>,
    /// Usual share of packets lost.
    #[prost(float, tag = "6")]
    pub usual_loss: f32,
    /// There is history enough to find a rise of its delay.
    #[prost(bool, tag = "7")]
    pub is_ready: bool,
    /// The rise of its delay, in nanoseconds, while it lasts.
    #[prost(message, optional, tag = "8")]
    pub delay: Option<Rise>,
    /// The rise of its losses, as a share of packets, while it lasts.
    #[prost(message, optional, tag = "9")]
    pub loss: Option<Rise>,
    /// Since when the clocks of its ends are not synchronised, in milliseconds since 1970 (UTC).
    #[prost(uint64, optional, tag = "10")]
    pub unsynchronised_since_ms: Option<u64>,
    /// When a clock was set the last time, likewise.
    #[prost(uint64, optional, tag = "11")]
    pub step_since_ms: Option<u64>,
    /// By how much the delays shifted then, in nanoseconds.
    #[prost(float, tag = "12")]
    pub step_shift_ns: f32,
}

/// A rise that lasts.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Rise {
    /// By how much.
    #[prost(float, tag = "1")]
    pub by: f32,
    /// Its standard error.
    #[prost(float, tag = "2")]
    pub error: f32,
    /// From when it is dated, in milliseconds since 1970 (UTC).
    #[prost(uint64, tag = "3")]
    pub since_ms: u64,
}

/// A segment at one point in time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Finding {
    /// Findings after its last interval.
    pub found: Found,
    /// End of that interval, milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Standard deviation of the packets' delays in it, in nanoseconds.
    pub deviation_ns: Option<f64>,
    /// Their 99th percentile.
    pub p99_ns: Option<f64>,
    /// Since when there is no report, where there should be.
    pub silent_since_ms: Option<u64>,
}

impl Rise {
    /// Probability that at least half of the rise is there, by its standard error.
    pub fn confidence(&self) -> f64 {
        let normal = Normal::standard();
        normal.cdf(f64::from(self.by) / 2.0 / f64::from(self.error).max(f64::MIN_POSITIVE))
    }
}

impl Finding {
    /// The rise of a signal, unless measuring is at fault.
    pub fn rise(&self, signal: Signal) -> Option<Rise> {
        let rise = match signal {
            Signal::Delay => {
                (self.found.delay).filter(|_| self.found.unsynchronised_since_ms.is_none())
            }
            Signal::Loss => self.found.loss,
        };
        rise.filter(|_| self.silent_since_ms.is_none())
    }

    /// What is wrong with measuring it.
    pub fn faults(&self, segment: &str, now_ms: u64) -> Vec<MeasuringFault> {
        let silent = self.silent_since_ms.map(|since| (SILENT, since));
        let clock = self.found.unsynchronised_since_ms;
        let clock = clock.map(|since| (UNSYNCHRONISED, since));
        let faults = silent.into_iter().chain(clock);
        let faults = faults.map(|(what, since_ms)| fault(what, segment, since_ms));
        faults.chain(self.step_fault(segment, now_ms)).collect()
    }

    /// The last step of a clock, while it is shown.
    pub fn step_fault(&self, segment: &str, now_ms: u64) -> Option<MeasuringFault> {
        let is_shown = |since_ms: &u64| now_ms.saturating_sub(*since_ms) < STEP_SHOWN_MS;
        let since_ms = self.found.step_since_ms.filter(is_shown)?;
        let shift_us = f64::from(self.found.step_shift_ns).abs() / 1e3;
        let words = format!(
            "both directions shifted by {shift_us:.1} us in opposite senses: a clock was set"
        );
        Some(fault(("clock_step", &words), segment, since_ms))
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
pub fn fault((what, words): (&str, &str), segment: &str, since_ms: u64) -> MeasuringFault {
    MeasuringFault {
        what: what.to_owned(),
        place: segment.to_owned(),
        since_unix_s: (since_ms > 0).then(|| seconds(since_ms)),
        words: words.to_owned(),
    }
}
