//! The engine: one core, one loop, in the order in which a packet lives.
//!
//! [`Worker::pass`] is the whole of it: tick; receive, decide, tag, queue; then schedule, transmit,
//! and record what the driver took. A burst of one class that leaves whole by one idle port goes from decide to
//! transmit without tags (`straight`). After start there is no allocation, no lock, no system call and
//! no `Result` per packet: a frame that cannot be handled is a counted drop with a named reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use contract::counters::{DropReason, PortCounters, WorkerCounters};
use contract::ids::PortIndex;
use measure::packet::RandomHashes;
use measure::time::Ticks;

use crate::decide::{Decide, Decisions, PortSet, Verdict};
use crate::departing::Departing;
use crate::egress::Lane;
use crate::egress::lane::Exit;
use crate::generation::{Generation, WorkerGenerations};
use crate::idle::IdlePolicy;
use crate::meter::{Meter, NO_SEGMENTS};
use crate::packet_io::{Burst, PacketIo, Tag, Tags};
use crate::wire::Wires;

mod around;
mod change;
mod counting;
mod departure;
mod pace;
mod relay;
mod slow_path;
mod straight;
mod tagger;
mod wires;

use counting::count_drop;
use pace::Pace;
use tagger::Tagger;

/// What the packets of a received burst have in common.
#[derive(Debug, Clone, Copy)]
struct Received {
    from: PortIndex,
    now: Ticks,
    /// Of all frames.
    bytes: u64,
    /// Of the longest frame.
    longest: u32,
}

/// A worker and all that it owns.
#[derive(Debug)]
pub struct Worker<I: PacketIo> {
    io: I,
    lanes: Vec<Lane<I::Packet>>,
    decide: Box<Decide>,
    meter: Meter,
    counters: Arc<WorkerCounters>,
    generations: WorkerGenerations<I>,
    /// Workers that still receive, and may pass packets on.
    receiving: Arc<AtomicUsize>,
    /// A generation that was taken up while an old part is still in use.
    retiring: Option<Box<Generation<I>>>,
    departing: Box<Departing>,
    /// Packets that come back from devices of others.
    returned: Box<Departing>,
    /// Spreads packets that have no hash of their own over the rows of an LDA.
    spread: RandomHashes,
    /// Ports for which the present burst brought something.
    touched: PortSet,
    pace: Pace,
    wires: Wires<I::Packet>,
}

