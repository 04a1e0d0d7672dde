//! The outcome of a world: figures, the first violation, and a hash of all events, which is the same for every run of a
//! seed. The last events are kept as text.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use measure::labelled_enum;

/// A rule that was broken.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The rule's name.
    pub rule: &'static str,
    /// The observed and the true value.
    pub what: String,
}

/// Result of a check.
pub(crate) type Check = Result<(), Violation>;

/// Share of bounds that may exclude the true value: all are nominal 98 %.
const LEVEL: f64 = 0.02;

/// Probability below which the number of exclusions is no longer taken for chance.
const CHANCE: f64 = 1e-9;

pub(crate) fn holds(rule: &'static str, holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds {
        Ok(())
    } else {
        Err(Violation { rule, what: what() })
    }
}

/// For each kind of estimate, the bounds that excluded the true value, and all bounds.
#[derive(Debug, Clone, Default)]
pub struct Coverage(pub BTreeMap<String, (u64, u64)>);

impl Coverage {
    /// Enters an estimate.
    pub(crate) fn judge(&mut self, kind: &str, mean_ns: f64, bound_ns: f64, truth_ns: f64) {
        let (excluded, all) = self.0.entry(kind.to_owned()).or_default();
        // A billionth of the mean is rounding.
        let off_ns = (mean_ns - truth_ns).abs() - truth_ns.abs() * 1e-9;
        *excluded += u64::from(off_ns > bound_ns);
        *all += 1;
    }

    /// Adds the figures of another world.
    pub fn add(&mut self, other: &Self) {
        for (kind, (excluded, all)) in &other.0 {
            let sum = self.0.entry(kind.clone()).or_default();
            sum.0 += excluded;
            sum.1 += all;
        }
    }

    /// `bounds`: the bounds of no kind of estimate exclude the true value more often than their level allows.
    ///
    /// # Errors
    /// The kind, if the probability of so many exclusions is less than 10^-9.
    pub fn check(&self) -> Result<(), Violation> {
        for (kind, &(excluded, all)) in &self.0 {
            let chance = binomial_tail(all, excluded, LEVEL);
            holds("bounds", chance >= CHANCE, || {
                format!(
                    "{excluded} of {all} bounds of {kind} exclude the true value, probability {chance:e}"
                )
            })?;
        }
        Ok(())
    }
}

/// Probability of `k` or more of `n` events with probability `p` each.
fn binomial_tail(n: u64, k: u64, p: f64) -> f64 {
    if k as f64 <= n as f64 * p {
        return 1.0;
    }
    // From the k-th term on, each is smaller than the previous one.
    let mut log = n as f64 * (1.0 - p).ln();
    for i in 0..k {
        log += ((n - i) as f64 / (i + 1) as f64).ln() + (p / (1.0 - p)).ln();
    }
    let (mut term, mut sum) = (log.exp(), 0.0);
    for i in k..=n {
        sum += term;
        term *= (n - i) as f64 / (i + 1) as f64 * p / (1.0 - p);
        if term < sum * 1e-12 {
            break;
        }
    }
    sum
}

labelled_enum! {
    /// Counters, in the order in which they are printed.
    #[derive(PartialOrd, Ord)]
    pub enum Count {
        /// Data frames that hosts sent.
        Offered = "packets offered",
        /// Reports of honest switches to stations.
        Reports = "honest reports",
        /// Messages of hostile senders.
        Hostile = "hostile messages",
        /// Faults of stations and of their server.
        Faults = "faults of stations",
        /// Checks that were made.
        Checks = "checks",
        /// Usable epochs of segments inside switches that were compared with the true values.
        Inside = "epochs, inside",
        /// Epochs of flows with percentiles.
        OfFlows = "epochs of flows",
        /// Usable epochs of wires.
        OnWires = "epochs, wires",
        /// Usable epochs of wires with known losses.
        WithLosses = "  with losses",
    }
}

/// Figures of a world, or of many.
#[derive(Debug, Default)]
pub struct Figures {
    /// Simulated seconds.
    pub simulated_s: f64,
    /// What was counted.
    pub counts: BTreeMap<Count, u64>,
    /// Faults of switches, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Bounds.
    pub coverage: Coverage,
}

impl Figures {
    pub(crate) fn count(&mut self, what: Count, times: u64) {
        *self.counts.entry(what).or_default() += times;
    }

    pub(crate) fn count_fault(&mut self, fault: impl fmt::Debug) {
        *self.faults.entry(format!("{fault:?}")).or_default() += 1;
    }

    /// Adds the figures of another world.
    pub fn add(&mut self, other: &Self) {
        self.simulated_s += other.simulated_s;
        for (&what, &times) in &other.counts {
            self.count(what, times);
        }
        for (fault, times) in &other.faults {
            *self.faults.entry(fault.clone()).or_default() += times;
        }
        self.coverage.add(&other.coverage);
    }
}

/// The outcome of a world.
#[derive(Debug)]
pub struct Outcome {
    /// Hash of all events.
    pub hash: u64,
    /// What was counted.
    pub figures: Figures,
    /// The first rule that was broken.
    pub violation: Option<Violation>,
    /// The last events.
    pub events: Vec<String>,
}

/// Number of events that are printed with a violation.
const SHOWN: usize = 40;

/// A hash of all events (FNV-1a).
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    last: VecDeque<(u64, String)>,
}

impl Trace {
    pub fn new() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            last: VecDeque::new(),
        }
    }

    /// Folds in numbers.
    pub fn fold(&mut self, words: &[u64]) {
        for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Hashes an event, and keeps it for the report.
    pub fn note(&mut self, now: u64, what: fmt::Arguments<'_>) {
        let what = what.to_string();
        self.fold(&[now]);
        for byte in what.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back((now, what));
    }

    /// Returns the outcome when the world ends.
    pub fn end(&self, figures: Figures, violation: Option<Violation>) -> Outcome {
        let line = |(at, what): &(u64, String)| format!("{:>12.6} s  {what}", *at as f64 / 1e9);
        Outcome {
            hash: self.hash,
            figures,
            violation,
            events: self.last.iter().map(line).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_binomial_is_that_of_tables() {
        // By the sum of all terms, in Python's exact integers.
        for (n, k, chance) in [
            (100, 3, 0.323_314),
            (100, 10, 3.441_68e-5),
            (1_000, 21, 0.440_904),
        ] {
            let tail = binomial_tail(n, k, 0.02);
            assert!((tail / chance - 1.0).abs() < 1e-4, "{n} {k}: {tail}");
        }
        assert!((binomial_tail(50, 0, 0.02) - 1.0).abs() < 1e-12);
    }
}
