//! Numbers as CSV files have them: exact decimals, and what they may mean.

/// An exact decimal: `digits` times 10^`exponent`, with a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: u128,
    exponent: i32,
}

/// Most digits of a decimal, so that they fit into 128 bits.
const DIGITS_MAX: usize = 38;

impl Decimal {
    /// Sign, digits, point and exponent as most programs write them: `-12`, `3.50`, `1.7e+18`.
    fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let length = whole.len() + fraction.len();
        if length == 0 || length > DIGITS_MAX || !(-1_000..=1_000).contains(&exponent) {
            return None;
        }
        let mut digits = 0_u128;
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() {
                return None;
            }
            digits = digits * 10 + u128::from(byte - b'0');
        }
        Some(Self {
            negative,
            digits,
            exponent: exponent - i32::try_from(fraction.len()).ok()?,
        })
    }

    /// The value times 10^`shift`, rounded to the nearest integer, and whether that is exact.
    fn scaled(self, shift: i32) -> Option<(i128, bool)> {
        let zeros = self.exponent + shift;
        let (magnitude, exact) = if self.digits == 0 {
            (0, true)
        } else if zeros >= 0 {
            let factor = 10_u128.checked_pow(zeros.unsigned_abs())?;
            (self.digits.checked_mul(factor)?, true)
        } else {
            match 10_u128.checked_pow(zeros.unsigned_abs()) {
                Some(divisor) => {
                    let (quotient, rest) = (self.digits / divisor, self.digits % divisor);
                    (quotient + u128::from(rest >= divisor - rest), rest == 0)
                }
                None => (0, false),
            }
        };
        let value = i128::try_from(magnitude).ok()?;
        Some((if self.negative { -value } else { value }, exact))
    }
}

/// A whole number, also written as `7.0` or `1e6`.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let (value, exact) = Decimal::parse(text)?.scaled(0)?;
    exact.then(|| u64::try_from(value).ok()).flatten()
}

/// As [`whole`], for smaller numbers.
pub(super) fn whole_u32(text: &str) -> Option<u32> {
    whole(text).and_then(|value| u32::try_from(value).ok())
}

/// A sum of nanoseconds modulo 2^64, rounded to whole ones; negative ones as two's complement
/// has them.
pub(super) fn wrapping_sum(text: &str) -> Option<u64> {
    let (value, _) = Decimal::parse(text)?.scaled(0)?;
    if value < 0 {
        i64::try_from(value).ok().map(i64::cast_unsigned)
    } else {
        u64::try_from(value).ok()
    }
}

/// Any 64 bits: a decimal, or hexadecimal behind `0x`.
pub(super) fn bits(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // Not to be misled by the sign that `from_str_radix` takes.
        Some(digits) if !digits.starts_with(['+', '-']) => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => whole(text),
    }
}

/// A finite number.
pub(super) fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// A finite number that is not negative.
pub(super) fn finite_from_0(text: &str) -> Option<f64> {
    finite(text).filter(|&value| value >= 0.0)
}

/// A finite number over 0.
pub(super) fn finite_over_0(text: &str) -> Option<f64> {
    finite(text).filter(|&value| value > 0.0)
}

/// A point of time: picoseconds since any origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(i128);

impl Time {
    /// Nanoseconds with up to three decimals (the rest is rounded), -2^63 to 2^63 - 1.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (ps, _) = Decimal::parse(text)?.scaled(3)?;
        i64::try_from(ps.div_euclid(1_000))
            .is_ok()
            .then_some(Self(ps))
    }

    /// Picoseconds since the same origin.
    pub fn as_ps(self) -> i128 {
        self.0
    }
}

#[cfg(test)]
mod tests;
