//! Most memory for all that is not packets, where the configuration names no budget.

use std::fs;

use anyhow::{Result, bail};
use contract::config::Config;
use contract::config::memory::Memory;

/// The budget of a switch that starts now in MiB: half of what the machine has free (`MemAvailable`,
/// proc(5)); none where it does not say.
pub fn of_machine() -> Option<usize> {
    available_mib(&fs::read_to_string("/proc/meminfo").ok()?).map(|free| free / 2)
}

fn available_mib(meminfo: &str) -> Option<usize> {
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
pub fn keep(config: &Config, budget_mib: Option<usize>) -> Result<()> {
    let memory = Memory::of(config);
    let Some(budget_mib) = budget_mib.filter(|_| config.memory_budget_mib.is_none()) else {
        return Ok(());
    };
    if memory.total_mib() > budget_mib {
        let largest = memory.largest().map_or("", |item| item.purpose);
        bail!(
            "memory_budget_mib: all but packets needs {} MiB, most of it for {largest}; half of what was \
             free is {budget_mib} MiB: ask for less, or name a budget",
            memory.total_mib()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_free_is_the_budget() {
        let meminfo = "MemTotal:  24000000 kB\nMemAvailable:   2097152 kB\n";
        assert_eq!(available_mib(meminfo), Some(2048));
        assert_eq!(available_mib("MemTotal: 1 kB\n"), None);
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
