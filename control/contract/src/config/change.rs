//! The difference between two configurations, and its effect on a running switch.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{Config, ConfigError, Device, PORTS_MAX, Port, Resolved};

/// One difference from the running configuration. Its JSON form includes whether it is live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key, such as `measurement.lds.cells`. Ports, classes and workers are named: `ports[wan].mtu`.
    pub path: String,
    /// The current value as JSON; `null` if there is none.
    pub old: Value,
    /// The new value, likewise.
    pub new: Value,
    /// Why a running switch cannot make the change; `None` if it can, when an epoch begins.
    pub fixed: Option<&'static str>,
}

impl Change {
    /// Whether a running switch can make the change.
    pub fn is_live(&self) -> bool {
        self.fixed.is_none()
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut change = serializer.serialize_struct("Change", 5)?;
        change.serialize_field("path", &self.path)?;
        change.serialize_field("old", &self.old)?;
        change.serialize_field("new", &self.new)?;
        change.serialize_field("is_live", &self.is_live())?;
        change.serialize_field("reason", &self.fixed)?;
        change.end()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fixed {
            Some(why) => write!(f, "{}: {why}; restart the switch to change it", self.path),
            None => write!(f, "{}: takes effect when an epoch begins", self.path),
        }
    }
}

/// Keys, with everything below them, that a running switch cannot change, and the reason.
const FIXED: [(&str, &str); 12] = [
    ("name", "measurement points are named after it"),
    ("http", "the server is already listening"),
    ("report", "reports use the connection made at start"),
    ("ipfix", "the export uses the settings read at start"),
    ("dpdk", "EAL has started"),
    ("workers", "workers stay on their cores"),
    ("measurement.interval_ms", EPOCHS),
    ("measurement.grace_ms", EPOCHS),
    (
        "measurement.hash_seed",
        "packets in flight already have their hashes",
    ),
    ("ports[].device", "a port keeps its device"),
    ("ports[].mtu", "the device was set up for it"),
    ("ports[].rx_queues", "the device was set up for them"),
];

const EPOCHS: &str = "all epochs follow one schedule";
const OWNERSHIP: &str = "another worker would have to transmit on this port";
const SERVED: &str = "another worker would have to serve the port";
const PCI: &str = "a port on the PCI bus stays as long as the switch runs";
const DEVICE_TAKEN: &str = "its device still belongs to a port of another name";

impl Config {
    /// This configuration, with its ports at the indices that they have in `running`: a port keeps its
    /// index for life. A removed port leaves its index unused ([`Device::Absent`]) and gets it back when it
    /// returns; new ports are appended. Keys omitted here keep their current values: the number of receive
    /// queues, and the port's owner.
    ///
    /// # Errors
    /// [`ConfigError::Ports`] if more than [`PORTS_MAX`] indices would be needed.
    pub fn in_place_of(mut self, running: &Self) -> Result<Self, ConfigError> {
        let mut named = std::mem::take(&mut self.ports);
        for old in &running.ports {
            let position = named.iter().position(|port| port.name == old.name);
            // A port with a segment on the wire, now or before, has one receive queue and an owner.
            let was_wired = old.wire.is_some();
            let queues_now = old.rx_queues.or(was_wired.then_some(1));
            self.ports.push(match position {
                Some(position) => {
                    let mut port = named.remove(position);
                    port.rx_queues = port.rx_queues.or(queues_now);
                    let owner_now = running.port_index(&old.name);
                    let owner_now = owner_now.filter(|_| was_wired);
                    port.egress.owner = port
                        .egress
                        .owner
                        .or(old.egress.owner)
                        .or_else(|| running.owner(owner_now?));
                    port
                }
                None => absent(old, running),
            });
        }
        self.ports.append(&mut named);
        if self.ports.len() > PORTS_MAX {
            return Err(ConfigError::Ports);
        }
        Ok(self)
    }

    /// All differences of `new`, whose ports are in the order of this configuration
    /// ([`Config::in_place_of`]).
    pub fn diff(&self, new: &Self) -> Vec<Change> {
        let mut paths = Vec::new();
        compare(String::new(), &plain(self), &plain(new), &mut paths);
        let changes = paths.into_iter().map(|(path, old, new)| Change {
            fixed: why_fixed(&path),
            path,
            old,
            new,
        });
        let mut changes: Vec<Change> = changes.collect();
        let (running, next) = (self.resolve(), new.resolve());
        for (index, port) in new.ports.iter().enumerate() {
            let old = self.ports.get(index);
            changes.extend(self.port_change((&running, &next), index, old, port));
        }
        changes
    }

