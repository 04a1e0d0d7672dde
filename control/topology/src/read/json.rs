//! Our own format.

use serde::{Deserialize, Serialize};

use super::{Network, Place, Problem, clean};
use crate::topology::{Role, Topology, Weight};

/// A network in our own format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Routers.
    pub nodes: Vec<Node>,
    /// Links between them.
    pub links: Vec<Link>,
}

/// A router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// No other has it.
    pub name: String,
    /// Its router id, if it is from OSPF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What it says it measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Addresses that are behind it or its own, with the length of the prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<String>,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name of a node.
    pub from: String,
    /// Name of another.
    pub to: String,
    /// Its cost, 0.000001 to 1000000000; 1 if it is missing.
    pub weight: Option<f64>,
    /// Whether it leads back at the same cost; it does if this is missing.
    pub both_directions: Option<bool>,
}

impl Record {
    /// Of a topology: each direction by itself.
    pub fn of(topology: &Topology) -> Self {
        let name = |router| topology.name(router).to_owned();
        let node = |router| Node {
            name: name(router),
            id: None,
            role: topology.roles().get(&router).copied(),
            prefixes: Vec::new(),
        };
        let link = |(from, to, weight): (_, _, Weight)| Link {
            from: name(from),
            to: name(to),
            weight: Some(weight.value()),
            both_directions: Some(false),
        };
        Self {
            nodes: topology.routers().map(node).collect(),
            links: topology.all_links().map(link).collect(),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Network, Problem> {
    let mut read = serde_json::Deserializer::from_str(text);
    let record: Record = serde_path_to_error::deserialize(&mut read).map_err(|error| {
        let place = match error.path().to_string().as_str() {
            // `?` is a key that could not be read.
            "." | "?" => Place::File,
            path => Place::Path(clean(path)),
        };
        // It says the line.
        (place, clean(&error.inner().to_string()))
    })?;
    read.end()
        .map_err(|error| (Place::Line(error.line()), error.to_string()))?;
    let mut network = Network::default();
    for (index, node) in record.nodes.iter().enumerate() {
        let place = || Place::Path(format!("nodes[{index}].name"));
        let (_, is_new) = network
            .router(&node.name)
            .map_err(|problem| (place(), problem))?;
        if !is_new {
            let problem = format!(
                "expected a name that no other node has, not {:?}",
                node.name
            );
            return Err((place(), problem));
        }
        network
            .roles
            .extend(node.role.map(|role| (node.name.clone(), role)));
    }
    for (index, link) in record.links.iter().enumerate() {
        let problem = |key: &str, problem| (Place::Path(format!("links[{index}]{key}")), problem);
        let end = |key, name: &str| {
            let unknown = || problem(key, format!("expected the name of a node, not {name:?}"));
            network.find(name).ok_or_else(unknown)
        };
        let (from, to) = (end(".from", &link.from)?, end(".to", &link.to)?);
        let weight = link.weight.map_or(Some(Weight::ONE), Weight::new);
        let expected = || problem(".weight", format!("expected {}", Weight::RANGE));
        let both = link.both_directions.unwrap_or(true);
        network
            .link(from, to, weight.ok_or_else(expected)?, both)
            .map_err(|limit| problem("", limit))?;
    }
    Ok(network)
}
