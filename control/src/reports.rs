//! What the sender of reports and the exporter of flows have counted, to be read from any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use records::snapshot::{IpfixExport, Reports};

/// Why something does not work, from the first fault until it works again: in the log, and at `/readyz`.
#[derive(Debug, Default)]
pub struct Complaint(Mutex<Option<String>>);

impl Complaint {
    /// Something does not work; whether that is news, and to be logged.
    pub fn say(&self, words: &str) -> bool {
        let mut last = self.0.lock();
        let is_news = last.as_deref() != Some(words);
        if is_news {
            *last = Some(words.to_owned());
        }
        is_news
    }

    /// It works.
    pub fn clear(&self) {
        *self.0.lock() = None;
    }

    /// Why it does not work; `None` while it does.
    pub fn read(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

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
    /// Why reports are not stored.
    pub complaint: Complaint,
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
    /// Why flows are not exported.
    pub complaint: Complaint,
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
