//! The latest snapshot, for any thread to read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use contract::sync::RwLock;
use parking_lot::Mutex;
use records::answers::{FlowPage, FlowQuery};
use records::snapshot::{FlowAnswer, FlowList, FlowName, IpfixExport, Reports, Snapshot};

use crate::decode::Sketches;
use crate::wire::flows::{self, WireFlowsOf};

/// The control core has stopped if it has not polled for this long; it polls some hundred times a second.
const STOPPED_AFTER: Duration = Duration::from_secs(10);

/// The latest snapshot, for any thread to read, and whether the control core still works.
///
/// Reading costs one uncontended lock and one reference count; the lock is never held for longer.
#[derive(Debug)]
pub struct Published {
    current: RwLock<Current>,
    since: Instant,
    /// Milliseconds from `since` to the control core's last poll.
    beat_ms: AtomicU64,
    /// Milliseconds from `since` to the last snapshot.
    renewed_ms: AtomicU64,
    /// Counters of the sender of reports, if any.
    pub reports: OnceLock<Arc<ReportCounters>>,
    /// Counters of the IPFIX exporter, if any.
    pub ipfix: OnceLock<Arc<IpfixCounters>>,
}

/// Counters of a thread beside the control core, for any other thread to read, and why it does not work.
#[derive(Debug, Default)]
pub struct Counters<T> {
    now: Mutex<T>,
    /// Set from the first fault until it works again; shown in the log and at `/readyz`.
    complaint: Mutex<Option<String>>,
}

/// Counters of the sender of reports.
pub type ReportCounters = Counters<Reports>;

/// Counters of the exporter by IPFIX.
pub type IpfixCounters = Counters<IpfixExport>;

impl<T: Copy> Counters<T> {
    /// The published counters.
    pub fn read(&self) -> T {
        *self.now.lock()
    }

    /// Updates the counters; only the thread itself may call it.
    pub fn count(&self, count: impl FnOnce(&mut T)) {
        count(&mut self.now.lock());
    }

    /// Reports a fault. Returns whether it is new, and should be logged.
    pub fn complain(&self, words: &str) -> bool {
        self.complaint.lock().replace(words.to_owned()).as_deref() != Some(words)
    }

    /// Notes that it works.
    pub fn clear_complaint(&self) {
        *self.complaint.lock() = None;
    }

    /// Why it does not work; `None` while it does.
    pub fn complaint(&self) -> Option<String> {
        self.complaint.lock().clone()
    }
}

/// The lists and sketches in which flows are looked up.
#[derive(Debug, Clone, Default)]
pub struct Lookup {
    /// The sketches of the last complete epoch, if sketches are kept.
    pub sketches: Option<Arc<Sketches>>,
    /// The flows of each wire.
    pub wires: Vec<WireFlowsOf>,
}

/// A snapshot with its lookup data.
#[derive(Debug, Clone)]
struct Current {
    snapshot: Arc<Snapshot>,
    lookup: Lookup,
}

impl Published {
    /// Publishes a first snapshot, without sketches.
    pub fn new(snapshot: Snapshot) -> Self {
        let current = Current {
            snapshot: Arc::new(snapshot),
            lookup: Lookup::default(),
        };
        Self {
            current: RwLock::new(current),
            since: Instant::now(),
            beat_ms: AtomicU64::new(0),
            renewed_ms: AtomicU64::new(0),
            reports: OnceLock::new(),
            ipfix: OnceLock::new(),
        }
    }

