//! Follows a topology and updates the nodes to probe whenever its m-set changes.
//!
//! ```text
//!  a thread of its own: file or OSPF --> topology --> m-set --> old beside new --> Wanted --> MsetSessions opens and ends sessions
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::config::document::{KeyPath, name};
use parking_lot::Mutex;
use serde::Serialize;
use topology::mset::{Deployment, mset};
use topology::ospf::database::Addresses;
use topology::ospf::presence::Presence;
use topology::paths::Paths;
use topology::source::{Counts, Found, Source};
use topology::transition::{NamedWay, Transition};
use topology::{Role, Topology};

use crate::config::{Address, Config, MsetConfig, PORT};
use crate::engine::{Engine, SessionKey};
use crate::opener::Opener;

/// Limit of sessions to one node: twice its equal-cost paths, which ports select.
const LANES_MAX: usize = 16;

/// A node to probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Its name.
    pub node: String,
    /// Its reflector; a node without one is not probed.
    pub to: Option<Address>,
    /// Paths to it: those of the present m-set and, for a while, former ones.
    pub ways: Vec<NamedWay>,
}

impl Target {
    /// How many sessions cover its paths: one for a single path, else two for each, since a port may select
    /// any path.
    pub fn lanes(&self) -> usize {
        match self.ways.len() {
            ways @ 0..=1 => ways,
            more => more.saturating_mul(2).min(LANES_MAX),
        }
    }
}

/// The nodes to probe, or why they are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// The nodes, by name.
    pub targets: Vec<Target>,
    /// Why the topology is unknown or outdated; `targets` are those of the last one.
    pub problem: Option<String>,
    /// Whether a topology has ever been read.
    pub is_known: bool,
}

/// The nodes to probe, and whether they have changed since the engine's thread took them.
type Shared = Mutex<(Wanted, bool)>;

/// What the thread publishes for other threads.
#[derive(Debug, Clone, Default)]
pub struct View {
    wanted: Arc<Shared>,
    /// OSPF messages and LSAs that could not be used; all 0 without OSPF.
    pub ospf: Arc<Counts>,
}

impl View {
    /// The current state.
    pub fn read(&self) -> Wanted {
        self.wanted.lock().0.clone()
    }

    /// The targets, if they have changed since the last call.
    fn take(&self) -> Option<Vec<Target>> {
        let (wanted, is_new) = &mut *self.wanted.lock();
        std::mem::take(is_new).then(|| wanted.targets.clone())
    }
}

/// Follows the topology for `node` on a thread of its own until the view is dropped.
///
/// # Errors
/// The system refuses a thread.
fn follow(config: MsetConfig, node: String) -> io::Result<View> {
    let presence = config.advertise.map(|role| Presence {
        role,
        name: Some(node.clone()),
    });
    let file = || Source::file(config.topology.clone().unwrap_or_default());
    let source = config.ospf.map_or_else(file, |server| {
        Source::ospf(server, config.names.clone(), presence)
    });
    let view = View {
        ospf: source.counts(),
        ..View::default()
    };
    let mut following = Following {
        transition: Transition::new(Duration::from_secs(config.transition_s)),
        began: Instant::now(),
        addresses: BTreeMap::new(),
        config,
        node,
    };
    let there = Arc::downgrade(&view.wanted);
    source.follow("vernier-mset", move |read| {
        let Some(wanted) = there.upgrade() else {
            return false;
        };
        following.take(read, &wanted);
        true
    })?;
    Ok(view)
}

/// State of the thread.
struct Following {
    config: MsetConfig,
    node: String,
    transition: Transition,
    began: Instant,
    /// The last address of each node in OSPF.
    addresses: BTreeMap<String, Address>,
}

impl Following {
    /// Takes what was read, if anything, and publishes the nodes to probe now.
    fn take(&mut self, read: Result<Option<Found>, String>, wanted: &Shared) {
        let taken = read.and_then(|read| match read {
            Some((topology, addresses)) => self.change(&topology, &addresses).map(Some),
            None => Ok(None),
        });
        match taken {
            Ok(None) => {}
            Ok(Some(())) => note(None, wanted),
            Err(problem) => note(Some(problem), wanted),
        }
        self.publish(wanted);
    }

    /// Switches to another topology.
    fn change(&mut self, topology: &Topology, addresses: &Addresses) -> Result<(), String> {
        let mut ways = ways(topology, &self.config, &self.node)?;
        // Other names are invalid in reports.
        ways.retain(|way| {
            let node = way.last().map_or("", String::as_str);
            let is_name = name(KeyPath::default(), node).is_ok();
            if !is_name {
                tracing::warn!(
                    "mset: {node:?} is not probed: expected a name of 1 to 64 letters, digits, `.`, `_` or `-`"
                );
            }
            is_name
        });
        let own = topology.routers().filter_map(|router| {
            let (ip, _) = addresses.of(router).find(|(_, length)| *length == 32)?;
            let reflector = SocketAddr::from((ip, PORT));
            Some((topology.name(router).to_owned(), reflector.into()))
        });
        self.addresses.extend(own);
        self.transition.change(self.began.elapsed(), ways);
        Ok(())
    }

    /// Publishes the nodes to probe now.
    fn publish(&mut self, wanted: &Shared) {
        let mut targets: BTreeMap<&str, Vec<NamedWay>> = BTreeMap::new();
        for way in self.transition.monitored(self.began.elapsed()) {
            if let Some(node) = way.last() {
                targets.entry(node).or_default().push(way.clone());
            }
        }
        let addresses = [&self.config.addresses, &self.addresses];
        let targets = targets.into_iter().map(|(node, ways)| Target {
            to: addresses
                .iter()
                .find_map(|addresses| addresses.get(node))
                .copied(),
            node: node.to_owned(),
            ways,
        });
        let targets: Vec<_> = targets.collect();
        // Only this thread changes them.
        if wanted.lock().0.targets == targets {
            return;
        }
        log(&targets);
        let (wanted, is_new) = &mut *wanted.lock();
        wanted.targets = targets;
        *is_new = true;
    }
}

