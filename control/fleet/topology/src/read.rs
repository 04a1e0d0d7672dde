//! Topologies from files: our own JSON, Rocketfuel's `.intra`, GML as the Topology Zoo writes it.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::topology::{LINKS_MAX, ROUTERS_MAX, Role, Topology, Weight};

mod gml;

#[cfg(test)]
mod tests;

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Longest name of a router, as that of anything in a report.
const NAME_BYTES_MAX: usize = 256;

/// Why there is no topology.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {reason}")]
    File {
        /// Its name.
        file: String,
        /// Why.
        reason: io::Error,
    },
    /// What is written there is no topology.
    #[error("{file}{place}: {problem}")]
    Content {
        /// The file's name.
        file: String,
        /// Where in it.
        place: Place,
        /// What was expected, and what is there instead.
        problem: String,
    },
}

/// Where in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line, from 1.
    Line(usize),
    /// A JSON path.
    Path(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Line(line) => write!(f, ":{line}"),
            Self::Path(path) => write!(f, ": {path}"),
        }
    }
}

/// What is wrong, and where.
type Problem = (Place, String);

/// How a topology is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `{ "nodes": [{ "name": "a" }, ...], "links": [{ "from": "a", "to": "b", "weight": 2.5 }, ...] }`. A link has
    /// weight 1 and both directions unless it says otherwise (`"both_directions": false`).
    Json,
    /// Rocketfuel: `from to weight` a line, a line for each direction.
    Rocketfuel,
    /// Graph Modelling Language: `node [ id 1 label "a" ]` and `edge [ source 1 target 2 weight 2.5 ]` in a `graph`.
    Gml,
}

impl Format {
    /// By the end of a file's name.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_lowercase().as_str() {
            "json" => Some(Self::Json),
            "intra" => Some(Self::Rocketfuel),
            "gml" => Some(Self::Gml),
            _ => None,
        }
    }
}

/// Reads a topology; the end of the file's name says how it is written. `-` is standard input, in our own format.
///
/// # Errors
/// If the file cannot be read, or is not what its name says.
pub fn file(path: &Path) -> Result<Topology, ReadError> {
    let name = path.display().to_string();
    let is_input = name == "-";
    let format = if is_input {
        Some(Format::Json)
    } else {
        Format::of(path)
    };
    let Some(format) = format else {
        let problem = "expected a name that ends in .json, .intra (Rocketfuel) or .gml, or - for JSON from standard input";
        return Err(ReadError::Content {
            file: name,
            place: Place::File,
            problem: problem.to_owned(),
        });
    };
    let mut bytes = Vec::new();
    let read = if is_input {
        read_bounded(io::stdin().lock(), &mut bytes)
    } else {
        File::open(path).and_then(|file| read_bounded(file, &mut bytes))
    };
    let file = if is_input { "standard input" } else { &name };
    read.map_err(|reason| ReadError::File {
        file: file.to_owned(),
        reason,
    })?;
    self::bytes(&bytes, file, format)
}

/// Reads a topology from memory; errors say that it is from `file`.
///
/// # Errors
/// If it is not in that format.
pub fn bytes(bytes: &[u8], file: &str, format: Format) -> Result<Topology, ReadError> {
    let content = |(place, problem)| ReadError::Content {
        file: file.to_owned(),
        place,
        problem,
    };
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let limit = format!("expected at most {FILE_BYTES_MAX} bytes");
        return Err(content((Place::File, limit)));
    }
    parse(bytes, format).map_err(content)
}

fn read_bounded(from: impl Read, bytes: &mut Vec<u8>) -> io::Result<usize> {
    from.take(FILE_BYTES_MAX + 1).read_to_end(bytes)
}

