//! Traffic classes and the rules that name their packets.

use std::collections::HashSet;

use super::{
    Check, KeyPath, all, class_names, ensure, known, name, port_names, port_range, unique,
};
use crate::config::{Config, FlowRule, Rule};

/// Protocols that have ports: TCP, UDP, SCTP.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

pub(super) fn classes(path: &KeyPath, config: &Config) -> Check {
    let mut names = HashSet::new();
    all(config.classes.iter().enumerate().map(|(index, class)| {
        let path = path.index(index).key("name");
        name(path.clone(), &class.name)?;
        unique(&mut names, &class.name, path, "a name of its own")
    }))
}

pub(super) fn rules(path: &KeyPath, config: &Config) -> Check {
    let rules = config.rules.iter().enumerate();
    all(rules.map(|(index, rule)| self::rule(&path.index(index), rule, config)))
}

fn rule(path: &KeyPath, rule: &Rule, config: &Config) -> Check {
    known(
        path.key("class"),
        &rule.class,
        "class",
        &class_names(config),
    )?;
    if let Some(ingress) = &rule.ingress {
        let path = path.key("ingress");
        listed(path.clone(), ingress.len())?;
        let names = port_names(config);
        let each = ingress.iter().enumerate();
        all(each.map(|(index, name)| known(path.index(index), name, "port", &names)))?;
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

/// A list that holds nothing would match nothing.
fn listed(path: KeyPath, count: usize) -> Check {
    ensure(
        count > 0,
        path,
        "one value at least, or no such key",
        "none",
    )
}

/// What classes and flows are named by alike: parts that can be true of one packet.
fn five_tuple(path: &KeyPath, rule: &FlowRule) -> Check {
    let &FlowRule {
        source,
        destination,
        protocol,
        source_ports,
        destination_ports,
    } = rule;
    if let (Some(source), Some(destination)) = (source, destination) {
        let family = if source.address.is_ipv4() {
            "an IPv4"
        } else {
            "an IPv6"
        };
        ensure(
            source.address.is_ipv4() == destination.address.is_ipv4(),
            path.key("destination"),
            format!("{family} prefix, as `source` is"),
            destination,
        )?;
    }
    port_range(path.key("source_ports"), source_ports)?;
    port_range(path.key("destination_ports"), destination_ports)?;
    if let Some(protocol) = protocol {
        let names_ports = source_ports.is_some() || destination_ports.is_some();
        ensure(
            !names_ports || WITH_PORTS.contains(&protocol.number()),
            path.key("protocol"),
            "a protocol with ports (tcp, udp or sctp), since the rule names some",
            protocol.number(),
        )?;
    }
    Ok(())
}

/// Rules that name flows.
pub(super) fn flow_rules(path: &KeyPath, rules: &[FlowRule]) -> Check {
    let each = rules.iter().enumerate();
    all(each.map(|(index, rule)| five_tuple(&path.index(index), rule)))
}