    /// The current snapshot.
    pub fn read(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().snapshot)
    }

    /// All that is known of a flow, tracked or not. May take some hundred milliseconds if sketches are
    /// decoded; holds no lock meanwhile.
    pub fn flow(&self, name: FlowName) -> FlowAnswer {
        let Current { snapshot, lookup } = self.current.read().clone();
        let mut answer = snapshot.answer(name);
        if let (Some(sketches), FlowName::Key(key)) = (lookup.sketches, &name) {
            let none = FlowList::default();
            let flows = snapshot.flows.as_ref();
            answer.sketched = sketches.ask(key, flows.map_or(&none, |flows| &flows.list));
        }
        answer.wires = lookup
            .wires
            .iter()
            .flat_map(|wire| wire.ask(name))
            .collect();
        answer
    }

    /// The selected flows, of the switch and of wires. May take some hundred milliseconds for a million; holds no
    /// lock meanwhile.
    pub fn flows(&self, query: &FlowQuery) -> FlowPage {
        let Current { snapshot, lookup } = self.current.read().clone();
        let asked = lookup.wires.iter().filter(|_| query.lists_wires());
        let asked: Vec<WireFlowsOf> = asked.cloned().collect();
        let inside = snapshot.flows.iter();
        let wires = flows::lists(
            &asked,
            inside.flat_map(|flows| [&*flows.ended, &*flows.list]),
        );
        FlowPage::of(&snapshot, &wires, query)
    }

    /// Replaces the snapshot and its lookup data; readers keep their copies.
    pub fn publish(&self, snapshot: Snapshot, lookup: Lookup) {
        let current = Current {
            snapshot: Arc::new(snapshot),
            lookup,
        };
        // The previous snapshot is large, so it is freed after the lock is released.
        let former = std::mem::replace(&mut *self.current.write(), current);
        drop(former);
        self.renewed_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Why reports are not stored, or flows not exported, as in the log.
    pub fn complaints(&self) -> Vec<String> {
        let reports = (self.reports.get()).and_then(|counters| counters.complaint());
        let ipfix = (self.ipfix.get()).and_then(|counters| counters.complaint());
        let reports = reports.map(|words| format!("reports: {words}"));
        let ipfix = ipfix.map(|words| format!("IPFIX: {words}"));
        reports.into_iter().chain(ipfix).collect()
    }

    /// The reasons why the switch is not ready; empty if it is ready.
    pub fn unready(&self) -> Vec<String> {
        let mut reasons = self.read().unready();
        reasons.extend(self.standstill());
        reasons.extend(self.complaints());
        reasons
    }

    /// Notes a poll of the control core.
    pub fn beat(&self) {
        self.beat_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Why published figures are outdated: the control core has stopped, hangs, or cannot publish. Workers
    /// forward packets without it.
    pub fn standstill(&self) -> Option<String> {
        self.standstill_at(self.now_ms())
    }

    fn standstill_at(&self, now_ms: u64) -> Option<String> {
        let silent = |since: &AtomicU64| {
            let silent_ms = now_ms.saturating_sub(since.load(Ordering::Relaxed));
            Some(Duration::from_millis(silent_ms)).filter(|silent| *silent >= STOPPED_AFTER)
        };
        let (what, silent) = match (silent(&self.beat_ms), silent(&self.renewed_ms)) {
            (Some(silent), _) => ("has stood still", silent),
            (None, Some(silent)) => ("could publish nothing", silent),
            (None, None) => return None,
        };
        Some(format!(
            "the control core {what} for {} s: packets are switched, figures are old; read the log, \
             and restart",
            silent.as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_core_that_has_stopped_is_known_by_its_silence() {
        let published = Published::new(Snapshot::default());
        assert_eq!(published.standstill_at(9_999), None);
        published.beat_ms.store(8_000, Ordering::Relaxed);
        let standstill = |now_ms| published.standstill_at(now_ms).unwrap();
        assert!(standstill(17_999).contains("could publish nothing for 17 s"));
        assert!(standstill(18_000).contains("has stood still for 10 s"));
        published.renewed_ms.store(20_000, Ordering::Relaxed);
        published.beat_ms.store(20_000, Ordering::Relaxed);
        assert_eq!(published.standstill_at(29_999), None);
    }

    #[test]
    fn a_reader_keeps_what_it_has() {
        let published = Published::new(Snapshot::default());
        let before = published.read();
        let mut next = (*before).clone();
        next.epoch = Some(7);
        published.publish(next, Lookup::default());
        assert_eq!((before.epoch, published.read().epoch), (None, Some(7)));
    }
}
