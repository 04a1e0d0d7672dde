//! The engine: one core, one loop, in the order in which a packet lives.
//!
//! [`Worker::pass`] is the whole of it: tick; receive, stamp, parse, decide, record at the ingress
//! point, queue; then schedule, stamp, transmit, record at the egress point what the driver took.
//! After start there is no allocation, no lock, no system call and no `Result` per packet: a frame
//! that cannot be handled is a counted drop with a named reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use control::counters::{DropReason, PortCounters, WorkerCounters};
use measure::packet::Kind;
use measure::sight::End;

use crate::decide::{Decide, Verdict, is_patched};
use crate::egress::Egress;
use crate::idle::IdlePolicy;
use crate::meter::{Meter, Sights};
use crate::packet_io::{BURST, Burst, PacketIo, PortIndex, Stamp};

/// What a frame may have on top of a port's MTU: Ethernet header 14 bytes, two VLAN tags 8.
pub const FRAME_OVERHEAD_BYTES: u32 = 22;

/// Stamps of one burst.
type Stamps = arrayvec::ArrayVec<Stamp, BURST>;

/// One port as the worker serves it.
#[derive(Debug)]
pub struct Lane<P> {
    egress: Egress<P>,
    frame_bytes_max: u32,
    polled_at: u64,
}

impl<P> Lane<P> {
    /// A port with an MTU of `mtu` bytes.
    pub fn new(egress: Egress<P>, mtu: u16) -> Self {
        Self {
            egress,
            frame_bytes_max: u32::from(mtu) + FRAME_OVERHEAD_BYTES,
            polled_at: 0,
        }
    }
}

/// A worker and all that it owns.
#[derive(Debug)]
pub struct Worker<I: PacketIo> {
    io: I,
    lanes: Vec<Lane<I::Packet>>,
    decide: Decide,
    meter: Option<Meter>,
    counters: Arc<WorkerCounters>,
    /// Sights at the ingress points, not yet recorded.
    entries: Sights,
    pace: Pace,
}

impl<I: PacketIo> Worker<I> {
    /// A worker over the ports of `io`, one lane each; without a `meter` nothing is parsed,
    /// stamped or recorded. Gauges are renewed every `gauge_ticks`.
    pub fn new(
        io: I,
        lanes: Vec<Lane<I::Packet>>,
        decide: Decide,
        meter: Option<Meter>,
        counters: Arc<WorkerCounters>,
        gauge_ticks: u64,
    ) -> Self {
        let pace = Pace::new(io.now(), gauge_ticks);
        Self {
            io,
            lanes,
            decide,
            meter,
            counters,
            entries: Sights::new_const(),
            pace,
        }
    }

    /// Works until `stop` is set, then sends what still waits for at most `drain_ticks`, drops the
    /// rest counted, and seals.
    pub fn run(mut self, stop: &AtomicBool, mut idle: IdlePolicy, drain_ticks: u64) -> I {
        while !stop.load(Ordering::Relaxed) {
            let moved = self.pass();
            idle.rest(moved > 0 || self.is_waiting());
        }
        self.finish(drain_ticks)
    }

    /// Serves every port once; returns how many packets moved.
    pub fn pass(&mut self) -> usize {
        self.tick(self.io.now());
        let received: usize = self.ports().map(|port| self.receive(port)).sum();
        let sent: usize = self.ports().map(|port| self.send(port)).sum();
        self.pace.moved = received + sent;
        received + sent
    }

    /// Receive, stamp, parse, decide, record at the ingress point, queue.
    fn receive(&mut self, from: PortIndex) -> usize {
        let mut arrivals = Burst::new_const();
        self.io.receive(from, &mut arrivals);
        let now = self.io.now();
        self.pace
            .polled(&mut self.lanes[usize::from(from.0)].polled_at, now);
        if arrivals.is_empty() {
            return 0;
        }
        let packets = arrivals.len();
        let mut stamps = Stamps::new_const();
        let bytes = self.stamp(&mut arrivals, &mut stamps, from, now);
        if !self.forward_all(&mut arrivals, &stamps, from, now) {
            let mut stamps = stamps.iter();
            for packet in arrivals.drain(..) {
                self.admit(packet, stamps.next(), from, now);
            }
        }
        self.record_entries();
        let counters = self.port(from);
        counters.rx_packets.add(packets as u64);
        counters.rx_bytes.add(bytes);
        packets
    }

    /// Parses, hashes and stamps a burst in one tight loop, if anything is measured; the bytes of
    /// the burst. Not inlined, so that the loop has all registers to itself.
    #[inline(never)]
    fn stamp(
        &self,
        arrivals: &mut Burst<I::Packet>,
        stamps: &mut Stamps,
        from: PortIndex,
        now: u64,
    ) -> u64 {
        let Some(meter) = &self.meter else {
            return self.bytes_of(arrivals);
        };
        let (mut bytes, mut kinds) = (0, [0u64; Kind::COUNT]);
        for packet in arrivals {
            let len_bytes = self.io.len_bytes(packet);
            let (stamp, kind) = meter.stamp(self.io.head(packet), len_bytes, now);
            self.io.set_stamp(packet, &stamp);
            stamps.push(stamp);
            kinds[kind as usize] += 1;
            bytes += u64::from(len_bytes);
        }
        for (counter, n) in self.port(from).kinds.iter().zip(kinds) {
            counter.add(n);
        }
        bytes
    }

