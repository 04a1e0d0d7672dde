//! What happens to packets as a transmit queue is offered them, and the shard that they go to.
//!
//! The queue's own thread does all of it, as long as packets pass. The epochs of a queue that rests
//! are turned by the control core. Both take one lock, for which nobody waits: packets that find it taken
//! are counted and not measured, and their epoch is marked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use contract::counters::{PortCounters, WorkerCounters};
use contract::ids::PortIndex;
use dpdk_bindings::{Mbuf, PassingMbuf, StampField, Tap, tsc};
use measure::flows::{FlowId, FlowObservation};
use measure::observation::{Batch, Observation, Observations, SegmentIndex};
use measure::packet::{FlowHash, Nameless, PacketHash};
use measure::shard::Places;
use measure::time::{Epoch, EpochTag, Ticks};
use parking_lot::Mutex;
use rtrb::{Consumer, Producer, RingBuffer};
use switch::flows::{FlowObservations, Flows};
use switch::meter::{Meter, ObservationBurst, Plan};
use switch::packet_io::{BURST, ClassIndex, NO_SEGMENT};

use crate::places::Home;
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

/// Recognises a stamped packet.
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
    pub home: Home,
    stamps: Stamps,
    /// When the queue's own thread was last at the point, in ticks.
    seen: AtomicU64,
    /// Packets that found the point taken.
    unmeasured: AtomicU64,
    counters: Arc<WorkerCounters>,
    point: Mutex<Point>,
}

/// Where packets are recorded.
#[derive(Debug)]
struct Point {
    meter: Meter,
    flows: Box<FlowObservations>,
    places: Box<Places>,
    coming: Consumer<Turn>,
    gone: Producer<Box<Plan>>,
    /// For packets that come without a hash.
    nameless: Nameless,
}

/// A port that is offered packets.
#[derive(Clone, Copy)]
struct Offer<'d> {
    stamps: &'d Stamps,
    counters: &'d PortCounters,
    to: PortIndex,
    now: Ticks,
}

