//! Follows a topology: which nodes are to be probed, as its m-set changes.
//!
//! ```text
//!  a thread of its own: file or OSPF --> topology --> m-set --> old beside new --> Wanted --> setup opens and ends sessions
//! ```

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contract::config::document::{KeyPath, name};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use topology::mset::{Deployment, mset};
use topology::ospf::database::Addresses;
use topology::ospf::presence::Presence;
use topology::paths::Paths;
use topology::source::{Counts, Source};
use topology::transition::{NamedWay, Transition};
use topology::{Role, Topology};

use crate::config::{Address, MsetConfig, PORT};

mod sessions;

pub use sessions::MsetSessions;

/// Between two looks at a file, and at former ways whose time ends.
const LOOK: Duration = Duration::from_millis(500);

/// Most sessions to one node: for twice its ways of equal cost, which they take by their ports.
const LANES_MAX: usize = 16;

/// A node that is to be probed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its name.
    pub node: String,
    /// Its reflector; `None` where none is known: it is not probed.
    pub to: Option<Address>,
    /// Ways to it: those of the present m-set, and former ones for a while.
    pub ways: Vec<NamedWay>,
}

impl Target {
    /// Sessions that cover its ways: one for one, else two for each, since a port may take any way.
    pub fn lanes(&self) -> usize {
        match self.ways.len() {
            ways @ 0..=1 => ways,
            more => more.saturating_mul(2).min(LANES_MAX),
        }
    }
}

/// What is to be probed, and what keeps it from being known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The nodes, by name.
    pub targets: Vec<Target>,
    /// Why the topology is not known, or not known any more: `targets` are those of before.
    pub problem: Option<String>,
    /// Whether a topology was ever read.
    pub is_known: bool,
}

/// What readers see, and whether it has changed since the engine's thread took it.
#[derive(Debug, Default)]
struct Shared {
    wanted: Wanted,
    is_new: bool,
    /// What of OSPF could not be taken up.
    ospf: Arc<Counts>,
}

/// The thread, until it is dropped.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Mutex<Shared>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread publishes, for other threads.
#[derive(Debug, Clone)]
pub struct View(Arc<Mutex<Shared>>);

impl View {
    /// As it is now.
    pub fn read(&self) -> Wanted {
        self.0.lock().wanted.clone()
    }

    /// What of OSPF could not be taken up; all 0 without.
    pub fn ospf(&self) -> Arc<Counts> {
        Arc::clone(&self.0.lock().ospf)
    }
}

impl Follower {
    /// Follows what is configured, for `node`.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(config: MsetConfig, node: String) -> io::Result<Self> {
        let shared = Arc::<Mutex<Shared>>::default();
        let stop = Arc::<AtomicBool>::default();
        let presence = config.advertise.map(|role| Presence {
            role,
            name: Some(node.clone()),
        });
        let file = || Source::file(config.topology.clone().unwrap_or_default());
        let source = config.ospf.map_or_else(file, |server| {
            Source::ospf(server, config.names.clone(), presence)
        });
        shared.lock().ospf = source.counts();
        let following = Following {
            transition: Transition::new(Duration::from_secs(config.transition_s)),
            began: Instant::now(),
            addresses: BTreeMap::new(),
            shared: Arc::clone(&shared),
            source,
            config,
            node,
        };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("vernier-mset".to_owned())
            .spawn(move || following.run(&stopped))?;
        Ok(Self {
            shared,
            stop,
            thread: Some(thread),
        })
    }

    /// The targets, if they have changed since the last call.
    pub fn take(&self) -> Option<Vec<Target>> {
        let mut shared = self.shared.lock();
        std::mem::take(&mut shared.is_new).then(|| shared.wanted.targets.clone())
    }

    /// For other threads.
    pub fn view(&self) -> View {
        View(Arc::clone(&self.shared))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that follows the topology panicked");
        }
    }
}

/// The thread's own.
struct Following {
    config: MsetConfig,
    node: String,
    source: Source,
    transition: Transition,
    began: Instant,
    /// The last address of each node that OSPF had.
    addresses: BTreeMap<String, Address>,
    shared: Arc<Mutex<Shared>>,
}

impl Following {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match self.source.next(LOOK) {
                Ok(None) => {}
                Ok(Some((topology, addresses))) => {
                    let problem = self.change(&topology, &addresses).err();
                    self.note(problem);
                }
                Err(problem) => self.note(Some(problem)),
            }
            self.publish();
        }
    }

    /// Takes another topology up.
    fn change(&mut self, topology: &Topology, addresses: &Addresses) -> Result<(), String> {
        let mut ways = ways(topology, &self.config, &self.node)?;
        // Others would be no names in reports.
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
            Some((topology.name(router).to_owned(), reflector(ip)))
        });
        self.addresses.extend(own);
        self.transition.change(self.began.elapsed(), ways);
        Ok(())
    }

    /// Publishes what is to be probed now.
    fn publish(&mut self) {
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
        if self.shared.lock().wanted.targets == targets {
            return;
        }
        log(&targets);
        let mut shared = self.shared.lock();
        shared.wanted.targets = targets;
        shared.is_new = true;
    }

    /// Publishes why the topology is not known; `None`: it is.
    fn note(&self, problem: Option<String>) {
        let mut shared = self.shared.lock();
        shared.wanted.is_known |= problem.is_none();
        let former = std::mem::replace(&mut shared.wanted.problem, problem.clone());
        drop(shared);
        if let Some(problem) = problem.filter(|problem| former.as_ref() != Some(problem)) {
            tracing::warn!("mset: {problem}; the m-set stays as it is");
        }
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

/// The ways of a node's m-set.
fn ways(topology: &Topology, config: &MsetConfig, node: &str) -> Result<Vec<NamedWay>, String> {
    let find = |key: &str, name: &str| {
        let found = topology.find(name);
        found.ok_or_else(|| format!("{key}: the topology has no router {name:?}"))
    };
    let own = find("mset.node", node)?;
    let of_role = |key: &str, names: &Option<Vec<String>>, role: Role| match names {
        // One that is gone for a while is no reason to stop.
        Some(names) => {
            let known = names.iter().filter(|name| !name.is_empty());
            let known: Vec<_> = known
                .filter_map(|name| match find(key, name) {
                    Ok(router) => Some(router),
                    Err(problem) => {
                        tracing::debug!("{problem}");
                        None
                    }
                })
                .collect();
            Some(known)
        }
        None => topology.with_role(role),
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

/// An address of OSPF, as a reflector's.
fn reflector(ip: std::net::Ipv4Addr) -> Address {
    Address {
        ip: ip.into(),
        port: Some(PORT),
        scope_id: 0,
    }
}

#[cfg(test)]
mod tests;
