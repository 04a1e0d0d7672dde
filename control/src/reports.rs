//! What the sender of reports has counted, to be read from any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use records::snapshot::Reports;

/// Counters of the sender, which is the only one that writes them.
#[derive(Debug, Default)]
pub struct ReportCounters {
    /// Reports sent, those sent again too.
    pub sent: AtomicU64,
    /// Reports that a server has stored.
    pub acknowledged: AtomicU64,
    /// Reports that the spool had no room for.
    pub dropped: AtomicU64,
    /// Bytes of the reports that wait.
    pub spooled_bytes: AtomicU64,
    /// Whether there is a connection.
    pub is_connected: AtomicBool,
}

impl ReportCounters {
    /// What is published.
    pub fn read(&self) -> Reports {
        Reports {
            sent: self.sent.load(Ordering::Relaxed),
            acknowledged: self.acknowledged.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            spooled_bytes: self.spooled_bytes.load(Ordering::Relaxed),
            is_connected: self.is_connected.load(Ordering::Relaxed),
        }
    }
}
