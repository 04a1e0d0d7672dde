//! Which port of the program has which index.
//!
//! A port is known by its device's name, or by its socket: one that comes back has its index again, and its counters go
//! on. An index is never given to another name, so that what was counted keeps its name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use contract::config::PORTS_MAX;
use contract::ids::PortIndex;
use dpdk_bindings::HostPort;

/// All ports there are or were.
#[derive(Debug, Default)]
pub struct PortTable {
    ports: Vec<NamedPort>,
    /// Names without an index, which were logged.
    refused: Vec<String>,
}

/// Names that the settings give, by device or socket.
pub type Names = BTreeMap<String, String>;

/// A name, and what it names.
#[derive(Debug)]
pub struct NamedPort {
    /// DPDK's name of the device, or the path of the socket.
    device: String,
    /// What it is called.
    name: String,
    /// The port, while it is there.
    pub port: Option<HostPort>,
}

/// The port that a queue belongs to, as the queue's own thread reads it.
#[derive(Debug)]
pub struct Home(AtomicU8);

impl Home {
    /// Of a queue that belongs to no port that is measured: no index is as great.
    const NOWHERE: u8 = u8::MAX;

    pub fn nowhere() -> Self {
        Self(AtomicU8::new(Self::NOWHERE))
    }

    /// From now on it belongs to `port`, or to none that is measured.
    pub fn move_to(&self, port: Option<PortIndex>) {
        let index = port.map_or(Self::NOWHERE, |port| port.0);
        self.0.store(index, Ordering::Relaxed);
    }

    /// The port, beyond all that there are where it is none.
    #[inline]
    pub fn port(&self) -> PortIndex {
        PortIndex(self.0.load(Ordering::Relaxed))
    }
}

impl PortTable {
    /// Takes in which ports there are now; returns the indices of those that came, went, or have
    /// other queues than before, in order.
    pub fn update(&mut self, ports: &[HostPort], names: &Names) -> Vec<PortIndex> {
        for port in ports {
            if self.ports.iter().any(|known| known.device == port.name) {
                continue;
            }
            if self.ports.len() < PORTS_MAX {
                self.ports.push(NamedPort {
                    device: port.name.clone(),
                    name: self.free_name(&port.name, names),
                    port: None,
                });
            } else if !self.refused.contains(&port.name) {
                tracing::warn!(
                    "port {} is not measured: there were {PORTS_MAX} others before it",
                    port.name
                );
                self.refused.push(port.name.clone());
            }
        }
        let mut changed = Vec::new();
        for (index, known) in self.ports.iter_mut().enumerate() {
            let now = ports.iter().find(|port| port.name == known.device);
            if now != known.port.as_ref() {
                known.port = now.cloned();
                changed.push(PortIndex::new(index));
            }
        }
        changed
    }

    /// What a new port is called: as the settings say; else a socket as its file, if no other is called so.
    fn free_name(&self, device: &str, names: &Names) -> String {
        let is_free = |name: &&str| self.ports.iter().all(|port| port.name != **name);
        let file = Path::new(device).file_name();
        let candidates = [
            names.get(device).map(String::as_str),
            file.and_then(|file| file.to_str()),
            Some(device),
        ];
        let name = candidates.into_iter().flatten().find(is_free);
        // Another one is called as this device: then by its index, too.
        name.map_or_else(
            || format!("{device}#{}", self.ports.len()),
            ToOwned::to_owned,
        )
    }

    /// The first port that has a name by `old`, or by none, where `new` would give it another, by its device.
    pub fn renamed(&self, old: &Names, new: &Names) -> Option<&str> {
        let mut devices = self.ports.iter().map(|port| port.device.as_str());
        devices.find(|device| old.get(*device) != new.get(*device))
    }

    /// What the port at an index is called.
    pub fn name(&self, index: PortIndex) -> &str {
        self.ports.get(index.index()).map_or("", |port| &port.name)
    }

