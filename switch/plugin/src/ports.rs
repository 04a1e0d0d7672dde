//! Which port of the program has which index.
//!
//! An index belongs to a name for the life of the process, so that what was counted keeps its name. A port that comes back
//! under its name has its index again, and its counters go on; a port that is renamed gets another.

use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use contract::config::PORTS_MAX;
use contract::ids::PortIndex;
use dpdk_bindings::HostPort;

/// All ports there are or were.
#[derive(Debug, Default)]
pub struct PortTable {
    ports: Vec<NamedPort>,
    /// Devices whose port has no index, which were logged.
    refused: Vec<String>,
}

/// A name, and what it names.
#[derive(Debug)]
pub struct NamedPort {
    name: String,
    /// DPDK's name of the device that has the name, or had it last, or the path of the socket; empty once the device has
    /// another name.
    device: String,
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
    /// Takes in which ports there are now, and the names that they are `given`, by device; returns the indices of those that
    /// came, went, or have other queues than before, in order.
    pub fn update<'n>(
        &mut self,
        ports: &[HostPort],
        given: impl Fn(&str) -> Option<&'n str>,
    ) -> Vec<PortIndex> {
        for port in ports {
            self.name_port(&port.name, given(&port.name), ports);
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

    /// Whether a device has a name.
    pub fn knows(&self, device: &str) -> bool {
        self.ports.iter().any(|known| known.device == device)
    }

    /// Names a device as it is `given`, or else as its file if it is a socket. A name that another port of `present` has is
    /// passed over.
    fn name_port(&mut self, device: &str, given: Option<&str>, present: &[HostPort]) {
        let before = self.ports.iter().position(|known| known.device == device);
        let keeps = |index: usize| given.is_none_or(|given| given == self.ports[index].name);
        if before.is_some_and(keeps) {
            return;
        }
        let is_free = |name: &String| {
            let mut holders = self.ports.iter().filter(|known| known.name == *name);
            holders.all(|known| {
                known.device == device || present.iter().all(|port| port.name != known.device)
            })
        };
        let file = Path::new(device).file_name().and_then(|file| file.to_str());
        let names = [given, file, Some(device)].into_iter().flatten();
        let numbered = (2..).map(|number| format!("{device}#{number}"));
        let mut names = names.map(ToOwned::to_owned).chain(numbered);
        let name = names.find(is_free).unwrap_or_default();
        let index = self.ports.iter().position(|known| known.name == name);
        if index.is_none() && self.ports.len() == PORTS_MAX {
            if before.is_none() && !self.refused.iter().any(|refused| refused == device) {
                tracing::warn!(
                    "port {name} is not measured: there were {PORTS_MAX} others before it"
                );
                self.refused.push(device.to_owned());
            }
            return;
        }
        if let Some(before) = before {
            self.ports[before].device.clear();
        }
        if let Some(index) = index {
            device.clone_into(&mut self.ports[index].device);
        } else {
            self.ports.push(NamedPort {
                name,
                device: device.to_owned(),
                port: None,
            });
        }
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

    fn unnamed(_: &str) -> Option<&'static str> {
        None
    }

    fn called<const N: usize>(names: [(&str, bool); N]) -> Vec<(String, bool)> {
        names.map(|(name, is)| (name.to_owned(), is)).into()
    }

    #[test]
    fn a_port_that_comes_back_has_its_index_again() {
        let mut table = PortTable::default();
        let [a, b, c] = [0, 1, 2].map(PortIndex);
        let both = [port(0, "a", 1), port(1, "b", 1)];
        assert_eq!(table.update(&both, unnamed), [a, b]);
        assert_eq!(table.update(&both, unnamed), []);
        assert_eq!(
            table.update(&[port(0, "a", 2), port(1, "b", 1)], unnamed),
            [a]
        );
        // The one in DPDK's port 0 is another now.
        assert_eq!(
            table.update(&[port(0, "c", 1), port(1, "b", 1)], unnamed),
            [a, c]
        );
        assert_eq!(table.of_port(0).unwrap().0, c);
        assert_eq!(
            table.names(),
            called([("a", false), ("b", true), ("c", true)])
        );
        assert_eq!(table.update(&[port(5, "a", 1)], unnamed), [a, b, c]);
        assert_eq!(table.of_port(5).unwrap().0, a);
    }

    #[test]
    fn names_without_end_have_indices_up_to_a_bound() {
        let mut table = PortTable::default();
        for n in 0..200 {
            table.update(&[port(0, &format!("p{n}"), 1)], unnamed);
        }
        assert_eq!(table.names().len(), PORTS_MAX);
        assert_eq!(table.present().count(), 0);
        // A port that would have another name keeps the one that it has.
        table.update(&[port(0, "p0", 1)], |_| Some("new"));
        assert_eq!(table.present().next().unwrap().0, PortIndex(0));
    }

    #[test]
    fn a_port_is_named_as_it_is_given_or_as_its_device_or_socket() {
        let mut table = PortTable::default();
        let given = |device: &str| match device {
            "0000:03:00.0" => Some("dpdk0"),
            "/run/a/vm3" => Some("web"),
            _ => None,
        };
        let devices = [
            "0000:03:00.0",
            "net_tap0",
            "/run/a/vm1",
            "/run/b/vm1",
            "/run/a/vm3",
            "dpdk0",
        ];
        let ports: Vec<_> = (0..)
            .zip(devices)
            .map(|(id, name)| port(id, name, 1))
            .collect();
        for _ in 0..2 {
            table.update(&ports, given);
            let all = ["dpdk0", "net_tap0", "vm1", "/run/b/vm1", "web", "dpdk0#2"];
            assert_eq!(table.names(), called(all.map(|name| (name, true))));
        }
    }

    #[test]
    fn a_name_keeps_its_index_whichever_device_has_it() {
        let mut table = PortTable::default();
        let [p1, p2] = [0, 1].map(PortIndex);
        let one = [port(0, "net_0", 1)];
        assert_eq!(table.update(&one, |_| Some("p1")), [p1]);
        assert_eq!(table.update(&one, |_| Some("p2")), [p1, p2]);
        assert_eq!(table.names(), called([("p1", false), ("p2", true)]));
        // It is no longer said what it is called.
        assert_eq!(table.update(&one, unnamed), []);
        assert_eq!(table.update(&one, |_| Some("p1")), [p1, p2]);
        // Another device gets the name, once the first has gone.
        let both = [port(0, "net_0", 1), port(1, "net_1", 1)];
        assert_eq!(table.update(&both, |_| Some("p1")), [PortIndex(2)]);
        assert_eq!(table.name(PortIndex(2)), "net_1");
        assert_eq!(table.update(&both[1..], |_| Some("p1")), [p1, PortIndex(2)]);
        assert_eq!(table.of_port(1).unwrap().0, p1);
    }
}
