use super::*;
use proptest::prelude::*;

#[test]
fn whole_numbers() {
    for (text, value) in [
        ("0", Some(0)),
        ("007", Some(7)),
        ("+7", Some(7)),
        ("7.0", Some(7)),
        ("7.", Some(7)),
        ("1e6", Some(1_000_000)),
        ("1.25E+2", Some(125)),
        ("1200e-2", Some(12)),
        ("0e-999", Some(0)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("-0", Some(0)),
        ("-1", None),
        ("7.5", None),
        ("1e40", None),
        ("1e99999999999", None),
        ("1e-40", None),
        ("", None),
        (".", None),
        ("-", None),
        ("--1", None),
        ("1 2", None),
        ("1_000", None),
        ("nan", None),
        ("inf", None),
        ("0x10", None),
        ("\u{664}", None), // a digit, but not one of ours
        ("111111111111111111111111111111111111111", None),
    ] {
        assert_eq!(whole(text), value, "{text}");
    }
}

#[test]
fn sums_wrap() {
    assert_eq!(wrapping_sum("18446744073709551615"), Some(u64::MAX));
    assert_eq!(wrapping_sum("-1"), Some(u64::MAX));
    assert_eq!(wrapping_sum("-9223372036854775808"), Some(1 << 63));
    assert_eq!(wrapping_sum("-9223372036854775809"), None);
    assert_eq!(wrapping_sum("12.5"), Some(13));
    assert_eq!(wrapping_sum("12.499"), Some(12));
}

#[test]
fn digests_are_decimal_or_hexadecimal() {
    assert_eq!(bits("0xffffffffffffffff"), Some(u64::MAX));
    assert_eq!(bits("0XfF"), Some(255));
    assert_eq!(bits("255"), Some(255));
    for text in ["0x", "0x+1", "0x-1", "0x10000000000000000", "ff", "-1"] {
        assert_eq!(bits(text), None, "{text}");
    }
}

#[test]
fn numbers_are_finite() {
    assert_eq!(finite("-2.5e3"), Some(-2_500.0));
    for text in ["NaN", "inf", "-inf", "infinity", "1e999", ""] {
        assert_eq!(finite(text), None, "{text}");
    }
    assert_eq!(finite_from_0("-0.5"), None);
    assert_eq!(finite_from_0("0"), Some(0.0));
    assert_eq!(finite_over_0("0"), None);
}

#[test]
fn times_are_rounded_to_picoseconds() {
    let time = |ps| Some(Time(ps));
    assert_eq!(Time::parse("12.3456"), time(12_346));
    assert_eq!(Time::parse("-0.25"), time(-250));
    assert_eq!(Time::parse("9223372036854775807.9999"), None);
    assert_eq!(
        Time::parse("-9223372036854775808"),
        time(i128::from(i64::MIN) * 1_000)
    );
    assert_eq!(Time::parse("1.7e18"), time(1_700_000_000_000_000_000_000));
}

proptest! {
    #[test]
    fn integers_come_back(value: i64, digest: u64) {
        prop_assert_eq!(Time::parse(&value.to_string()), Some(Time(i128::from(value) * 1_000)));
        prop_assert_eq!(wrapping_sum(&value.to_string()), Some(value.cast_unsigned()));
        prop_assert_eq!(whole(&digest.to_string()), Some(digest));
        prop_assert_eq!(bits(&format!("{digest:#x}")), Some(digest));
    }

    #[test]
    fn nothing_panics(text in "[-+0-9.eExX]{0,45}") {
        let _ = (whole(&text), wrapping_sum(&text), bits(&text), Time::parse(&text));
    }
}