    /// The common case at once: all of a burst leaves by one port that is free. False, and nothing
    /// done, in any other case.
    #[inline(never)]
    fn forward_all(
        &mut self,
        arrivals: &mut Burst<I::Packet>,
        stamps: &Stamps,
        from: PortIndex,
        now: u64,
    ) -> bool {
        let Some(to) = self.decide.partner(from) else {
            return false;
        };
        let lane = &mut self.lanes[usize::from(to.0)];
        let passes = |packet| {
            self.io.len_bytes(packet) <= lane.frame_bytes_max && is_patched(self.io.head(packet))
        };
        if !arrivals.iter().all(passes) {
            return false;
        }
        let mut sights = Sights::new_const();
        if let Some(meter) = &self.meter {
            for (stamp, packet) in stamps.iter().zip(arrivals.iter()) {
                sights.push(meter.sight(stamp, from, to, self.io.len_bytes(packet), now));
            }
        }
        let is_taken = lane.egress.offer_all(arrivals);
        if let (true, Some(meter)) = (is_taken, &mut self.meter) {
            meter.record_alike(End::Sender, &sights);
        }
        is_taken
    }

    /// One frame: decide, and on to where it goes.
    #[inline]
    fn admit(&mut self, packet: I::Packet, stamp: Option<&Stamp>, from: PortIndex, now: u64) {
        match self.decide.decide(from, self.io.head(&packet), now) {
            Verdict::Forward(to) => self.queue(packet, stamp, from, to, now),
            Verdict::Flood => self.flood(packet, stamp, from, now),
            Verdict::Drop(reason) => self.port(from).dropped(reason, 1),
        }
    }

    /// Copies for every egress port but the last, which gets the frame itself.
    #[cold]
    fn flood(&mut self, packet: I::Packet, stamp: Option<&Stamp>, from: PortIndex, now: u64) {
        let mut others = self.ports().filter(|&to| to != from).peekable();
        while let Some(to) = others.next() {
            if others.peek().is_none() {
                return self.queue(packet, stamp, from, to, now);
            }
            self.port(from).copies.add(1);
            let Some(mut copy) = self.io.copy(&packet) else {
                self.port(from).dropped(DropReason::NoMbuf, 1);
                continue;
            };
            if let Some(stamp) = stamp {
                self.io.set_stamp(&mut copy, stamp);
            }
            self.queue(copy, stamp, from, to, now);
        }
    }

