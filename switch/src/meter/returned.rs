//! Packets that leave for other devices and come back.

use arrayvec::ArrayVec;
use contract::counters::{AroundCounters, WorkerCounters};
use contract::ids::PortIndex;
use measure::batch::{BURST_MAX, Batch, Member};
use measure::digest::Entered;
use measure::packet::{Hashing, RandomHashes};
use measure::time::Ticks;

use super::Meter;
use crate::departing::Departing;
use crate::packet_io::Tag;

impl Meter {
    /// Whether a port leads to a device that packets are measured around.
    #[inline]
    pub fn is_around(&self, port: PortIndex) -> bool {
        let plan = self.epochs.plan.as_ref();
        let arounds = plan.and_then(|plan| plan.arounds.as_ref());
        arounds.is_some_and(|arounds| arounds.is_at(port))
    }

    /// Notes packets that are about to leave by `port`, at `departing`'s times, before they leave, because they
    /// may immediately return at another worker. Returns false if a plan without devices has tagged them.
    pub fn enter(
        &mut self,
        port: PortIndex,
        tags: &[Tag],
        departing: &Departing,
        counters: &WorkerCounters,
    ) -> bool {
        if !tags.iter().all(|tag| self.epochs.knows_packets(tag.epoch)) {
            return false;
        }
        let Some((device, place)) = self.epochs.device(port) else {
            return false;
        };
        let table = &device.table;
        for tag in tags {
            table.prefetch(tag.packet);
        }
        for (tag, at) in tags.iter().zip(departing.times()) {
            let old = table.insert(tag.packet, entered(tag, at, place));
            if let Some(old) = old.and_then(|old| device.port(old.port)) {
                around(counters, old).displaced_packets.add(1);
            }
        }
        true
    }

    /// Completes [`enter`](Self::enter): the driver accepted only the first `taken` of these packets.
    pub fn entered(
        &mut self,
        port: PortIndex,
        (tags, taken): (&[Tag], usize),
        departing: &Departing,
        counters: &WorkerCounters,
    ) {
        around(counters, port).entered_packets.add(taken as u64);
        let Some((device, place)) = self.epochs.device(port) else {
            return;
        };
        let refused = tags.iter().zip(departing.times()).skip(taken);
        for (tag, at) in refused {
            device.table.withdraw(tag.packet, entered(tag, at, place));
        }
    }

    /// Records packets received on `port` at `now` in the segments of the device, if they had entered it;
    /// `frame` returns head and length of each of `packets`.
    pub fn returned<'h>(
        &mut self,
        (port, now): (PortIndex, Ticks),
        packets: usize,
        frame: impl Fn(usize) -> (&'h [u8], u32),
        returned: &mut Departing,
        counters: &WorkerCounters,
        spread: &mut RandomHashes,
    ) {
        let members = (0..packets).map(|n| {
            let (head, bytes) = frame(n);
            let parsed = self.hasher.parse(head, bytes);
            Member {
                flow: parsed.flow,
                packet: parsed.packet,
                bytes,
            }
        });
        let members: ArrayVec<Member, BURST_MAX> = members.take(BURST_MAX).collect();
        returned.begin(Hashing::Packet);
        let found = self.find(&members, (port, now), returned, around(counters, port));
        returned
            .members
            .fill::<true>(found.iter().map(|&n| members[n]));
        self.prepare(returned, |n| found.get(n).map_or(&[][..], |&n| frame(n).0));
        self.passed(returned, spread);
    }

    /// Makes batches of returning packets; returns which ones they are.
    fn find(
        &mut self,
        members: &[Member],
        (port, now): (PortIndex, Ticks),
        returned: &mut Departing,
        counters: &AroundCounters,
    ) -> ArrayVec<usize, BURST_MAX> {
        let mut found = ArrayVec::new();
        let epoch = self.epochs.current.tag;
        let Some((device, place)) = self.epochs.device(port) else {
            return found;
        };
        for member in members {
            device.table.prefetch(member.packet);
        }
        let (mut known, mut reflected, mut reordered) = (0, 0, 0);
        for (n, member) in members.iter().enumerate() {
            let Some(entered) = device.table.take(member.packet, now) else {
                continue;
            };
            known += 1;
            reordered += u64::from(device.is_reordered(&entered, place));
            if entered.port == place {
                reflected += 1;
                continue;
            }
            returned.push(Batch {
                packets: 1,
                bytes: member.bytes.into(),
                arrived: entered.at,
                delay: now.since(entered.at),
                segment: device.segment(&entered, place),
                // The epoch of its return, so that it is never late, however long it was inside.
                epoch,
            });
            found.push(n);
        }
        counters.returned_packets.add(known);
        counters.reflected_packets.add(reflected);
        counters.reordered_packets.add(reordered);
        counters.unknown_packets.add(members.len() as u64 - known);
        found
    }

    /// Counts packets that have not returned in time. Called once in each pass.
    #[inline]
    pub fn sweep(&mut self, now: Ticks, counters: &WorkerCounters) {
        let Some(plan) = self.epochs.plan.as_deref_mut() else {
            return;
        };
        let Some(arounds) = &mut plan.arounds else {
            return;
        };
        let current = &mut self.epochs.current;
        arounds.sweep(now, &mut |port, segment| {
            around(counters, port).lost_packets.add(1);
            if let (Some(segment), Some(shard)) = (segment, &mut current.shard) {
                // Nothing more is known than where it was.
                shard.lost_unseen(segment);
            }
        });
    }
}

fn around(counters: &WorkerCounters, port: PortIndex) -> &AroundCounters {
    &counters.ports[port.index()].around
}

fn entered(tag: &Tag, at: Ticks, port: u8) -> Entered {
    Entered {
        at,
        port,
        class: tag.class.0,
    }
}
