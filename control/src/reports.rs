//! What the sender of reports and the exporter of flows have counted, to be read from any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use records::snapshot::{IpfixExport, Reports};

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

/// Counters of the exporter by IPFIX, which is the only one that writes them.
#[derive(Debug, Default)]
pub struct IpfixCounters {
    /// Messages sent.
    pub messages: AtomicU64,
    /// Data records in these.
    pub records: AtomicU64,
    /// Data records that could not be sent.
    pub dropped_records: AtomicU64,
    /// Whether the last message was sent.
    pub is_connected: AtomicBool,
}

impl IpfixCounters {
    /// What is published.
    pub fn read(&self) -> IpfixExport {
        IpfixExport {
            messages: self.messages.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            dropped_records: self.dropped_records.load(Ordering::Relaxed),
            is_connected: self.is_connected.load(Ordering::Relaxed),
        }
    }
}
