//! A segment: its last reports and its detectors of rises.

use std::collections::VecDeque;

use records::float;
use serde::{Deserialize, Serialize};

use crate::history::median;
use crate::report::{BOUND_ERRORS, Finding, Found, Report, Rise};
use crate::rise::{Delay, Loss, Raised};

/// Number of reports that are kept.
const KEPT: usize = 64;
/// Number of reports averaged for the present delay, while nothing has risen.
const PRESENT: usize = 5;
/// Number of intervals without a report after which a segment is silent.
const SILENT_AFTER: u64 = 3;

/// Largest difference between the two shifts beyond their noise, as a fraction.
const DIFFERENCE: f64 = 0.2;

/// The change of the delay at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shift {
    /// Size of the change, in nanoseconds.
    pub(crate) by_ns: f64,
    /// Largest error of the size.
    pub(crate) noise_ns: f64,
}

/// A mean with its standard error, in nanoseconds or as a share of packets.
#[derive(Debug, Clone, Copy)]
struct Mean {
    value: f64,
    error: f64,
}

/// A clock step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Step {
    /// Shift of the delays, in nanoseconds.
    shift_ns: f64,
    /// Time of the step, in milliseconds since 1970 (UTC).
    since_ms: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub(crate) delay: Delay,
    pub(crate) loss: Loss,
    kept: VecDeque<Report>,
    unsynchronised_since_ms: Option<u64>,
    step: Option<Step>,
    /// The other direction of the same link.
    pub(crate) reverse: Option<String>,
}

impl Segment {
    /// Returns the end of the last report's interval.
    pub(crate) fn last_ms(&self) -> Option<u64> {
        self.kept.back().map(|report| report.time_ms)
    }

    /// Adds a report that is newer than all earlier ones.
    pub(crate) fn add(&mut self, report: &Report, nats: f64) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(*report);
        if report.clock_unsynchronised {
            self.unsynchronised_since_ms.get_or_insert(report.time_ms);
        } else {
            self.unsynchronised_since_ms = None;
            if has_delay(report) {
                let bound_ns = report.bound_ns.unwrap_or(0.0).max(0.0);
                self.delay
                    .add(report.time_ms, report.mean_ns, bound_ns, nats);
            }
        }
        if let Some(sent) = report.sent.filter(|&sent| sent > 0) {
            let of_device = report.is_through_device;
            self.loss
                .add(report.time_ms, sent, report.lost, nats, of_device);
        }
    }

    /// Returns the reports behind the present figures: those since a rise began, or else the last few.
    fn present(&self, raised: Option<&Raised>, counts: fn(&Report) -> bool) -> Vec<&Report> {
        let reports = self.kept.iter().rev().filter(|report| counts(report));
        match raised {
            Some(raised) => reports
                .take_while(|report| report.time_ms >= raised.since_ms)
                .collect(),
            None => reports.take(PRESENT).collect(),
        }
    }

    /// Returns the change of the delay at a time.
    pub(crate) fn shift(&self, since_ms: u64) -> Option<Shift> {
        let with_delay = self.kept.iter().filter(|report| has_delay(report));
        let (before, after): (Vec<_>, Vec<_>) =
            with_delay.partition(|report| report.time_ms < since_ms);
        // The interval of the change itself is a mixture.
        let after = after
            .get(1..)
            .filter(|rest| !rest.is_empty())
            .unwrap_or(&after);
        if before.len() < 3 || after.is_empty() {
            return None;
        }
        let middle = |reports: &[&Report]| {
            let mut means: Vec<_> = reports.iter().map(|report| report.mean_ns).collect();
            let middle = median(&mut means);
            let mut off: Vec<_> = means.iter().map(|mean| (mean - middle).abs()).collect();
            (middle, median(&mut off))
        };
        let ((old, old_off), (new, new_off)) = (middle(&before), middle(after));
        Some(Shift {
            by_ns: new - old,
            noise_ns: 3.0 * (old_off + new_off),
        })
    }

    /// Attributes a rise to a clock step, and makes the present delay usual.
    pub(crate) fn take_step(&mut self, since_ms: u64, shift: Shift) {
        self.step = Some(Step {
            shift_ns: shift.by_ns,
            since_ms,
        });
        self.delay.restart(since_ms);
    }

    /// Returns the time of the last report, if it is too long ago.
    pub(crate) fn silent_since(&self, now_ms: u64) -> Option<u64> {
        let last = self.kept.back()?;
        let patience = u64::from(last.interval_ms) * (SILENT_AFTER + 1);
        (now_ms > last.time_ms.saturating_add(patience)).then_some(last.time_ms)
    }

    /// Returns the findings about the segment at a time.
    pub(crate) fn finding(&self, now_ms: u64) -> Finding {
        let present_ns = mean(&self.present(self.delay.raised(), has_delay));
        let with_loss = |report: &Report| report.sent.is_some();
        let present_loss = loss(&self.present(self.loss.raised(), with_loss));
        let rise = |present: Option<Mean>, raised: Option<&Raised>| {
            let (present, raised) = (present?, raised?);
            Some(Rise {
                by: float((present.value - raised.usual).max(0.0)),
                error: float(present.error),
                since_ms: raised.since_ms,
            })
        };
        let error = |mean: Option<Mean>| mean.map_or(0.0, |mean| float(mean.error));
        let found = Found {
            present_ns: present_ns.map(|mean| float(mean.value)),
            present_error_ns: error(present_ns),
            present_loss: present_loss.map(|mean| float(mean.value)),
            present_loss_error: error(present_loss),
            usual_ns: self.delay.usual_ns(now_ms).map(float),
            usual_loss: float(self.loss.usual()),
            is_ready: self.delay.is_ready(),
            delay: rise(present_ns, self.delay.raised()),
            loss: rise(present_loss, self.loss.raised()),
            unsynchronised_since_ms: self.unsynchronised_since_ms,
            step_since_ms: self.step.map(|step| step.since_ms),
            step_shift_ns: self.step.map_or(0.0, |step| float(step.shift_ns)),
        };
        let last = self.kept.back();
        Finding {
            found,
            time_ms: last.map_or(0, |last| last.time_ms),
            deviation_ns: last.and_then(|last| last.deviation_ns),
            p99_ns: last.and_then(|last| last.p99_ns),
            silent_since_ms: self.silent_since(now_ms),
        }
    }
}

