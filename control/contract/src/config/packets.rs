//! How many packet buffers a configuration may hold at once.

use crate::config::{Config, Device, Port, RING_PACKETS};

/// Descriptors of a queue of a device, where it has them.
pub const DESCRIPTORS: u16 = 1_024;

/// Buffers that a worker's cache keeps of the pool.
pub const POOL_CACHE: u32 = 512;

/// Drivers that copy each packet at once (their `tx_pkt_burst` frees it), and receive by allocating.
const COPYING: [&str; 3] = ["net_af_packet", "net_null", "net_pcap"];

/// Buffers that a worker holds besides: its cache before it is emptied (half as much again,
/// `rte_mempool.h`), and eight bursts of 64 on their way through it.
const WORKER_PACKETS: usize = POOL_CACHE as usize * 3 / 2 + 8 * 64;

/// Packet buffers by what may hold them. When all are held at once there must be some left, or no port receives any
/// more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// In descriptors of devices.
    pub descriptors: usize,
    /// In queues before ports.
    pub queues: usize,
    /// In rings from workers to the owners of ports.
    pub rings: usize,
    /// In workers and their caches.
    pub workers: usize,
}

impl Held {
    /// By a configuration whose workers are known.
    pub fn of(config: &Config) -> Self {
        let workers = config.workers.len();
        let mut held = Self {
            descriptors: 0,
            queues: 0,
            rings: 0,
            workers: workers * WORKER_PACKETS,
        };
        let ports = config.ports.iter().enumerate();
        for (index, port) in ports.filter(|(_, port)| port.is_present()) {
            let is_owned = config.owner(index).is_some();
            let senders = if is_owned { 1 } else { workers };
            held.queues += slots(port) * senders;
            held.rings += usize::from(is_owned) * RING_PACKETS * workers.saturating_sub(1);
            if has_descriptors(&port.device) {
                let queues = usize::from(config.rx_queues(index)) + senders;
                held.descriptors += queues * usize::from(DESCRIPTORS);
            }
        }
        held
    }

    /// All of them.
    pub fn total(&self) -> usize {
        self.descriptors + self.queues + self.rings + self.workers
    }
}

/// Whether the device keeps packet buffers: sources and sinks of ours do not, nor do drivers that copy.
fn has_descriptors(device: &Device) -> bool {
    match device {
        Device::Dpdk(device) => !COPYING.iter().any(|driver| device.starts_with(driver)),
        _ => false,
    }
}

/// Slots of the queues before a port, for one worker that sends by it.
pub(super) fn slots(port: &Port) -> usize {
    // References in the switch have an eighth of a queue to themselves.
    let slots = |packets: u32| packets as usize + (packets as usize / 8).max(1);
    match port.egress.queues.as_slice() {
        [] => slots(port.egress.queue_packets),
        queues => queues.iter().map(|queue| slots(queue.packets)).sum(),
    }
}

#[cfg(test)]
mod tests;
