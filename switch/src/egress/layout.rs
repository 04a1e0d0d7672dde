//! What the egress side of a port is made of: queues, who goes where, at which rate.

use std::time::Duration;

use contract::config::{self, CLASSES_MAX, Class, QueueService};

use super::FRAME_OVERHEAD_BYTES;
use crate::packet_io::{ClassIndex, Tag};

/// Most queues of a port.
pub const QUEUES_MAX: usize = CLASSES_MAX;

/// What a frame takes on the wire besides its bytes: preamble and start delimiter 8, frame check
/// sequence 4, gap 12 (IEEE 802.3 clauses 3.1.1 and 4.4.2).
pub const WIRE_OVERHEAD_BYTES: u32 = 24;

/// Memory of an element of a queue's ring: a packet's pointer and its tag.
const ITEM_BYTES: usize = size_of::<usize>() + size_of::<Tag>();

/// What scheduler and shaper count for a frame of `len_bytes`.
#[inline]
pub const fn wire_bytes(len_bytes: u32) -> u32 {
    len_bytes.saturating_add(WIRE_OVERHEAD_BYTES)
}

/// The egress side of a port, as [`PortEgress`](super::port::PortEgress) is built from it: valid by
/// construction.
#[derive(Debug, Clone, PartialEq)]
pub struct EgressLayout {
    /// Its queues, 1 to [`QUEUES_MAX`], in the order of the configuration.
    pub(super) queues: Vec<QueueLayout>,
    /// The queue of each class; of all classes that have none of their own, the first.
    pub(super) queue_of_class: [u8; CLASSES_MAX],
    /// Bit rate, on the wire; none: as fast as the driver takes packets.
    pub(super) capacity_bps: Option<u64>,
    /// Bytes on the wire that may leave at once after an idle time.
    pub(super) burst_bytes: u32,
    /// Longest stay; none: no limit.
    pub(super) max_residency: Option<Duration>,
    /// Most items that the queue of each class had room for, in this layout and those before it.
    items_of_class: [usize; CLASSES_MAX],
}

/// One queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueLayout {
    /// How the scheduler serves it.
    pub(super) service: QueueService,
    /// Most packets that wait.
    pub(super) packets_max: u32,
    /// Most bytes of frames that wait.
    pub(super) bytes_max: u64,
    /// Random early detection; none: tail drop alone.
    pub(super) red: Option<config::Red>,
    /// Items that memory is allocated for: for packets, for references, and for what an earlier generation
    /// may leave behind ([`EgressLayout::to_succeed`]).
    pub(super) items_max: usize,
}

impl EgressLayout {
    /// The layout that a port with an MTU of `mtu` bytes has by its configuration.
    pub fn from_config(egress: &config::Egress, mtu: u16, classes: &[Class]) -> Self {
        let frame_bytes = u64::from(mtu) + u64::from(FRAME_OVERHEAD_BYTES);
        let queue = |service, packets: u32, bytes: Option<u32>, red| QueueLayout {
            service,
            packets_max: packets,
            bytes_max: bytes.map_or(u64::from(packets) * frame_bytes, u64::from),
            red,
            items_max: packets as usize + references_max(packets),
        };
        let mut queues: Vec<QueueLayout> = egress
            .queues
            .iter()
            .take(QUEUES_MAX)
            .map(|q| queue(q.service, q.packets, q.bytes, q.red))
            .collect();
        if queues.is_empty() {
            let (packets, bytes) = (egress.queue_packets, egress.queue_bytes);
            queues.push(queue(QueueService::Strict, packets, bytes, None));
        }
        let mut queue_of_class = [0; CLASSES_MAX];
        for (of_class, class) in queue_of_class.iter_mut().zip(classes) {
            let holds = |q: &config::Queue| q.classes.contains(&class.name);
            let queue = egress.queues.iter().take(QUEUES_MAX).position(holds);
            *of_class = queue.and_then(|q| u8::try_from(q).ok()).unwrap_or(0);
        }
        let items_of_class = queue_of_class.map(|q| {
            queues
                .get(usize::from(q))
                .map_or(0, |queue| queue.items_max)
        });
        Self {
            queues,
            queue_of_class,
            capacity_bps: egress.capacity_bps,
            burst_bytes: egress.burst_bytes,
            max_residency: egress
                .max_residency_us
                .map(|us| Duration::from_micros(us.into())),
            items_of_class,
        }
    }

    /// The same with room enough to take over all that may wait in `old`, so that a worker that
    /// changes over allocates nothing.
    #[must_use]
    pub fn to_succeed(mut self, old: &Self) -> Self {
        for (class, items) in self.items_of_class.iter_mut().enumerate() {
            *items = (*items).max(old.items_of_class[class]);
        }
        for index in 0..self.queues.len() {
            let classes = self.classes_of(index);
            // Old queues that leave something to this one, and whether it is their only heir.
            let (mut left, mut is_same) = (0, false);
            for (of, queue) in old.queues.iter().enumerate() {
                if old.classes_of(of) & classes != 0 {
                    left += queue.items_max;
                    is_same |= old.classes_of(of) == classes;
                }
            }
            if !is_same {
                // A class has never had more than its largest queue so far.
                let of_classes = (0..CLASSES_MAX).filter(|class| classes & (1 << class) != 0);
                left = left.min(of_classes.map(|class| self.items_of_class[class]).sum());
            }
            let items = &mut self.queues[index].items_max;
            *items = (*items).max(left);
        }
        self
    }

    /// The classes of a queue, a bit each.
    pub fn classes_of(&self, queue: usize) -> u8 {
        classes_of(self.queue_of_class, queue)
    }

    /// The queue of a class.
    pub fn queue_of(&self, class: ClassIndex) -> usize {
        usize::from(self.queue_of_class[usize::from(class.0) % CLASSES_MAX])
    }

    /// Memory of the queues.
    pub fn size_bytes(&self) -> usize {
        self.queues.iter().map(|q| q.items_max * ITEM_BYTES).sum()
    }
}

/// The classes of `queue`, a bit each.
pub(super) fn classes_of(queue_of_class: [u8; CLASSES_MAX], queue: usize) -> u8 {
    (0..CLASSES_MAX)
        .filter(|&class| usize::from(queue_of_class[class]) == queue)
        .fold(0, |bits, class| bits | 1 << class)
}

/// Most references that wait in a queue of `packets_max`.
pub(super) const fn references_max(packets_max: u32) -> usize {
    let eighth = packets_max as usize / 8;
    if eighth == 0 { 1 } else { eighth }
}
