//! Order statistics shared by estimators and their readers.

/// Returns the median; for an even number of values, the greater of the two in the middle. `None` without values.
/// Reorders the values.
///
/// ```
/// use measure::statistics::median;
///
/// assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
/// assert_eq!(median(&mut [3.0, 1.0, 2.0, 9.0]), Some(3.0));
/// assert_eq!(median(&mut []), None);
/// ```
pub fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}
