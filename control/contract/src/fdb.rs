//! The filtering database: which station is behind which port (IEEE 802.1Q clause 8.8).
//!
//! ```text
//!  worker: replica --- Learned ---> control core: master --- FdbDelta ---> every worker's replica
//!          learns at once           orders what it hears                   agrees with the master
//! ```
//!
//! Each worker forwards by a replica of its own, which learns what it sees at once and reports it.
//! The [`FdbMaster`] hears all workers, and sends each of them what the others saw. It puts changes
//! in one order: a station that moved is sent to all, to the worker that reported it too, so that
//! replicas which heard of two moves in different orders end up alike. Reports and deltas travel
//! through bounded lock-free rings; a replica whose report found no room says it again at the
//! station's next frame.
//!
//! Room is shared out fairly: where there is none left, a station of the port that has most makes room
//! for one of a port that has fewer. Both ends do so by their own counts, a replica among the four
//! stations of a bucket. `max_stations` of a port bounds what is learnt behind it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::MacAddress;
use crate::ids::PortIndex;
use crate::limits::PORTS_MAX;
use crate::record;

mod master;
mod shares;

pub use master::{FdbEntry, FdbMaster};

/// Most stations that may be learned behind each port; `u32::MAX` for no limit.
pub type Limits = [u32; PORTS_MAX];

/// What a filtering database is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FdbSettings {
    /// Most stations.
    pub stations_max: usize,
    /// A station that was not seen for so long is forgotten.
    pub ageing: Duration,
    /// Stations that never age and never move, with their ports.
    pub statics: Vec<(StationKey, PortIndex)>,
    /// Most stations that may be learned behind each port.
    pub limits: Limits,
    /// Whether there is a port at each index.
    pub are_present: [bool; PORTS_MAX],
}

record! {
    /// What the master and the replicas count.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct FdbStats {
        /// Times that an address was seen at another port than before.
        #[metric(Counter = "vernier_fdb_moves_total", unit = moves, counted_in = "contract")]
        pub moves: u64,
        /// Reports of new addresses for which there was no room.
        #[metric(Counter = "vernier_fdb_overflows_total", unit = reports, counted_in = "contract")]
        pub overflows: u64,
        /// Times that a worker had no room for an address; frames to it are flooded.
        #[metric(Counter = "vernier_fdb_replica_overflows_total", unit = times, counted_in = "decide")]
        pub replica_overflows: u64,
        /// Addresses forgotten, since the table was full, for one of a port that has fewer.
        #[serde(default)]
        #[metric(Counter = "vernier_fdb_evictions_total", unit = addresses, counted_in = "contract")]
        pub evictions: u64,
        /// Times that a worker forgot an address for one of a port that has fewer.
        #[serde(default)]
        #[metric(Counter = "vernier_fdb_replica_evictions_total", unit = times, counted_in = "decide")]
        pub replica_evictions: u64,
        /// Times that an address was not learnt, since its port had its `max_stations`.
        #[serde(default)]
        #[metric(Counter = "vernier_fdb_limited_total", unit = times, counted_in = "contract")]
        pub limited: u64,
        /// Reports of addresses that did not fit into their ring; they are sent again.
        #[metric(Counter = "vernier_fdb_reports_lost_total", unit = reports, counted_in = "contract")]
        pub reports_lost: u64,
        /// Times that a worker was sent every address anew since it fell behind.
        #[metric(Counter = "vernier_fdb_restarts_total", unit = times, counted_in = "contract")]
        pub restarts: u64,
    }
}

/// Reports that may be under way from one worker.
pub const REPORTS: usize = 4_096;

/// Deltas that may be under way to one worker.
pub const DELTAS: usize = 4_096;

/// A replica reports a station anew once so many parts of the ageing time went by since it did
/// last, so long as the station is seen: the other replicas then never age what one of them sees.
pub const REFRESHES_PER_AGE: u32 = 4;

/// A station in its VLAN, in 60 bits: VLAN id above 48 bits of address, whose first octet on the
/// wire is the most significant. Learning is independent for each VLAN (802.1Q clause 8.8.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationKey(pub u64);

impl StationKey {
    /// The station `address` (48 bits) in `vlan` (12 bits; 0: the LAN of ports without VLANs).
    #[inline]
    pub const fn new(vlan: u16, address: u64) -> Self {
        Self((vlan as u64) << 48 | address)
    }

    /// The same with an address as the configuration has it.
    pub fn of(vlan: u16, address: MacAddress) -> Self {
        let octets = address.0.iter();
        Self::new(
            vlan,
            octets.fold(0, |sum, &octet| sum << 8 | u64::from(octet)),
        )
    }

    /// Its VLAN.
    pub const fn vlan(self) -> u16 {
        (self.0 >> 48) as u16 & 0x0fff
    }

    /// Its address.
    pub fn address(self) -> MacAddress {
        let [_, _, octets @ ..] = self.0.to_be_bytes();
        MacAddress(octets)
    }
}

