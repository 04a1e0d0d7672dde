//! What happens to packets as a transmit queue is offered them, and the shard that they go to.
//!
//! The queue's own thread does all of it, as long as packets pass. The epochs of a queue that rests
//! are rolled over by the control core. Both take one lock, and neither waits for it: packets that find it
//! taken are counted and not measured, and their epoch is marked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contract::counters::{PortCounters, WorkerCounters};
use contract::ids::PortIndex;
use dpdk_bindings::{PassingMbuf, StampField, Tap, tsc};
use measure::packet::{Hashing, RandomHashes};
use measure::time::Ticks;
use switch::departing::Departing;
use switch::meter::Meter;
use switch::packet_io::{BURST, ClassIndex};
use try_lock::TryLock;

use crate::plans::{PlanReceiver, PlanSender, plan_changes};
use crate::ports::Home;
use crate::stamp::{PortIds, Stamp};

mod runs;

/// How a stamped packet is recognised.
#[derive(Debug, Clone)]
pub struct Stamps {
    pub field: StampField,
    pub ids: Arc<PortIds>,
    /// Whether there is more than one class.
    pub has_classes: bool,
    /// What they say of each packet.
    pub hashing: Hashing,
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
    point: TryLock<Point>,
}

/// Where packets are recorded.
#[derive(Debug)]
struct Point {
    meter: Meter,
    departing: Departing,
    plans: PlanReceiver,
    /// For packets that come without a hash of their own.
    hashes: RandomHashes,
}

/// A port that is offered packets.
#[derive(Clone, Copy)]
struct Offer<'d> {
    stamps: &'d Stamps,
    counters: &'d PortCounters,
    to: PortIndex,
    now: Ticks,
    /// Whether `now` is the present; else the packets have left at that time.
    is_present: bool,
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
        let mut all_bytes = 0;
        for mbuf in &mut *burst {
            let (bytes, one) = (u64::from(mbuf.len_bytes()), std::slice::from_mut(mbuf));
            all_bytes += bytes;
            if let Some(shared) = runs::first_of(self.stamps, one) {
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
    /// A queue that records nothing until it is sent a plan.
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

    /// Rolls epochs over at `now` on behalf of a queue that has rested for `rest_ticks`.
    pub fn roll_over_for(&self, now: Ticks, rest_ticks: u64) {
        if now.saturating_since(Ticks(self.seen.load(Ordering::Relaxed))) >= rest_ticks
            && let Some(mut point) = self.point.try_lock()
        {
            point.roll_over(now);
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
        self.leave::<true>(burst, Ticks(tsc::now()));
    }

    fn taken(&self, burst: &mut [PassingMbuf<'_>], refused: usize, offered_tsc: u64) {
        if let Some(counters) = self.counters.ports.get(self.home.port().index()) {
            counters.refused_packets.add(refused as u64);
        }
        // One that was refused keeps its stamp: it is recorded when it is taken.
        if !burst.is_empty() {
            self.leave::<false>(burst, Ticks(offered_tsc));
        }
    }
}

impl Departures {
    /// Packets leave at `now`, which is the present or a moment ago.
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
        point.roll_over(now);
        for part in burst.chunks_mut(BURST) {
            point.record(offer, part);
        }
    }
}

impl Point {
    /// Takes up a plan and rolls epochs over, if it is time.
    #[inline]
    fn roll_over(&mut self, now: Ticks) {
        self.plans.roll_over(&mut self.meter.epochs, now);
    }

    /// Takes the stamps off, and records packets that share one together.
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
        let taken = runs::take(meter, offer, burst, batches, members);
        offer.count(burst.len() as u64, taken.bytes);
        meter.count_backward(taken.backward);
        meter.prepare(departing, |n| {
            let mbuf = burst.get(taken.position(n));
            mbuf.map_or(&[][..], |mbuf| mbuf.head())
        });
        meter.passed(departing, hashes);
    }
}

#[cfg(test)]
mod tests {
    use contract::config::PORTS_MAX;
    use dpdk_bindings::{Eal, EalOptions, Mbuf};
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
            hashing: Hashing::Packet,
        };
        let field = stamps.field;
        let schedule = EpochSchedule::new(Ticks(0), 1_000, 100);
        let meter = Meter::new(Hasher::new([0; 16]), schedule, None, Ticks(0));
        let counters = Arc::new(WorkerCounters::new(PORTS_MAX));
        let (departures, _plans) = Departures::new(stamps, meter, Arc::clone(&counters));
        departures.home.move_to(Some(PortIndex(2)));

        let frames = (60..63).map(|len| pool.alloc_frame(&[0; 60], len).unwrap());
        let mut burst: Vec<Mbuf<'_>> = frames.collect();
        let word = last_word(PortIndex(1), ClassIndex(5), Ticks(tsc::now()));
        field.set_last_of(&mut burst[1..], word);
        let taken = departures.point.try_lock().unwrap();
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
        // Of three that a guest was offered it took one, and then none.
        departures.taken(PassingMbuf::of(&mut burst[..1]), 2, tsc::now());
        departures.taken(&mut [], 2, tsc::now());
        let counts = (port.tx_packets.get(), port.refused_packets.get());
        assert_eq!(counts, (7, 4));
    }
}
