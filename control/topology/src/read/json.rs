//! Our own format.

use serde::Deserialize;

use super::{Network, Place, Problem};
use crate::topology::Weight;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    nodes: Vec<Node>,
    links: Vec<Link>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    from: String,
    to: String,
    weight: Option<f64>,
    both_directions: Option<bool>,
}

pub(super) fn parse(text: &str) -> Result<Network, Problem> {
    let mut read = serde_json::Deserializer::from_str(text);
    let record: Record = serde_path_to_error::deserialize(&mut read).map_err(|error| {
        let place = match error.path().to_string().as_str() {
            "." => Place::File,
            path => Place::Path(path.to_owned()),
        };
        // It says the line.
        (place, error.inner().to_string())
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