    /// The port of that index, while it is there.
    pub fn port(&self, index: PortIndex) -> Option<&HostPort> {
        self.ports.get(index.index())?.port.as_ref()
    }

    /// By index, the port while it is there.
    pub fn all(&self) -> impl Iterator<Item = Option<&HostPort>> {
        self.ports.iter().map(|known| known.port.as_ref())
    }

    /// Ports that are there, with their indices.
    pub fn present(&self) -> impl Iterator<Item = (PortIndex, &HostPort)> {
        let all = self.all().enumerate();
        all.filter_map(|(index, port)| Some((PortIndex::new(index), port?)))
    }

    /// Whose queues the port with DPDK's number `id` has now.
    pub fn of_port(&self, id: u16) -> Option<(PortIndex, &HostPort)> {
        self.present().find(|(_, port)| port.id == id)
    }

    /// Names by index, and whether the port is there.
    pub fn names(&self) -> Vec<(String, bool)> {
        let ports = self.ports.iter();
        let names = ports.map(|known| (known.name.clone(), known.port.is_some()));
        names.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(id: u16, name: &str, queues: u16) -> HostPort {
        HostPort {
            id,
            life: 0,
            name: name.to_owned(),
            rx_queues: queues,
            tx_queues: queues,
        }
    }

    #[test]
    fn a_port_that_comes_back_has_its_index_again() {
        let (mut table, none) = (PortTable::default(), Names::new());
        let [a, b, c] = [0, 1, 2].map(PortIndex);
        let both = [port(0, "a", 1), port(1, "b", 1)];
        assert_eq!(table.update(&both, &none), [a, b]);
        assert_eq!(table.update(&both, &none), []);
        assert_eq!(
            table.update(&[port(0, "a", 2), port(1, "b", 1)], &none),
            [a]
        );
        // The one in DPDK's port 0 is another now.
        assert_eq!(
            table.update(&[port(0, "c", 1), port(1, "b", 1)], &none),
            [a, c]
        );
        assert_eq!(table.of_port(0).unwrap().0, c);
        assert_eq!(
            table.names(),
            [("a", false), ("b", true), ("c", true)].map(|(name, is)| (name.to_owned(), is))
        );
        assert_eq!(table.update(&[port(5, "a", 1)], &none), [a, b, c]);
        assert_eq!(table.of_port(5).unwrap().0, a);
    }

    #[test]
    fn names_without_end_have_indices_up_to_a_bound() {
        let (mut table, none) = (PortTable::default(), Names::new());
        for n in 0..200 {
            table.update(&[port(0, &format!("p{n}"), 1)], &none);
        }
        assert_eq!(table.names().len(), PORTS_MAX);
        assert_eq!(table.present().count(), 0);
    }

    #[test]
    fn a_port_is_named_by_the_settings_or_as_its_device_or_socket() {
        let mut table = PortTable::default();
        let given = [("0000:03:00.0", "dpdk0"), ("/run/a/vm3", "web")];
        let names: Names = given
            .map(|(of, name)| (of.to_owned(), name.to_owned()))
            .into();
        let devices = [
            "0000:03:00.0",
            "net_tap0",
            "/run/a/vm1",
            "/run/b/vm1",
            "/run/a/vm3",
        ];
        let ports: Vec<_> = (0..)
            .zip(devices)
            .map(|(id, name)| port(id, name, 1))
            .collect();
        table.update(&ports, &names);
        let called: Vec<_> = table.names().into_iter().map(|(name, _)| name).collect();
        assert_eq!(called, ["dpdk0", "net_tap0", "vm1", "/run/b/vm1", "web"]);
        let mut other = names.clone();
        other.insert("/run/a/vm4".to_owned(), "db".to_owned());
        assert_eq!(table.renamed(&names, &other), None);
        other.remove("/run/a/vm3");
        assert_eq!(table.renamed(&names, &other), Some("/run/a/vm3"));
        table.update(&[port(9, "dpdk0", 1)], &names);
        assert_eq!(table.name(PortIndex(5)), "dpdk0#5");
    }
}
