//! How the room of the filtering database is shared out among ports.

use std::collections::{HashMap, VecDeque};

use super::master::Known;
use super::{Limits, StationKey};
use crate::ids::PortIndex;
use crate::limits::PORTS_MAX;

/// Entries in a port's order for stations that are gone, beyond one for each that is there.
const SPARE_ENTRIES: usize = 64;

/// What each port has of the stations that were learnt.
#[derive(Debug)]
pub(super) struct Shares {
    ports: Vec<Share>,
    next_ticket: u64,
}

/// One port's.
#[derive(Debug)]
struct Share {
    stations: usize,
    stations_max: usize,
    /// Its stations in the order in which they came, and some that are not there any more: those whose ticket is
    /// another by now.
    order: VecDeque<(u64, StationKey)>,
}

impl Shares {
    pub(super) fn new(limits: &Limits) -> Self {
        let share = |&limit: &u32| Share {
            stations: 0,
            stations_max: limit as usize,
            order: VecDeque::new(),
        };
        Self {
            ports: limits.iter().map(share).collect(),
            next_ticket: 0,
        }
    }

    /// Bytes that shares of so many stations take at most.
    pub(super) const fn size_bytes(stations_max: usize) -> usize {
        // Queues double as they grow.
        2 * (2 * stations_max + PORTS_MAX * SPARE_ENTRIES) * size_of::<(u64, StationKey)>()
    }

    fn share(&mut self, port: PortIndex) -> &mut Share {
        let last = self.ports.len() - 1;
        &mut self.ports[port.index().min(last)]
    }

    /// Whether a port has as many stations as it may.
    pub(super) fn is_full(&mut self, port: PortIndex) -> bool {
        let share = self.share(port);
        share.stations >= share.stations_max
    }

    /// A station is behind `port` from now on; the ticket that it is to keep.
    pub(super) fn enter(
        &mut self,
        port: PortIndex,
        station: StationKey,
        stations: &HashMap<StationKey, Known>,
    ) -> u64 {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        let share = self.share(port);
        share.stations += 1;
        if share.order.len() >= 2 * share.stations + SPARE_ENTRIES {
            share.order.retain(|entry| is_there(entry, stations));
        }
        share.order.push_back((ticket, station));
        ticket
    }

    /// A station is no longer behind `port`.
    pub(super) fn leave(&mut self, port: PortIndex) {
        let share = self.share(port);
        debug_assert!(
            share.stations > 0,
            "port {port:?} has no station that could go"
        );
        share.stations = share.stations.saturating_sub(1);
    }

    /// The station that makes room for one behind `port`: the one that came first to the port that has most, if
    /// that one will have no fewer than `port` then.
    pub(super) fn evict(
        &mut self,
        port: PortIndex,
        stations: &HashMap<StationKey, Known>,
    ) -> Option<StationKey> {
        let own = self.share(port).stations;
        let busiest = self.ports.iter_mut().max_by_key(|share| share.stations)?;
        if busiest.stations <= own + 1 {
            return None;
        }
        while let Some(entry) = busiest.order.pop_front() {
            if is_there(&entry, stations) {
                return Some(entry.1);
            }
        }
        None
    }
}

fn is_there((ticket, station): &(u64, StationKey), stations: &HashMap<StationKey, Known>) -> bool {
    stations
        .get(station)
        .is_some_and(|known| known.ticket == *ticket)
}