impl Offer<'_> {
    /// Counts packets, as those of the only class where there is no other.
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

    /// Takes the stamps off and counts the packets, no more.
    #[cold]
    fn only_count(self, burst: &mut [PassingMbuf<'_>]) {
        let mut trust = Trust::new(&self.stamps.ids);
        let mut all_bytes = 0;
        for mbuf in &mut *burst {
            let bytes = u64::from(mbuf.len_bytes());
            all_bytes += bytes;
            let taken = (self.stamps.field).take_last(mbuf, |mbuf, last| trust.vouches(mbuf, last));
            if let Some(last) = taken
                && self.stamps.has_classes
            {
                self.count_class(Stamp::read(last, self.now).class, 1, bytes);
            }
        }
        self.count(burst.len() as u64, all_bytes);
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
            home: Home::nowhere(),
            stamps,
            seen: AtomicU64::new(0),
            unmeasured: AtomicU64::new(0),
            counters,
            point: Mutex::new(Point {
                meter,
                flows: Box::new([FlowObservation::EMPTY; BURST]),
                places: Box::new(Places::new()),
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

    /// Turns epochs at `now` on behalf of a queue that has rested for `rest_ticks`.
    pub fn turn_for(&self, now: Ticks, rest_ticks: u64) {
        if now.saturating_since(Ticks(self.seen.load(Ordering::Relaxed))) >= rest_ticks
            && let Some(mut point) = self.point.try_lock()
        {
            point.turn(now);
        }
    }

    /// Packets that were counted and not measured.
    pub fn unmeasured(&self) -> u64 {
        self.unmeasured.load(Ordering::Relaxed)
    }
}

impl Tap for Departures {
    #[inline]
    fn pass(&self, burst: &mut [PassingMbuf<'_>]) {
        let now = Ticks(tsc::now());
        let to = self.home.port();
        let Some(counters) = self.counters.ports.get(to.index()) else {
            return;
        };
        let offer = Offer {
            stamps: &self.stamps,
            counters,
            to,
            now,
        };
        let Some(mut point) = self.point.try_lock() else {
            let packets = burst.len() as u64;
            self.unmeasured.fetch_add(packets, Ordering::Relaxed);
            return offer.only_count(burst);
        };
        if self.stamps.have_hashes {
            // Flows are held against their headers.
            for mbuf in &*burst {
                mbuf.prefetch_header();
            }
        }
        self.seen.store(now.0, Ordering::Relaxed);
        point.turn(now);
        if !self.stamps.have_hashes {
            return point.record_batches(offer, burst);
        }
        for part in burst.chunks_mut(BURST) {
            point.record(offer, part);
        }
    }
}

impl Point {
    /// Takes up a plan and turns epochs, where it is time.
    #[inline]
    fn turn(&mut self, now: Ticks) {
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
    fn record_batches(&mut self, offer: Offer<'_>, burst: &mut [PassingMbuf<'_>]) {
        let Self {
            meter, nameless, ..
        } = self;
        let stamps = offer.stamps;
        let mut record = |last: u64, packets: u64, bytes: u64| {
            if packets == 0 {
                return;
            }
            let departure = Departure::read(meter, last, offer.to, offer.now);
            if departure.is_backward {
                meter.count_backward(packets);
            }
            let batch = Batch {
                packets,
                bytes,
                delay: departure.delay,
                segment: departure.segment,
                epoch: departure.epoch,
            };
            meter.passed_batch(&batch, nameless);
            if stamps.has_classes {
                offer.count_class(departure.class, packets, bytes);
            }
        };
        let mut trust = Trust::new(&stamps.ids);
        let shared = (stamps.field).take_last_of(burst, |mbuf, last| trust.vouches(mbuf, last));
        if let Some((last, bytes)) = shared {
            let packets = burst.len() as u64;
            record(last, packets, bytes);
            return offer.count(packets, bytes);
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
        offer.count(burst.len() as u64, all_bytes);
    }

    /// Takes the stamps off, and records what they say.
    #[inline]
    fn record(&mut self, offer: Offer<'_>, burst: &mut [PassingMbuf<'_>]) {
        let stamps = offer.stamps;
        let (mut observations, mut places) = (ObservationBurst::new_const(), ArrayVec::new_const());
        let mut seen = Seen::of(&self.meter, offer, &mut observations, &mut places);
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
        offer.count(burst.len() as u64, bytes);
        for (class, (packets, bytes)) in (0..).map(ClassIndex).zip(classes) {
            if packets > 0 {
                offer.count_class(class, packets, bytes);
            }
        }
        let (are_alike, backward) = (seen.are_alike, seen.backward);
        self.meter.count_backward(backward);
        let observations = if are_alike {
            Observations::alike(&observations)
        } else {
            Observations::from(observations.as_slice())
        };
        if observations.is_empty() {
            return;
        }
        let head = |n: usize| {
            let mbuf = places.get(n).and_then(|&n| burst.get(usize::from(n)));
            mbuf.map_or(&[][..], |mbuf| mbuf.head())
        };
        let flows = self.meter.look_up(observations, &mut self.flows, head);
        self.meter.prepare(observations, flows, &mut self.places);
        self.meter.passed(observations, flows, &self.places);
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
    /// The stamp is after the present; the delay is 0.
    is_backward: bool,
}

impl Departure {
    /// By port `to`, at `now` unless the clock is read for every packet.
    #[inline(never)]
    fn read(meter: &Meter, last: u64, to: PortIndex, now: Ticks) -> Self {
        let now = if meter.stamps_packets() {
            Ticks(tsc::now())
        } else {
            now
        };
        let stamp = Stamp::read(last, now);
        let (epoch, start) = meter.epoch_of(stamp.arrived);
        let segments = meter.segments_of(epoch, stamp.port, to);
        Self {
            time: now.since(start),
            delay: now.since(stamp.arrived),
            segment: segments[usize::from(stamp.class.0 & 7)],
            epoch,
            class: stamp.class,
            is_backward: stamp.is_backward,
        }
    }
}

/// The stamped packets of a burst, as they leave.
struct Seen<'m, 'b> {
    meter: &'m Meter,
    flows: Option<&'m Flows>,
    offer: Offer<'m>,
    stamps_packets: bool,
    observations: &'b mut ObservationBurst,
    /// Their places in the burst, where somebody asks for their headers.
    places: &'b mut ArrayVec<u8, BURST>,
    /// The last packet's last word, and what it came to.
    last: (u64, Departure),
    /// Of one segment, one epoch and one delay.
    are_alike: bool,
    backward: u64,
}

impl<'m, 'b> Seen<'m, 'b> {
    #[inline]
    fn of(
        meter: &'m Meter,
        offer: Offer<'m>,
        observations: &'b mut ObservationBurst,
        places: &'b mut ArrayVec<u8, BURST>,
    ) -> Self {
        let nothing = Departure {
            time: 0,
            delay: 0,
            segment: NO_SEGMENT,
            epoch: EpochTag(0),
            class: ClassIndex(0),
            is_backward: false,
        };
        Self {
            meter,
            flows: meter.flows(),
            offer,
            stamps_packets: meter.stamps_packets(),
            observations,
            places,
            // No packet's: there are not so many ports.
            last: (u64::MAX, nothing),
            are_alike: true,
            backward: 0,
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
            self.are_alike &= self.observations.is_empty();
            self.last = (
                last,
                Departure::read(self.meter, last, self.offer.to, self.offer.now),
            );
        }
        let (_, departure) = &self.last;
        self.backward += u64::from(departure.is_backward);
        let observation = Observation {
            flow,
            packet,
            time: departure.time,
            delay: departure.delay,
            bytes,
            segment: departure.segment,
            epoch: departure.epoch,
        };
        if let Some(flows) = self.flows {
            flows.prefetch(FlowId::of(&observation));
            self.places.push(place);
        }
        self.observations.push(observation);
        departure.class
    }
}

#[cfg(test)]
mod tests {
    use contract::config::PORTS_MAX;
    use dpdk_bindings::{Eal, EalOptions};
    use measure::packet::Hasher;
    use measure::time::EpochSchedule;

    use super::*;
    use crate::stamp::last_word;

    #[test]
    fn a_thread_that_finds_the_point_taken_counts_all_the_same() {
        let options = EalOptions {
            memory_mib: 64,
            ..EalOptions::default()
        };
        let eal = Eal::init("test", &options).unwrap();
        let pool = eal.mempool("test", 127, 0, 2048).unwrap();
        let stamps = Stamps {
            field: StampField::register(&eal).unwrap(),
            ids: Arc::new(PortIds::new()),
            has_classes: true,
            have_hashes: true,
        };
        let field = stamps.field;
        let schedule = EpochSchedule::new(Ticks(0), 1_000, 100);
        let meter = Meter::new(Hasher::new([0; 16]), schedule, None, Ticks(0));
        let counters = Arc::new(WorkerCounters::new(PORTS_MAX));
        let (departures, _turns) = Departures::new(stamps, meter, Arc::clone(&counters));
        departures.home.move_to(Some(PortIndex(2)));

        let frames = (60..63).map(|len| pool.alloc_frame(&[0; 60], len).unwrap());
        let mut burst: Vec<Mbuf<'_>> = frames.collect();
        let word = last_word(PortIndex(1), ClassIndex(5), Ticks(tsc::now()));
        field.set_last_of(&mut burst[1..], word);
        let taken = departures.point.lock();
        departures.pass(PassingMbuf::of(&mut burst));
        drop(taken);

        let port = &counters.ports[2];
        let all = (port.tx_packets.get(), port.tx_bytes.get());
        let class = &port.classes[5];
        assert_eq!(all, (3, 60 + 61 + 62));
        assert_eq!((class.tx_packets.get(), class.tx_bytes.get()), (2, 61 + 62));
        assert_eq!(departures.unmeasured(), 3);
        assert!(burst.iter().all(|mbuf| field.get(mbuf).is_none()));
        departures.pass(PassingMbuf::of(&mut burst));
        assert_eq!((port.tx_packets.get(), departures.unmeasured()), (6, 3));
    }
}
