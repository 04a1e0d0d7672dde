//! Prints which node monitors which segments, and the segments of a path, by [`topology::mset`] and
//! [`topology::chain`].

use std::fmt::Write;
use std::path::PathBuf;

use ::topology::chain::{self, Part};
use ::topology::mset::{self, Deployment};
use ::topology::paths::Paths;
use ::topology::read;
use ::topology::{Role, Router, Topology};
use clap::{Args, ColorChoice};
use serde::Serialize;

use super::{Correctable, Form};
use crate::view::{Page, Table};

/// A network and its measuring nodes.
#[derive(Debug, Args)]
struct Network {
    /// The network: a file that ends in .json, .intra (Rocketfuel) or .gml; - is JSON from standard input
    #[arg(long, value_name = "FILE")]
    topology: PathBuf,
    /// The m-routers (routers that measure), separated by commas, or with the option repeated [default: as in the file]
    #[arg(long, value_name = "NAMES")]
    routers: Option<Vec<String>>,
    /// Routers with an m-server, or "" for none [default: as in the file or, if it names none, all that are not
    /// m-routers]
    #[arg(long, value_name = "NAMES")]
    servers: Option<Vec<String>>,
}

/// `vernier mset`.
#[derive(Debug, Args)]
#[command(after_help = "\
A node's m-set: every m-server, and the first m-router, on each branch of the tree of shortest paths from it; what lies
behind an m-router is monitored by that one. D_2 is the second of several ways of equal cost to D. Of two m-routers the
first by name lists the link between them, which they measure in both directions. No switch is asked.")]
pub struct Mset {
    /// Print only this node
    node: Option<String>,
    #[command(flatten)]
    network: Network,
    #[command(flatten)]
    form: Form,
}

/// `vernier paths`.
#[derive(Debug, Args)]
#[command(after_help = "No switch is asked.")]
pub struct Chains {
    /// The first router
    from: String,
    /// The last router
    to: String,
    #[command(flatten)]
    network: Network,
    #[command(flatten)]
    form: Form,
}

/// The m-sets that are printed.
#[derive(Debug, Serialize)]
struct Sets {
    topology: String,
    nodes: Vec<Node>,
}

#[derive(Debug, Serialize)]
struct Node {
    name: String,
    role: &'static str,
    members: Vec<Member>,
}

#[derive(Debug, Serialize)]
struct Member {
    name: String,
    role: &'static str,
    /// Answer of equal cost.
    alternatives: u64,
    /// Number of these that this node monitors.
    monitored: u64,
    /// The first of these.
    ways: Vec<Way>,
}

#[derive(Debug, Serialize)]
struct Way {
    /// The member with the way's number, if there are several: `D_2`.
    label: String,
    /// Of all alternatives, from 1.
    number: u64,
    hops: usize,
    routers: Vec<String>,
}

/// The paths that are printed.
#[derive(Debug, Serialize)]
struct Answer {
    topology: String,
    from: String,
    to: String,
    /// Answer of equal cost.
    alternatives: u64,
    /// The first of these.
    ways: Vec<Chain>,
}

