//! Statistics of samples, and figures with a suitable number of digits. Without samples, all are NaN.

use std::cmp::Ordering;

/// Median, minimum and maximum of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The value in the middle.
    pub median: f64,
    /// Least of them.
    pub min: f64,
    /// Greatest of them.
    pub max: f64,
}

impl Spread {
    /// Of `values`; `None` for none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let all = || values.iter().copied();
        Some(Self {
            median: median(all()),
            min: all().min_by(total_order)?,
            max: all().max_by(total_order)?,
        })
    }
}

/// The arithmetic mean.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values
        .into_iter()
        .fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    sum / count as f64
}

/// Returns the quantile `of` (0 to 1) of the values, by linear interpolation between neighbours. NaN counts as the
/// largest value, because a failed estimate is not a small error.
pub fn quantile(values: impl IntoIterator<Item = f64>, of: f64) -> f64 {
    let mut values: Vec<_> = values.into_iter().collect();
    let Some(last) = values.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = of.clamp(0.0, 1.0) * last as f64;
    let (rank, part) = (whole(position), position.fract());
    let (_, &mut low, above) = values.select_nth_unstable_by(rank, total_order);
    let high = above.iter().copied().min_by(total_order);
    match high {
        Some(high) if part > 0.0 => low + part * (high - low),
        _ => low,
    }
}

/// The value in the middle.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// |estimate - truth| / |truth| in per cent.
pub fn error_percent(estimate: f64, truth: f64) -> f64 {
    100.0 * (estimate - truth).abs() / truth.abs()
}

/// Share of `true` in per cent.
pub fn percent_of(checks: impl IntoIterator<Item = bool>) -> f64 {
    100.0 * mean(checks.into_iter().map(|held| f64::from(u8::from(held))))
}

/// A figure of 0 or more without its fraction; 0 for a negative figure or NaN.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturating is intended"
)]
pub fn whole(figure: f64) -> usize {
    figure as usize
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that sorting requires"
)]
fn total_order(a: &f64, b: &f64) -> Ordering {
    // A negative NaN would sort first.
    a.is_nan().cmp(&b.is_nan()).then(a.total_cmp(b))
}

/// A measured value, to three significant digits; `-` for NaN.
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

/// A given value, as it was written unless that is long.
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
    fn quantiles_lie_between_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        for (of, value) in [(0.5, 2.5), (0.0, 1.0), (1.0, 4.0), (0.9, 3.7)] {
            assert!((quantile(values, of) - value).abs() < 1e-12);
        }
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!(median([]).is_nan());
    }

    #[test]
    fn failed_estimates_are_large_errors() {
        assert!((median([-f64::NAN, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!(quantile([f64::NAN, 1.0, -f64::NAN], 0.9).is_nan());
    }

    #[test]
    fn shares_and_errors_are_per_cent() {
        assert!((percent_of([true, false, true, true]) - 75.0).abs() < 1e-12);
        assert!((error_percent(1.1, 1.0) - 10.0).abs() < 1e-9);
        assert!((error_percent(-0.9, -1.0) - 10.0).abs() < 1e-9);
        assert!((mean([1.0, 2.0]) - 1.5).abs() < 1e-12);
        assert_eq!(whole(-3.0), 0);
        assert_eq!(whole(f64::NAN), 0);
    }

    #[test]
    fn a_spread_is_of_something() {
        let spread = Spread::of(&[0.3, 0.1, 0.25]).unwrap();
        assert_eq!(
            format!("{spread:?}"),
            "Spread { median: 0.25, min: 0.1, max: 0.3 }"
        );
        assert_eq!(Spread::of(&[]), None);
    }

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
