//! Bugs that are planted to be found by simulation (feature `planted`). None works in a release build, whatever its features.

use std::sync::atomic::{AtomicU8, Ordering};

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A packet that waits while a generation is taken up is counted twice.
    CountedTwice = 1,
    /// A marker that comes twice turns the receiver to the next epoch.
    DoubledMarker = 2,
    /// A shard comes back now and then without having been cleared.
    StaleShard = 3,
    /// A station takes any sender's report for that of the switch that it names.
    ForeignReport = 4,
    /// A reload closes ports before the workers have given them back.
    EarlyClose = 5,
}

static PLANTED: AtomicU8 = AtomicU8::new(0);

/// Turns on the bug of that name in this process; false where there is none.
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

/// Whether this bug is turned on: in a release build the constant `false`.
pub fn is(bug: Bug) -> bool {
    cfg!(debug_assertions) && PLANTED.load(Ordering::Relaxed) == bug as u8
}
