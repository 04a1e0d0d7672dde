//! Switches with cables between them and without faults, to test what a configuration means.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::config::Config;
use control::published::Published;
use measure::time::Ticks;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use records::snapshot::Snapshot;

use super::node::{Clocks, Node};

/// Time between two passes of a worker.
const PASS_NS: u64 = 20_000;

/// Time between two polls of a control core.
const POLL_NS: u64 = 5_000_000;

/// Frames in a cable arrive at the next multiple of this: delays differ, but the order is kept.
const CABLE_NS: u64 = 7 * PASS_NS;

/// Two connected ports, each given by its switch and its index there.
pub type Cable = [(usize, usize); 2];

/// A frame that a switch sent: the time, in ticks of a nanosecond since the start, and the bytes.
pub type Departure = (u64, Vec<u8>);

/// Switches and cables.
pub struct Calm {
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    /// By switch and port: frames sent that went into no cable, and those that went into a cable.
    departed: BTreeMap<(usize, usize), Vec<Departure>>,
    carried: BTreeMap<(usize, usize), Vec<Departure>>,
    /// Frames in cables, by destination switch and port.
    under_way: Vec<(usize, usize, Vec<u8>)>,
    now: u64,
}

impl Calm {
    /// A switch for each configuration, at time 0.
    ///
    /// # Errors
    /// In words: a configuration that makes no switch.
    pub fn new(configs: &[Config], cables: Vec<Cable>) -> Result<Self, String> {
        let mut random = Pcg64::seed_from_u64(1);
        let nodes = configs.iter().map(|config| {
            let has_link = vec![true; config.ports.len()];
            Node::start(
                config,
                Clocks::new(0, Ticks(0), 0, 0),
                0,
                0,
                has_link,
                &mut random,
            )
        });
        Ok(Self {
            nodes: nodes.collect::<Result<_, _>>()?,
            cables,
            departed: BTreeMap::new(),
            carried: BTreeMap::new(),
            under_way: Vec::new(),
            now: 0,
        })
    }

    /// Lets the clocks of all workers advance by `ticks` whenever they are read.
    pub fn set_tick(&mut self, ticks: u64) {
        for one in self
            .nodes
            .iter_mut()
            .flat_map(|node| node.workers.iter_mut())
        {
            one.worker.io_mut().set_tick(ticks);
        }
    }

    /// Delivers a frame.
    pub fn arrive(&mut self, switch: usize, port: usize, frame: Vec<u8>) {
        self.nodes[switch].workers.arrive(port, frame);
    }

    /// Advances the time by `ns`.
    pub fn run(&mut self, ns: u64) {
        let end = self.now + ns;
        while self.now < end {
            self.now += PASS_NS;
            if self.now.is_multiple_of(CABLE_NS) {
                for (switch, port, frame) in std::mem::take(&mut self.under_way) {
                    self.arrive(switch, port, frame);
                }
            }
            for switch in 0..self.nodes.len() {
                self.pass(switch);
            }
        }
    }

    fn pass(&mut self, switch: usize) {
        let (now, node) = (self.now, &mut self.nodes[switch]);
        for worker in 0..node.workers.len() {
            node.pass(worker, now);
        }
        for port in 0..node.ports {
            let mut sent = node.workers.departed(port);
            let from = (switch, port);
            let to = self.cables.iter().find_map(|&[a, b]| match from {
                _ if from == a => Some(b),
                _ if from == b => Some(a),
                _ => None,
            });
            let sent_before = if let Some((to_switch, to_port)) = to {
                for (_, frame) in &sent {
                    self.under_way.push((to_switch, to_port, frame.clone()));
                }
                &mut self.carried
            } else {
                &mut self.departed
            };
            sent_before.entry(from).or_default().append(&mut sent);
        }
        if now.is_multiple_of(POLL_NS) {
            node.poll(now);
        }
    }

    /// The published snapshot of a switch.
    pub fn snapshot(&self, switch: usize) -> Arc<Snapshot> {
        self.nodes[switch].published.read()
    }

    /// The publication point of a switch.
    pub fn published(&self, switch: usize) -> Arc<Published> {
        Arc::clone(&self.nodes[switch].published)
    }

    /// Frames that a port has sent into its cable.
    pub fn carried(&self, switch: usize, port: usize) -> &[Departure] {
        self.carried.get(&(switch, port)).map_or(&[], Vec::as_slice)
    }

    /// Takes the frames that a port without a cable has sent since the last call.
    pub fn departed(&mut self, switch: usize, port: usize) -> Vec<Departure> {
        self.departed.remove(&(switch, port)).unwrap_or_default()
    }
}
