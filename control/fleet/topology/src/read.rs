//! Reads topologies from files: our own JSON, Rocketfuel's `.intra`, GML as written by the Topology Zoo.

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

/// Limit of a file's size.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Limit of a router's name, the same as for all names in reports.
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
    /// The file's content is not a topology.
    #[error("{file}{place}: {problem}")]
    Content {
        /// The file's name.
        file: String,
        /// Where in it.
        place: Place,
        /// What was expected, and what was found.
        problem: String,
    },
}

/// A place in a file.
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

/// A problem and its place.
type Problem = (Place, String);

/// Format of a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `{ "nodes": [{ "name": "a" }, ...], "links": [{ "from": "a", "to": "b", "weight": 2.5 }, ...] }`. By
    /// default, a link has weight 1 and both directions; `"both_directions": false` changes the latter.
    Json,
    /// Rocketfuel: each line has `from to weight` for one direction.
    Rocketfuel,
    /// Graph Modelling Language: `node [ id 1 label "a" ]` and `edge [ source 1 target 2 weight 2.5 ]` in a `graph`.
    Gml,
}

impl Format {
    /// From a file's extension.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_lowercase().as_str() {
            "json" => Some(Self::Json),
            "intra" => Some(Self::Rocketfuel),
            "gml" => Some(Self::Gml),
            _ => None,
        }
    }
}

/// Reads a topology in the format given by the file's extension. `-` reads our own format from standard input.
///
/// # Errors
/// The file cannot be read, or its content does not match its extension.
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

/// Reads a topology from memory; errors name `file`.
///
/// # Errors
/// The bytes are not in that format.
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
    // Some editors begin UTF-8 with a byte order mark.
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

/// A network under construction.
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

    /// The router with this name, which is [cleaned](clean) first, and whether it is new.
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
                "expected at most {LINKS_MAX} links, counting each direction"
            ));
        }
        self.links.push((from, to, weight));
        if both {
            self.links.push((to, from, weight));
        }
        Ok(())
    }
}

/// Makes a name safe to show. Line breaks and tabs become spaces; other control characters and those that change the
/// direction of writing become U+FFFD. Byte order marks, which joined files may contain, are removed.
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
    /// The routers.
    pub nodes: Vec<Node>,
    /// The links between them.
    pub links: Vec<Link>,
}

/// A router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Unique name.
    pub name: String,
    /// Router ID, if the topology is from OSPF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its role in measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Its own addresses and those behind it, with prefix lengths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<String>,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name of one node.
    pub from: String,
    /// Name of the other.
    pub to: String,
    /// Cost, 0.000001 to 1000000000, default 1.
    pub weight: Option<f64>,
    /// Whether the link leads back at the same cost, default true.
    pub both_directions: Option<bool>,
}

impl Record {
    /// Converts a topology; each direction becomes a link.
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

/// Parses our own format.
fn json(text: &str) -> Result<Network, Problem> {
    let mut read = serde_json::Deserializer::from_str(text);
    let record: Record = serde_path_to_error::deserialize(&mut read).map_err(|error| {
        let place = match error.path().to_string().as_str() {
            // `?` is a key that could not be read.
            "." | "?" => Place::File,
            path => Place::Path(clean(path)),
        };
        // The message names the line.
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

/// Parses Rocketfuel's inferred weights (and latencies), with `from to weight` on each line. Names have no spaces;
/// Rocketfuel writes `+`.
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
