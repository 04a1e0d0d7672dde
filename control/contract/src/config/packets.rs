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
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(owner: Option<usize>, mbufs: u32) -> Result<Config, String> {
        let text = json!({
            "ports": [
                { "name": "a", "device": "0000:01:00.0", "rx_queues": 2 },
                { "name": "b", "device": "net_ring1", "rx_queues": 1,
                  "egress": { "owner": owner, "queue_packets": 800 } },
                { "name": "c", "device": "net_null0", "rx_queues": 1 },
            ],
            "forwarding": { "mode": "bridge" },
            "workers": [{}, {}],
            "dpdk": { "mbufs": mbufs },
        });
        Config::parse(&text.to_string(), "").map_err(|error| error.to_string())
    }

    #[test]
    fn every_holder_counts() {
        let config = parse(None, 65_535).unwrap();
        let held = Held::of(&config);
        assert_eq!(held.descriptors, (2 + 2 + 1 + 2) * 1_024);
        assert_eq!(held.queues, 2 * (1_152 + 900 + 1_152));
        assert_eq!((held.rings, held.workers), (0, 2 * (768 + 512)));
        let owned = Held::of(&parse(Some(0), 65_535).unwrap());
        assert_eq!(owned.descriptors, (2 + 2 + 1 + 1) * 1_024);
        assert_eq!(owned.queues, 2 * 1_152 + 900 + 2 * 1_152);
        assert_eq!(owned.rings, 1_024);
    }

    #[test]
    fn what_the_pool_does_not_have_is_refused() {
        let needed = Held::of(&parse(None, 65_535).unwrap()).total();
        let needed = u32::try_from(needed).unwrap();
        assert!(parse(None, needed).is_ok());
        let error = parse(None, needed - 1).unwrap_err();
        let expected = format!("dpdk.mbufs: expected {needed} at least (7168 in descriptors of ");
        assert!(error.contains(&expected), "{error}");
        assert!(error.ends_with(&format!("got {}", needed - 1)), "{error}");
    }
}
