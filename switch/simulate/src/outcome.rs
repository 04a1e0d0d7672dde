//! What became of a world: figures, the first violation, and all that happened as one number, which two runs of a seed have
//! in common. The last events are kept in words.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use measure::labelled_enum;

/// A rule that was broken.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The rule's name.
    pub rule: &'static str,
    /// What was seen, and what is true.
    pub what: String,
}

/// Outcome of a check.
pub(crate) type Check = Result<(), Violation>;

/// Share of bounds that may exclude the truth: all are nominal 98 %.
const LEVEL: f64 = 0.02;

/// How improbable it must be that so many bounds exclude it by chance.
const CHANCE: f64 = 1e-9;

pub(crate) fn holds(rule: &'static str, holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds {
        Ok(())
    } else {
        Err(Violation { rule, what: what() })
    }
}

/// How often bounds of each kind of estimate excluded the truth, of how many.
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

    /// Adds those of another world.
    pub fn add(&mut self, other: &Self) {
        for (kind, (excluded, all)) in &other.0 {
            let sum = self.0.entry(kind.clone()).or_default();
            sum.0 += excluded;
            sum.1 += all;
        }
    }

    /// `bounds`: no kind of estimate has bounds that exclude the truth more often than their level allows.
    ///
    /// # Errors
    /// The kind, where so many excluded ones have a chance of less than 10^-9.
    pub fn check(&self) -> Result<(), Violation> {
        for (kind, &(excluded, all)) in &self.0 {
            let chance = binomial_tail(all, excluded, LEVEL);
            holds("bounds", chance >= CHANCE, || {
                format!("{excluded} of {all} bounds of {kind} exclude the truth, chance {chance:e}")
            })?;
        }
        Ok(())
    }
}

/// The chance of `k` or more of `n`, each of chance `p`.
fn binomial_tail(n: u64, k: u64, p: f64) -> f64 {
    if k as f64 <= n as f64 * p {
        return 1.0;
    }
    // From the k-th term on each is smaller than the one before.
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
    /// What is counted, in the order in which it is shown.
    #[derive(PartialOrd, Ord)]
    pub enum Count {
        /// Data frames that hosts sent.
        Offered = "packets offered",
        /// Reports of honest switches to stations.
        Reports = "honest reports",
        /// Messages of hostile ones.
        Hostile = "hostile messages",
        /// Faults of stations and of their server.
        Faults = "faults of stations",
        /// Checks that were made.
        Checks = "checks",
        /// Usable epochs of segments inside switches that were compared with the truth.
        Inside = "epochs, inside",
        /// Epochs of flows with percentiles.
        OfFlows = "epochs of flows",
        /// Usable epochs of wires.
        OnWires = "epochs, wires",
        /// Those of wires with losses: the others say that they do not know theirs.
        WithLosses = "  with losses",
    }
}

/// Figures of a world, or of many.
#[derive(Debug, Default)]
pub struct Figures {
    /// How long it lived, in seconds of its own.
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

    /// Adds those of another world.
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

/// What became of a world.
#[derive(Debug)]
pub struct Outcome {
    /// All that happened, as one number.
    pub hash: u64,
    /// What was counted.
    pub figures: Figures,
    /// The first rule that was broken.
    pub violation: Option<Violation>,
    /// The last events.
    pub events: Vec<String>,
}

/// Events that are shown of a violation.
const SHOWN: usize = 40;

/// A fold of all that happened (FNV-1a).
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

    /// Folds in an event, and keeps it for the report of what happened.
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

    /// The outcome of a world that ends.
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
