//! The engine: one core, one loop, in the order of a packet's life.
//!
//! [`Worker::pass`] is all of it: tick; receive, decide, tag, queue; then schedule, transmit, and record the
//! packets that the driver accepted. A burst of one class that leaves as a whole by one idle port goes from
//! decide to transmit without tags (`send_at_once`). After start there is no allocation, no lock, no system
//! call and no `Result` per packet: a frame that cannot be handled is a counted drop with a named reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use contract::config::CLASSES_MAX;
use contract::counters::{DropReason, PortCounters, WorkerCounters};
use contract::ids::PortIndex;
use measure::batch::{Batch, Member};
use measure::flows::FlowId;
use measure::observation::SegmentIndex;
use measure::packet::{Census, Hashing, RandomHashes};
#[cfg(feature = "planted")]
use measure::planted;
use measure::time::Ticks;

use crate::decide::{Decide, Decisions, PortSet, Rewrite, Verdict};
use crate::departing::Departing;
use crate::egress::Exit;
use crate::egress::Lane;
use crate::generation::{Generation, Measuring, WorkerGenerations};
use crate::idle::IdlePolicy;
use crate::meter::{Meter, NO_SEGMENTS, Segments, Tagging};
use crate::packet_io::{BURST, Burst, ClassIndex, PacketIo, Tag, Tags};
use crate::wire::Wires;

/// Values shared by the packets of a received burst.
#[derive(Debug, Clone, Copy)]
struct Received {
    from: PortIndex,
    now: Ticks,
    /// Bytes of all frames.
    bytes: u64,
    /// Length of the longest frame.
    longest: u32,
}

/// A worker and everything it owns.
#[derive(Debug)]
pub struct Worker<I: PacketIo> {
    io: I,
    lanes: Vec<Lane<I::Packet>>,
    decide: Box<Decide>,
    meter: Meter,
    counters: Arc<WorkerCounters>,
    generations: WorkerGenerations<I>,
    /// Number of workers that still receive, and may pass packets on.
    receiving: Arc<AtomicUsize>,
    /// The current generation, while an old part is still in use.
    retiring: Option<Box<Generation<I>>>,
    departing: Box<Departing>,
    /// Packets that come back from other devices.
    returned: Box<Departing>,
    /// Spreads packets without a packet hash over the rows of an LDA.
    spread: RandomHashes,
    /// Ports for which the current burst has packets.
    touched: PortSet,
    pace: Pace,
    wires: Wires<I::Packet>,
}

impl<I: PacketIo> Worker<I> {
    /// A worker over the ports of `io`, with one lane each. `receiving` counts the workers of the switch
    /// that still receive, including this one. Gauges are updated every `gauge_ticks`.
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

    /// Adds these wires, of ports owned by this worker.
    #[must_use]
    pub fn with_wires(mut self, wires: Wires<I::Packet>) -> Self {
        self.wires = wires;
        self
    }

