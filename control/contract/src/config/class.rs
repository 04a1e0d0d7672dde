//! Traffic classes, and the packets that belong to them.

use std::collections::HashSet;

use measure::packet::FlowKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{Check, KeyPath, each, ensure, known, port_range, unique};
use super::validate::{class_names, port_names};
use super::{Config, Prefix, number};

/// A traffic class: a measurement equivalence class, and the content of class queues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name in labels: unique, 1 to 64 letters, digits, `.`, `_` or `-`.
    #[schemars(regex(pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub name: String,
    /// Weight of its packets in the LDS, 1 to 65,535, default 1. Heavier classes are estimated more
    /// exactly at the expense of the others. Must be the same at both ends of a wire with classes.
    #[serde(default = "number::<u32, 1>")]
    #[schemars(range(min = 1, max = 65_535))]
    pub lds_weight: u32,
}

/// Selects packets. Every given key must match; a list matches if one of its values does.
// The class is required: its default is no class's name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["class"]))]
pub struct Rule {
    /// The class of packets that match.
    pub class: String,
    /// Names of the ports where they arrive.
    #[schemars(length(min = 1))]
    pub ingress: Option<Vec<String>>,
    /// Priority code points of the outer VLAN tag, 0 to 7; untagged frames do not match.
    #[schemars(length(min = 1), inner(range(max = 7)))]
    pub pcp: Option<Vec<u8>>,
    /// Differentiated services code points, 0 to 63 (RFC 2474).
    #[schemars(length(min = 1), inner(range(max = 63)))]
    pub dscp: Option<Vec<u8>>,
    /// Source prefix.
    pub source: Option<Prefix>,
    /// Destination prefix.
    pub destination: Option<Prefix>,
    /// Protocol above IP.
    pub protocol: Option<Protocol>,
    /// First and last source port (TCP, UDP, SCTP); later fragments do not match.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
}

/// Selects flows. Every given key must match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FlowRule {
    /// Source prefix.
    pub source: Option<Prefix>,
    /// Destination prefix.
    pub destination: Option<Prefix>,
    /// Protocol above IP.
    pub protocol: Option<Protocol>,
    /// First and last source port.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
}

impl FlowRule {
    /// Whether it selects the flow. A flow of MAC addresses is selected only by a rule without keys.
    pub fn selects(&self, key: &FlowKey) -> bool {
        let Some(ip) = key.five_tuple() else {
            return *self == Self::default();
        };
        let is_in =
            |prefix: Option<Prefix>, address| prefix.is_none_or(|prefix| prefix.contains(address));
        let within = |ports: Option<(u16, u16)>, port: u16| {
            ports.is_none_or(|(first, last)| (first..=last).contains(&port))
        };
        is_in(self.source, ip.source)
            && is_in(self.destination, ip.destination)
            && (self.protocol).is_none_or(|wanted| wanted.number() == ip.protocol)
            && within(self.source_ports, ip.source_port)
            && within(self.destination_ports, ip.destination_port)
    }
}

/// A protocol above IP: a name, or a number (IANA).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected icmp, tcp, udp, icmpv6, sctp or a number from 0 to 255"
)]
pub enum Protocol {
    /// By name.
    Named(ProtocolName),
    /// By number.
    Number(u8),
}

/// Protocols with names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum ProtocolName {
    /// 1.
    Icmp = 1,
    /// 6.
    Tcp = 6,
    /// 17.
    Udp = 17,
    /// 58.
    Icmpv6 = 58,
    /// 132.
    Sctp = 132,
}

impl Protocol {
    /// The number (IANA).
    pub const fn number(self) -> u8 {
        match self {
            Self::Named(name) => name as u8,
            Self::Number(number) => number,
        }
    }
}

/// Protocols that have ports: TCP, UDP, SCTP.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

pub(super) fn classes(path: &KeyPath, config: &Config) -> Check {
    let mut names = HashSet::new();
    each(path, &config.classes, |path, class| {
        let path = path.key("name");
        unique(&mut names, &class.name, path, "a unique name")
    })
}

pub(super) fn rules(path: &KeyPath, config: &Config) -> Check {
    each(path, &config.rules, |path, rule| {
        self::rule(&path, rule, config)
    })
}

fn rule(path: &KeyPath, rule: &Rule, config: &Config) -> Check {
    let classes = class_names(config);
    known(path.key("class"), &rule.class, "class", &classes)?;
    if let Some(ingress) = &rule.ingress {
        let path = path.key("ingress");
        listed(path.clone(), ingress.len())?;
        let names = port_names(config);
        each(&path, ingress, |path, name| {
            known(path, name, "port", &names)
        })?;
    }
    for (key, values) in [("pcp", &rule.pcp), ("dscp", &rule.dscp)] {
        if let Some(values) = values {
            listed(path.key(key), values.len())?;
        }
    }
    let flow = FlowRule {
        source: rule.source,
        destination: rule.destination,
        protocol: rule.protocol,
        source_ports: rule.source_ports,
        destination_ports: rule.destination_ports,
    };
    five_tuple(path, &flow)
}

/// Checks that a list is not empty: it would match nothing.
fn listed(path: KeyPath, count: usize) -> Check {
    let expected = "at least one value (or omit the key)";
    ensure(count > 0, path, expected, "none")
}

/// Checks the keys that classes and flows have in common: one packet must be able to match them
/// all.
fn five_tuple(path: &KeyPath, rule: &FlowRule) -> Check {
    if let (Some(source), Some(destination)) = (rule.source, rule.destination) {
        let is_ipv4 = source.address.is_ipv4();
        let family = if is_ipv4 { "an IPv4" } else { "an IPv6" };
        let expected = format!("{family} prefix like `source`");
        let is_alike = destination.address.is_ipv4() == is_ipv4;
        ensure(is_alike, path.key("destination"), expected, destination)?;
    }
    port_range(path.key("source_ports"), rule.source_ports)?;
    port_range(path.key("destination_ports"), rule.destination_ports)?;
    let names_ports = rule.source_ports.is_some() || rule.destination_ports.is_some();
    if let Some(protocol) = rule.protocol.filter(|_| names_ports) {
        let expected = "a protocol with ports (tcp, udp or sctp), because the rule has ports";
        let number = protocol.number();
        let has_ports = WITH_PORTS.contains(&number);
        ensure(has_ports, path.key("protocol"), expected, number)?;
    }
    Ok(())
}

/// Checks rules that select flows.
pub(super) fn flow_rules(path: &KeyPath, rules: &[FlowRule]) -> Check {
    each(path, rules, |path, rule| five_tuple(&path, rule))
}
