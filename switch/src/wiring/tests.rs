use super::*;

#[test]
fn half_of_what_is_free_is_the_budget() {
    let meminfo = "MemTotal:  24000000 kB\nMemAvailable:   2097152 kB\n";
    assert_eq!(parse_meminfo(meminfo), Some(2048));
    assert_eq!(parse_meminfo("MemTotal: 1 kB\n"), None);
    assert!(budget_of_machine().is_some_and(|mib| mib > 0));
}

#[test]
fn what_needs_more_is_refused_unless_it_names_its_own() {
    let mut config = Config::demo().unwrap();
    assert!(keep_budget(&config, None).is_ok() && keep_budget(&config, Some(100_000)).is_ok());
    let error = keep_budget(&config, Some(0)).unwrap_err().to_string();
    assert!(
        error.contains("memory_budget_mib") && error.contains("0 MiB"),
        "{error}"
    );
    config.memory_budget_mib = Some(100);
    assert!(keep_budget(&config, Some(0)).is_ok());
}