    /// Changes of a whole port: it is added, removed, or served by other workers.
    fn port_change(
        &self,
        (running, next): (&Resolved, &Resolved),
        index: usize,
        old: Option<&Port>,
        port: &Port,
    ) -> Option<Change> {
        let old = old.filter(|old| old.is_present());
        let new = Some(port).filter(|port| port.is_present());
        let of = format!("ports[{}]", port.name);
        let (path, old, new, fixed) = match (old, new) {
            (None, None) => return None,
            (Some(_), Some(_)) => {
                let (owner, servers) = (running.owners[index], running.servers(index));
                let (new_owner, new_servers) = (next.owners[index], next.servers(index));
                let owners = [owner, new_owner].map(|owner| json!({ "owner": owner }));
                let servers = [servers, new_servers].map(|of| json!({ "queues_of_workers": of }));
                let differs = |[old, new]: &[Value; 2]| old != new;
                let egress = (format!("{of}.egress"), owners, OWNERSHIP);
                let mut changes = [egress, (of, servers, SERVED)].into_iter();
                let (path, [old, new], why) = changes.find(|(_, values, _)| differs(values))?;
                (path, old, new, Some(why))
            }
            (old, new) => {
                let takes = |other: &Port| {
                    matches!(port.device, Device::Dpdk(_))
                        && other.device == port.device
                        && other.name != port.name
                };
                let fixed = if old.unwrap_or(port).device.is_pci() {
                    Some(PCI)
                } else {
                    self.ports.iter().any(takes).then_some(DEVICE_TAKEN)
                };
                let spelt = |port: Option<&Port>| {
                    let value = port.map(serde_json::to_value).transpose();
                    value.ok().flatten().unwrap_or_default()
                };
                (of, spelt(old), spelt(new), fixed)
            }
        };
        Some(Change {
            path,
            old,
            new,
            fixed,
        })
    }
}

/// A removed port, which keeps its index.
fn absent(old: &Port, running: &Config) -> Port {
    let index = running.port_index(&old.name).unwrap_or_default();
    let rx_queues = match running.rx_queues(index) {
        0 => old.rx_queues,
        present => Some(present),
    };
    Port {
        mtu: old.mtu,
        rx_queues,
        ..Port::bare(old.name.clone(), Device::Absent)
    }
}

/// The configuration as JSON, without absent ports and the workers' lists of queues, which are compared by
/// their effect.
fn plain(config: &Config) -> Value {
    let mut config = config.clone();
    config.ports.retain(Port::is_present);
    for worker in &mut config.workers {
        worker.queues = None;
    }
    serde_json::to_value(&config).unwrap_or_default()
}

/// A path, the old value and the new one.
type Differing = (String, Value, Value);

/// Collects the paths of all differing values, down to single values. Lists of named items are compared by name;
/// items in one list only are left to the caller.
fn compare(path: String, old: &Value, new: &Value, differing: &mut Vec<Differing>) {
    match (old, new) {
        // With another `mode`, everything differs.
        (Value::Object(old), Value::Object(new)) if old.get("mode") == new.get("mode") => {
            let keys = old
                .keys()
                .chain(new.keys().filter(|key| !old.contains_key(*key)));
            for key in keys {
                let dot = if path.is_empty() { "" } else { "." };
                let [old, new] = [old, new].map(|of| of.get(key).unwrap_or(&Value::Null));
                compare(format!("{path}{dot}{key}"), old, new, differing);
            }
        }
        (Value::Array(old), Value::Array(new)) if path == "ports" => {
            for old in old {
                if let Some(new) = new.iter().find(|new| new["name"] == old["name"]) {
                    let name = old["name"].as_str().unwrap_or_default();
                    compare(format!("{path}[{name}]"), old, new, differing);
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(format!("{path}[{index}]"), old, new, differing);
            }
        }
        _ if old != new => differing.push((path, old.clone(), new.clone())),
        _ => {}
    }
}

/// Why a running switch cannot change the value at a path; `None` if it can.
fn why_fixed(path: &str) -> Option<&'static str> {
    // Brackets enclose a name or an index.
    let mut key = String::new();
    let mut depth = 0_u32;
    for c in path.chars() {
        depth -= u32::from(c == ']' && depth > 0);
        if depth == 0 {
            key.push(c);
        }
        depth += u32::from(c == '[');
    }
    let is_under = |(fixed, _): &&(&str, &str)| {
        let below = key.strip_prefix(*fixed);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    FIXED.iter().find(is_under).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests;