    /// Works until `stop` is set, then sends queued packets for at most `drain_ticks`, drops and counts the
    /// rest, and seals.
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
    /// Packets of one queue are sent before the next one is read, while they are still in the cache.
    pub fn pass(&mut self) -> usize {
        self.tick(self.io.now());
        let (mut moved, mut inlet) = (0, 0);
        // Checked each time: sending may switch to a generation with fewer queues.
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

    /// Decides about a burst, and moves each packet to its destination. Most bursts leave as a whole by one
    /// port.
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

    /// Queues a whole burst at a port if nothing is queued there and nothing paces it. Otherwise returns
    /// false, and does nothing.
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

    /// Queues a packet at its egress port.
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

    /// Does everything due before the first packet of a pass, and accounts for the previous pass.
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

    /// Rolls over and seals epochs if due, and switches to a generation at its first rollover.
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

    /// Appends references for streams that have had none for too long to their queues.
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

    /// Sends queued packets for at most `drain_ticks`, drops and counts the rest, seals, and returns the
    /// ports.
    pub fn finish(mut self, drain_ticks: u64) -> I {
        let began = self.io.now();
        self.ports().for_each(|port| self.flush_relay(port));
        // Releases the packets passed on, for the worker that sees the count decrease.
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

    /// Drops the queued packets of a port.
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

    /// Packet input and output, for access between passes.
    pub fn io_mut(&mut self) -> &mut I {
        &mut self.io
    }
}

// Cost of passes, and time between polls of queues.

/// The error of a stamp: a packet that arrives between two polls is first seen at the second.
#[derive(Debug)]
struct Pace {
    pass_began: Ticks,
    /// Packets that moved in the pass.
    moved: usize,
    /// Time of each receive queue's last poll; 0 before the first.
    polled_at: Vec<Ticks>,
    gap_ticks_max: u64,
    gauge_at: Ticks,
    gauge_ticks: u64,
}

impl Pace {
    pub fn new(now: Ticks, inlets: usize, gauge_ticks: u64) -> Self {
        Self {
            pass_began: now,
            moved: 0,
            polled_at: vec![Ticks(0); inlets],
            gap_ticks_max: 0,
            gauge_at: now.plus(gauge_ticks),
            gauge_ticks,
        }
    }

    /// Notes that there are now `inlets` receive queues.
    pub fn rewire(&mut self, inlets: usize) {
        self.polled_at.clear();
        self.polled_at.resize(inlets, Ticks(0));
    }

    /// Packets that moved in this pass, so far.
    #[inline]
    pub fn moved(&mut self, packets: usize) {
        self.moved += packets;
    }

    #[inline]
    pub fn polled(&mut self, inlet: usize, now: Ticks) {
        let Some(last) = self.polled_at.get_mut(inlet) else {
            return;
        };
        if *last != Ticks(0) {
            self.gap_ticks_max = self.gap_ticks_max.max(now.saturating_since(*last));
        }
        *last = now;
    }

    /// Accounts for the pass that ends at `now`; returns true if gauges should be updated.
    #[inline]
    pub fn pass_ended(&mut self, counters: &WorkerCounters, now: Ticks) -> bool {
        let ticks = now.saturating_since(std::mem::replace(&mut self.pass_began, now));
        counters.passes.add(1);
        if std::mem::take(&mut self.moved) > 0 {
            counters.busy_ticks.add(ticks);
        } else {
            counters.idle_passes.add(1);
        }
        let is_due = now.signed_since(self.gauge_at) >= 0;
        if is_due {
            self.gauge_at = now.plus(self.gauge_ticks);
            counters
                .poll_gap_ticks_max
                .set(std::mem::take(&mut self.gap_ticks_max));
        }
        is_due
    }
}

// Counters and gauges of a worker.

impl<I: PacketIo> Worker<I> {
    /// Publishes how full queues, rings and tables are.
    #[cold]
    fn renew_gauges(&mut self) {
        let mut in_rings = 0;
        for (lane, counters) in self.lanes.iter().zip(&self.counters.ports) {
            counters.queued_packets.set(lane.waiting() as u64);
            in_rings += lane.in_rings();
            lane.show_queues(counters);
        }
        self.counters.ring_packets.set(in_rings as u64);
        self.meter.show(&self.counters);
    }

    /// Passes an LLDP frame to the control core, if one of these frames is one.
    #[cold]
    fn listen(&self, arrivals: &Burst<I::Packet>, from: PortIndex) {
        for packet in arrivals {
            self.port(from).lldp.offer(self.io.head(packet));
        }
    }

    /// Counts a packet that was to leave by `to` and was dropped.
    #[cold]
    fn drop_at_egress(&mut self, reason: DropReason, tag: &Tag, to: PortIndex) {
        count_drop(self.port(to), reason, tag.class);
        self.meter.lost(tag);
    }
}

/// Counts packets that the driver accepted, in total and by class.
#[inline]
fn count_departures(counters: &PortCounters, tags: &[Tag]) {
    for run in tags.chunk_by(|a, b| a.class == b.class) {
        let bytes = run.iter().map(|tag| u64::from(tag.len_bytes)).sum();
        count_class(counters, run[0].class, run.len(), bytes);
    }
}

/// The same for packets of one class.
#[inline]
fn count_class(counters: &PortCounters, class: ClassIndex, packets: usize, bytes: u64) {
    counters.tx_packets.add(packets as u64);
    counters.tx_bytes.add(bytes);
    let of_class = &counters.classes[usize::from(class.0) % CLASSES_MAX];
    of_class.tx_packets.add(packets as u64);
    of_class.tx_bytes.add(bytes);
}

/// Counts the frames of a burst by kind.
#[inline]
fn count_kinds(counters: &PortCounters, census: Census) {
    for (counter, n) in counters.kinds.iter().zip(census.counts()) {
        counter.add(n);
    }
}

#[cold]
fn count_drop(counters: &PortCounters, reason: DropReason, class: ClassIndex) {
    counters.dropped(reason, 1);
    counters.classes[usize::from(class.0) % CLASSES_MAX]
        .dropped_packets
        .add(1);
}

// Tags packets.

/// A packet, its class, and its segment.
type Marked<'p, I> = (&'p <I as PacketIo>::Packet, ClassIndex, SegmentIndex);

/// Values shared by the packets of a burst.
struct Tagger<'w, I> {
    pub io: &'w I,
    pub tagging: Tagging<'w>,
    /// Counters of their ingress port.
    pub counters: &'w PortCounters,
    /// The segments to their egress port.
    pub segments: Segments,
    /// Class of packets without decisions.
    pub class: ClassIndex,
    /// Spreads packets without a packet hash over the rows of an LDA.
    pub spread: &'w mut RandomHashes,
    pub now: Ticks,
}