#[derive(Debug, Serialize)]
struct Chain {
    number: u64,
    segments: Vec<Segment>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Segment {
    /// Inside an m-router.
    Router {
        router: String,
        from: Option<String>,
        to: Option<String>,
    },
    /// The segment from one measuring node to another.
    Link { routers: Vec<String> },
    /// A segment over routers that do not measure.
    VirtualLink {
        routers: Vec<String>,
        /// Its parts between m-servers on the way.
        finer: Vec<Vec<String>>,
    },
    /// Nobody measures this.
    Uncovered {
        routers: Vec<String>,
        /// Routers at which m-servers or upgrades would cover it.
        missing: Vec<String>,
    },
}

/// The input of the computation.
struct Loaded {
    file: String,
    topology: Topology,
    paths: Paths,
    deployment: Deployment,
}

/// `vernier mset`.
pub(super) fn run(color: ColorChoice, mset: &Mset) -> anyhow::Result<u8> {
    let (keys, sets) = (["nodes", "members", "ways"], Sets::of(mset)?);
    mset.form
        .show(color, &keys, &sets, |page, sets| sets.write(page))
}

/// `vernier paths`.
pub(super) fn run_chains(color: ColorChoice, chains: &Chains) -> anyhow::Result<u8> {
    let (keys, answer) = (["ways", "segments"], Answer::of(chains)?);
    chains
        .form
        .show(color, &keys, &answer, |page, answer| answer.write(page))
}

impl Network {
    fn load(&self) -> Result<Loaded, Correctable> {
        let topology = read::file(&self.topology)?;
        let file = self.topology.display().to_string();
        let all = |argument, lists: &[String]| {
            let names = lists.iter().flat_map(|list| names(&topology, list));
            let found = names.map(|name| find(&topology, argument, &name, &file));
            found.collect::<Result<Vec<_>, _>>()
        };
        let given = |argument, names: &Option<Vec<String>>, role| match names {
            Some(names) => all(argument, names).map(Some),
            None => Ok(topology.with_role(role)),
        };
        let m_routers = given("--routers", &self.routers, Role::MRouter)?;
        let m_servers = given("--servers", &self.servers, Role::MServer)?;
        let m_routers = m_routers.unwrap_or_default();
        let deployment = Deployment::new(&topology, &m_routers, m_servers.as_deref());
        Ok(Loaded {
            paths: paths(&topology, &file)?,
            file,
            topology,
            deployment,
        })
    }
}

/// The shortest paths of the network in `file`.
pub(super) fn paths(topology: &Topology, file: &str) -> Result<Paths, Correctable> {
    Paths::new(topology).map_err(|why| Correctable(format!("{file}: {why}")))
}

/// Splits a list at commas. Names may contain commas themselves: the longest existing name is taken.
fn names(topology: &Topology, list: &str) -> Vec<String> {
    let parts: Vec<&str> = list.split(',').collect();
    let routers = topology.routers();
    let commas = routers.map(|router| topology.name(router).matches(',').count());
    let parts_max = 1 + commas.max().unwrap_or(0);
    let mut rest = &parts[..];
    let mut names = Vec::new();
    while !rest.is_empty() {
        let lengths = (1..=rest.len().min(parts_max)).rev();
        let mut known =
            lengths.filter(|&length| topology.find(&rest[..length].join(",")).is_some());
        let (name, after) = rest.split_at(known.next().unwrap_or(1));
        names.push(name.join(","));
        rest = after;
    }
    names.retain(|name| !name.is_empty());
    names
}

fn find(
    topology: &Topology,
    argument: &str,
    name: &str,
    file: &str,
) -> Result<Router, Correctable> {
    let unknown = || Correctable(format!("{argument}: {file} has no router {name:?}"));
    topology.find(name).ok_or_else(unknown)
}

impl Loaded {
    fn find(&self, argument: &str, name: &str) -> Result<Router, Correctable> {
        find(&self.topology, argument, name, &self.file)
    }

    fn names(&self, routers: &[Router]) -> Vec<String> {
        let names = routers.iter().map(|&router| self.topology.name(router));
        names.map(str::to_owned).collect()
    }

    fn role(&self, router: Router) -> &'static str {
        self.deployment.role(router).name()
    }
}

impl Sets {
    fn of(mset: &Mset) -> Result<Self, Correctable> {
        let loaded = mset.network.load()?;
        let only = mset.node.as_ref().map(|name| loaded.find("NODE", name));
        let only = only.transpose()?;
        let nodes = loaded.topology.routers();
        let nodes = nodes.filter(|&node| only.is_none_or(|only| only == node));
        let nodes = nodes.map(|node| Node::of(node, &loaded)).collect();
        Ok(Self {
            topology: loaded.file,
            nodes,
        })
    }

    fn write(&self, page: &mut Page) {
        let mut rows = Vec::new();
        for node in &self.nodes {
            let mut head = [node.name.clone(), node.role.to_owned()];
            let mut row = |member: String, hops: String, by: String| {
                let [name, role] = std::mem::take(&mut head);
                rows.push([name, role, member, hops, by]);
            };
            for member in &node.members {
                for way in &member.ways {
                    let by = way.routers.join(" ");
                    row(way.label.clone(), way.hops.to_string(), by);
                }
                let listed = member.ways.len() as u64;
                if listed < member.monitored {
                    let more = format!("and {} more ways", member.monitored - listed);
                    row(member.name.clone(), String::new(), more);
                }
            }
            if node.members.is_empty() {
                row("-".to_owned(), String::new(), String::new());
            }
        }
        page.table(
            &Table::new("node | role | member | hops | by", &["role"]),
            rows,
        );
    }
}

