//! Devices that are lost while the switch runs. All other ports continue.
//!
//! ```text
//!  pulled, or lost -> down in log and status -> the workers return its queues, at an epoch's
//!                     rollover -> closed: only then the kernel releases a pulled device
//!            lost  -> attached again as soon as it is back -> its queues go to the workers
//! ```
//!
//! Pulled devices are PCI devices; their ports are not used again before a restart. A lost device is a kernel
//! interface that was deleted, or a `net_memif` client whose server ended. Until it is closed, the device answers
//! as before, so that workers may keep polling it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use contract::config::Config;
use contract::ids::PortIndex;
use dpdk_bindings::Port;
use records::snapshot::{DeviceCounts, PortFact};

use crate::platform::{Dpdk, RunningSwitch};
use switch::generation::Generation;
use switch::wiring::Platform;
use switch::wiring::devices::is_back;

/// How long a device must be lost before it is closed, and the time between attempts to attach it again.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the pause between attempts doubles if a device is repeatedly lost before its link is up: to 32 s.
const DOUBLED_MAX: u32 = 5;

/// Ports without their devices.
#[derive(Debug, Default)]
pub struct Removals {
    /// Last known facts of each.
    facts: BTreeMap<PortIndex, PortFact>,
    /// Ports whose queues the workers still have and have not been asked to return.
    pending: Vec<PortIndex>,
    /// Ports whose queues are being returned.
    under_way: Option<Vec<PortIndex>>,
    /// Devices that may come back, in use or not: since when they are lost.
    lost: BTreeMap<PortIndex, Lost>,
    /// How often in a row a port's device was lost before its link was up, as a `net_memif` server does to a client
    /// with the id of another; and how often its link had gone down by then.
    refused: BTreeMap<PortIndex, (u32, u64)>,
    /// Counts of the port's earlier devices.
    earlier: BTreeMap<PortIndex, DeviceCounts>,
}

/// A device that may come back.
#[derive(Debug)]
struct Lost {
    since: Instant,
    /// Time of the next attempt, and the last reason for failing.
    next: Instant,
    error: String,
}

/// Result of an attempt to reopen a lost device.
#[derive(Debug)]
pub enum Attempt {
    /// The workers get its queues.
    Resources(PortIndex),
    /// It exists, but cannot be used: the reason, if it has changed.
    Failed(PortIndex, String),
}

impl Removals {
    /// Last known facts of a port without its device.
    pub fn facts(&self, port: PortIndex) -> Option<&PortFact> {
        self.facts.get(&port)
    }

    /// Counts of all devices of the port: the current one and its predecessors.
    pub fn all_counts(&self, port: PortIndex, counts: DeviceCounts) -> DeviceCounts {
        let Some(earlier) = self.earlier.get(&port) else {
            return counts;
        };
        DeviceCounts {
            missed_packets: earlier.missed_packets + counts.missed_packets,
            rx_error_packets: earlier.rx_error_packets + counts.rx_error_packets,
            tx_error_packets: earlier.tx_error_packets + counts.tx_error_packets,
            no_buffer_packets: earlier.no_buffer_packets + counts.no_buffer_packets,
        }
    }

    /// Whether one of its generations is with the workers, which switch to one at a time.
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

    /// The first port whose device has been lost for a while and that was not noted yet.
    pub fn find_lost(
        &mut self,
        running: &RunningSwitch<'_, '_, '_>,
        now: Instant,
    ) -> Option<PortIndex> {
        for (place, port) in running.ports.iter().enumerate() {
            let index = PortIndex::new(place);
            if self.facts.contains_key(&index) {
                continue;
            }
            let may_return = !running.config.ports[place].device.is_pci();
            if may_return && port.as_ref().is_some_and(Port::is_lost) {
                let lost = self.lost.entry(index).or_insert_with(|| Lost {
                    since: now,
                    next: now,
                    error: String::new(),
                });
                if now.saturating_duration_since(lost.since) >= PATIENCE {
                    return Some(index);
                }
            } else {
                self.lost.remove(&index);
            }
        }
        None
    }

