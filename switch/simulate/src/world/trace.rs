//! What happened, as one number: two runs of a seed must give the same number. The last events are kept in words.

use std::collections::VecDeque;
use std::fmt;

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

    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The last events, in the world's time.
    pub fn last(&self) -> Vec<String> {
        let line = |(at, what): &(u64, String)| format!("{:>12.6} s  {what}", *at as f64 / 1e9);
        self.last.iter().map(line).collect()
    }
}
