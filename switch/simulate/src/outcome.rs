//! What became of a world: figures, the first violation, and all that happened as one number, which two runs of a seed have
//! in common. The last events are kept in words.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use measure::labelled_enum;

use crate::world::{Coverage, Fault, Violation};

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
    pub faults: BTreeMap<Fault, u64>,
    /// Bounds.
    pub coverage: Coverage,
}

impl Figures {
    pub(crate) fn count(&mut self, what: Count, times: u64) {
        *self.counts.entry(what).or_default() += times;
    }

    pub(crate) fn count_fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Adds those of another world.
    pub fn add(&mut self, other: &Self) {
        self.simulated_s += other.simulated_s;
        for (&what, &times) in &other.counts {
            self.count(what, times);
        }
        for (&fault, times) in &other.faults {
            *self.faults.entry(fault).or_default() += times;
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