fn parse(bytes: &[u8], format: Format) -> Result<Topology, Problem> {
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = bytes {
        let problem = "expected UTF-8, not UTF-16; save it as UTF-8";
        return Err((Place::File, problem.to_owned()));
    }
    // Editors of other systems begin UTF-8 with a byte order mark.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let line = 1 + good.matches('\n').count();
        let problem = "expected UTF-8; convert the file, as with `iconv -f latin1 -t utf-8`";
        (Place::Line(line), problem.to_owned())
    })?;
    let network = match format {
        Format::Json => json(text),
        Format::Rocketfuel => rocketfuel(text),
        Format::Gml => gml::parse(text),
    }?;
    if network.links.is_empty() {
        let problem = "expected at least one link between two routers";
        return Err((Place::File, problem.to_owned()));
    }
    let mut topology = Topology::new(&network.names, &network.links);
    for (name, role) in network.roles {
        topology.set_role(&clean(&name), role);
    }
    Ok(topology)
}

/// A network while it is read.
#[derive(Debug, Default)]
struct Network {
    names: Vec<String>,
    index: HashMap<String, u32>,
    links: Vec<(u32, u32, Weight)>,
    roles: Vec<(String, Role)>,
}

impl Network {
    fn find(&self, name: &str) -> Option<u32> {
        self.index.get(&clean(name)).copied()
    }

    /// The router of this name, which is [cleaned](clean), and whether it is new.
    fn router(&mut self, name: &str) -> Result<(u32, bool), String> {
        if let Some(index) = self.find(name) {
            return Ok((index, false));
        }
        let name = clean(name);
        if name.trim().is_empty() {
            return Err("expected a name, not blanks".to_owned());
        }
        if name.len() > NAME_BYTES_MAX {
            let bytes = name.len();
            return Err(format!(
                "expected a name of at most {NAME_BYTES_MAX} bytes, not {bytes}"
            ));
        }
        if self.names.len() == ROUTERS_MAX {
            return Err(format!("expected at most {ROUTERS_MAX} routers"));
        }
        let index = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.clone());
        self.index.insert(name, index);
        Ok((index, true))
    }

    fn link(&mut self, from: u32, to: u32, weight: Weight, both: bool) -> Result<(), String> {
        if from == to {
            return Ok(());
        }
        if self.links.len() + 1 + usize::from(both) > LINKS_MAX {
            return Err(format!(
                "expected at most {LINKS_MAX} links, each direction for itself"
            ));
        }
        self.links.push((from, to, weight));
        if both {
            self.links.push((to, from, weight));
        }
        Ok(())
    }
}

/// A name that can be shown: line breaks and tabs are spaces, other control characters and those that turn the direction of
/// writing are U+FFFD, and byte order marks, as files that were joined have them, are left out.
pub(crate) fn clean(name: &str) -> String {
    let shown = |c: char| match c {
        '\u{feff}' => None,
        '\n' | '\r' | '\t' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some(' '),
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(char::REPLACEMENT_CHARACTER)
        }
        c if c.is_control() => Some(char::REPLACEMENT_CHARACTER),
        c => Some(c),
    };
    name.chars().filter_map(shown).collect()
}

fn weight(text: &str) -> Result<Weight, String> {
    let weight = text.parse().ok().and_then(Weight::new);
    weight.ok_or_else(|| format!("expected a weight of {}, not {text:?}", Weight::RANGE))
}

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

/// Reads our own format.
fn json(text: &str) -> Result<Network, Problem> {
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

/// Reads Rocketfuel's inferred weights (and latencies): `from to weight` a line. Names have no spaces; Rocketfuel writes `+`.
fn rocketfuel(text: &str) -> Result<Network, Problem> {
    let mut network = Network::default();
    for (number, line) in (1..).zip(text.lines()) {
        add_line(&mut network, line).map_err(|problem| (Place::Line(number), problem))?;
    }
    Ok(network)
}

fn add_line(network: &mut Network, line: &str) -> Result<(), String> {
    let fields: Vec<_> = line.split_whitespace().collect();
    match fields[..] {
        [] => Ok(()),
        [from, to, cost] => {
            let cost = weight(cost)?;
            let (from, _) = network.router(from)?;
            let (to, _) = network.router(to)?;
            network.link(from, to, cost, false)
        }
        _ => Err(format!(
            "expected three fields, `from to weight`, not {}",
            fields.len()
        )),
    }
}