impl<I: PacketIo> Tagger<'_, I> {
    /// Tags a burst, with the hashes that the plan requires. Decisions may be omitted if all packets have one
    /// class.
    #[inline]
    pub fn tag(self, arrivals: &Burst<I::Packet>, decisions: &Decisions, tags: &mut Tags) {
        let segments = self.segments;
        let segment_of = move |class: ClassIndex| segments[usize::from(class.0 & 7)];
        if decisions.is_empty() {
            let (class, segment) = (self.class, segment_of(self.class));
            let packets = arrivals.iter().map(|packet| (packet, class, segment));
            return self.tag_each(packets, tags);
        }
        let packets = arrivals.iter().zip(decisions).map(|(packet, decision)| {
            let class = decision.class();
            (packet, class, segment_of(class))
        });
        self.tag_each(packets, tags);
    }

    #[inline]
    fn tag_each<'p>(self, packets: impl Iterator<Item = Marked<'p, I>>, tags: &mut Tags)
    where
        I::Packet: 'p,
    {
        let (first, is_each_stamped) = (tags.len(), self.tagging.stamps_packets());
        let (io, tagging) = (self.io, self.tagging);
        match tagging.hashing() {
            None => {
                tags.extend(packets.map(|(packet, class, _)| {
                    tagging.blank_tag(io.len_bytes(packet), class, self.now)
                }));
            }
            Some(Hashing::None) => self.tag_unparsed(packets, tags),
            Some(Hashing::Flow) => self.tag_parsed::<false>(packets, tags),
            Some(Hashing::Packet) => self.tag_parsed::<true>(packets, tags),
        }
        if is_each_stamped {
            for tag in &mut tags[first..] {
                tag.arrived = io.now();
            }
        }
    }

    #[inline]
    fn tag_unparsed<'p>(self, packets: impl Iterator<Item = Marked<'p, I>>, tags: &mut Tags)
    where
        I::Packet: 'p,
    {
        let Self {
            io,
            tagging,
            spread,
            now,
            ..
        } = self;
        tags.extend(packets.map(|(packet, class, segment)| Tag {
            packet: spread.next_hash(),
            segment,
            ..tagging.blank_tag(io.len_bytes(packet), class, now)
        }));
    }

    /// Parses, hashes and tags a burst in one tight loop. Not inlined, so that the loop has all registers.
    #[inline(never)]
    fn tag_parsed<'p, const PACKET: bool>(
        self,
        packets: impl Iterator<Item = Marked<'p, I>>,
        tags: &mut Tags,
    ) where
        I::Packet: 'p,
    {
        let (flows, mut spread) = (self.tagging.flows(), self.spread.clone());
        let mut census = Census::default();
        tags.extend(packets.map(|(packet, class, segment)| {
            let len_bytes = self.io.len_bytes(packet);
            let parsed = self
                .tagging
                .parse::<PACKET>(self.io.head(packet), len_bytes);
            census.add(parsed.kind);
            if let Some(flows) = flows {
                flows.prefetch(FlowId::new(parsed.flow, segment));
            }
            Tag {
                flow: parsed.flow,
                packet: if PACKET {
                    parsed.packet
                } else {
                    spread.next_hash()
                },
                segment,
                ..self.tagging.blank_tag(len_bytes, class, self.now)
            }
        }));
        *self.spread = spread;
        count_kinds(self.counters, census);
    }
}

