//! The data plane as the control core sees it: ports, buffers, and workers' generations.
//!
//! ```text
//!  ControlCore::poll
//!    DataPlane::poll(status) -> events   every few milliseconds: links, FDB, generations
//!      Event::Change  --> DataPlane::answer(whether it was taken)
//!    DataPlane::port, pools, fdb ---> snapshot   when one is published
//! ```

use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};

use measure::time::Ticks;
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

pub use crate::background::ResultMode;
use contract::change::{Change, ChangeError, CoreStatus, Reload};
use contract::counters::WorkerCounters;
use contract::ids::{PortIndex, WorkerIndex};
use records::snapshot::{Fdb, Pool, PortFact};

/// The kernel's state of the system's clock (`adjtimex(2)`), as set by the program that synchronises it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelClock {
    /// Whether it is synchronised: neither `STA_UNSYNC` nor `STA_CLOCKERR`.
    pub is_synchronised: bool,
    /// `esterror` in microseconds: an estimate of the error, not a bound.
    pub estimated_error_us: u64,
    /// `maxerror` in microseconds: a bound of the error.
    pub error_us_max: u64,
}

pub(crate) const NS_PER_S: u64 = 1_000_000_000;

/// The system's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemTime {
    /// `CLOCK_TAI` in nanoseconds.
    pub tai_ns: u64,
    /// The kernel's offset of TAI from UTC, in seconds; 0 if it was not set.
    pub tai_utc_s: i16,
}

impl SystemTime {
    /// Now.
    pub fn now() -> Self {
        let ns = |time: Timespec| {
            let whole = u64::try_from(time.tv_sec).unwrap_or(0) * NS_PER_S;
            whole + u64::try_from(time.tv_nsec).unwrap_or(0)
        };
        let utc = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
        let utc_ns = utc.map_or(0, |utc| u64::try_from(utc.as_nanos()).unwrap_or(0));
        // Every Linux since 3.10 has it.
        let tai = clock_gettime_dynamic(DynamicClockId::Tai);
        let tai_ns = ns(tai.unwrap_or_else(|_| clock_gettime(ClockId::Realtime)));
        let behind_ns = tai_ns.wrapping_sub(ns(clock_gettime(ClockId::Realtime)));
        // The offset is a whole number, and the second reading is slightly later.
        let tai_utc_s = (behind_ns.cast_signed() as f64 / NS_PER_S as f64).round();
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        let tai_utc_s = tai_utc_s as i16;
        let ahead_ns = i64::from(tai_utc_s) * 1_000_000_000;
        Self {
            tai_ns: utc_ns.wrapping_add_signed(ahead_ns),
            tai_utc_s,
        }
    }
}

/// An event in the data plane. The control core applies events in order.
#[derive(Debug)]
pub enum Event {
    /// A new worker. It belongs to no generation until a [`Change`] has an end for it.
    WorkerAdded {
        /// Its index: the number of workers before it.
        worker: WorkerIndex,
        /// Its counters.
        counters: Arc<WorkerCounters>,
    },
    /// A new generation, before any worker can switch to it. [`DataPlane::answer`] follows.
    Change(Box<Change>),
    /// The link of a port changed, or packets on it are not measured correctly: the current epoch and the
    /// previous one give no figures for its segments and its sketch.
    Disturbed {
        /// The port.
        port: PortIndex,
    },
}

/// Ports, buffers, and everything else that the data plane has in addition to the workers' counters. All
/// methods are called on the control core's thread.
pub trait DataPlane: Send {
    /// The current value of the counter that defines epochs.
    fn now(&mut self) -> Ticks;

    /// The device of a configured port.
    fn port(&mut self, _: PortIndex) -> PortFact {
        PortFact::default()
    }

    /// The pools of packet buffers; empty if there are none, or they belong to another program.
    fn pools(&mut self) -> Vec<Pool> {
        Vec::new()
    }

    /// The bridge's filtering database, if any.
    fn fdb(&mut self) -> Option<Fdb> {
        None
    }

    /// The last requested reload.
    fn reload(&mut self) -> Option<Reload> {
        None
    }

    /// The kernel's view of the system's clock, which wires use; `None` if it is not read: then the clock
    /// counts as unsynchronised.
    fn kernel_clock(&mut self) -> Option<KernelClock> {
        None
    }

    /// The monotonic clock. The control core takes all its times from this clock and the system's; a simulation sets
    /// them by hand.
    fn monotonic(&mut self) -> Instant {
        Instant::now()
    }

    /// TAI by the system's clock.
    fn system_time(&mut self) -> SystemTime {
        SystemTime::now()
    }

    /// 64 unpredictable random bits, for nonces of sessions with other switches.
    fn random(&mut self) -> u64 {
        // Without the system's source, only the keys of the standard library's hash tables remain.
        getrandom::u64().unwrap_or_else(|_| RandomState::new().build_hasher().finish())
    }

    /// When decoded flows are taken. A simulation waits for them without counting the time, so that nothing
    /// depends on thread timing; a switch would take its shards late.
    fn decoding(&self) -> ResultMode {
        ResultMode::Polled
    }

    /// The data plane's own upkeep, at every poll of the control core: some hundred times a second. Returns
    /// events for the core.
    fn poll(&mut self, _: CoreStatus) -> Vec<Event> {
        Vec::new()
    }

    /// Whether the control core accepted the [change](Event::Change) of this poll. A rejected change must
    /// not reach any worker.
    fn answer(&mut self, _: Result<(), ChangeError>) {}
}
