//! The way out: schedule, transmit, and record what the driver took.

use contract::counters::{DropReason, WorkerCounters};
use contract::ids::PortIndex;
use measure::packet::Hashing;

use super::Worker;
use super::counting::{count_departures, count_drop};
use crate::egress::lane::Exit;
use crate::packet_io::{BURST, Burst, PacketIo, Tag};

/// Bursts that one port sends in a pass beyond one for each queue that is read and each ring, at
/// most: what bounds a pass, while a queue that has grown can still shrink.
const SPARE_BURSTS: usize = 2;

/// What became of a burst on its way out.
#[derive(Debug, Clone, Copy, Default)]
struct Departed {
    packets: usize,
    /// Nothing of it waits for a reference that goes before it.
    is_whole: bool,
    /// The driver took only some.
    is_refused: bool,
}

impl<I: PacketIo> Worker<I> {
    /// Sends by every port; returns how many packets left.
    pub(super) fn send_all(&mut self) -> usize {
        let sent = self.ports().map(|port| self.send(port)).sum();
        self.pace.moved(sent);
        sent
    }

    /// Sends what one queue has just brought for a port.
    pub(super) fn send_burst(&mut self, to: PortIndex) -> usize {
        if !self.may_send(to) {
            return 0;
        }
        self.flush_relay(to);
        let sent = self.depart_all(to, 1);
        self.pace.moved(sent);
        sent
    }

    /// Sends what waits at a port.
    pub(super) fn send(&mut self, to: PortIndex) -> usize {
        if !self.may_send(to) {
            return 0;
        }
        self.flush_relay(to);
        self.drain_rings(to);
        let rings = self.lanes[to.index()].entrances.len();
        self.depart_all(to, rings + SPARE_BURSTS)
    }

    /// Whether anything waits at a port that has its link; without one it is dropped.
    fn may_send(&mut self, to: PortIndex) -> bool {
        if self.lanes[to.index()].is_empty() {
            return false;
        }
        let is_up = self.decide.is_up(to);
        if !is_up {
            self.drain(to, DropReason::LinkDown);
        }
        is_up && !self.is_looped(to)
    }

    /// Schedule, transmit, record what the driver took: so many bursts at most. What it refused
    /// stays at the head, in order, and is offered again.
    fn depart_all(&mut self, to: PortIndex, bursts_max: usize) -> usize {
        let (mut sent, mut bursts) = (0, 0);
        // A burst that is cut for a reference counts by its packets.
        while bursts < bursts_max && sent < bursts_max * BURST {
            let departed = self.depart(to);
            sent += departed.packets;
            if departed.packets == 0 || departed.is_refused {
                break;
            }
            bursts += usize::from(departed.is_whole);
        }
        let waiting = self.lanes[to.index()].waiting();
        self.port(to).queued_packets.set(waiting as u64);
        sent
    }

    /// One burst on its way out.
    fn depart(&mut self, to: PortIndex) -> Departed {
        let now = self.io.now();
        // What others tagged and passed on may be of an epoch that begins here only now.
        self.roll_over(now);
        if !self.open_wire(to, now) {
            return Departed::default();
        }
        let Exit::Queues(egress) = &mut self.lanes[to.index()].exit else {
            return Departed::default();
        };
        let Self {
            io,
            meter,
            counters,
            departing,
            spread,
            wires,
            ..
        } = self;
        let all_counters: &WorkerCounters = counters;
        let counters = &all_counters.ports[to.index()];
        egress.advance(now, &mut |_, tag: Tag| {
            count_drop(counters, DropReason::Expired, tag.class);
            meter.lost(&tag);
        });
        if egress.head.is_empty() {
            departing.begin(Hashing::None);
            meter
                .epochs
                .estimate(to, departing, &egress.references, now);
            egress.taken(0);
            return Departed::default();
        }
        meter.departures(&egress.tags, now, || io.now(), departing);
        let head = &egress.head;
        meter.prepare(departing, |n| {
            head.get(n).map_or(&[][..], |packet| io.head(packet))
        });
        let mut wire = wires.at(to);
        let behind = match &mut wire {
            Some(wire) => wire.behind_reference(&mut egress.head, now),
            None => Burst::new_const(),
        };
        let going = &egress.tags[..egress.head.len()];
        let is_noted = meter.is_around(to) && meter.enter(to, going, departing, all_counters);
        let left = io.transmit(to, &mut egress.head);
        if is_noted {
            meter.entered(to, (going, left), departing, all_counters);
        }
        let departed = Departed {
            packets: left,
            is_whole: behind.is_empty(),
            is_refused: !egress.head.is_empty(),
        };
        egress.head.extend(behind);
        departing.truncate(left);
        meter.passed(departing, spread);
        meter
            .epochs
            .estimate(to, departing, &egress.references, now);
        let tags = &egress.tags[..left];
        count_departures(counters, tags);
        if let Some(wire) = wire {
            wire.sent(tags, departing.times(), now);
            wire.send_due(io, now);
        }
        egress.taken(left);
        departed
    }
}