impl Node {
    fn of(node: Router, loaded: &Loaded) -> Self {
        let set = mset::mset(&loaded.paths, &loaded.deployment, node);
        let members = set.iter().map(|member| {
            let labels = member.labels(&loaded.topology);
            let ways = member.ways.iter().zip(labels).map(|(way, label)| Way {
                label,
                number: way.number,
                hops: way.hops(),
                routers: loaded.names(&way.routers),
            });
            Member {
                name: loaded.topology.name(member.router).to_owned(),
                role: loaded.role(member.router),
                alternatives: member.alternatives,
                monitored: member.monitored,
                ways: ways.collect(),
            }
        });
        Self {
            name: loaded.topology.name(node).to_owned(),
            role: loaded.role(node),
            members: members.collect(),
        }
    }
}

impl Answer {
    fn of(chains: &Chains) -> Result<Self, Correctable> {
        let loaded = chains.network.load()?;
        let from = loaded.find("FROM", &chains.from)?;
        let to = loaded.find("TO", &chains.to)?;
        let found = chain::chains(&loaded.paths, &loaded.deployment, from, to);
        let segment = |part: &Part| Segment::of(part, &loaded);
        let ways = found.chains.iter().map(|chain| Chain {
            number: chain.number,
            segments: chain.parts.iter().map(segment).collect(),
        });
        Ok(Self {
            ways: ways.collect(),
            topology: loaded.file,
            from: chains.from.clone(),
            to: chains.to.clone(),
            alternatives: found.alternatives,
        })
    }

    fn write(&self, page: &mut Page) {
        let (file, from, to) = (&self.topology, &self.from, &self.to);
        let number = match self.alternatives {
            0 => "no path".to_owned(),
            1 => "one path".to_owned(),
            more => format!("{more} paths of equal cost"),
        };
        let _ = writeln!(page, "{file}: {number} from {from} to {to}");
        for way in &self.ways {
            let _ = writeln!(page, "\npath {}", way.number);
            let rows = way.segments.iter().map(Segment::row);
            page.table(&Table::new("segment | by | note", &[]), rows);
        }
        let listed = self.ways.len() as u64;
        if listed < self.alternatives {
            let _ = writeln!(page, "\nand {} more", self.alternatives - listed);
        }
    }
}

impl Segment {
    fn of(part: &Part, loaded: &Loaded) -> Self {
        let name = |router: Router| loaded.topology.name(router).to_owned();
        match part {
            Part::Inside { at, from, to } => Self::Router {
                router: name(*at),
                from: from.map(name),
                to: to.map(name),
            },
            Part::Between { routers } if routers.len() == 2 => Self::Link {
                routers: loaded.names(routers),
            },
            Part::Between { routers } => {
                let finer = part.finer(&loaded.deployment);
                Self::VirtualLink {
                    routers: loaded.names(routers),
                    finer: finer.iter().map(|routers| loaded.names(routers)).collect(),
                }
            }
            Part::Uncovered { routers, missing } => Self::Uncovered {
                routers: loaded.names(routers),
                missing: loaded.names(missing),
            },
        }
    }

    fn row(&self) -> [String; 3] {
        let (kind, by, note) = match self {
            Self::Router { router, from, to } => {
                let end = |end: &Option<String>| end.clone().unwrap_or_else(|| "host".to_owned());
                let note = format!("from {} to {}", end(from), end(to));
                ("m-router", router.clone(), note)
            }
            Self::Link { routers } => ("link", routers.join(" "), String::new()),
            Self::VirtualLink { routers, finer } => {
                let finer: Vec<_> = finer.iter().map(|routers| routers.join(" ")).collect();
                let note = match finer.len() {
                    0 => String::new(),
                    _ => format!("finer: {}", finer.join(", ")),
                };
                ("virtual link", routers.join(" "), note)
            }
            Self::Uncovered { routers, missing } => {
                let note = format!("m-server or upgrade needed at {}", missing.join(" and "));
                ("not covered", routers.join(" "), note)
            }
        };
        [kind.to_owned(), by, note]
    }
}

#[cfg(test)]
mod tests;
