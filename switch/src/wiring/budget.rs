//! Most memory for all that is not packets, where the configuration names no budget.

use std::fs;
use std::path::Path;

/// The budget of a switch that starts now in MiB: half of what the machine has free (`MemAvailable`,
/// proc(5)); none where it does not say.
pub fn of_machine() -> Option<usize> {
    available_mib(Path::new("/")).map(|free| free / 2)
}

/// What the machine has free in MiB, by the `/proc` below `root`.
pub fn available_mib(root: &Path) -> Option<usize> {
    parse(&fs::read_to_string(root.join("proc/meminfo")).ok()?)
}

fn parse(meminfo: &str) -> Option<usize> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_free_is_the_budget() {
        let meminfo = "MemTotal:  24000000 kB\nMemAvailable:   2097152 kB\n";
        assert_eq!(parse(meminfo), Some(2048));
        assert_eq!(parse("MemTotal: 1 kB\n"), None);
        assert!(of_machine().is_some_and(|mib| mib > 0));
    }
}
