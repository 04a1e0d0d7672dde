//! Time according to the NATS server. The clocks of switches and stations may be wrong, so epochs are dated within the
//! bounds of the server's timestamps, and "now" is the server's time, too.

use std::time::{Duration, Instant};

use parking_lot::RwLock;
use report::msp::Report;

/// Nanoseconds in a second.
const SECOND_NS: i64 = 1_000_000_000;

/// A clock that is ahead by less counts as correct.
const AHEAD_MIN_NS: i64 = SECOND_NS;

/// A clock that is behind by less counts as correct: the report may have been late.
const BACK_MIN_NS: i64 = 10 * SECOND_NS;

/// Returns the end of a report's last epoch. This is the report's own time unless it is after the server stored the
/// report or before the end of the switch's previous epoch. Otherwise the switch's clock is wrong, and the server's
/// timestamp is used.
///
/// A previous end after the timestamp is ignored, because an earlier version of the station accepted reports from the
/// future.
pub fn dated(report: &Report, received_unix_ns: u64, previous_unix_ns: u64) -> u64 {
    let end_unix_ns = report.end_unix_ns();
    let is_possible =
        (previous_unix_ns.min(received_unix_ns)..=received_unix_ns).contains(&end_unix_ns);
    if is_possible {
        end_unix_ns
    } else {
        received_unix_ns
    }
}

/// Converts nanoseconds to milliseconds.
pub const fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

/// Returns how much later than its date a report's own time is; negative if it is earlier.
pub fn off_ns(report: &Report, dated_unix_ns: u64) -> i64 {
    let end_unix_ns = report.end_unix_ns();
    let size = i64::try_from(end_unix_ns.abs_diff(dated_unix_ns)).unwrap_or(i64::MAX);
    if end_unix_ns < dated_unix_ns {
        -size
    } else {
        size
    }
}

/// Returns a description of the problem with a switch's clock.
pub fn problem(off_ns: i64) -> Option<String> {
    let seconds = off_ns.unsigned_abs() / SECOND_NS.unsigned_abs();
    let wrong = match off_ns {
        AHEAD_MIN_NS.. => format!("is {seconds} s ahead of the NATS server's"),
        ..=-1 if off_ns <= -BACK_MIN_NS => {
            format!("went back and is {seconds} s behind the NATS server's")
        }
        _ => return None,
    };
    Some(format!(
        "the clock {wrong}: its epochs are dated when NATS stored their reports; synchronise it"
    ))
}

/// The server's clock: its last reading, and the time since then.
#[derive(Debug, Default)]
pub struct Clock(RwLock<Option<(Instant, u64)>>);

impl Clock {
    /// Sets the server's present time.
    pub fn set(&self, unix_ns: u64) {
        *self.0.write() = Some((Instant::now(), unix_ns));
    }

    /// Returns the nanoseconds since 1970 (UTC); by the machine's clock until the server's has been read.
    pub fn now_unix_ns(&self) -> u64 {
        let since = |(read, unix_ns): (Instant, u64)| {
            let passed: Duration = read.elapsed();
            unix_ns.saturating_add(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX))
        };
        self.0.read().map_or_else(crate::now_unix_ns, since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_clock_goes_on() {
        let clock = Clock::default();
        assert!(clock.now_unix_ns().abs_diff(crate::now_unix_ns()) < 3_600_000_000_000);
        for unix_ns in [5_000, 1_000] {
            clock.set(unix_ns);
            let first = clock.now_unix_ns();
            assert!(
                (unix_ns..unix_ns + 3_600_000_000_000).contains(&first),
                "{first}"
            );
            assert!(clock.now_unix_ns() >= first);
        }
        clock.set(u64::MAX);
        assert_eq!(clock.now_unix_ns(), u64::MAX);
    }

    #[test]
    fn a_wrong_clock_is_named_and_a_late_report_is_not() {
        let said = |off_ns| problem(off_ns).unwrap_or_default();
        assert!(said(86_400 * SECOND_NS).contains("is 86400 s ahead"));
        assert!(said(-3_600 * SECOND_NS).contains("is 3600 s behind"));
        assert!(said(i64::MAX).contains("ahead") && said(i64::MIN).contains("behind"));
        for off_ns in [0, AHEAD_MIN_NS - 1, 1 - BACK_MIN_NS] {
            assert_eq!(problem(off_ns), None);
        }
    }
}
