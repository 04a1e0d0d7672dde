//! Devices that are pulled while the switch runs: their ports are given up, all others go on.
//!
//! ```text
//!  pulled -> down for good, in log and status -> the workers give its queues back, at an epoch's
//!            rollover -> closed: only then does the kernel let the device go
//! ```
//!
//! Until it is closed the device answers as before, so that workers may go on polling it meanwhile.

use std::collections::BTreeMap;

use contract::ids::PortIndex;
use dpdk_bindings::Port;
use records::snapshot::PortFact;

use crate::reload::giving_back;
use crate::running::Running;
use switch::generation::Generations;
use switch::packet_io::dpdk::DpdkIo;

/// Ports whose devices were pulled.
#[derive(Debug, Default)]
pub struct Removals {
    /// What was known last of each.
    facts: BTreeMap<PortIndex, PortFact>,
    /// Those whose queues the workers still have, and were not asked for.
    pending: Vec<PortIndex>,
    /// Those whose queues are on their way back, and how many workers have given theirs.
    under_way: Option<(Vec<PortIndex>, usize)>,
}

impl Removals {
    /// What was known last of a port, if its device was pulled.
    pub fn facts(&self, port: PortIndex) -> Option<&PortFact> {
        self.facts.get(&port)
    }

    /// Whether a generation of its own is with the workers, who take one at a time.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// The first port whose device is being pulled and that was not noted yet.
    pub fn find(&self, ports: &[Option<Port<'_>>]) -> Option<PortIndex> {
        let ports = ports.iter().enumerate();
        let mut pulled = ports.filter(|(_, port)| port.as_ref().is_some_and(Port::is_pulled));
        pulled.find_map(|(index, _)| {
            let index = PortIndex::new(index);
            (!self.facts.contains_key(&index)).then_some(index)
        })
    }

    /// Notes that a port is given up.
    pub fn note(&mut self, port: PortIndex, facts: PortFact) {
        let facts = PortFact {
            is_up: false,
            is_removed: true,
            ..facts
        };
        self.facts.insert(port, facts);
        self.pending.push(port);
    }

    /// Takes queues back from the workers, without waiting; once all have given theirs, closes the devices:
    /// their ports.
    pub fn collect<'pool>(
        &mut self,
        running: &mut Running<'pool>,
        generations: &mut [Generations<DpdkIo<'pool>>],
    ) -> Vec<PortIndex> {
        let Some((ports, returned)) = &mut self.under_way else {
            return Vec::new();
        };
        let back = generations.iter_mut().filter_map(Generations::take_gone);
        *returned += back.count();
        if *returned < generations.len() {
            return Vec::new();
        }
        let ports = std::mem::take(ports);
        self.under_way = None;
        for port in &ports {
            // The workers' handles went with the boxes: this is the last.
            running.ports[port.index()] = None;
        }
        ports
    }

    /// Asks the workers for the queues of ports that were given up. They must have no generation of a reload.
    pub fn ask<'pool>(
        &mut self,
        running: &Running<'pool>,
        generations: &mut [Generations<DpdkIo<'pool>>],
    ) {
        if self.is_under_way() || self.pending.is_empty() {
            return;
        }
        let ports = std::mem::take(&mut self.pending);
        for worker in generations {
            let without = giving_back(running.number, &running.config, &ports);
            let sent = worker.send(Box::new(without));
            assert!(sent.is_ok(), "no other generation is under way");
        }
        self.under_way = Some((ports, 0));
    }
}
