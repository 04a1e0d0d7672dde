//! Figures in words: as many digits as they deserve.

use crate::table::Limit;

/// What was measured, to three significant digits; `-` for what is not a number.
pub(super) fn measured(value: f64) -> String {
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
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 7"
    )]
    let decimals = (2.0 - magnitude.log10().floor()).max(0.0) as usize;
    format!("{value:.decimals$}")
}

/// What was given: as it was written, unless that is long.
pub(super) fn given(value: f64) -> String {
    let text = value.to_string();
    if text.len() <= 7 {
        text
    } else {
        measured(value)
    }
}

/// A limit: `<= 0.3`.
pub(super) fn limit(limit: Limit) -> String {
    match limit {
        Limit::AtMost(most) => format!("<= {}", given(most)),
        Limit::AtLeast(least) => format!(">= {}", given(least)),
        Limit::Between(least, most) => format!("{} to {}", given(least), given(most)),
    }
}

/// What came of a limit.
pub(super) fn verdict(pass: Option<bool>) -> &'static str {
    match pass {
        None => "",
        Some(true) => "kept",
        Some(false) => "MISSED",
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
            assert_eq!(measured(value), text);
        }
    }

    #[test]
    fn limits_are_shown_as_they_were_written() {
        assert_eq!(limit(Limit::AtMost(0.035)), "<= 0.035");
        assert_eq!(limit(Limit::AtLeast(96.0)), ">= 96");
        assert_eq!(limit(Limit::Between(2.0, 12.0)), "2 to 12");
        assert_eq!(given(2.0 / 3.0), "0.667");
    }
}