// Departure: schedule, transmit, and record the packets that the driver accepted.

/// Most bursts that one port sends in a pass in addition to one for each queue and ring that is read. It
/// bounds a pass, while a queue that has grown can still shrink.
const SPARE_BURSTS: usize = 2;

/// Outcome of a departing burst.
#[derive(Debug, Clone, Copy, Default)]
struct Departed {
    packets: usize,
    /// Whether no packet waits for a preceding reference.
    is_whole: bool,
    /// Whether the driver accepted only some.
    is_refused: bool,
}

impl<I: PacketIo> Worker<I> {
    /// Sends by every port; returns how many packets left.
    fn send_all(&mut self) -> usize {
        let sent = self.ports().map(|port| self.send(port)).sum();
        self.pace.moved(sent);
        sent
    }

    /// Sends the packets that one queue has just brought for a port.
    fn send_burst(&mut self, to: PortIndex) -> usize {
        if !self.may_send(to) {
            return 0;
        }
        self.flush_relay(to);
        let sent = self.depart_all(to, 1);
        self.pace.moved(sent);
        sent
    }

    /// Sends the queued packets of a port.
    fn send(&mut self, to: PortIndex) -> usize {
        if !self.may_send(to) {
            return 0;
        }
        self.flush_relay(to);
        self.drain_rings(to);
        let rings = self.lanes[to.index()].entrances.len();
        self.depart_all(to, rings + SPARE_BURSTS)
    }

    /// Whether packets are queued at a port with a link; without a link they are dropped.
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

