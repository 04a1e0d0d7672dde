use super::*;

#[test]
fn durations_have_three_digits_and_the_unit_that_fits() {
    let cases = [
        (0.0, "0 ns"),
        (0.37, "0.37 ns"),
        (12.0, "12.0 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 us"),
        (12_345.0, "12.3 us"),
        (-99_960.0, "-100 us"),
        (4.2e6, "4.20 ms"),
        (2.0e9, "2.00 s"),
    ];
    for (ns, text) in cases {
        assert_eq!(duration_ns(ns), text);
    }
}

#[test]
fn counts_are_whole_where_they_can_be() {
    assert_eq!(count(0), "0");
    assert_eq!(count(999), "999");
    assert_eq!(count(1_000), "1.00 k");
    assert_eq!(rate(80_123.0), "80.1 k");
    assert_eq!(rate(4_120_000.0), "4.12 M");
    assert_eq!(rate(999_600.0), "1.00 M");
    assert_eq!(bytes(37_376), "36.5 KiB");
    assert_eq!(bytes(12), "12.0 B");
}

#[test]
fn uptimes_start_with_what_is_not_zero() {
    assert_eq!(uptime(9.9), "9s");
    assert_eq!(uptime(61.0), "1m01s");
    assert_eq!(uptime(3_723.0), "1h02m03s");
}

#[test]
fn spans_are_in_the_largest_unit_that_gives_two() {
    for (seconds, words) in [
        (0, "0 seconds"),
        (119, "119 seconds"),
        (7_199, "120 minutes"),
        (7_200, "2.00 hours"),
        (1_700_000_000, "53.9 years"),
    ] {
        assert_eq!(span(seconds * 1_000_000_000), words);
    }
}
