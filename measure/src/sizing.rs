//! Computes the size of a synopsis for a wanted error, and the error for a given memory.
//!
//! A plan contains sizes, memory and the expected error, computed by formula. For LDA ([`LdaPlan`]) the
//! formula is exact on average; for LDS ([`LdsPlan`]) it is a model of how flows collide. Tests compare
//! both with simulation.

mod lda;
mod lds;

pub use lda::{LdaDemand, LdaForecast, LdaPlan};
pub use lds::{FlowSizes, LdsDemand, LdsPlan};

use crate::argument::{InvalidArgument, ensure};

/// Why a plan is impossible.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SizingError {
    /// A number out of range, or not a number.
    #[error(transparent)]
    Argument(#[from] InvalidArgument),
    /// No size achieves the error.
    #[error(
        "an error of {target} is out of reach, {best} is the least; allow that much, lengthen the \
         epoch, or ask for larger flows only"
    )]
    OutOfReach {
        /// The requested relative error.
        target: f64,
        /// The least possible error.
        best: f64,
    },
    /// The memory is too small for the smallest synopsis.
    #[error("{memory_bytes} bytes hold no synopsis; give it {least_bytes} at least")]
    MemoryTooSmall {
        /// The memory given.
        memory_bytes: u64,
        /// Memory of the smallest synopsis.
        least_bytes: u64,
    },
    /// Flows differ by less than the allowed error.
    #[error(
        "flows differ by {spread}, less than the error of {target} that is allowed: the mean over \
         the segment says as much, and needs an LDA only"
    )]
    MeanSuffices {
        /// The requested relative error.
        target: f64,
        /// How much flows differ.
        spread: f64,
    },
}

/// Bytes of a cell: both ends in one place, inside a switch.
const CELL_BYTES: u64 = size_of::<crate::cell::PassedCell>() as u64;
/// Bytes of a cell: one end's half, as it is sent.
const HALF_BYTES: u64 = size_of::<crate::cell::Cell>() as u64;

/// The mean absolute value of a normal distribution with deviation 1: sqrt(2 / pi).
const MEAN_OF_SIZE: f64 = 0.797_884_560_802_865_4;

/// `Ok` if `is_fine`, else the error with the valid range.
fn check(is_fine: bool, what: &str, value: f64, range: &str) -> Result<(), InvalidArgument> {
    ensure(is_fine, || format!("{what} is {value}; give it {range}"))
}

/// Checks for a number over 0.
fn positive(what: &str, value: f64) -> Result<(), InvalidArgument> {
    let is_fine = value > 0.0 && value.is_finite();
    check(is_fine, what, value, "a number over 0")
}

/// Checks for a share of packets below 1.
fn loss(what: &str, value: f64) -> Result<(), InvalidArgument> {
    check((0.0..1.0).contains(&value), what, value, "0 to under 1")
}

/// Checks for a share over 0 and below 1.
fn part(what: &str, value: f64) -> Result<(), InvalidArgument> {
    let is_fine = value > 0.0 && value < 1.0;
    check(is_fine, what, value, "over 0 to under 1")
}

/// The least number in `low..=high` for which `fits`, which is monotonic; `None` if `high` does not fit
/// either.
fn least(low: u64, high: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    if !fits(high) {
        return None;
    }
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = low.midpoint(high);
        if fits(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

#[cfg(test)]
mod tests;
