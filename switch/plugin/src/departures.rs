//! Records packets when they are offered to a transmit queue, and owns the queue's shard.
//!
//! The queue's own thread does this as long as packets pass. The control core rolls over the epochs of an idle queue.
//! Both try to take one lock, and neither waits for it: packets that find it taken are counted but not measured, and
//! their epoch is marked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use contract::counters::{PortCounters, WorkerCounters};
use contract::ids::PortIndex;
use dpdk_bindings::{PassingMbuf, SharedStamp, StampField, Tap, tsc};
use measure::batch::{Batch, Member, Members};
use measure::flows::FlowId;
use measure::packet::{FlowHash, Hashing, PacketHash, RandomHashes};
use measure::time::{Epoch, Ticks};
use rtrb::{Consumer, Producer, RingBuffer};
use switch::departing::Departing;
use switch::meter::{Epochs, Meter, Plan};
use switch::packet_io::{BURST, ClassIndex};
use try_lock::TryLock;

use crate::ports::Home;
use crate::stamp::{PortIds, Stamp};

/// How a stamped packet is recognised.
#[derive(Debug, Clone)]
pub struct Stamps {
    pub field: StampField,
    pub ids: Arc<PortIds>,
    /// Whether there is more than one class.
    pub has_classes: bool,
    /// Which hashes stamps contain.
    pub hashing: Hashing,
}

/// One transmit queue: records its packets.
#[derive(Debug)]
pub struct Departures {
    pub home: Home,
    stamps: Stamps,
    /// When the queue's own thread last took the lock, in ticks.
    seen: AtomicU64,
    /// Packets that found the lock taken.
    unmeasured: AtomicU64,
    counters: Arc<WorkerCounters>,
    point: TryLock<Point>,
}

/// Where packets are recorded.
#[derive(Debug)]
struct Point {
    meter: Meter,
    departing: Departing,
    plans: PlanReceiver,
    /// For packets without a hash of their own.
    hashes: RandomHashes,
}

/// A port to which packets are offered.
#[derive(Clone, Copy)]
struct Offer<'d> {
    stamps: &'d Stamps,
    counters: &'d PortCounters,
    to: PortIndex,
    now: Ticks,
    /// Whether `now` is the present time; otherwise the packets left at that time.
    is_present: bool,
}

impl Offer<'_> {
    /// Counts packets, and attributes them to the only class if there is just one.
    #[inline]
    fn count(self, packets: u64, bytes: u64) {
        self.counters.tx_packets.add(packets);
        self.counters.tx_bytes.add(bytes);
        if !self.stamps.has_classes {
            self.count_class(ClassIndex(0), packets, bytes);
        }
    }

    #[inline]
    fn count_class(self, class: ClassIndex, packets: u64, bytes: u64) {
        if let Some(counters) = self.counters.classes.get(usize::from(class.0)) {
            counters.tx_packets.add(packets);
            counters.tx_bytes.add(bytes);
        }
    }

    /// Only removes the stamps and counts the packets.
    #[cold]
    fn only_count(self, burst: &mut [PassingMbuf<'_>]) {
        let mut all_bytes = 0;
        for mbuf in &mut *burst {
            let (bytes, one) = (u64::from(mbuf.len_bytes()), std::slice::from_mut(mbuf));
            all_bytes += bytes;
            if let Some(shared) = first_of(self.stamps, one) {
                self.stamps.field.take_run(one, &shared);
                if self.stamps.has_classes {
                    self.count_class(Stamp::read(shared.last, self.now).class, 1, bytes);
                }
            }
        }
        self.count(burst.len() as u64, all_bytes);
    }
}

impl Departures {
    /// Returns a queue that records nothing until it receives a plan.
    pub fn new(stamps: Stamps, meter: Meter, counters: Arc<WorkerCounters>) -> (Self, PlanSender) {
        let (sender, plans) = plan_changes();
        let departures = Self {
            home: Home::nowhere(),
            stamps,
            seen: AtomicU64::new(0),
            unmeasured: AtomicU64::new(0),
            counters,
            point: TryLock::new(Point {
                meter,
                departing: Departing::default(),
                plans,
                hashes: RandomHashes::default(),
            }),
        };
        (departures, sender)
    }

    /// Rolls epochs over at `now` on behalf of a queue that has been idle for `rest_ticks`.
    pub fn roll_over_for(&self, now: Ticks, rest_ticks: u64) {
        if now.saturating_since(Ticks(self.seen.load(Ordering::Relaxed))) >= rest_ticks
            && let Some(mut point) = self.point.try_lock()
        {
            point.roll_over(now, &self.counters);
        }
    }

    /// Packets that were counted but not measured.
    pub fn unmeasured(&self) -> u64 {
        self.unmeasured.load(Ordering::Relaxed)
    }
}