impl<I: PacketIo> Worker<I> {
    /// A worker over the ports of `io`, one lane each. `receiving` counts the workers of the switch
    /// that still receive, this one included. Gauges are renewed every `gauge_ticks`.
    #[expect(
        clippy::too_many_arguments,
        reason = "it owns all of them, and is made in one place"
    )]
    pub fn new(
        io: I,
        lanes: Vec<Lane<I::Packet>>,
        decide: Box<Decide>,
        meter: Meter,
        counters: Arc<WorkerCounters>,
        generations: WorkerGenerations<I>,
        receiving: Arc<AtomicUsize>,
        gauge_ticks: u64,
    ) -> Self {
        let pace = Pace::new(io.now(), io.inlets().len(), gauge_ticks);
        Self {
            io,
            lanes,
            decide,
            meter,
            counters,
            generations,
            receiving,
            retiring: None,
            departing: Box::default(),
            returned: Box::default(),
            spread: RandomHashes::default(),
            touched: PortSet::EMPTY,
            pace,
            wires: Wires::default(),
        }
    }

    /// With these wires: those of ports that this worker owns.
    #[must_use]
    pub fn with_wires(mut self, wires: Wires<I::Packet>) -> Self {
        self.wires = wires;
        self
    }

    /// Works until `stop` is set, then sends what still waits for at most `drain_ticks`, drops the
    /// rest counted, and seals.
    pub fn run(mut self, stop: &AtomicBool, mut idle: IdlePolicy, drain_ticks: u64) -> I {
        while !stop.load(Ordering::Relaxed) {
            if self.pass() > 0 || self.is_waiting() {
                idle.worked();
            } else {
                idle.rest();
            }
        }
        self.finish(drain_ticks)
    }

    /// Serves every queue and every port once; returns how many packets moved.
    ///
    /// What one queue brings is sent before the next is read, while the cache still has it.
    pub fn pass(&mut self) -> usize {
        self.tick(self.io.now());
        let (mut moved, mut inlet) = (0, 0);
        // Asked each time: what is sent may take up a generation with fewer queues.
        while inlet < self.io.inlets().len() {
            moved += self.receive(inlet);
            inlet += 1;
            for to in std::mem::take(&mut self.touched).ports() {
                moved += self.send_burst(to);
            }
        }
        moved + self.send_all()
    }

    /// Receive, decide, tag, queue.
    fn receive(&mut self, inlet: usize) -> usize {
        let mut arrivals = Burst::new_const();
        self.io.receive(inlet, &mut arrivals);
        let now = self.io.now();
        self.pace.polled(inlet, now);
        let packets = arrivals.len();
        if packets == 0 {
            return 0;
        }
        self.pace.moved(packets);
        self.counters.burst(packets);
        self.counters.busy_packets.add(packets as u64);
        let from = self.io.inlets()[inlet];
        let (mut bytes, mut longest) = (0, 0);
        for packet in &arrivals {
            let len_bytes = self.io.len_bytes(packet);
            bytes += u64::from(len_bytes);
            longest = longest.max(len_bytes);
        }
        let counters = self.port(from);
        counters.rx_packets.add(packets as u64);
        counters.rx_bytes.add(bytes);
        let received = Received {
            from,
            now,
            bytes,
            longest,
        };
        if self.wires.is_at(from) {
            self.receive_wire(arrivals, received);
        } else {
            self.dispatch(&mut arrivals, received);
        }
        packets
    }

    /// Decides about a burst, and sends each packet on to where it goes. Most bursts leave whole by
    /// one port.
    fn dispatch(&mut self, arrivals: &mut Burst<I::Packet>, received: Received) {
        let Received { from, now, .. } = received;
        if self.meter.is_around(from) {
            self.receive_around(arrivals, from, now);
        }
        let mut decisions = Decisions::new_const();
        let heads = arrivals.iter().map(|packet| self.io.head(packet));
        let all_to = self.decide.decide_burst(from, heads, now, &mut decisions);
        if !decisions.is_empty() && self.decide.take_lldp() {
            self.listen(arrivals, from);
        }
        if self.wires.is_at(from) {
            self.decide.complete(&mut decisions, all_to, arrivals.len());
            self.count_arrivals(arrivals, &decisions, from, now);
        }
        if let Some(to) = all_to
            && (self.decide.has_one_class() && self.send_at_once(arrivals, to, received)
                || self.queue_all(arrivals, &decisions, to, received))
        {
            return;
        }
        self.decide.complete(&mut decisions, all_to, arrivals.len());
        let mut tags = Tags::new_const();
        let tagger = Tagger {
            io: &self.io,
            tagging: self.meter.tagging(),
            counters: &self.counters.ports[from.index()],
            segments: NO_SEGMENTS,
            class: self.decide.default_class(),
            spread: &mut self.spread,
            now,
        };
        tagger.tag(arrivals, &decisions, &mut tags);
        let decided = arrivals.drain(..).zip(tags).zip(decisions);
        for ((packet, tag), decision) in decided {
            match decision.verdict() {
                Verdict::Forward(to) => self.queue(packet, tag, from, to, now),
                Verdict::Flood(to) => self.flood(packet, tag, from, to, now),
                Verdict::Drop(reason) => self.port(from).dropped(reason, 1),
            }
        }
    }

    /// Queues a whole burst at a port where nothing is ahead of it and nothing paces it. False, and
    /// nothing done, in any other case.
    fn queue_all(
        &mut self,
        arrivals: &mut Burst<I::Packet>,
        decisions: &Decisions,
        to: PortIndex,
        received: Received,
    ) -> bool {
        let Received {
            from, now, longest, ..
        } = received;
        let Some(lane) = self.lanes.get_mut(to.index()) else {
            return false;
        };
        let Exit::Queues(egress) = &mut lane.exit else {
            return false;
        };
        if longest > lane.frame_bytes_max {
            return false;
        }
        let tagger = Tagger {
            io: &self.io,
            tagging: self.meter.tagging(),
            counters: &self.counters.ports[from.index()],
            segments: self.meter.tagging().segments(from, to),
            class: self.decide.default_class(),
            spread: &mut self.spread,
            now,
        };
        let ahead = egress.tags.len();
        if !egress.offer_all(arrivals, |arrivals, tags| {
            tagger.tag(arrivals, decisions, tags);
        }) {
            return false;
        }
        self.meter.joined(egress, ahead);
        self.touched.insert(to);
        true
    }

    /// Queues a packet at the port by which it leaves.
    fn queue(&mut self, packet: I::Packet, tag: Tag, from: PortIndex, to: PortIndex, now: Ticks) {
        let Some((packet, mut tag)) = self.retag(packet, tag, from, to) else {
            return;
        };
        tag.segment = self.meter.tagging().segments(from, to)[usize::from(tag.class.0 & 7)];
        let Some(lane) = self.lanes.get_mut(to.index()) else {
            return self.port(from).dropped(DropReason::NoDestination, 1);
        };
        if tag.len_bytes > lane.frame_bytes_max {
            return self.port(from).dropped(DropReason::Oversize, 1);
        }
        self.touched.insert(to);
        match &mut lane.exit {
            Exit::Queues(egress) => {
                if let Err(refused) = self.meter.offer(egress, packet, tag, now) {
                    self.drop_at_egress(refused.reason, &refused.tag, to);
                }
            }
            Exit::Owner(relay) => {
                relay.packets.push(packet);
                relay.tags.push(tag);
                if relay.packets.is_full() {
                    self.flush_relay(to);
                }
            }
            Exit::Closed => self.drop_at_egress(DropReason::LinkDown, &tag, to),
        }
    }

    /// Does what is due before the first packet of a pass, and accounts for the pass before.
    fn tick(&mut self, now: Ticks) {
        self.roll_over(now);
        self.refer(now);
        self.tend_wires(now);
        self.meter.sweep(now, &self.counters);
        self.decide.tick(now);
        if self.retiring.is_some() {
            self.retire();
        }
        if self.pace.pass_ended(&self.counters, now) {
            self.renew_gauges();
        }
    }

    /// Rolls over and seals epochs if it is time, and takes up a generation at its epoch's rollover.
    #[inline]
    fn roll_over(&mut self, now: Ticks) {
        if let Some(epoch) = self.meter.epochs.rollover_at(now)
            && self.retiring.is_none()
            && let Some(generation) = self.generations.due(epoch)
        {
            self.take_up(generation, now);
        }
        self.meter.epochs.tick(now);
    }

    /// Puts references behind what waits of streams that have had none for too long.
    #[inline]
    fn refer(&mut self, now: Ticks) {
        let lanes = &mut self.lanes;
        self.meter.overdue(now, &mut |to, reference| {
            let lane = lanes.get_mut(to.index());
            if let Some(Exit::Queues(egress)) = lane.map(|lane| &mut lane.exit) {
                egress.offer_reference(reference, now);
            }
        });
    }

    /// Sends what waits for at most `drain_ticks`, drops the rest counted, seals, and gives the
    /// ports back.
    pub fn finish(mut self, drain_ticks: u64) -> I {
        let began = self.io.now();
        self.ports().for_each(|port| self.flush_relay(port));
        // Releases what was passed on to the worker that sees the count go down.
        self.receiving.fetch_sub(1, Ordering::AcqRel);
        let is_over =
            |worker: &Self| worker.receiving.load(Ordering::Acquire) == 0 && !worker.is_waiting();
        while !is_over(&self) && self.io.now().saturating_since(began) < drain_ticks {
            self.tick(self.io.now());
            self.send_all();
        }
        for to in self.ports() {
            self.drain(to, DropReason::Shutdown);
        }
        self.meter.epochs.finish();
        self.renew_gauges();
        self.io
    }

    /// Drops what waits at a port.
    #[cold]
    fn drain(&mut self, to: PortIndex, reason: DropReason) {
        let counters = &self.counters.ports[to.index()];
        let meter = &mut self.meter;
        self.lanes[to.index()].drain(|tag| {
            count_drop(counters, reason, tag.class);
            meter.lost(tag);
        });
        counters.queued_packets.set(0);
    }

    #[inline]
    fn port(&self, port: PortIndex) -> &PortCounters {
        &self.counters.ports[port.index()]
    }

    fn ports(&self) -> impl Iterator<Item = PortIndex> + use<I> {
        (0..self.lanes.len()).map(PortIndex::new)
    }

    fn is_waiting(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.is_empty())
    }

    /// Packet input and output, for code that looks from outside between passes.
    pub fn io_mut(&mut self) -> &mut I {
        &mut self.io
    }
}
