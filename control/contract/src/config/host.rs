//! The configuration of a host: another program that Vernier is loaded into, with its own ports and
//! its own forwarding.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use smart_default::SmartDefault;

use super::document::{
    Check, Invalid, KeyPath, all, count_within, name, parse_json, read_file, unique, value_error,
};
use super::validate::validate;
use super::{
    Class, Config, ConfigError, Device, Dpdk, Flows, Forwarding, Http, Ipfix, Measurement, Port,
    Prometheus, Report, Rule, default_name,
};

/// Slots for tracked flows at each transmit queue; a host may have many queues.
const FLOW_SLOTS: u32 = 16_384;

/// Most entries of `port_names`.
const PORT_NAMES_MAX: usize = 1_024;

/// The settings of a host. Every key but `port_names` is one of [`Config`]'s, and all are optional.
#[derive(Debug, Clone, PartialEq, SmartDefault, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    /// The host's name in measurement points (`edge-1/p0/rx`) and labels: 1 to 64 letters, digits,
    /// `.`, `_` or `-`.
    #[schemars(regex(pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    #[default(default_name())]
    pub name: String,
    /// Names of ports, by what they are without: DPDK's name of the device (`0000:03:00.0`), or the path of a vhost-user
    /// port's socket (`/run/openvswitch/vm1`). At most 1,024, each once, of 1 to 64 letters, digits, `.`, `_` or `-`. Other
    /// ports are named as Open vSwitch calls them, or else as their device, or as the file of their socket.
    #[schemars(length(max = PORT_NAMES_MAX))]
    pub port_names: BTreeMap<String, String>,
    /// Traffic classes, at most 8; packets that match no rule belong to the last. If empty, there
    /// is one class, `all`.
    #[schemars(length(max = super::CLASSES_MAX))]
    pub classes: Vec<Class>,
    /// Which packets belong to which class; the first matching rule decides. At most 256, without
    /// ingress ports.
    #[schemars(length(max = 256))]
    pub rules: Vec<Rule>,
    /// What is measured, without `segments` and `rli`. If `flows` is omitted, flows are tracked in
    /// 16,384 slots; `null` tracks none.
    #[default(Measurement { flows: Some(flows()), ..Measurement::default() })]
    pub measurement: Measurement,
    /// Most memory in MiB for all that is measured, 1 to 1,048,576. If omitted, half of what the
    /// machine has free at start.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub memory_budget_mib: Option<u32>,
    /// The HTTP server.
    pub http: Http,
    /// Which metrics are written for Prometheus.
    pub prometheus: Prometheus,
    /// Reports of every epoch to NATS JetStream, for a `vernier-station`. If omitted, none are
    /// sent.
    pub report: Option<Report>,
    /// Export of flows and segments to an IPFIX collector. If omitted, nothing is exported.
    pub ipfix: Option<Ipfix>,
}

fn flows() -> Flows {
    Flows {
        slots: FLOW_SLOTS,
        ..Flows::default()
    }
}

impl HostConfig {
    /// Reads and checks a host's configuration file.
    ///
    /// # Errors
    /// [`ConfigError`]: not readable, not JSON, an unknown key, a value out of range or not
    /// supported in a host.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let (text, origin) = read_file(path.as_ref())?;
        Self::parse(&text, &origin)
    }

    /// Reads and checks a host's configuration; `file` names it in errors.
    ///
    /// # Errors
    /// [`ConfigError`]: not JSON, an unknown key, a value out of range or not supported in a host.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        let mut host: Self = parse_json(text, file)?;
        let json: Value = serde_json::from_str(text).unwrap_or_default();
        if json.pointer("/measurement/flows").is_none() {
            host.measurement.flows = Some(flows());
        }
        if let Some((path, why)) = host.meaningless() {
            return Err(value_error(file, text, Invalid::said(path, why).into()));
        }
        // The checks are the same for any number of ports.
        let mut model = host.config(&[("port".to_owned(), true)]);
        model.settle_workers(1);
        validate(&model)
            .and_then(|()| host.check_port_names())
            .map_err(|invalid| value_error(file, text, invalid))?;
        Ok(host)
    }

    fn check_port_names(&self) -> Check {
        let path = KeyPath::default().key("port_names");
        let mut names = HashSet::new();
        let each = self.port_names.iter().map(|(port, given)| {
            let path = path.key(port.clone());
            name(path.clone(), given)?;
            unique(&mut names, given, path, "a unique name")
        });
        let each = all(each.collect::<Vec<_>>());
        let count = self.port_names.len();
        each.and_then(|()| count_within(path, count, 0..=PORT_NAMES_MAX, "names"))
    }

    /// The first key that a host does not support, and why.
    fn meaningless(&self) -> Option<(KeyPath, &'static str)> {
        const PORTS: &str =
            "a host's ports are not known in advance; omit the key to measure all of them";
        const REFERENCES: &str = "a host's packets are stamped one by one; reference packets are \
             not injected in a host; omit the key";
        const DEVICES: &str =
            "packets around a device are matched in the switch only, not in a host; omit the key";
        let root = KeyPath::default();
        let measurement = root.key("measurement");
        if self.measurement.rli.is_some() {
            return Some((measurement.key("rli"), REFERENCES));
        }
        if !self.measurement.around.is_empty() {
            return Some((measurement.key("around"), DEVICES));
        }
        if self.measurement.segments.is_some() {
            return Some((measurement.key("segments"), PORTS));
        }
        let rule = self.rules.iter().position(|rule| rule.ingress.is_some())?;
        Some((root.key("rules").index(rule).key("ingress"), PORTS))
    }

    /// Returns the whole configuration of a host with these ports, in order: each device's name,
    /// and whether it is present.
    pub fn config(&self, ports: &[(String, bool)]) -> Config {
        let ports = ports.iter().map(|(name, is_present)| {
            let device = match is_present {
                true => Device::Dpdk(name.clone()),
                false => Device::Absent,
            };
            Port::bare(name.clone(), device)
        });
        Config {
            name: self.name.clone(),
            ports: ports.collect(),
            forwarding: Forwarding::Host,
            classes: self.classes.clone(),
            rules: self.rules.clone(),
            measurement: self.measurement.clone(),
            wire: None,
            workers: Vec::new(),
            memory_budget_mib: self.memory_budget_mib,
            http: self.http.clone(),
            prometheus: self.prometheus.clone(),
            report: self.report.clone(),
            ipfix: self.ipfix.clone(),
            dpdk: Dpdk::default(),
        }
    }
}

#[cfg(test)]
mod tests;