    /// Notes that the peer of a port has closed the connection. Returns how often in a row it did so before the link
    /// was up; the pause until the next attempt grows with it.
    pub fn note_refusal(&mut self, port: PortIndex, facts: PortFact) -> u32 {
        let flaps = facts.link_flaps;
        let times = match self.refused.get(&port) {
            Some((times, before)) if *before == flaps => times.saturating_add(1),
            _ => 0,
        };
        self.refused.insert(port, (times, flaps));
        if let Some(lost) = self.lost.get_mut(&port) {
            lost.next += PATIENCE * 2_u32.pow(times.min(DOUBLED_MAX));
        }
        self.note(port, facts);
        times
    }

    /// Notes that a port's device is gone.
    pub fn note(&mut self, port: PortIndex, facts: PortFact) {
        let facts = PortFact {
            is_up: false,
            is_removed: true,
            ..facts
        };
        self.facts.insert(port, facts);
        self.pending.push(port);
    }

    /// Whether the port's connection was closed before its link was up, more than once in a row.
    pub fn is_refused(&self, port: PortIndex) -> bool {
        self.refused.get(&port).is_some_and(|(times, _)| *times > 0)
    }

    /// Forgets a port that a change of the configuration has removed or recreated.
    pub fn forget(&mut self, port: PortIndex) {
        self.facts.remove(&port);
        self.lost.remove(&port);
        self.refused.remove(&port);
        self.earlier.remove(&port);
        self.pending.retain(|pending| *pending != port);
    }

    /// Takes queues back from the workers, without waiting; once all have returned theirs, closes the
    /// devices and returns their ports.
    pub fn collect(&mut self, running: &mut RunningSwitch<'_, '_, '_>) -> Vec<PortIndex> {
        if !self.is_under_way() || !running.workers.collect() {
            return Vec::new();
        }
        let ports = self.under_way.take().unwrap_or_default();
        for port in &ports {
            // The workers' handles were freed with the boxes: this is the last.
            running.ports[port.index()] = None;
        }
        ports
    }

    /// Asks the workers for the queues of noted ports. No generation of a reload may be in transit.
    pub fn ask(&mut self, running: &mut RunningSwitch<'_, '_, '_>) {
        if self.pending.is_empty() {
            return;
        }
        let ports = std::mem::take(&mut self.pending);
        let without = |_| Generation::giving_back(running.number, &running.config, &ports);
        let generations: Vec<_> = (0..running.workers.count()).map(without).collect();
        running.workers.send(generations);
        self.under_way = Some(ports);
    }

    /// Attaches a lost device that is back, and sends its queues to the workers. No generation of a reload may be in
    /// transit.
    pub fn reopen(
        &mut self,
        running: &mut RunningSwitch<'_, '_, '_>,
        now: Instant,
    ) -> Option<Attempt> {
        if self.is_under_way() || !self.pending.is_empty() {
            return None;
        }
        let is_due = |(port, lost): &(&PortIndex, &mut Lost)| {
            let place = port.index();
            let is_closed = running.ports.get(place).is_some_and(Option::is_none);
            is_closed && now >= lost.next && is_back(&running.config.ports[place].device)
        };
        let (&port, lost) = self.lost.iter_mut().find(is_due)?;
        lost.next = now + PATIENCE;
        let platform = running.platform;
        let resources = open(&platform, &running.config, port).and_then(|device| {
            let handles = platform.handles(&running.config, port.index(), &device, None)?;
            Ok((device, handles))
        });
        let (device, handles) = match resources {
            Ok(resources) => resources,
            Err(error) => {
                let error = format!("{error:#}");
                let is_new = lost.error != error;
                lost.error.clone_from(&error);
                return is_new.then_some(Attempt::Failed(port, error));
            }
        };
        let giving = |handles| Generation {
            come: vec![handles],
            ..Generation::unchanged(running.number)
        };
        let generations: Vec<_> = handles.into_iter().map(giving).collect();
        running.workers.send(generations);
        self.under_way = Some(Vec::new());
        running.ports[port.index()] = Some(device);
        self.lost.remove(&port);
        let counted = self.facts.remove(&port).and_then(|facts| facts.device);
        self.earlier.extend(counted.map(|counts| (port, counts)));
        Some(Attempt::Resources(port))
    }
}

/// Attaches and starts the device of a port as before.
fn open<'pool>(
    platform: &Dpdk<'_, '_, 'pool>,
    config: &Config,
    port: PortIndex,
) -> Result<Port<'pool>> {
    let mut settled = config.clone();
    let device = platform.start(&mut settled, port.index())?;
    ensure!(
        settled == *config,
        "it has another number of queues than before; restart the switch to use it"
    );
    Ok(device)
}
