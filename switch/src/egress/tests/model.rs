//! The egress side of a port as one would write it down on paper: slow, and plain to see.

use std::collections::VecDeque;

use contract::config::QueueService;
use contract::counters::DropReason;

use super::super::REFERENCES_MAX;
use crate::egress::EgressLayout;
use crate::packet_io::BURST;

/// An entry of a queue: a packet, or a reference (which has no bytes), by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub number: u32,
    pub class: u8,
    pub len_bytes: u32,
    pub arrived: u64,
}

/// Packets and references passed to the driver, in order.
#[derive(Debug)]
pub struct Model {
    pub layout: EgressLayout,
    pub head: VecDeque<Entry>,
    pub queues: Vec<VecDeque<Entry>>,
    pub expired: Vec<u32>,
    deficits: Vec<u32>,
    turn: usize,
    ticks_per_byte: u64,
    link_free_at: u64,
}

fn wire(entry: &Entry) -> u32 {
    match entry.len_bytes {
        0 => 0,
        len => len + 24,
    }
}

impl Model {
    /// A byte takes `ticks_per_byte` at the layout's capacity; a tick is 1 ns.
    pub fn new(layout: EgressLayout, ticks_per_byte: u64) -> Self {
        let queues = layout.queues.len();
        Self {
            layout,
            head: VecDeque::new(),
            queues: vec![VecDeque::new(); queues],
            expired: Vec::new(),
            deficits: vec![0; queues],
            turn: queues - 1,
            ticks_per_byte,
            link_free_at: 0,
        }
    }

    pub fn packets_of_head(&self) -> usize {
        self.head.iter().filter(|entry| entry.len_bytes > 0).count()
    }

    fn nothing_is_queued(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    pub fn offer(&mut self, entry: Entry, now: u64) -> Option<DropReason> {
        let is_reference = entry.len_bytes == 0;
        let is_free = self.layout.capacity_bps.is_none() && self.nothing_is_queued();
        let references = self.head.len() - self.packets_of_head();
        let has_room = if is_reference {
            references < REFERENCES_MAX
        } else {
            self.packets_of_head() < BURST
        };
        if is_free && has_room {
            self.head.push_back(entry);
            return None;
        }
        let index = usize::from(self.layout.queue_of_class[usize::from(entry.class)]);
        let limits = &self.layout.queues[index];
        let packets = self.queues[index].iter().filter(|e| e.len_bytes > 0);
        let bytes: u64 = packets.clone().map(|e| u64::from(e.len_bytes)).sum();
        let packets = packets.count();
        let is_full = if is_reference {
            self.queues[index].len() - packets >= (limits.packets_max as usize / 8).max(1)
        } else {
            packets + 1 > limits.packets_max as usize
                || bytes + u64::from(entry.len_bytes) > limits.bytes_max
        };
        if is_full {
            return Some(DropReason::QueueFull);
        }
        if self.nothing_is_queued() {
            let burst = u64::from(self.layout.burst_bytes) * self.ticks_per_byte;
            self.link_free_at = self.link_free_at.max(now.saturating_sub(burst));
        }
        self.queues[index].push_back(entry);
        None
    }

    pub fn advance(&mut self, now: u64) {
        if self.nothing_is_queued() {
            return;
        }
        let burst = u64::from(self.layout.burst_bytes) * self.ticks_per_byte;
        let earliest = now.saturating_sub(burst + 1_000_000);
        self.link_free_at = self.link_free_at.max(earliest);
        let mut expired = 0;
        while self.packets_of_head() < BURST
            && self.head.len() - self.packets_of_head() < REFERENCES_MAX
            && expired < BURST
            && !(self.layout.capacity_bps.is_some() && self.link_free_at > now)
            && let Some(index) = self.choose()
        {
            let entry = self.queues[index].pop_front().unwrap();
            let longest = self
                .layout
                .max_residency
                .map_or(u128::MAX, |max| max.as_nanos());
            if u128::from(now - entry.arrived) > longest {
                expired += 1;
                if entry.len_bytes > 0 {
                    self.expired.push(entry.number);
                }
            } else {
                if matches!(self.layout.queues[index].service, QueueService::Weight(_)) {
                    self.deficits[index] -= wire(&entry);
                }
                self.link_free_at += u64::from(wire(&entry)) * self.ticks_per_byte;
                self.head.push_back(entry);
            }
            if self.queues[index].is_empty() {
                self.deficits[index] = 0;
            }
        }
    }

    fn choose(&mut self) -> Option<usize> {
        let services = self.layout.queues.iter().map(|queue| queue.service);
        let services: Vec<QueueService> = services.collect();
        let mut weighted = 0;
        for (index, service) in services.iter().enumerate() {
            match (service, self.queues[index].is_empty()) {
                (_, true) => {}
                (QueueService::Strict, false) => return Some(index),
                (QueueService::Weight(_), false) => weighted += 1,
            }
        }
        if weighted == 0 {
            return None;
        }
        loop {
            let front = self.queues[self.turn].front();
            if let (QueueService::Weight(_), Some(front)) = (services[self.turn], front)
                && wire(front) <= self.deficits[self.turn]
            {
                return Some(self.turn);
            }
            self.turn = (self.turn + 1) % services.len();
            if let QueueService::Weight(weight) = services[self.turn]
                && !self.queues[self.turn].is_empty()
            {
                self.deficits[self.turn] += 1_522 * u32::from(weight);
            }
        }
    }

    /// The driver takes `packets` from the head.
    pub fn take(&mut self, packets: usize) -> Vec<u32> {
        let mut left = packets;
        let mut taken = Vec::new();
        while let Some(entry) = self.head.front() {
            if entry.len_bytes > 0 {
                if left == 0 {
                    break;
                }
                left -= 1;
            }
            taken.extend(self.head.pop_front().map(|entry| entry.number));
        }
        taken
    }
}
