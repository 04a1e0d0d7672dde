//! The machine, its system, and the commit that ran.

use std::fmt;
use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The machine, its system, and the commit that ran. Unreadable values are `unknown`.
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
    /// The commit, as `git describe --always --dirty` names it.
    pub commit: String,
}

impl Machine {
    /// This machine, now.
    pub fn of_this_run() -> Self {
        let folder = env!("CARGO_MANIFEST_DIR");
        Self {
            cpu: value_in("/proc/cpuinfo", "model name"),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            os: value_in("/etc/os-release", "PRETTY_NAME"),
            kernel: value_in("/proc/sys/kernel/osrelease", ""),
            commit: output_of(
                Command::new("git").args(["-C", folder, "describe", "--always", "--dirty"]),
            ),
        }
    }
}

/// Everything except the commit.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, cpus, os, kernel) = (&self.cpu, self.cpus, &self.os, &self.kernel);
        write!(f, "{cpu}; {cpus} CPUs, {os}, Linux {kernel}")
    }
}

/// Kind of build of this program and of those built with it.
pub const BUILD: &str = if cfg!(debug_assertions) {
    "development"
} else {
    "release"
};

/// Date and time in UTC: `2026-03-01T12:00:00Z`.
pub fn now_utc() -> String {
    output_of(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]))
}

/// Output of a command; `unknown` if it fails.
pub fn output_of(command: &mut Command) -> String {
    let output = command.output().ok();
    let output = output.filter(|output| output.status.success());
    output.map_or_else(unknown, |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}

/// The value of the first line of `file` that begins with `key`.
fn value_in(file: &str, key: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(key));
    value.map_or_else(unknown, |value| {
        let value = value.trim_start_matches([' ', '\t', ':', '=']);
        value.trim_matches('"').to_owned()
    })
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_unknown() {
        assert_eq!(value_in("/nowhere", "key"), "unknown");
        assert_eq!(value_in("/proc/cpuinfo", "no such key"), "unknown");
        assert_eq!(output_of(&mut Command::new("/nowhere")), "unknown");
    }

    #[test]
    fn this_machine_has_a_cpu_and_a_date() {
        let machine = Machine::of_this_run();
        assert!(machine.cpus > 0);
        assert!(!machine.cpu.starts_with(':'));
        assert!(machine.kernel.starts_with(|c: char| c.is_ascii_digit()));
        let date = now_utc();
        assert!(date.len() == 20 && date.ends_with('Z'), "{date}");
    }
}
