//! Assigns indices to ports of the program.
//!
//! An index belongs to a name for the life of the process, so that counts keep their name. A port that comes back under
//! its name gets its former index, and its counters continue; a renamed port gets another index.

use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use contract::config::PORTS_MAX;
use contract::ids::PortIndex;
use dpdk_bindings::HostPort;

/// All present and former ports.
#[derive(Debug, Default)]
pub struct PortTable {
    ports: Vec<NamedPort>,
    /// Devices whose port got no index and that were logged.
    refused: Vec<String>,
}

/// A name and its device.
#[derive(Debug)]
pub struct NamedPort {
    name: String,
    /// DPDK's name of the device that has the name or had it last, or the path of its socket; empty once the device has
    /// another name.
    device: String,
    /// The port, while it exists.
    pub port: Option<HostPort>,
}

/// The port of a queue, as read by the queue's own thread.
#[derive(Debug)]
pub struct Home(AtomicU8);

impl Home {
    /// Value for queues without a measured port; greater than all indices.
    const NOWHERE: u8 = u8::MAX;

    pub fn nowhere() -> Self {
        Self(AtomicU8::new(Self::NOWHERE))
    }

    /// Assigns the queue to `port`, or to no measured port.
    pub fn move_to(&self, port: Option<PortIndex>) {
        let index = port.map_or(Self::NOWHERE, |port| port.0);
        self.0.store(index, Ordering::Relaxed);
    }

    /// The port's index; greater than all indices if there is none.
    #[inline]
    pub fn port(&self) -> PortIndex {
        PortIndex(self.0.load(Ordering::Relaxed))
    }
}

impl PortTable {
    /// Updates the ports to `present`, with the names `given` by device. Returns the indices of ports that were added
    /// or removed, or have other queues than before, in order.
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

    /// Names a device as `given`, or else, if it is a socket, after its file. A name that another port of `present` has
    /// is skipped.
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
                tracing::warn!("port {name} is not measured: there are {PORTS_MAX} ports at most");
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

    /// Name of the port at an index.
    pub fn name(&self, index: PortIndex) -> &str {
        self.ports.get(index.index()).map_or("", |port| &port.name)
    }

    /// The port at an index, while it exists.
    pub fn port(&self, index: PortIndex) -> Option<&HostPort> {
        self.ports.get(index.index())?.port.as_ref()
    }

    /// Ports by index, while they exist.
    pub fn all(&self) -> impl Iterator<Item = Option<&HostPort>> {
        self.ports.iter().map(|known| known.port.as_ref())
    }

    /// Existing ports with their indices.
    pub fn present(&self) -> impl Iterator<Item = (PortIndex, &HostPort)> {
        let all = self.all().enumerate();
        all.filter_map(|(index, port)| Some((PortIndex::new(index), port?)))
    }

    /// Index of the port that has DPDK's number `id` now.
    pub fn of_port(&self, id: u16) -> Option<(PortIndex, &HostPort)> {
        self.present().find(|(_, port)| port.id == id)
    }

    /// Names by index, and whether the port exists.
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
        // DPDK's port 0 is another port now.
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
        // A port whose new name is taken keeps its present name.
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
        // Its name is no longer given.
        assert_eq!(table.update(&one, unnamed), []);
        assert_eq!(table.update(&one, |_| Some("p1")), [p1, p2]);
        // Another device gets the name once the first is gone.
        let both = [port(0, "net_0", 1), port(1, "net_1", 1)];
        assert_eq!(table.update(&both, |_| Some("p1")), [PortIndex(2)]);
        assert_eq!(table.name(PortIndex(2)), "net_1");
        assert_eq!(table.update(&both[1..], |_| Some("p1")), [p1, PortIndex(2)]);
        assert_eq!(table.of_port(1).unwrap().0, p1);
    }
}
