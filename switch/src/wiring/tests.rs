use super::*;

#[test]
fn half_of_what_is_free_is_the_budget() {
    let meminfo = "MemTotal:  24000000 kB\nMemAvailable:   2097152 kB\n";
    assert_eq!(parse_meminfo(meminfo), Some(2048));
    assert_eq!(parse_meminfo("MemTotal: 1 kB\n"), None);
    assert!(budget_of_machine().is_some_and(|mib| mib > 0));
}
