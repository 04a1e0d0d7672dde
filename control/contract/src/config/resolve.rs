//! What a configuration leaves open, decided: queues, workers, owners.
//!
//! All of it follows from the configuration alone, so that daemon, check and tests agree. Where a
//! device has fewer receive queues than asked for, the daemon writes the number into
//! [`Port::rx_queues`](super::Port::rx_queues) and asks again.

use super::{CLASSES_MAX, Config, Device, Forwarding, Idle, Port, RliMethod, WORKERS_MAX, Worker};

impl Config {
    /// Names workers where none are: one for each port that receives (is not a sink), as far as
    /// there are `cpus` for them when one is left to the control core; one at least.
    ///
    /// [`Config::load`] and [`Config::parse`] do so by the CPUs that this process may use.
    pub fn settle_workers(&mut self, cpus: usize) {
        if self.workers.is_empty() {
            let receives = |port: &&Port| !matches!(port.device, Device::Sink | Device::Absent);
            let ports = self.ports.iter().filter(receives).count();
            let number = ports.min(cpus.saturating_sub(1)).clamp(1, WORKERS_MAX);
            let worker = Worker {
                core: None,
                idle: Idle::default(),
                queues: None,
            };
            self.workers = vec![worker; number];
        }
    }

    /// Receive queues of a port: those configured; else as many as there are workers, or as the
    /// workers' own lists of queues name; always one where we make its packets ourselves, or where
    /// the port has a segment on the wire; none where the port is absent.
    pub fn rx_queues(&self, port: usize) -> u16 {
        let Some(Port {
            name,
            device,
            rx_queues,
            wire,
            ..
        }) = self.ports.get(port)
        else {
            return 0;
        };
        match device {
            Device::Dpdk(_) => {}
            Device::Absent => return 0,
            _ => return 1,
        }
        if wire.is_some() {
            return 1;
        }
        let named = self.workers.iter().filter_map(|w| w.queues.as_ref());
        let named = named.flatten().filter(|(of, _)| of == name);
        let last = named.map(|(_, queue)| *queue).max();
        let workers = u16::try_from(self.workers.len()).unwrap_or(u16::MAX);
        rx_queues
            .or(last.map(|last| last.saturating_add(1)))
            .unwrap_or(workers)
            .max(1)
    }

    /// Which receive queues each worker serves, as (port, queue): those that it names; where
    /// no worker names any, queue n of every port goes to worker n modulo their number. Ports with
    /// fewer queues than there are workers are dealt out in turn; what was a port's turn stays its
    /// turn when it is absent, so that other ports stay where they are.
    pub fn assignment(&self) -> Vec<Vec<(usize, u16)>> {
        let mut served = vec![Vec::new(); self.workers.len()];
        if served.is_empty() {
            return served;
        }
        if self.workers.iter().any(|worker| worker.queues.is_some()) {
            for (worker, served) in self.workers.iter().zip(&mut served) {
                let named = worker.queues.iter().flatten();
                served.extend(
                    named.filter_map(|(name, queue)| Some((self.port_index(name)?, *queue))),
                );
            }
            return served;
        }
        let workers = served.len();
        let mut turn = 0;
        for (index, port) in self.ports.iter().enumerate() {
            let present = self.rx_queues(index);
            let queues = match port.device {
                Device::Absent => usize::from(port.rx_queues.unwrap_or(1)),
                _ => usize::from(present),
            };
            let is_dealt = queues < workers;
            let first = if is_dealt { turn } else { 0 };
            for queue in 0..present {
                served[(first + usize::from(queue)) % workers].push((index, queue));
            }
            turn += queues * usize::from(is_dealt);
        }
        served
    }

    /// The worker that transmits for all on this port; `None` where each worker transmits by
    /// itself (a *plain* port).
    ///
    /// A port is owned where there is more than one worker and order matters: with a capacity,
    /// class queues, a maximum residency, a segment on the wire, RLI-AS by name, which must see the
    /// whole port, or an owner by name. Unless named it is the worker that serves its first receive queue.
    pub fn owner(&self, port: usize) -> Option<usize> {
        if self.workers.len() < 2 {
            return None;
        }
        let port_config = self.ports.get(port).filter(|port| port.is_present())?;
        let egress = &port_config.egress;
        let needs_order = egress.capacity_bps.is_some()
            || !egress.queues.is_empty()
            || egress.max_residency_us.is_some()
            || port_config.wire.is_some()
            || self.has_anchored_sums(port);
        let first = || {
            let assignment = self.assignment();
            let serves = |queues: &Vec<(usize, u16)>| queues.contains(&(port, 0));
            assignment.iter().position(serves).unwrap_or(0)
        };
        egress.owner.or_else(|| needs_order.then(first))
    }

    /// Whether RLI-AS was asked for, for packets that leave by this port.
    fn has_anchored_sums(&self, port: usize) -> bool {
        let rli = self.measurement.rli.as_ref();
        rli.is_some_and(|rli| rli.method == RliMethod::AnchoredSums)
            && self
                .segments()
                .iter()
                .any(|s| s.egress == port && s.is_inside())
    }

    /// The port that loses its link with this one, where a patch panel forwards link losses.
    pub fn partner(&self, port: usize) -> Option<usize> {
        let Forwarding::Patch {
            pairs,
            link_loss_forwarding: true,
        } = &self.forwarding
        else {
            return None;
        };
        let name = &self.ports.get(port)?.name;
        let other = pairs.iter().find_map(|(a, b)| match name {
            _ if a == name => Some(b),
            _ if b == name => Some(a),
            _ => None,
        });
        self.port_index(other?)
    }

    /// The queue (index into [`Egress::queues`](super::Egress::queues)) of each class at a port;
    /// 0 for all where it has no class queues.
    pub fn queue_of_class(&self, port: usize) -> [u8; CLASSES_MAX] {
        let queues = self
            .ports
            .get(port)
            .map(|port| port.egress.queues.as_slice());
        let queues = queues.unwrap_or_default();
        let mut queue_of_class = [0; CLASSES_MAX];
        for (class, queue_of_class) in self.classes.iter().zip(&mut queue_of_class) {
            let holds = |queue: &super::Queue| queue.classes.contains(&class.name);
            let queue = queues.iter().position(holds).unwrap_or(0);
            *queue_of_class = u8::try_from(queue).unwrap_or(0);
        }
        queue_of_class
    }
}

#[cfg(test)]
mod tests;
