//! What happens to packets as a transmit queue is offered them, and the shard that they go to.
//!
//! The queue's own thread does all of it, as long as packets pass. A queue that rests turns its epochs
//! by the control core's hand: whoever has the lock. Nobody waits for it: packets that find it taken
//! are counted as unseen, and their epoch is marked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use arrayvec::ArrayVec;
use control::counters::{PortCounters, WorkerCounters};
use dpdk_bindings::{Mbuf, StampField, Tap, tsc};
use measure::flows::{FlowId, FlowSight};
use measure::packet::{FlowHash, Nameless, PacketHash};
use measure::shard::Places;
use measure::sight::{Batch, SegmentIndex, Sight, Sights};
use measure::time::{Epoch, EpochTag};
use parking_lot::Mutex;
use rtrb::{Consumer, Producer, RingBuffer};
use switch::flows::{FlowSights, Flows};
use switch::meter::{Meter, Plan, SightBurst};
use switch::packet_io::{BURST, ClassIndex, NO_SEGMENT, PortIndex};

use crate::arrivals::NOWHERE;
use crate::stamp::{NO_PORT, PortIds, Stamp};

/// Plans under way to a queue at most; none is sent while one finds no room.
const PLANS_MAX: usize = 2;

/// Another way to measure, from an epoch on; none: not at all.
#[derive(Debug)]
pub struct Turn {
    pub from: Epoch,
    pub plan: Option<Box<Plan>>,
}

/// The control side's end of a queue's plans.
#[derive(Debug)]
pub struct Turns {
    coming: Producer<Turn>,
    gone: Consumer<Box<Plan>>,
}

impl Turns {
    /// Whether another plan can be sent.
    pub fn has_room(&self) -> bool {
        !self.coming.is_full()
    }

    /// Sends a plan on its way; to be called only while there [is room](Self::has_room).
    pub fn send(&mut self, turn: Turn) {
        let _ = self.coming.push(turn);
    }

    /// Frees plans that are no longer in use.
    pub fn free_gone(&mut self) {
        while self.gone.pop().is_ok() {}
    }
}

/// What knows a stamped packet.
#[derive(Debug, Clone)]
pub struct Stamps {
    pub field: StampField,
    pub ids: Arc<PortIds>,
    /// Whether there is more than one class.
    pub has_classes: bool,
    /// Whether they say which flow and packet it is.
    pub have_hashes: bool,
}

/// One transmit queue, recording.
#[derive(Debug)]
pub struct Departures {
    stamps: Stamps,
    /// The port's place, or [`NOWHERE`].
    place: AtomicU8,
    /// When the queue's own thread was last at the point, in ticks.
    seen: AtomicU64,
    /// Packets that found the point taken.
    unseen: AtomicU64,
    point: Mutex<Point>,
}

/// Where packets are recorded.
#[derive(Debug)]
struct Point {
    meter: Meter,
    flows: Box<FlowSights>,
    places: Box<Places>,
    counters: Arc<WorkerCounters>,
    coming: Consumer<Turn>,
    gone: Producer<Box<Plan>>,
    /// For packets that come without a hash.
    nameless: Nameless,
}

impl Stamps {
    /// Counts packets that a port is offered, as those of its only class where there is no more.
    #[inline]
    fn count(&self, counters: &PortCounters, packets: u64, bytes: u64) {
        counters.tx_packets.add(packets);
        counters.tx_bytes.add(bytes);
        if !self.has_classes {
            count_class(counters, ClassIndex(0), packets, bytes);
        }
    }
}

#[inline]
fn count_class(counters: &PortCounters, class: ClassIndex, packets: u64, bytes: u64) {
    if let Some(counters) = counters.classes.get(usize::from(class.0)) {
        counters.tx_packets.add(packets);
        counters.tx_bytes.add(bytes);
    }
}

/// Last words that speak for packets without the flag.
struct Trust<'s> {
    ids: &'s PortIds,
    /// The one before, and the port that its packets came by. Packets of a burst share it.
    last: (u64, u16),
}

impl<'s> Trust<'s> {
    fn new(ids: &'s PortIds) -> Self {
        Self {
            ids,
            // No packet's: there are not so many ports.
            last: (u64::MAX, NO_PORT),
        }
    }

    #[inline]
    fn vouches(&mut self, mbuf: &Mbuf<'_>, last: u64) -> bool {
        let words = (last, mbuf.port());
        if words == self.last {
            return true;
        }
        let is_vouched = self.ids.vouch(last, mbuf.port());
        if is_vouched {
            self.last = words;
        }
        is_vouched
    }
}

