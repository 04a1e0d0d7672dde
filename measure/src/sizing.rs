//! How large a synopsis must be for a wanted error, and what error a given memory gives.
//!
//! A plan holds sizes, memory and the error to expect, by formula; nothing is measured here. For
//! LDA ([`LdaPlan`]) the formula is exact in the mean; for LDS ([`LdsPlan`]) it is a model of how
//! flows collide. Tests hold both against simulation.

mod lda;
mod lds;

pub use lda::{LdaDemand, LdaForecast, LdaPlan};
pub use lds::{FlowSizes, LdsDemand, LdsPlan};

use crate::argument::{InvalidArgument, ensure};

/// A plan that cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SizingError {
    /// A number out of range, or not a number.
    #[error(transparent)]
    Argument(#[from] InvalidArgument),
    /// No size attains the error.
    #[error(
        "an error of {target} is out of reach, {best} is the least; allow that much, lengthen the \
         epoch, or ask for larger flows only"
    )]
    OutOfReach {
        /// The relative error asked for.
        target: f64,
        /// The least that can be had.
        best: f64,
    },
    /// The memory does not hold the smallest synopsis.
    #[error("{memory_bytes} bytes hold no synopsis; give it {least_bytes} at least")]
    MemoryTooSmall {
        /// What was given.
        memory_bytes: u64,
        /// What the smallest takes.
        least_bytes: u64,
    },
    /// Flows differ less than the error that is allowed.
    #[error(
        "flows differ by {spread}, less than the error of {target} that is allowed: the mean over \
         the segment says as much, and needs an LDA only"
    )]
    MeanSuffices {
        /// The relative error asked for.
        target: f64,
        /// How much flows differ.
        spread: f64,
    },
}

/// Bytes of a cell: both ends in one place, inside a switch.
const CELL_BYTES: u64 = size_of::<crate::cell::PassedCell>() as u64;
/// Bytes of a cell: one end's half, as it is sent.
const HALF_BYTES: u64 = size_of::<crate::cell::Cell>() as u64;

/// The mean of the size of a normal value of deviation 1: sqrt(2 / pi).
const MEAN_OF_SIZE: f64 = 0.797_884_560_802_865_4;

/// `Ok` where `is_fine`, else the error that says what it may be.
fn check(is_fine: bool, what: &str, value: f64, range: &str) -> Result<(), InvalidArgument> {
    ensure(is_fine, || format!("{what} is {value}; give it {range}"))
}

/// Refuses what is no number over 0.
fn positive(what: &str, value: f64) -> Result<(), InvalidArgument> {
    let is_fine = value > 0.0 && value.is_finite();
    check(is_fine, what, value, "a number over 0")
}

/// Refuses what is no share of packets that leaves some over.
fn loss(what: &str, value: f64) -> Result<(), InvalidArgument> {
    check((0.0..1.0).contains(&value), what, value, "0 to under 1")
}

/// Refuses what is no share between none and all.
fn part(what: &str, value: f64) -> Result<(), InvalidArgument> {
    let is_fine = value > 0.0 && value < 1.0;
    check(is_fine, what, value, "over 0 to under 1")
}

/// The least of `low..=high` for which `fits`, which never turns false again; `None` where not
/// even `high` does.
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