impl Tap for Departures {
    #[inline]
    fn pass(&self, burst: &mut [PassingMbuf<'_>]) {
        self.leave::<true>(burst, Ticks(tsc::now()));
    }

    fn taken(&self, burst: &mut [PassingMbuf<'_>], refused: usize, offered_tsc: u64) {
        if let Some(counters) = self.counters.ports.get(self.home.port().index()) {
            counters.refused_packets.add(refused as u64);
        }
        // Refused packets keep their stamps, and are recorded when they are accepted.
        if !burst.is_empty() {
            self.leave::<false>(burst, Ticks(offered_tsc));
        }
    }
}

impl Departures {
    /// Records packets that leave at `now`, the present time or a moment ago.
    #[inline]
    fn leave<const PRESENT: bool>(&self, burst: &mut [PassingMbuf<'_>], now: Ticks) {
        let to = self.home.port();
        let Some(counters) = self.counters.ports.get(to.index()) else {
            return;
        };
        let offer = Offer {
            stamps: &self.stamps,
            counters,
            to,
            now,
            is_present: PRESENT,
        };
        let Some(mut point) = self.point.try_lock() else {
            let packets = burst.len() as u64;
            self.unmeasured.fetch_add(packets, Ordering::Relaxed);
            return offer.only_count(burst);
        };
        self.seen.store(now.0, Ordering::Relaxed);
        point.roll_over(now, &self.counters);
        for part in burst.chunks_mut(BURST) {
            point.record(offer, part);
        }
    }
}

impl Point {
    /// Applies a plan and rolls epochs over, if it is time. Publishes how full the flow table is once an epoch.
    #[inline]
    fn roll_over(&mut self, now: Ticks, counters: &WorkerCounters) {
        let is_due = self.meter.epochs.rollover_at(now).is_some();
        self.plans.roll_over(&mut self.meter.epochs, now);
        if is_due {
            self.meter.show(counters);
        }
    }

    /// Removes the stamps, and records packets with the same stamp together.
    #[inline]
    fn record(&mut self, offer: Offer<'_>, burst: &mut [PassingMbuf<'_>]) {
        let Self {
            meter,
            departing,
            hashes,
            ..
        } = self;
        departing.begin(offer.stamps.hashing);
        let Departing { batches, members } = departing;
        let taken = take(meter, offer, burst, batches, members);
        offer.count(burst.len() as u64, taken.bytes);
        meter.count_backward(taken.backward);
        meter.prepare(departing, |n| {
            let mbuf = burst.get(taken.position(n));
            mbuf.map_or(&[][..], |mbuf| mbuf.head())
        });
        meter.passed(departing, hashes);
    }
}

// Packets of a burst that have the same stamp, when they leave.

/// Result of removing a burst's stamps.
#[derive(Debug, Default)]
struct Taken {
    pub bytes: u64,
    /// A bit for each packet, from the lowest: whether it had a stamp.
    stamped: u64,
    /// Packets whose stamps are later than the present time; their delay is 0.
    pub backward: u64,
}

impl Taken {
    /// Returns the index of the n-th stamped packet.
    pub fn position(&self, n: usize) -> usize {
        let mut stamped = self.stamped;
        for _ in 0..n {
            stamped &= stamped.wrapping_sub(1);
        }
        stamped.trailing_zeros() as usize
    }
}

/// Returns the stamp of the packets at the front of a burst, if the first packet has one.
#[inline]
fn first_of(stamps: &Stamps, burst: &[PassingMbuf<'_>]) -> Option<SharedStamp> {
    (stamps.field).first_of(burst, |mbuf, last| stamps.ids.vouch(last, mbuf.port()))
}

/// Removes the stamps of at most [`BURST`] packets. Returns a batch for consecutive packets with the same stamp, and
/// the content of the stamps.
#[inline]
fn take(
    meter: &Meter,
    offer: Offer<'_>,
    burst: &mut [PassingMbuf<'_>],
    batches: &mut ArrayVec<Batch, BURST>,
    members: &mut Members,
) -> Taken {
    let stamps = offer.stamps;
    let mut taken = Taken::default();
    let mut first = 0;
    while let Some(rest) = burst.get_mut(first..).filter(|rest| !rest.is_empty()) {
        let Some(shared) = first_of(stamps, rest) else {
            taken.bytes += u64::from(rest[0].len_bytes());
            first += 1;
            continue;
        };
        let (mut batch, class, is_backward) = departure(meter, offer, shared.last);
        let alike = if meter.tagging().stamps_packets() {
            &mut rest[..1]
        } else {
            rest
        };
        (batch.packets, batch.bytes) = stamps.field.take_run(alike, &shared);
        let run = alike[..batch.packets].iter();
        match stamps.hashing {
            Hashing::None => {}
            Hashing::Flow => members.append::<false>(run.map(member(meter, stamps, &batch))),
            Hashing::Packet => members.append::<true>(run.map(member(meter, stamps, &batch))),
        }
        let packets = batch.packets as u64;
        taken.bytes += batch.bytes;
        taken.stamped |= (u64::MAX >> (BURST - batch.packets)) << first;
        taken.backward += if is_backward { packets } else { 0 };
        if stamps.has_classes {
            offer.count_class(class, packets, batch.bytes);
        }
        first += batch.packets;
        batches.push(batch);
    }
    taken
}

/// Reads a packet's stamp; its flow is about to be looked up.
#[inline]
fn member(meter: &Meter, stamps: &Stamps, batch: &Batch) -> impl Fn(&PassingMbuf<'_>) -> Member {
    let (flows, field, segment) = (meter.tagging().flows(), stamps.field, batch.segment);
    move |mbuf| {
        let [flow, packet] = field.first_words(mbuf);
        let flow = FlowHash(flow);
        if let Some(flows) = flows {
            flows.prefetch(FlowId::new(flow, segment));
        }
        Member {
            flow,
            packet: PacketHash(packet),
            bytes: mbuf.len_bytes(),
        }
    }
}

/// Evaluates a last word: returns an empty batch, its class, and whether the stamp is later than the present time.
#[inline(never)]
fn departure(meter: &Meter, offer: Offer<'_>, last: u64) -> (Batch, ClassIndex, bool) {
    let now = if meter.tagging().stamps_packets() && offer.is_present {
        Ticks(tsc::now())
    } else {
        offer.now
    };
    let stamp = Stamp::read(last, now);
    let epoch = meter.epochs.epoch_of(stamp.arrived);
    let segments = (meter.epochs).segments_of(epoch, stamp.port, offer.to);
    let batch = Batch {
        packets: 0,
        bytes: 0,
        arrived: stamp.arrived,
        delay: now.since(stamp.arrived),
        segment: segments[usize::from(stamp.class.0 & 7)],
        epoch,
    };
    (batch, stamp.class, stamp.is_backward)
}

// Plans on their way from the control core to a transmit queue, and back when they are no longer used.

/// Largest number of plans in flight to a queue; none is sent while there is no room.
const PLANS_MAX: usize = 2;

/// A new plan from an epoch on; `None` disables measuring.
#[derive(Debug)]
pub struct PlanChange {
    pub from: Epoch,
    pub plan: Option<Box<Plan>>,
}

/// The control core's end.
#[derive(Debug)]
pub struct PlanSender {
    coming: Producer<PlanChange>,
    gone: Consumer<Box<Plan>>,
}

/// The queue's end.
#[derive(Debug)]
pub struct PlanReceiver {
    coming: Consumer<PlanChange>,
    gone: Producer<Box<Plan>>,
}

/// Both ends.
pub fn plan_changes() -> (PlanSender, PlanReceiver) {
    let (coming_in, coming) = RingBuffer::new(PLANS_MAX);
    // All plans in flight, and the plan in use.
    let (gone, gone_out) = RingBuffer::new(PLANS_MAX + 1);
    let sender = PlanSender {
        coming: coming_in,
        gone: gone_out,
    };
    (sender, PlanReceiver { coming, gone })
}

impl PlanSender {
    /// Whether another plan can be sent.
    pub fn has_room(&self) -> bool {
        !self.coming.is_full()
    }

    /// Sends a plan. Call this only while there [is room](Self::has_room).
    pub fn send(&mut self, change: PlanChange) {
        let is_sent = self.coming.push(change).is_ok();
        assert!(is_sent, "the caller has checked for room");
    }

    /// Frees plans that are no longer in use.
    pub fn free_gone(&mut self) {
        while self.gone.pop().is_ok() {}
    }
}

impl PlanReceiver {
    /// Rolls over and seals epochs if it is time at `now`, and applies a plan at the rollover to its epoch or a later
    /// one.
    #[inline]
    pub fn roll_over(&mut self, epochs: &mut Epochs, now: Ticks) {
        if let Some(epoch) = epochs.rollover_at(now)
            && !epochs.are_retiring()
            && self.coming.peek().is_ok_and(|next| next.from <= epoch)
            && let Ok(next) = self.coming.pop()
        {
            epochs.replan(next.plan, now);
        }
        epochs.tick(now);
        if let Some(old) = epochs.take_retired() {
            let is_sent = self.gone.push(old).is_ok();
            debug_assert!(is_sent, "there is room for all plans in flight");
        }
    }
}

#[cfg(test)]
mod tests;
