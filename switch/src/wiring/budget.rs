//! Most memory for all that is not packets, where the configuration names no budget.

use std::fs;
use std::path::Path;

use contract::config::Config;
use contract::config::document::{Check, KeyPath, ensure};
use contract::config::memory::Memory;

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

/// Refuses a configuration that names no budget and needs more than `budget_mib`.
///
/// # Errors
/// What it needs, and what most of it is for.
pub fn keep(config: &Config, budget_mib: Option<usize>) -> Check {
    let Some(budget_mib) = budget_mib.filter(|_| config.memory_budget_mib.is_none()) else {
        return Ok(());
    };
    let memory = Memory::of(config);
    let largest = memory.largest().map_or("", |item| item.purpose);
    ensure(
        memory.total_mib() <= budget_mib,
        KeyPath::default().key("memory_budget_mib"),
        format!(
            "a budget, or a configuration that needs {budget_mib} MiB at most for all but packets, half of what was free"
        ),
        format!(
            "none, and one that needs {} MiB, most of it for {largest}",
            memory.total_mib()
        ),
    )
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

    #[test]
    fn what_needs_more_is_refused_unless_it_names_its_own() {
        let mut config = Config::demo().unwrap();
        assert!(keep(&config, None).is_ok() && keep(&config, Some(100_000)).is_ok());
        let error = keep(&config, Some(0)).unwrap_err().to_string();
        assert!(
            error.contains("memory_budget_mib") && error.contains("0 MiB"),
            "{error}"
        );
        config.memory_budget_mib = Some(100);
        assert!(keep(&config, Some(0)).is_ok());
    }
}