/// Publishes why the topology is unknown; `None`: it is known.
fn note(problem: Option<String>, wanted: &Shared) {
    let former = {
        let wanted = &mut wanted.lock().0;
        wanted.is_known |= problem.is_none();
        std::mem::replace(&mut wanted.problem, problem.clone())
    };
    if let Some(problem) = problem.filter(|problem| former.as_ref() != Some(problem)) {
        tracing::warn!("mset: {problem}; the m-set stays as it is");
    }
}

fn log(targets: &[Target]) {
    let names: Vec<_> = targets.iter().map(|target| target.node.as_str()).collect();
    tracing::info!("mset: {} nodes: {}", names.len(), names.join(", "));
    for target in targets.iter().filter(|target| target.to.is_none()) {
        tracing::warn!(
            "mset: {} is not probed: give it an address in mset.addresses",
            target.node
        );
    }
}

/// The paths of a node's m-set.
fn ways(topology: &Topology, config: &MsetConfig, node: &str) -> Result<Vec<NamedWay>, String> {
    let find = |key: &str, name: &str| {
        let found = topology.find(name);
        found.ok_or_else(|| format!("{key}: the topology has no router {name:?}"))
    };
    let own = find("mset.node", node)?;
    let of_role = |key: &str, names: &Option<Vec<String>>, role: Role| {
        let Some(names) = names else {
            return topology.with_role(role);
        };
        let known = names.iter().filter(|name| !name.is_empty());
        let known = known.map(|name| find(key, name));
        // A router that is missing for a while is no reason to stop.
        let noted = known.inspect(|found| {
            if let Err(problem) = found {
                tracing::debug!("{problem}");
            }
        });
        Some(noted.flatten().collect::<Vec<_>>())
    };
    let routers = of_role("mset.routers", &config.routers, Role::MRouter).unwrap_or_default();
    let servers = of_role("mset.servers", &config.servers, Role::MServer);
    let deployment = Deployment::new(topology, &routers, servers.as_deref());
    let paths = Paths::new(topology).map_err(|error| error.to_string())?;
    let members = mset(&paths, &deployment, own);
    let ways = members.iter().flat_map(|member| &member.ways);
    let names = ways.map(|way| {
        let names = way.routers.iter().map(|&router| topology.name(router));
        names.map(str::to_owned).collect()
    });
    Ok(names.collect())
}

/// Interval between attempts to open what failed.
const AGAIN: Duration = Duration::from_secs(10);

/// Identifies a session: node, reflector, lane.
type Lane = (String, SocketAddr, usize);

/// The sessions of an m-set, opened and ended on the measuring thread.
#[derive(Debug)]
pub struct MsetSessions {
    /// The m-set that they follow.
    pub view: View,
    opener: Opener,
    config: MsetConfig,
    /// Limit of sessions.
    room: usize,
    wanted: Vec<Lane>,
    open: HashMap<Lane, SessionKey>,
    again: Option<Duration>,
    complaint: String,
}

impl MsetSessions {
    /// The sessions of the configuration, none open yet; `None` without an m-set.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn of(config: &Config, opener: Opener) -> io::Result<Option<Self>> {
        let Some((mset, node)) = config.mset.clone().zip(config.mset_node()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            view: follow(mset.clone(), node)?,
            opener,
            room: config.mset_room(),
            config: mset,
            wanted: Vec::new(),
            open: HashMap::new(),
            again: None,
            complaint: String::new(),
        }))
    }

    /// Opens and ends sessions to match the m-set; retries what failed.
    pub fn step(&mut self, engine: &mut Engine) {
        if let Some(targets) = self.view.take() {
            self.change(&targets, engine);
            self.again = Some(Duration::ZERO);
        }
        if self.again.is_some_and(|again| again <= engine.now()) {
            self.again = None;
            self.open(engine);
        }
    }

    fn change(&mut self, targets: &[Target], engine: &mut Engine) {
        let wanted = targets.iter().filter_map(|target| {
            let to = target.to?.with_port(PORT);
            Some((0..target.lanes()).map(move |lane| (target.node.clone(), to, lane)))
        });
        self.wanted = wanted.flatten().collect();
        if self.wanted.len() > self.room {
            tracing::warn!(
                "mset: {} sessions are needed, but only {} fit: give `session` a longer interval_ms",
                self.wanted.len(),
                self.room
            );
            self.wanted.truncate(self.room);
        }
        let wanted: HashSet<&Lane> = self.wanted.iter().collect();
        self.open.retain(|session, &mut key| {
            let stays = wanted.contains(session);
            if !stays {
                engine.end(key);
            }
            stays
        });
    }

    fn open(&mut self, engine: &mut Engine) {
        for wanted in &self.wanted {
            if self.open.contains_key(wanted) {
                continue;
            }
            let (node, to, lane) = wanted;
            let session = self.config.session(node, (*to).into(), *lane);
            match self.opener.open(engine, &session, *lane, "mset.session") {
                Ok(key) => {
                    self.open.insert(wanted.clone(), key);
                }
                Err(error) => {
                    self.again = Some(engine.now() + AGAIN);
                    let complaint = format!("mset: {node} is not probed: {error}");
                    if self.complaint != complaint {
                        tracing::warn!("{complaint}; retrying every {} s", AGAIN.as_secs());
                        self.complaint = complaint;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