impl Departures {
    /// A queue that records nothing until it is sent a plan.
    pub fn new(stamps: Stamps, meter: Meter, counters: Arc<WorkerCounters>) -> (Self, Turns) {
        let (coming_in, coming) = RingBuffer::new(PLANS_MAX);
        let (gone, gone_out) = RingBuffer::new(PLANS_MAX + 1);
        let departures = Self {
            stamps,
            place: AtomicU8::new(NOWHERE),
            seen: AtomicU64::new(0),
            unseen: AtomicU64::new(0),
            point: Mutex::new(Point {
                meter,
                flows: Box::new([FlowSight::EMPTY; BURST]),
                places: Box::new(Places::new()),
                counters,
                coming,
                gone,
                nameless: Nameless::default(),
            }),
        };
        let turns = Turns {
            coming: coming_in,
            gone: gone_out,
        };
        (departures, turns)
    }

    /// From now on it is a queue of the port at `place`, or of none that is measured.
    pub fn belongs_to(&self, place: Option<PortIndex>) {
        let place = place.map_or(NOWHERE, |place| place.0);
        self.place.store(place, Ordering::Relaxed);
    }

    /// Turns epochs at `now` on behalf of a queue that has rested for `rest_ticks`.
    pub fn turn_for(&self, now: u64, rest_ticks: u64) {
        if now.saturating_sub(self.seen.load(Ordering::Relaxed)) >= rest_ticks
            && let Some(mut point) = self.point.try_lock()
        {
            point.turn(now);
        }
    }

    /// Packets that could not be looked at.
    pub fn unseen(&self) -> u64 {
        self.unseen.load(Ordering::Relaxed)
    }
}

impl Tap for Departures {
    #[inline]
    fn pass(&self, burst: &mut [Mbuf<'_>]) {
        let now = tsc::now();
        let to = PortIndex(self.place.load(Ordering::Relaxed));
        let Some(mut point) = self.point.try_lock() else {
            self.unseen.fetch_add(burst.len() as u64, Ordering::Relaxed);
            return;
        };
        if self.stamps.have_hashes {
            // Flows are held against their headers.
            for mbuf in &*burst {
                mbuf.prefetch_header();
            }
        }
        self.seen.store(now, Ordering::Relaxed);
        point.turn(now);
        if !self.stamps.have_hashes {
            return point.record_batches(&self.stamps, burst, to, now);
        }
        for part in burst.chunks_mut(BURST) {
            point.record(&self.stamps, part, to, now);
        }
    }
}

impl Point {
    /// Takes up a plan and turns epochs, where it is time.
    #[inline]
    fn turn(&mut self, now: u64) {
        if let Some(epoch) = self.meter.turns_to(now)
            && !self.meter.is_retiring()
            && self.coming.peek().is_ok_and(|next| next.from <= epoch)
            && let Ok(next) = self.coming.pop()
        {
            self.meter.replan(next.plan, now);
        }
        self.meter.tick(now);
        if let Some(old) = self.meter.take_retired() {
            // There is room for all that can be under way.
            let _ = self.gone.push(old);
        }
    }

