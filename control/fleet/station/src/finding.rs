//! What localisation finds of a segment, and the form in which a switch's state keeps it, so that every station says the same.

use locate::{Finding, Mean, Rise};
use prost::Message;

/// What was found of a segment after the last report of its switch.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Found {
    /// Delay now, in nanoseconds; absent without any.
    #[prost(float, optional, tag = "1")]
    pub present_ns: Option<f32>,
    /// Its standard error.
    #[prost(float, tag = "2")]
    pub present_error_ns: f32,
    /// Share of packets lost now; absent where it is not known.
    #[prost(float, optional, tag = "3")]
    pub present_loss: Option<f32>,
    /// Its standard error.
    #[prost(float, tag = "4")]
    pub present_loss_error: f32,
    /// Usual delay, in nanoseconds; absent before the first ten reports with delays.
    #[prost(float, optional, tag = "5")]
    pub usual_ns: Option<f32>,
    /// Usual share of packets lost.
    #[prost(float, tag = "6")]
    pub usual_loss: f32,
    /// There is history enough to find a rise of its delay.
    #[prost(bool, tag = "7")]
    pub is_ready: bool,
    /// The rise of its delay, in nanoseconds.
    #[prost(message, optional, tag = "8")]
    pub delay: Option<Raised>,
    /// The rise of its losses, as a share of packets.
    #[prost(message, optional, tag = "9")]
    pub loss: Option<Raised>,
    /// Since when the clocks of its ends are not synchronised, in milliseconds since 1970.
    #[prost(uint64, optional, tag = "10")]
    pub unsynchronised_since_ms: Option<u64>,
    /// When a clock was set, likewise.
    #[prost(uint64, optional, tag = "11")]
    pub step_since_ms: Option<u64>,
    /// By how much the delays shifted then, in nanoseconds.
    #[prost(float, tag = "12")]
    pub step_shift_ns: f32,
}

/// A rise that lasts.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Raised {
    /// By how much.
    #[prost(float, tag = "1")]
    pub by: f32,
    /// Its standard error.
    #[prost(float, tag = "2")]
    pub error: f32,
    /// From when, in milliseconds since 1970.
    #[prost(uint64, tag = "3")]
    pub since_ms: u64,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "seven digits are enough for what is found"
)]
fn float(value: f64) -> f32 {
    value as f32
}

impl From<Rise> for Raised {
    fn from(rise: Rise) -> Self {
        Self {
            by: float(rise.by),
            error: float(rise.error),
            since_ms: rise.since_ms,
        }
    }
}

impl From<Raised> for Rise {
    fn from(raised: Raised) -> Self {
        Self {
            by: raised.by.into(),
            error: raised.error.into(),
            since_ms: raised.since_ms,
        }
    }
}

impl From<Finding> for Found {
    fn from(finding: Finding) -> Self {
        let error = |mean: Option<Mean>| mean.map_or(0.0, |mean| float(mean.error));
        Self {
            present_ns: finding.present_ns.map(|mean| float(mean.value)),
            present_error_ns: error(finding.present_ns),
            present_loss: finding.present_loss.map(|mean| float(mean.value)),
            present_loss_error: error(finding.present_loss),
            usual_ns: finding.usual_ns.map(float),
            usual_loss: float(finding.usual_loss),
            is_ready: finding.is_ready,
            delay: finding.delay.map(Raised::from),
            loss: finding.loss.map(Raised::from),
            unsynchronised_since_ms: finding.unsynchronised_since_ms,
            step_since_ms: finding.step.map(|step| step.since_ms),
            step_shift_ns: finding.step.map_or(0.0, |step| float(step.shift_ns)),
        }
    }
}

/// Milliseconds of nanoseconds.
pub const fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}
