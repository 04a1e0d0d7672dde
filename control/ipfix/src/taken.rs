//! What had been counted of each flow and segment when its last record was taken.

use std::collections::HashMap;
use std::hash::Hash;

use crate::counted::Counted;

/// Counts by key.
#[derive(Debug)]
pub(crate) struct Taken<K> {
    entries: HashMap<K, Entry>,
}

/// Size of a value.
pub(crate) const ENTRY_BYTES: usize = size_of::<Entry>();

/// What had been counted, and the epoch of the last delays.
#[derive(Debug)]
struct Entry {
    counted: Counted,
    epoch: Option<u64>,
    is_present: bool,
}

impl<K> Default for Taken<K> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
        }
    }
}

impl<K: Hash + Eq> Taken<K> {
    /// What is new at `key`, and the epoch of the last delays that were taken.
    pub fn since(&mut self, key: &K, now: Counted) -> (Counted, Option<u64>) {
        let Some(entry) = self.entries.get_mut(key) else {
            return (now, None);
        };
        entry.is_present = true;
        (now.since(entry.counted), entry.epoch)
    }

    /// A record of `now` was taken.
    pub fn enter(&mut self, key: K, counted: Counted, epoch: Option<u64>) {
        let entry = Entry {
            counted,
            epoch,
            is_present: true,
        };
        self.entries.insert(key, entry);
    }

    /// Forgets what was not asked for since the last time.
    pub fn forget_absent(&mut self) {
        self.entries
            .retain(|_, entry| std::mem::take(&mut entry.is_present));
    }
}