    /// Takes the stamps off, and records packets that have one in common together: what an LDA alone
    /// asks for.
    #[inline]
    fn record_batches(&mut self, stamps: &Stamps, burst: &mut [Mbuf<'_>], to: PortIndex, now: u64) {
        let Self {
            meter,
            counters,
            nameless,
            ..
        } = self;
        let Some(counters) = counters.ports.get(usize::from(to.0)) else {
            return;
        };
        let mut record = |last: u64, packets: u64, bytes: u64| {
            if packets == 0 {
                return;
            }
            let departure = Departure::read(meter, last, to, now);
            let batch = Batch {
                packets,
                bytes,
                delay: departure.delay,
                segment: departure.segment,
                epoch: departure.epoch,
            };
            meter.passed_batch(&batch, nameless);
            if stamps.has_classes {
                count_class(counters, departure.class, packets, bytes);
            }
        };
        let mut trust = Trust::new(&stamps.ids);
        let shared = (stamps.field).take_last_of(burst, |mbuf, last| trust.vouches(mbuf, last));
        if let Some((last, bytes)) = shared {
            let packets = burst.len() as u64;
            record(last, packets, bytes);
            return stamps.count(counters, packets, bytes);
        }
        let (mut all_bytes, mut last, mut packets, mut bytes) = (0, 0, 0, 0);
        for mbuf in &mut *burst {
            let len_bytes = u64::from(mbuf.len_bytes());
            all_bytes += len_bytes;
            let taken = (stamps.field).take_last(mbuf, |mbuf, last| trust.vouches(mbuf, last));
            let Some(word) = taken else {
                continue;
            };
            if word != last {
                record(last, packets, bytes);
                (last, packets, bytes) = (word, 0, 0);
            }
            packets += 1;
            bytes += len_bytes;
        }
        record(last, packets, bytes);
        stamps.count(counters, burst.len() as u64, all_bytes);
    }

    /// Takes the stamps off, and records what they say.
    #[inline]
    fn record(&mut self, stamps: &Stamps, burst: &mut [Mbuf<'_>], to: PortIndex, now: u64) {
        let Some(counters) = self.counters.ports.get(usize::from(to.0)) else {
            return;
        };
        let (mut sights, mut places) = (SightBurst::new_const(), ArrayVec::new_const());
        let mut seen = Seen::of(&self.meter, to, now, &mut sights, &mut places);
        let mut classes = [(0, 0); 8];
        let mut bytes = 0;
        let mut trust = Trust::new(&stamps.ids);
        for (n, mbuf) in (0_u8..).zip(&mut *burst) {
            let len_bytes = mbuf.len_bytes();
            bytes += u64::from(len_bytes);
            let taken = (stamps.field).take(mbuf, |mbuf, last| trust.vouches(mbuf, last));
            let Some([flow, packet, last]) = taken else {
                continue;
            };
            let hashes = (FlowHash(flow), PacketHash(packet));
            let class = seen.add(hashes, last, len_bytes, n);
            if stamps.has_classes {
                let (packets, bytes) = &mut classes[usize::from(class.0 & 7)];
                *packets += 1;
                *bytes += u64::from(len_bytes);
            }
        }
        stamps.count(counters, burst.len() as u64, bytes);
        for (class, (packets, bytes)) in (0..).map(ClassIndex).zip(classes) {
            if packets > 0 {
                count_class(counters, class, packets, bytes);
            }
        }
        let sights = if seen.are_alike {
            Sights::alike(&sights)
        } else {
            Sights::from(sights.as_slice())
        };
        if sights.is_empty() {
            return;
        }
        // An LDA alone stays near.
        if self.meter.keeps_sketches() {
            self.meter.prepare(sights, &mut self.places);
        } else {
            self.places.clear();
        }
        let head = |n: usize| {
            let mbuf = places.get(n).and_then(|&n| burst.get(usize::from(n)));
            mbuf.map_or(&[][..], Mbuf::head)
        };
        let flows = self.meter.look_up(sights, &mut self.flows, head);
        self.meter.prefetch_flows(flows);
        self.meter.passed(sights, flows, &self.places);
    }
}

/// What a last word comes to as its packets leave.
struct Departure {
    /// Since the epoch's start.
    time: u64,
    delay: u64,
    segment: SegmentIndex,
    epoch: EpochTag,
    class: ClassIndex,
}

impl Departure {
    /// By port `to`, at `now` unless the clock is read for every packet.
    #[inline(never)]
    fn read(meter: &Meter, last: u64, to: PortIndex, now: u64) -> Self {
        let now = if meter.stamps_packets() {
            tsc::now()
        } else {
            now
        };
        let stamp = Stamp::read(last, now);
        let segments = meter.segments(stamp.port, to);
        let (epoch, start) = meter.epoch_of(stamp.arrived);
        Self {
            time: now.wrapping_sub(start),
            delay: now.wrapping_sub(stamp.arrived),
            segment: segments[usize::from(stamp.class.0 & 7)],
            epoch,
            class: stamp.class,
        }
    }
}

/// The stamped packets of a burst, as they leave.
struct Seen<'m, 'b> {
    meter: &'m Meter,
    flows: Option<&'m Flows>,
    to: PortIndex,
    now: u64,
    stamps_packets: bool,
    sights: &'b mut SightBurst,
    /// Their places in the burst, where somebody asks for their headers.
    places: &'b mut ArrayVec<u8, BURST>,
    /// The last packet's last word, and what it came to.
    last: (u64, Departure),
    /// Of one segment, one epoch and one delay.
    are_alike: bool,
}

impl<'m, 'b> Seen<'m, 'b> {
    #[inline]
    fn of(
        meter: &'m Meter,
        to: PortIndex,
        now: u64,
        sights: &'b mut SightBurst,
        places: &'b mut ArrayVec<u8, BURST>,
    ) -> Self {
        let nothing = Departure {
            time: 0,
            delay: 0,
            segment: NO_SEGMENT,
            epoch: EpochTag(0),
            class: ClassIndex(0),
        };
        Self {
            meter,
            flows: meter.flows(),
            to,
            now,
            stamps_packets: meter.stamps_packets(),
            sights,
            places,
            // No packet's: there are not so many ports.
            last: (u64::MAX, nothing),
            are_alike: true,
        }
    }

    /// Adds a packet; its class.
    #[expect(
        clippy::inline_always,
        reason = "called for every packet, the words would go through memory"
    )]
    #[inline(always)]
    fn add(
        &mut self,
        (flow, packet): (FlowHash, PacketHash),
        last: u64,
        bytes: u32,
        place: u8,
    ) -> ClassIndex {
        // Packets of a burst share all but their hashes.
        if last != self.last.0 || self.stamps_packets {
            self.are_alike &= self.sights.is_empty();
            self.last = (last, Departure::read(self.meter, last, self.to, self.now));
        }
        let (_, departure) = &self.last;
        let sight = Sight {
            flow,
            packet,
            time: departure.time,
            delay: departure.delay,
            bytes,
            segment: departure.segment,
            epoch: departure.epoch,
        };
        if let Some(flows) = self.flows {
            flows.prefetch(FlowId::of(&sight));
            self.places.push(place);
        }
        self.sights.push(sight);
        departure.class
    }
}