fn has_delay(report: &Report) -> bool {
    report.packets > 0 && !report.clock_unsynchronised
}

/// Returns the mean of the reports' means. Its error is the larger of their scatter and their bounds. Bounds do not
/// shrink with the number of reports, because they may all be off to the same side.
fn mean(reports: &[&Report]) -> Option<Mean> {
    if reports.is_empty() {
        return None;
    }
    let number = reports.len() as f64;
    let value = reports.iter().map(|report| report.mean_ns).sum::<f64>() / number;
    let scatter = reports
        .iter()
        .map(|report| (report.mean_ns - value).powi(2))
        .sum::<f64>();
    let scatter = scatter / (number - 1.0).max(1.0) / number;
    let bounds = reports
        .iter()
        .map(|report| report.bound_ns.unwrap_or(0.0).max(0.0))
        .sum::<f64>();
    let bounds = bounds / BOUND_ERRORS / number;
    Some(Mean {
        value,
        error: scatter.sqrt().max(bounds),
    })
}

/// Returns the share of packets lost. Its error is binomial, with half a loss added so that it is not 0.
fn loss(reports: &[&Report]) -> Option<Mean> {
    let sent = reports.iter().filter_map(|report| report.sent);
    let sent: f64 = sent.map(|sent| sent as f64).sum();
    let lost: f64 = reports.iter().map(|report| report.lost as f64).sum();
    (sent > 0.0).then(|| {
        let share = (lost / sent).min(1.0);
        Mean {
            value: share,
            error: ((share + 0.5 / sent) * (1.0 - share) / sent).sqrt(),
        }
    })
}

/// Returns both directions' shifts if a clock step explains the change. When a clock is stepped, both directions of a
/// link between two clocks shift by the same amount in opposite senses; a network does not do that.
pub(crate) fn clock_step(of: &Segment, reverse: &Segment, since_ms: u64) -> Option<(Shift, Shift)> {
    let (there, back) = (of.shift(since_ms)?, reverse.shift(since_ms)?);
    let noise = there.noise_ns.hypot(back.noise_ns);
    let greatest = there.by_ns.abs().max(back.by_ns.abs());
    let is_opposite = there.by_ns.signum() != back.by_ns.signum();
    let is_equal = (there.by_ns + back.by_ns).abs() <= DIFFERENCE * greatest + noise;
    let is_seen = there.by_ns.abs().min(back.by_ns.abs()) > noise;
    (is_opposite && is_equal && is_seen).then_some((there, back))
}
