//! Time, as the NATS server has it. Switches and stations have clocks of their own, and any of them may be wrong: an epoch is
//! dated within what the server's stamps allow, and "now" is the server's, too.

use std::time::{Duration, Instant};

use parking_lot::RwLock;
use report::msp::Report;

/// Nanoseconds of a second.
const SECOND_NS: i64 = 1_000_000_000;

/// A clock that is ahead by less counts as right.
const AHEAD_MIN_NS: i64 = SECOND_NS;

/// A clock that is behind by less counts as right: the report may have come late.
const BACK_MIN_NS: i64 = 10 * SECOND_NS;

/// When a report's last epoch ended: what the report says, if that is neither after the server stored the report nor before
/// the switch's previous epoch ended. Otherwise the switch's clock is wrong, and the server's stamp is the time.
///
/// A previous end after the stamp is no criterion: an earlier version of the station took reports of the future.
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

/// Milliseconds of nanoseconds.
pub const fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

/// Returns by how much a report's own time is later than its date; negative if it is earlier.
pub fn off_ns(report: &Report, dated_unix_ns: u64) -> i64 {
    let end_unix_ns = report.end_unix_ns();
    let size = i64::try_from(end_unix_ns.abs_diff(dated_unix_ns)).unwrap_or(i64::MAX);
    if end_unix_ns < dated_unix_ns {
        -size
    } else {
        size
    }
}

/// Returns the problem with a switch's clock, in words.
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

/// The server's clock, as it was read last and as time has passed since then.
#[derive(Debug, Default)]
pub struct Clock(RwLock<Option<(Instant, u64)>>);

impl Clock {
    /// Sets the server's present time.
    pub fn set(&self, unix_ns: u64) {
        *self.0.write() = Some((Instant::now(), unix_ns));
    }

    /// Nanoseconds since 1970 (UTC); by the machine's clock before the server's was read.
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
