//! What a configuration says of the filtering database.

use std::time::Duration;

use super::StationKey;
use crate::config::{Config, Forwarding, PORTS_MAX, Station};

/// Most stations that may be learnt behind each port.
pub type Limits = [u32; PORTS_MAX];

/// Limits of a configuration: `u32::MAX` where a port has none.
pub fn limits(config: &Config) -> Limits {
    let mut limits = [u32::MAX; PORTS_MAX];
    for (limit, port) in limits.iter_mut().zip(&config.ports) {
        *limit = port.max_stations.unwrap_or(u32::MAX);
    }
    limits
}

/// Most stations, their ageing time, and static ones with their ports.
pub(super) fn settings(config: &Config) -> (usize, Duration, Vec<(StationKey, u8)>) {
    let Forwarding::Bridge {
        ageing_s,
        fdb_entries,
        stations,
        ..
    } = &config.forwarding
    else {
        return (1, Duration::from_secs(1), Vec::new());
    };
    let fixed = |station: &Station| {
        let port = u8::try_from(config.port_index(&station.port)?).ok()?;
        Some((StationKey::of(station.vlan, station.address), port))
    };
    let ageing = Duration::from_secs(u64::from(*ageing_s));
    (
        *fdb_entries as usize,
        ageing,
        stations.iter().filter_map(fixed).collect(),
    )
}
