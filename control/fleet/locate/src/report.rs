//! The input of localisation, and the findings about a segment after its last report: plain data that suffices to
//! explain a path without the histories.

use measure::labelled_enum;
use prost::Message;
use records::station::MeasuringFault;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// The measurements of a segment over one interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// End of the interval, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Length of the interval in milliseconds, above 0.
    pub interval_ms: u32,
    /// Packets whose delay was measured. If there are none, the delay figures are meaningless.
    pub packets: u64,
    /// Mean delay in nanoseconds. It can be negative if clocks differ.
    pub mean_ns: f64,
    /// Half-width of the mean's nominal 98 % interval in nanoseconds; `None` if unknown, 0 if exact.
    pub bound_ns: Option<f64>,
    /// Standard deviation of the packets' delays, in nanoseconds.
    pub deviation_ns: Option<f64>,
    /// 99th percentile of the packets' delays, in nanoseconds.
    pub p99_ns: Option<f64>,
    /// Packets that entered the segment; `None` if losses are unknown.
    pub sent: Option<u64>,
    /// Number of these packets that were lost.
    pub lost: u64,
    /// Whether the clocks at the two ends are not synchronised. If so, the delays are ignored.
    pub clock_unsynchronised: bool,
    /// Whether the segment leads through a device of another make. It may drop packets on purpose, and those addressed to
    /// the device itself never leave it. Not stored.
    #[serde(skip)]
    pub is_through_device: bool,
}

labelled_enum! {
    /// A quantity that can rise.
    pub enum Signal {
        /// The mean delay.
        Delay = "delay",
        /// The share of packets lost.
        Loss = "loss",
    }
}

/// Converts milliseconds to seconds.
pub fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// How long a clock step is shown.
const STEP_SHOWN_MS: u64 = 600_000;

/// Width of a bound in standard errors: half of the 98 % interval.
pub const BOUND_ERRORS: f64 = 2.326;

/// The findings about a segment, in the form stored in its switch's state, so that all stations give the same answer.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Found {
    /// Present delay, in nanoseconds: since it rose, or over the last five intervals with packets. Absent if there are
    /// none.
    #[prost(float, optional, tag = "1")]
    pub present_ns: Option<f32>,
    /// Standard error of the present delay.
    #[prost(float, tag = "2")]
    pub present_error_ns: f32,
    /// Share of packets lost in the same time; absent if losses are unknown.
    #[prost(float, optional, tag = "3")]
    pub present_loss: Option<f32>,
    /// Standard error of the present loss.
    #[prost(float, tag = "4")]
    pub present_loss_error: f32,
    /// Usual delay, in nanoseconds; absent before the first ten intervals with delays.
    #[prost(float, optional, tag = "5")]
    pub usual_ns: Option<f32>,
    /// Usual share of packets lost.
    #[prost(float, tag = "6")]
    pub usual_loss: f32,
    /// Whether the history is long enough to find a rise of the delay.
    #[prost(bool, tag = "7")]
    pub is_ready: bool,
    /// The rise of the delay, in nanoseconds, while it lasts.
    #[prost(message, optional, tag = "8")]
    pub delay: Option<Rise>,
    /// The rise of the losses, as a share of packets, while it lasts.
    #[prost(message, optional, tag = "9")]
    pub loss: Option<Rise>,
    /// Since when the clocks at the two ends are not synchronised, in milliseconds since 1970 (UTC).
    #[prost(uint64, optional, tag = "10")]
    pub unsynchronised_since_ms: Option<u64>,
    /// When a clock was last stepped, in milliseconds since 1970 (UTC).
    #[prost(uint64, optional, tag = "11")]
    pub step_since_ms: Option<u64>,
    /// Shift of the delays in that step, in nanoseconds.
    #[prost(float, tag = "12")]
    pub step_shift_ns: f32,
}

/// An ongoing rise.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Rise {
    /// Size of the rise.
    #[prost(float, tag = "1")]
    pub by: f32,
    /// Standard error of the size.
    #[prost(float, tag = "2")]
    pub error: f32,
    /// Estimated beginning, in milliseconds since 1970 (UTC).
    #[prost(uint64, tag = "3")]
    pub since_ms: u64,
}

/// A segment at one point in time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Finding {
    /// Findings after the last interval.
    pub found: Found,
    /// End of that interval, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Standard deviation of the packets' delays in it, in nanoseconds.
    pub deviation_ns: Option<f64>,
    /// 99th percentile of these delays.
    pub p99_ns: Option<f64>,
    /// Since when expected reports are missing.
    pub silent_since_ms: Option<u64>,
}

impl Rise {
    /// Returns the probability, given the standard error, that at least half of the rise is real.
    pub fn confidence(&self) -> f64 {
        let normal = Normal::standard();
        normal.cdf(f64::from(self.by) / 2.0 / f64::from(self.error).max(f64::MIN_POSITIVE))
    }
}

impl Finding {
    /// Returns the rise of a signal, unless its measurement is faulty.
    pub fn rise(&self, signal: Signal) -> Option<Rise> {
        let rise = match signal {
            Signal::Delay => {
                (self.found.delay).filter(|_| self.found.unsynchronised_since_ms.is_none())
            }
            Signal::Loss => self.found.loss,
        };
        rise.filter(|_| self.silent_since_ms.is_none())
    }

    /// Returns the faults in measuring the segment.
    pub fn faults(&self, segment: &str, now_ms: u64) -> Vec<MeasuringFault> {
        let silent = self.silent_since_ms.map(|since| (SILENT, since));
        let clock = self.found.unsynchronised_since_ms;
        let clock = clock.map(|since| (UNSYNCHRONISED, since));
        let faults = silent.into_iter().chain(clock);
        let faults = faults.map(|(what, since_ms)| fault(what, segment, since_ms));
        faults.chain(self.step_fault(segment, now_ms)).collect()
    }

    /// Returns the last clock step, while it is shown.
    pub fn step_fault(&self, segment: &str, now_ms: u64) -> Option<MeasuringFault> {
        let is_shown = |since_ms: &u64| now_ms.saturating_sub(*since_ms) < STEP_SHOWN_MS;
        let since_ms = self.found.step_since_ms.filter(is_shown)?;
        let shift_us = f64::from(self.found.step_shift_ns).abs() / 1e3;
        let words = format!(
            "both directions shifted by {shift_us:.1} us in opposite senses: a clock was stepped"
        );
        Some(fault(("clock_step", &words), segment, since_ms))
    }
}

/// No report for more than three intervals, or none at all.
pub(crate) const SILENT: (&str, &str) = (
    "silent",
    "its switch sends no reports: it is down or unreachable",
);

const UNSYNCHRONISED: (&str, &str) = (
    "clock_unsynchronised",
    "the clock of one of its ends is not synchronised",
);

/// Returns a fault in measuring a segment, with its short name and its description; `since_ms` is 0 if its beginning is
/// unknown.
pub fn fault((what, words): (&str, &str), segment: &str, since_ms: u64) -> MeasuringFault {
    MeasuringFault {
        what: what.to_owned(),
        place: segment.to_owned(),
        since_unix_s: (since_ms > 0).then(|| seconds(since_ms)),
        words: words.to_owned(),
    }
}
