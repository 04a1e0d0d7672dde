//! Where and of what figures are: the machine, its system, the commit.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The machine, its system, and the sources that ran. What cannot be found out is `unknown`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the CPU.
    pub cpu: String,
    /// CPUs that may be used.
    pub cpus: usize,
    /// Name and version of the distribution.
    pub os: String,
    /// The kernel's release.
    pub kernel: String,
    /// The commit, as `git describe --always --dirty` names it: `-dirty` where files differ from it.
    pub commit: String,
}

impl Machine {
    /// Looks around.
    pub fn of_this_run() -> Self {
        Self {
            cpu: value_in("/proc/cpuinfo", "model name"),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            os: value_in("/etc/os-release", "PRETTY_NAME"),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |release| release.trim().to_owned()),
            commit: output_of(Command::new("git").args([
                "-C",
                env!("CARGO_MANIFEST_DIR"),
                "describe",
                "--always",
                "--dirty",
            ])),
        }
    }
}

/// What a command prints on one line.
pub fn output_of(command: &mut Command) -> String {
    command
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map_or_else(unknown, |output| {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
}

/// Date and time of now in UTC, as RFC 3339 writes it: `2026-03-01T12:00:00Z`.
pub fn now_utc() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    utc(since_1970.map_or(0, |elapsed| elapsed.as_secs()))
}

/// Proleptic Gregorian date and time of a second since 1970. Counting years from 1 March puts the
/// leap day last, so that months have fixed places (H. Hinnant, "chrono-compatible low-level date
/// algorithms", `civil_from_days`).
fn utc(second: u64) -> String {
    let (day, of_day) = (second / 86_400, second % 86_400);
    let shifted = day + 719_468; // days since 1 March of year 0
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The value of the first line of `file` that begins with `key`, whatever stands between them.
fn value_in(file: &str, key: &str) -> String {
    fs::read_to_string(file)
        .ok()
        .and_then(|text| {
            let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
            let value = rest.trim_start_matches([' ', '\t', ':', '=']);
            Some(value.trim_matches('"').to_owned())
        })
        .unwrap_or_else(unknown)
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (second, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_740_787_199, "2025-02-28T23:59:59Z"),
            (1_740_787_200, "2025-03-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(second), date);
        }
    }

    #[test]
    fn what_cannot_be_told_is_unknown() {
        assert_eq!(value_in("/nowhere", "key"), "unknown");
        assert_eq!(value_in("/proc/cpuinfo", "no such key"), "unknown");
        assert_eq!(output_of(&mut Command::new("/nowhere")), "unknown");
    }

    #[test]
    fn this_machine_has_a_cpu() {
        let machine = Machine::of_this_run();
        assert!(machine.cpus > 0);
        assert!(!machine.cpu.starts_with(':'));
    }
}
