//! Bugs that are planted for the simulation to find (feature `planted`). None is active in a release build, whatever
//! its features.

use std::sync::atomic::{AtomicU8, Ordering};

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A packet that is queued during a switch to another generation is counted twice.
    CountedTwice = 1,
    /// A duplicate marker moves the receiver to the next epoch.
    DoubledMarker = 2,
    /// A shard sometimes returns without having been cleared.
    StaleShard = 3,
    /// A station accepts a report from any sender, instead of only from the switch named in it.
    ForeignReport = 4,
    /// A reload closes ports before the workers have returned them.
    EarlyClose = 5,
}

static PLANTED: AtomicU8 = AtomicU8::new(0);

/// Enables the bug of this name in this process; returns false if there is none.
pub fn enable(name: &str) -> bool {
    let bug = match name {
        "counted-twice" => Bug::CountedTwice,
        "doubled-marker" => Bug::DoubledMarker,
        "stale-shard" => Bug::StaleShard,
        "foreign-report" => Bug::ForeignReport,
        "early-close" => Bug::EarlyClose,
        _ => return false,
    };
    PLANTED.store(bug as u8, Ordering::Relaxed);
    true
}

/// Whether this bug is enabled; constant `false` in a release build.
pub fn is(bug: Bug) -> bool {
    cfg!(debug_assertions) && PLANTED.load(Ordering::Relaxed) == bug as u8
}
