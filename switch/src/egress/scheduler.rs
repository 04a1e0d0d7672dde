//! Which queue is served next: strict priority, then deficit round robin (Shreedhar and Varghese,
//! "Efficient Fair Queueing Using Deficit Round Robin", SIGCOMM 1995), on bytes on the wire.

use contract::config::QueueService;

use super::layout::QUEUES_MAX;

/// Bytes that a weight of 1 earns in a round: the longest frame of IEEE 802.3 with one tag.
pub const QUANTUM_BYTES: u32 = 1_522;

/// Chooses among queues, a bit each.
///
/// A choice takes at most `QUEUES_MAX` steps for each quantum that the longest frame is long: 48
/// for one of 9,046 bytes and a weight of 1.
#[derive(Debug, Clone)]
pub struct Scheduler {
    strict: u8,
    quanta: [u32; QUEUES_MAX],
    deficits: [u32; QUEUES_MAX],
    /// The weighted queue that is served.
    current: usize,
}

impl Scheduler {
    /// A scheduler of queues that are served as `services` says, in their order; of more than
    /// [`QUEUES_MAX`], the rest is never served.
    pub fn new(services: impl IntoIterator<Item = QueueService>) -> Self {
        let mut scheduler = Self {
            strict: 0,
            quanta: [QUANTUM_BYTES; QUEUES_MAX],
            deficits: [0; QUEUES_MAX],
            current: 0,
        };
        for (queue, service) in services.into_iter().enumerate().take(QUEUES_MAX) {
            // The last was served: the first is next.
            scheduler.current = queue;
            match service {
                QueueService::Strict => scheduler.strict |= 1 << queue,
                QueueService::Weight(weight) => {
                    scheduler.quanta[queue] = QUANTUM_BYTES * u32::from(weight.max(1));
                }
            }
        }
        scheduler
    }

    /// The queue to serve next among those `waiting` (a bit each), whose next packets take
    /// `front_wire_bytes`. None: nothing waits.
    #[inline]
    pub fn choose(
        &mut self,
        waiting: u8,
        front_wire_bytes: impl Fn(usize) -> u32,
    ) -> Option<usize> {
        let strict = waiting & self.strict;
        if strict != 0 {
            return Some(strict.trailing_zeros() as usize);
        }
        if waiting == 0 {
            return None;
        }
        loop {
            let current = self.current;
            if waiting & (1 << current) != 0 && front_wire_bytes(current) <= self.deficits[current]
            {
                return Some(current);
            }
            // What is left of a deficit is kept for the next round.
            self.current = next_after(current, waiting);
            let deficit = &mut self.deficits[self.current];
            *deficit = deficit.saturating_add(self.quanta[self.current]);
        }
    }

    /// A packet of `wire_bytes` leaves the `queue` that was chosen.
    #[inline]
    pub fn charge(&mut self, queue: usize, wire_bytes: u32) {
        self.deficits[queue] = self.deficits[queue].saturating_sub(wire_bytes);
    }

    /// Nothing waits in `queue` any more: it saves nothing up.
    #[inline]
    pub fn emptied(&mut self, queue: usize) {
        self.deficits[queue] = 0;
    }
}

/// The next of the queues `waiting` (one or more) after `current`, round and round.
#[inline]
fn next_after(current: usize, waiting: u8) -> usize {
    let later = u32::from(waiting) & !((2 << current) - 1);
    let next = if later == 0 {
        waiting.trailing_zeros()
    } else {
        later.trailing_zeros()
    };
    next as usize % QUEUES_MAX
}

#[cfg(test)]
mod tests;
