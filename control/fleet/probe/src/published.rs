//! Where results go: the latest and the totals to readers in other threads, all of them to reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use serde::Serialize;

use crate::clock::Offset;
use crate::reflector::ReflectorCounts;
use crate::reporting::Collector;
use crate::result::{Counts, SessionResult};
use crate::send_faults::SendFaults;

contract::record! {
    /// Sums over all closed intervals of a session.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
    pub struct Totals {
        /// Counts of packets and replies.
        #[serde(flatten)]
        pub counts: Counts,
        /// Intervals in which the clock of either end was set.
        #[metric(Counter = "vernier_probe_clock_steps_total")]
        pub clock_steps: u64,
        /// Round trips measured.
        pub round_trips: u64,
        /// Their sum in seconds.
        pub round_trip_s: f64,
    }
}

/// A session as it is published.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Published {
    /// The last closed interval.
    pub last: SessionResult,
    /// All closed intervals.
    pub total: Totals,
    /// The last interval in which a clock was set; `None`: there was none.
    pub last_step: Option<Step>,
}

/// An interval in which a clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Step {
    /// Its number.
    pub interval: u64,
    /// Its start, in ms since 1970.
    pub start_unix_ms: u64,
    /// Whose clock was set, and by how much.
    pub clocks: Offset,
}

impl Published {
    /// Adds another result of a session.
    fn after(former: Option<&Self>, result: SessionResult) -> Self {
        let mut total = former.map_or_else(Totals::default, |former| former.total);
        total.counts += result.counts;
        total.clock_steps += u64::from(result.clocks.state.has_stepped());
        if let Some(delays) = result.round_trip {
            total.round_trips += delays.samples;
            total.round_trip_s += delays.mean_ns * delays.samples as f64 / 1e9;
        }
        let step = result.clocks.state.has_stepped().then_some(Step {
            interval: result.interval,
            start_unix_ms: result.start_unix_ms,
            clocks: result.clocks,
        });
        Self {
            last_step: step.or_else(|| former.and_then(|former| former.last_step)),
            last: result,
            total,
        }
    }
}

/// Everything that is published.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<RwLock<State>>);

/// The published state.
#[derive(Debug, Default)]
pub struct State {
    /// Sessions with a result, by name.
    pub sessions: BTreeMap<String, Arc<Published>>,
    /// The reflector's counts, if there is a reflector.
    pub reflector: Option<ReflectorCounts>,
    /// Replies that belong to no session.
    pub strangers: u64,
    /// Sessions whose requests cannot be sent.
    pub faults: SendFaults,
}

impl Board {
    /// Reads the state. The measuring thread waits while the guard is held.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read()
    }

    /// All sessions by name. They are shared rather than copied, so that the measuring thread does not wait for
    /// readers.
    pub fn sessions(&self) -> Vec<Arc<Published>> {
        self.read().sessions.values().cloned().collect()
    }

    /// One session.
    pub fn session(&self, name: &str) -> Option<Arc<Published>> {
        self.read().sessions.get(name).cloned()
    }
}

/// Destinations of results.
#[derive(Debug, Default)]
pub struct Outlet {
    /// For HTTP.
    pub board: Board,
    /// For reports, if configured.
    pub reports: Option<Collector>,
}

impl Outlet {
    /// Publishes a session's interval.
    pub fn result(&mut self, result: SessionResult) {
        if let Some(reports) = &mut self.reports {
            reports.result(result.clone());
        }
        let name = result.id.name.clone();
        let former = self.board.session(&name);
        let published = Arc::new(Published::after(former.as_deref(), result));
        // The former result is freed after the lock is released.
        let former = self.board.0.write().sessions.insert(name, published);
        drop(former);
    }

    /// Publishes the reflector's counts so far, the replies so far that belong to no session, and the sessions that
    /// cannot send. Called about every 50 ms.
    pub fn counted(&self, reflector: Option<ReflectorCounts>, strangers: u64, faults: &SendFaults) {
        let mut state = self.board.0.write();
        state.reflector = reflector;
        state.strangers = strangers;
        let former = std::mem::replace(&mut state.faults, faults.clone());
        drop(state);
        faults.log_changes(&former);
    }

    /// Marks all intervals before this one as complete. Called about every 50 ms.
    pub fn closed(&mut self, before: u64) {
        if let Some(reports) = &mut self.reports {
            reports.closed(before);
        }
    }
}