    /// Schedules, transmits and records, at most `bursts_max` bursts. Packets refused by the driver stay at
    /// the head, in order, and are offered again.
    fn depart_all(&mut self, to: PortIndex, bursts_max: usize) -> usize {
        let (mut sent, mut bursts) = (0, 0);
        // A burst divided for a reference counts by its packets.
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

    /// Sends one burst.
    fn depart(&mut self, to: PortIndex) -> Departed {
        let now = self.io.now();
        // Packets tagged by other workers may belong to an epoch that only begins here now.
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

// Fast path: forwards a burst without copying its packet handles.

impl<I: PacketIo> Worker<I> {
    /// Sends a burst of the default class in place, if nothing is queued ahead: its packets are recorded as
    /// one batch, without tags. Packets refused by the driver are queued at the port. Otherwise returns
    /// false, and does nothing.
    fn send_at_once(
        &mut self,
        arrivals: &mut Burst<I::Packet>,
        to: PortIndex,
        received: Received,
    ) -> bool {
        let Received { from, now, .. } = received;
        let tagging = self.meter.tagging();
        if !tagging.takes_batches() || self.meter.epochs.is_due(now) {
            return false;
        }
        let lane = self.lanes.get(to.index());
        if !lane.is_some_and(|lane| lane.is_clear() && received.longest <= lane.frame_bytes_max)
            || self.wires.is_at(from)
            || self.wires.is_at(to)
            || self.meter.is_around(to)
        {
            return false;
        }
        let class = self.decide.default_class();
        let mut batch = Batch {
            packets: arrivals.len(),
            bytes: received.bytes,
            arrived: now,
            delay: 0,
            segment: tagging.segments(from, to)[usize::from(class.0 & 7)],
            epoch: tagging.epoch(),
        };
        let hashing = tagging.hashing().unwrap_or(Hashing::None);
        self.departing.begin(hashing);
        self.departing.batches.push(batch);
        match hashing {
            Hashing::None => {}
            Hashing::Flow => self.parse::<false>(arrivals, received, &batch),
            Hashing::Packet => self.parse::<true>(arrivals, received, &batch),
        }
        let io = &self.io;
        self.meter.prepare(&mut self.departing, |n| {
            arrivals.get(n).map_or(&[][..], |packet| io.head(packet))
        });
        let now = self.io.now();
        batch.packets = self.io.transmit(to, arrivals);
        batch.delay = now.since(batch.arrived);
        let refused = arrivals
            .iter()
            .map(|packet| u64::from(self.io.len_bytes(packet)));
        batch.bytes -= refused.sum::<u64>();
        if batch.packets > 0 {
            self.passed_at_once(to, batch);
        }
        if !arrivals.is_empty() {
            self.keep(arrivals, to, &batch);
        }
        true
    }

    /// Parses, hashes and prefetches a burst in one tight loop. Not inlined, so that the loop has all
    /// registers.
    #[inline(never)]
    fn parse<const HASHES: bool>(
        &mut self,
        arrivals: &Burst<I::Packet>,
        received: Received,
        batch: &Batch,
    ) {
        let (io, tagging) = (&self.io, self.meter.tagging());
        let (flows, mut census) = (tagging.flows(), Census::default());
        let members = arrivals.iter().map(|packet| {
            let bytes = io.len_bytes(packet);
            let parsed = tagging.parse::<HASHES>(io.head(packet), bytes);
            census.add(parsed.kind);
            if let Some(flows) = flows {
                flows.prefetch(FlowId::new(parsed.flow, batch.segment));
            }
            Member {
                flow: parsed.flow,
                packet: parsed.packet,
                bytes,
            }
        });
        self.departing.members.fill::<HASHES>(members);
        count_kinds(self.port(received.from), census);
    }

    /// Records the packets that the driver accepted.
    #[inline]
    fn passed_at_once(&mut self, to: PortIndex, batch: Batch) {
        let class = self.decide.default_class();
        count_class(self.port(to), class, batch.packets, batch.bytes);
        self.pace.moved(batch.packets);
        if let Some(whole) = self.departing.batches.first_mut() {
            *whole = batch;
        }
        self.meter.passed(&self.departing, &mut self.spread);
        let members = self.departing.members.part(0..batch.packets);
        let references = self.meter.references_among(&batch, members);
        let now = batch.departed();
        let epochs = &mut self.meter.epochs;
        epochs.estimate(to, &self.departing, &references, now);
    }

    /// Keeps packets refused by the driver, which follow the accepted `batch`, at the head of its port.
    #[cold]
    fn keep(&mut self, arrivals: &mut Burst<I::Packet>, to: PortIndex, batch: &Batch) {
        let Some(Exit::Queues(egress)) = self.lanes.get_mut(to.index()).map(|lane| &mut lane.exit)
        else {
            return;
        };
        let (io, spread) = (&self.io, &mut self.spread);
        let class = self.decide.default_class();
        let members = self.departing.members.part(0..usize::MAX);
        let tag = |(n, packet): (usize, &I::Packet)| Tag {
            flow: members.flows.get(n).copied().unwrap_or_default(),
            packet: (members.hashes.get(n).copied()).unwrap_or_else(|| spread.next_hash()),
            arrived: batch.arrived,
            len_bytes: io.len_bytes(packet),
            segment: batch.segment,
            epoch: batch.epoch,
            class,
        };
        egress.offer_all(arrivals, |arrivals, tags| {
            tags.extend((batch.packets..).zip(arrivals).map(tag));
        });
        self.meter.joined(egress, 0);
        self.touched.insert(to);
    }
}

// Between workers: packets in transit to the owner of their egress port.

impl<I: PacketIo> Worker<I> {
    /// Sends packets gathered for another worker's port to it.
    fn flush_relay(&mut self, to: PortIndex) {
        let Some(Exit::Owner(relay)) = self.lanes.get_mut(to.index()).map(|lane| &mut lane.exit)
        else {
            return;
        };
        relay.flush();
        // The ring is full: its owner is too slow.
        let left: arrayvec::ArrayVec<Tag, BURST> = relay.tags.drain(..).collect();
        relay.packets.clear();
        for tag in left {
            self.drop_at_egress(DropReason::RingFull, &tag, to);
        }
    }

    /// Takes packets from other workers, at most a burst from each.
    fn drain_rings(&mut self, to: PortIndex) {
        let now = self.io.now();
        for entrance in 0..self.lanes[to.index()].entrances.len() {
            for _ in 0..BURST {
                let lane = &mut self.lanes[to.index()];
                let Ok((packet, tag)) = lane.entrances[entrance].pop() else {
                    break;
                };
                let Exit::Queues(egress) = &mut lane.exit else {
                    self.drop_at_egress(DropReason::LinkDown, &tag, to);
                    continue;
                };
                if let Err(refused) = self.meter.offer(egress, packet, tag, now) {
                    self.drop_at_egress(refused.reason, &refused.tag, to);
                }
            }
        }
    }
}

// Rare work: copies for a flood, VLAN tags.

impl<I: PacketIo> Worker<I> {
    /// Adds or removes the frame's VLAN tag as its egress port requires; without room, counts a drop and
    /// returns `None`.
    #[inline]
    fn retag(
        &mut self,
        mut packet: I::Packet,
        mut tag: Tag,
        from: PortIndex,
        to: PortIndex,
    ) -> Option<(I::Packet, Tag)> {
        if !self.decide.retags() {
            return Some((packet, tag));
        }
        let head = self.io.head(&packet);
        let done = match self.decide.rewrite(from, to, head) {
            Rewrite::None => true,
            Rewrite::Push(tci) => self.io.push_vlan(&mut packet, tci),
            Rewrite::Pop => self.io.pop_vlan(&mut packet),
            Rewrite::Replace(tci) => {
                self.io.pop_vlan(&mut packet) && self.io.push_vlan(&mut packet, tci)
            }
            Rewrite::Drop => {
                self.port(from).dropped(DropReason::Vlan, 1);
                return None;
            }
        };
        tag.len_bytes = self.io.len_bytes(&packet);
        if !done {
            self.port(from).dropped(DropReason::NoHeadroom, 1);
        }
        done.then_some((packet, tag))
    }

    /// Copies the frame for every egress port but the last, which gets the frame itself.
    #[cold]
    fn flood(&mut self, packet: I::Packet, tag: Tag, from: PortIndex, to: PortSet, now: Ticks) {
        let mut others = to.ports().peekable();
        while let Some(to) = others.next() {
            if others.peek().is_none() {
                return self.queue(packet, tag, from, to, now);
            }
            self.port(from).copies.add(1);
            match self.io.copy(&packet) {
                Some(copy) => self.queue(copy, tag, from, to, now),
                None => self.port(from).dropped(DropReason::NoMbuf, 1),
            }
        }
        self.port(from).dropped(DropReason::NoDestination, 1);
    }
}

// Switching to generations.

impl<I: PacketIo> Worker<I> {
    /// Switches to `generation` at the epoch containing `now`.
    #[cold]
    fn take_up(&mut self, mut generation: Box<Generation<I>>, now: Ticks) {
        for handles in &mut generation.gone {
            self.io.give_back(handles);
        }
        for handles in &mut generation.come {
            self.io.take_over(handles);
        }
        self.pace.rewire(self.io.inlets().len());
        if let Some(decide) = &mut generation.decide {
            decide.adopt(&mut self.decide);
            std::mem::swap(decide, &mut self.decide);
        }
        for (port, lane) in &mut generation.lanes {
            match self.lanes.get_mut(*port) {
                Some(old) => {
                    lane.adopt(old);
                    std::mem::swap(old, lane);
                    let counters = &self.counters.ports[*port];
                    let meter = &mut self.meter;
                    lane.drain(|tag| {
                        count_drop(counters, DropReason::LinkDown, tag.class);
                        meter.lost(tag);
                    });
                }
                None => self.lanes.push(std::mem::replace(lane, Lane::closed())),
            }
        }
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::CountedTwice) {
            for (lane, port) in self.lanes.iter().zip(&self.counters.ports) {
                port.tx_packets.add(lane.waiting() as u64);
            }
        }
        for (port, wire) in &mut generation.wires {
            self.wires.swap(*port, wire);
        }
        if let Measuring::Changed(plan) = &mut generation.measuring {
            self.meter.epochs.replan(plan.take(), now);
        }
        self.counters.generation.set(generation.number.0.into());
        self.retiring = Some(generation);
    }

    /// Returns the old parts of a generation, once none is in use.
    #[cold]
    fn retire(&mut self) {
        let Some(generation) = &mut self.retiring else {
            return;
        };
        if let Measuring::Changed(old) = &mut generation.measuring {
            match self.meter.epochs.take_retired() {
                Some(mut plan) => {
                    plan.show_references(&self.counters);
                    *old = Some(plan);
                }
                None if self.meter.epochs.are_retiring() => return,
                None => {}
            }
        }
        if let Some(generation) = self.retiring.take() {
            self.generations.give_back(generation);
        }
    }
}

// Ports with a segment on the wire: control frames among the data.

impl<I: PacketIo> Worker<I> {
    /// Does everything due at every wire, whether there is data or not.
    #[inline]
    fn tend_wires(&mut self, now: Ticks) {
        for port in self.wires.ports().ports() {
            let is_up = self.decide.is_up(port);
            if let Some(wire) = self.wires.at(port) {
                wire.tick(now, is_up);
                if wire.send_due(&mut self.io, now) {
                    wire.send_bulk(&mut self.io, now);
                }
            }
        }
    }

    /// Rolls over the epoch of the wire at a port, if there is one and it is due, and sends the frames that
    /// precede the next data; returns false if nothing may be sent now.
    #[inline]
    fn open_wire(&mut self, to: PortIndex, now: Ticks) -> bool {
        match self.wires.at(to) {
            Some(wire) => {
                wire.turn_at(now);
                wire.send_due(&mut self.io, now)
            }
            None => true,
        }
    }

    /// Whether a port is looped to this switch; its queued packets are then dropped.
    #[inline]
    fn is_looped(&mut self, to: PortIndex) -> bool {
        let is_looped = self.wires.at(to).is_some_and(|wire| wire.is_blocked());
        if is_looped {
            self.drain(to, DropReason::Loop);
        }
        is_looped
    }

    /// Takes control frames out of received packets, each in its order among the data.
    #[inline(never)]
    fn receive_wire(&mut self, mut arrivals: Burst<I::Packet>, received: Received) {
        let Received { from, now, .. } = received;
        let mut data = Burst::new_const();
        for packet in arrivals.drain(..) {
            let head = self.io.head(&packet);
            let len_bytes = self.io.len_bytes(&packet);
            let Some(wire) = self.wires.at(from) else {
                data.push(packet);
                continue;
            };
            if wire.control_in(head).is_none() {
                data.push(packet);
                continue;
            }
            self.dispatch_data(&mut data, received);
            let head = self.io.head(&packet);
            if let Some(wire) = self.wires.at(from)
                && let Some(frame) = wire.control_in(head)
            {
                wire.control(frame, len_bytes, now);
            }
            self.port(from).dropped(DropReason::Control, 1);
        }
        self.dispatch_data(&mut data, received);
    }

    fn dispatch_data(&mut self, data: &mut Burst<I::Packet>, received: Received) {
        let from = received.from;
        if data.is_empty() {
            return;
        }
        if self.wires.at(from).is_some_and(|wire| wire.is_blocked()) {
            self.port(from).dropped(DropReason::Loop, data.len() as u64);
        } else {
            self.dispatch(data, received);
        }
        data.clear();
    }

    /// Counts data at the receiver's end of the wire on which it arrived.
    #[inline(never)]
    fn count_arrivals(
        &mut self,
        arrivals: &Burst<I::Packet>,
        decisions: &Decisions,
        from: PortIndex,
        now: Ticks,
    ) {
        let Self {
            io, meter, wires, ..
        } = self;
        let tagging = meter.tagging();
        let Some(wire) = wires.at(from) else { return };
        let seen = arrivals.iter().zip(decisions).map(|(packet, decision)| {
            let len_bytes = io.len_bytes(packet);
            let parsed = tagging.parse::<true>(io.head(packet), len_bytes);
            let arrival = Member {
                flow: parsed.flow,
                packet: parsed.packet,
                bytes: len_bytes,
            };
            (decision.class(), arrival)
        });
        wire.received(seen, now);
    }
}

// Ports that lead to other devices: returning packets.

impl<I: PacketIo> Worker<I> {
    /// Checks received packets for those that come back from another device.
    #[inline(never)]
    fn receive_around(&mut self, arrivals: &Burst<I::Packet>, from: PortIndex, now: Ticks) {
        let Self {
            io,
            meter,
            returned,
            counters,
            spread,
            ..
        } = self;
        let frame = |n: usize| {
            let packet = arrivals.get(n);
            packet.map_or((&[][..], 0), |packet| {
                (io.head(packet), io.len_bytes(packet))
            })
        };
        meter.returned(
            (from, now),
            arrivals.len(),
            frame,
            returned,
            counters,
            spread,
        );
    }
}
