//! What a configuration says of the filtering database.

use std::time::Duration;

use super::{Config, Device, Forwarding, PORTS_MAX, Station};
use crate::fdb::{FdbSettings, Limits, StationKey};
use crate::ids::PortIndex;

impl Config {
    /// Most stations that may be learned behind each port: `u32::MAX` where a port has no limit.
    pub fn station_limits(&self) -> Limits {
        let mut limits = [u32::MAX; PORTS_MAX];
        for (limit, port) in limits.iter_mut().zip(&self.ports) {
            *limit = port.max_stations.unwrap_or(u32::MAX);
        }
        limits
    }

    /// What the filtering database is made from. A patch panel has one for the sake of links.
    pub fn fdb_settings(&self) -> FdbSettings {
        let mut are_present = [false; PORTS_MAX];
        for (is_present, port) in are_present.iter_mut().zip(&self.ports) {
            *is_present = port.device != Device::Absent;
        }
        let mut settings = FdbSettings {
            stations_max: 1,
            ageing: Duration::from_secs(1),
            statics: Vec::new(),
            limits: self.station_limits(),
            are_present,
        };
        if let Forwarding::Bridge {
            ageing_s,
            fdb_entries,
            stations,
            ..
        } = &self.forwarding
        {
            let fixed = |station: &Station| {
                let port = PortIndex::new(self.port_index(&station.port)?);
                Some((StationKey::of(station.vlan, station.address), port))
            };
            settings.stations_max = *fdb_entries as usize;
            settings.ageing = Duration::from_secs(u64::from(*ageing_s));
            settings.statics = stations.iter().filter_map(fixed).collect();
        }
        settings
    }
}
