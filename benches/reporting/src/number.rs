//! Figures with as many digits as they deserve.

use crate::statistics::whole;

/// What was measured, to three significant digits; `-` for what is not a number.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let magnitude = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-5..1e9).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    // 0.000123 needs 6 decimals, 123 none; a figure just under a power of ten may gain a digit.
    let decimals = whole(2.0 - magnitude.log10().floor());
    format!("{value:.decimals$}")
}

/// What was given: as it was written, unless that is long.
pub fn given(value: f64) -> String {
    let text = value.to_string();
    if text.len() <= 7 {
        text
    } else {
        significant(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        for (value, text) in [
            (0.0, "0"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
            (1.0, "1.00"),
            (-13.149, "-13.1"),
            (123.4, "123"),
            (1_234.5, "1234"),
            (0.003_14, "0.00314"),
            (0.000_012_34, "0.0000123"),
            (0.000_001_234, "1.23e-6"),
            (1e12, "1.00e12"),
        ] {
            assert_eq!(significant(value), text);
        }
        assert_eq!(given(0.035), "0.035");
        assert_eq!(given(2.0 / 3.0), "0.667");
    }
}