    /// Records the packet at the ingress point of its segment and queues it at the egress port.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "once a packet; the other callers are cold"
    )]
    fn queue(
        &mut self,
        packet: I::Packet,
        stamp: Option<&Stamp>,
        from: PortIndex,
        to: PortIndex,
        now: u64,
    ) {
        let len_bytes = self.io.len_bytes(&packet);
        let lane = &mut self.lanes[usize::from(to.0)];
        if len_bytes > lane.frame_bytes_max {
            self.port(from).dropped(DropReason::Oversize, 1);
            return;
        }
        let refused = lane.egress.offer(packet, now).is_err();
        if let (Some(meter), Some(stamp)) = (&self.meter, stamp) {
            self.entries
                .push(meter.sight(stamp, from, to, len_bytes, now));
            if self.entries.is_full() {
                self.record_entries();
            }
        }
        if refused {
            self.drop_at_egress(DropReason::QueueFull, stamp, from, to);
        }
    }

    /// Schedule, stamp, transmit, record at the egress point what the driver took. What it refused
    /// stays at the head, in order, and is stamped anew when it is offered again.
    fn send(&mut self, to: PortIndex) -> usize {
        let mut sent = 0;
        while !self.lanes[usize::from(to.0)].egress.is_empty() {
            let now = self.io.now();
            let egress = &mut self.lanes[usize::from(to.0)].egress;
            egress.advance(now, |packet| self.io.len_bytes(packet));
            let mut sights = Sights::new_const();
            let bytes = self.sight_departures(to, now, &mut sights);
            let egress = &mut self.lanes[usize::from(to.0)].egress;
            let accepted = self.io.transmit(to, &mut egress.head);
            let is_refused = !egress.head.is_empty();
            let held = self.bytes_of(&self.lanes[usize::from(to.0)].egress.head);
            if let Some(meter) = &mut self.meter {
                meter.record(End::Receiver, &sights[..accepted.min(sights.len())]);
            }
            let counters = self.port(to);
            counters.tx_packets.add(accepted as u64);
            counters.tx_bytes.add(bytes - held);
            sent += accepted;
            if accepted == 0 || is_refused {
                break;
            }
        }
        self.port(to)
            .queued_packets
            .set(self.lanes[usize::from(to.0)].egress.len() as u64);
        sent
    }

    /// The sights of what is about to be offered to the driver, and its bytes.
    #[inline(never)]
    fn sight_departures(&self, to: PortIndex, now: u64, sights: &mut Sights) -> u64 {
        let head = &self.lanes[usize::from(to.0)].egress.head;
        let Some(meter) = &self.meter else {
            return self.bytes_of(head);
        };
        let mut bytes = 0;
        for packet in head {
            let len_bytes = self.io.len_bytes(packet);
            bytes += u64::from(len_bytes);
            if let Some(stamp) = self.io.stamp(packet) {
                sights.push(meter.sight(&stamp, self.io.ingress(packet), to, len_bytes, now));
            }
        }
        bytes
    }

    /// Turns epochs before the first stamp of a pass, and accounts for the pass before.
    fn tick(&mut self, now: u64) {
        if let Some(meter) = &mut self.meter {
            meter.tick(now);
        }
        self.counters.passes.add(1);
        match self.pace.pass_ended(now) {
            Some(busy_ticks) => self.counters.busy_ticks.add(busy_ticks),
            None => self.counters.idle_passes.add(1),
        }
        if let Some(gap) = self.pace.gauge_due(now) {
            self.counters.poll_gap_ticks_max.set(gap);
        }
    }

    /// Sends what waits for at most `drain_ticks`, drops the rest counted, seals, and gives the
    /// ports back.
    pub fn finish(mut self, drain_ticks: u64) -> I {
        let began = self.io.now();
        while self.is_waiting() && self.io.now().wrapping_sub(began) < drain_ticks {
            self.tick(self.io.now());
            self.pace.moved = self.ports().map(|port| self.send(port)).sum();
        }
        for to in self.ports() {
            self.abandon(to);
        }
        if let Some(meter) = self.meter.take() {
            meter.finish();
        }
        self.io
    }

    /// Drops what still waits at a port.
    fn abandon(&mut self, to: PortIndex) {
        let left: Vec<_> = self.lanes[usize::from(to.0)].egress.drain().collect();
        for packet in left {
            let (stamp, from) = (self.io.stamp(&packet), self.io.ingress(&packet));
            self.drop_at_egress(DropReason::Shutdown, stamp.as_ref(), from, to);
        }
        self.port(to).queued_packets.set(0);
    }

    /// Counts a packet that was to leave by `to` and does not.
    #[cold]
    fn drop_at_egress(
        &mut self,
        reason: DropReason,
        stamp: Option<&Stamp>,
        from: PortIndex,
        to: PortIndex,
    ) {
        self.port(to).dropped(reason, 1);
        if let (Some(meter), Some(stamp)) = (&mut self.meter, stamp) {
            meter.dropped(stamp, from, to);
        }
    }

    #[inline]
    fn record_entries(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.record(End::Sender, &self.entries);
            self.entries.clear();
        }
    }

    fn bytes_of(&self, packets: &[I::Packet]) -> u64 {
        packets
            .iter()
            .map(|packet| u64::from(self.io.len_bytes(packet)))
            .sum()
    }

    #[inline]
    fn port(&self, port: PortIndex) -> &PortCounters {
        &self.counters.ports[usize::from(port.0)]
    }

    fn ports(&self) -> impl Iterator<Item = PortIndex> + use<I> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a configuration has 64 ports at most"
        )]
        (0..self.lanes.len() as u8).map(PortIndex)
    }

    fn is_waiting(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.egress.is_empty())
    }

    /// Packet input and output, for whoever looks from outside between passes.
    pub fn io_mut(&mut self) -> &mut I {
        &mut self.io
    }
}

/// What passes cost, and how long ports go unpolled: what a stamp cannot see, since a packet that
/// arrives between two polls is first seen at the second.
#[derive(Debug)]
struct Pace {
    pass_began: u64,
    /// Packets that moved in the pass.
    moved: usize,
    gap_max: u64,
    gauge_at: u64,
    gauge_ticks: u64,
}

impl Pace {
    fn new(now: u64, gauge_ticks: u64) -> Self {
        let gauge_at = now.wrapping_add(gauge_ticks);
        Self {
            pass_began: now,
            moved: 0,
            gap_max: 0,
            gauge_at,
            gauge_ticks,
        }
    }

    /// The ticks of the pass that ends at `now`, if packets moved in it.
    #[inline]
    fn pass_ended(&mut self, now: u64) -> Option<u64> {
        let ticks = now.wrapping_sub(std::mem::replace(&mut self.pass_began, now));
        (self.moved > 0).then_some(ticks)
    }

    #[inline]
    fn polled(&mut self, last: &mut u64, now: u64) {
        if *last != 0 {
            self.gap_max = self.gap_max.max(now.wrapping_sub(*last));
        }
        *last = now;
    }

    /// The longest gap of the period that just ended, once a period.
    #[inline]
    fn gauge_due(&mut self, now: u64) -> Option<u64> {
        if now < self.gauge_at {
            return None;
        }
        self.gauge_at = now.wrapping_add(self.gauge_ticks);
        Some(std::mem::take(&mut self.gap_max))
    }
}