impl fmt::Display for StationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in VLAN {}", self.address(), self.vlan())
    }
}

/// What a replica reports: it saw a frame from a station that was new to it, had moved, or had not
/// been reported for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learned {
    /// The station.
    pub station: StationKey,
    /// The port it is behind.
    pub port: PortIndex,
}

/// What the control core sends to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdbDelta {
    /// A station is behind `port`, and was seen now.
    Learn {
        /// The station.
        station: StationKey,
        /// The port it is behind.
        port: PortIndex,
    },
    /// A station is known no more.
    Forget(StationKey),
    /// No station is behind this port any more, static ones excepted.
    Flush(PortIndex),
    /// Nothing is known any more, static entries excepted, and all ports have a link: what is known
    /// comes anew.
    Restart,
    /// The port has a link, or has none: then it is neither flooded nor forwarded to.
    Link {
        /// The port.
        port: PortIndex,
        /// Whether it has one.
        is_up: bool,
    },
}

/// A worker's end of its two rings.
#[derive(Debug)]
pub struct ReplicaEnd {
    reports: Producer<Learned>,
    deltas: Consumer<FdbDelta>,
    shared: Arc<Shared>,
}

/// The control core's end of the same.
#[derive(Debug)]
pub struct MasterEnd {
    reports: Consumer<Learned>,
    deltas: Producer<FdbDelta>,
    shared: Arc<Shared>,
}

/// What both sides share beside the rings; written by the replica, but for taking the wish.
#[derive(Debug, Default)]
struct Shared {
    lost: AtomicU64,
    overflows: AtomicU64,
    evictions: AtomicU64,
    limited: AtomicU64,
    wants_all: AtomicBool,
}

/// What a replica counts, since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplicaCounts {
    /// Times that a station found no room, since its bucket was full of live ones of ports with no more stations.
    pub overflows: u64,
    /// Stations forgotten for one of a port that has fewer.
    pub evictions: u64,
    /// Times that a station was not learnt, since its port had as many as it may.
    pub limited: u64,
}

/// Both ends, for one worker, with room for so many of each under way.
pub fn fdb_rings(reports: usize, deltas: usize) -> (ReplicaEnd, MasterEnd) {
    let upwards = RingBuffer::new(reports);
    let downwards = RingBuffer::new(deltas);
    let shared = Arc::new(Shared::default());
    let replica = ReplicaEnd {
        reports: upwards.0,
        deltas: downwards.1,
        shared: Arc::clone(&shared),
    };
    let master = MasterEnd {
        reports: upwards.1,
        deltas: downwards.0,
        shared,
    };
    (replica, master)
}

impl ReplicaEnd {
    /// Reports, if there is room; else it is counted, and to be said again later.
    #[inline]
    pub fn report(&mut self, learned: Learned) -> bool {
        let is_sent = self.reports.push(learned).is_ok();
        if !is_sent {
            let lost = self.shared.lost.load(Ordering::Relaxed);
            self.shared.lost.store(lost + 1, Ordering::Relaxed);
        }
        is_sent
    }

    /// Says what the replica has counted so far.
    pub fn show(&self, counts: ReplicaCounts) {
        let Shared {
            overflows,
            evictions,
            limited,
            ..
        } = &*self.shared;
        overflows.store(counts.overflows, Ordering::Relaxed);
        evictions.store(counts.evictions, Ordering::Relaxed);
        limited.store(counts.limited, Ordering::Relaxed);
    }

    /// Asks to be sent everything anew: the replica was made anew, and is empty.
    pub fn ask_for_all(&self) {
        self.shared.wants_all.store(true, Ordering::Release);
    }

    /// Reports that are under way.
    pub fn unheard(&self) -> usize {
        self.reports.buffer().capacity() - self.reports.slots()
    }

    /// Whether a delta waits: one load where none does.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.deltas.is_empty()
    }

    /// The next delta.
    #[inline]
    pub fn next_delta(&mut self) -> Option<FdbDelta> {
        self.deltas.pop().ok()
    }
}

impl MasterEnd {
    fn next_report(&mut self) -> Option<Learned> {
        self.reports.pop().ok()
    }

    /// Sends, if there is room.
    fn send(&mut self, delta: FdbDelta) -> bool {
        self.deltas.push(delta).is_ok()
    }

    fn has_room(&self) -> bool {
        !self.deltas.is_full()
    }

    /// Reports that found no room.
    fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// What the replica has counted.
    fn counts(&self) -> ReplicaCounts {
        ReplicaCounts {
            overflows: self.shared.overflows.load(Ordering::Relaxed),
            evictions: self.shared.evictions.load(Ordering::Relaxed),
            limited: self.shared.limited.load(Ordering::Relaxed),
        }
    }

    /// Whether the replica asked for everything since this was called last.
    fn takes_wish(&self) -> bool {
        let wants_all = &self.shared.wants_all;
        wants_all.load(Ordering::Relaxed) && wants_all.swap(false, Ordering::Acquire)
    }
}
