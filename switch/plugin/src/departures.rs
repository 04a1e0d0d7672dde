//! What happens to packets as a transmit queue is offered them, and the shard that they go to.
//!
//! The queue's own thread does all of it, as long as packets pass. A queue that rests turns its epochs
//! by the control core's hand: whoever has the lock. Nobody waits for it: packets that find it taken
//! are counted as unseen, and their epoch is marked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use arrayvec::ArrayVec;
use control::counters::WorkerCounters;
use dpdk_bindings::{Mbuf, StampField, Tap, tsc};
use measure::flows::{FlowId, FlowSight};
use measure::packet::{FlowHash, PacketHash};
use measure::shard::Places;
use measure::sight::{Sight, Sights};
use measure::time::{Epoch, EpochTag};
use parking_lot::Mutex;
use rtrb::{Consumer, Producer, RingBuffer};
use switch::flows::{FlowSights, Flows};
use switch::meter::{Meter, Plan, SightBurst};
use switch::packet_io::{BURST, ClassIndex, NO_SEGMENT, PortIndex};

use crate::arrivals::NOWHERE;
use crate::stamp::{self, NO_PORT, PortIds, Stamp};

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
    /// Packets that came without a hash.
    nameless: u64,
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
                nameless: 0,
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
        for part in burst.chunks_mut(BURST) {
            if self.stamps.have_hashes {
                point.record::<true>(&self.stamps, part, to, now);
            } else {
                point.record::<false>(&self.stamps, part, to, now);
            }
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

    /// Takes the stamps off, and records what they say.
    #[inline]
    fn record<const HASHED: bool>(
        &mut self,
        stamps: &Stamps,
        burst: &mut [Mbuf<'_>],
        to: PortIndex,
        now: u64,
    ) {
        let Some(counters) = self.counters.ports.get(usize::from(to.0)) else {
            return;
        };
        let (mut sights, mut places) = (SightBurst::new_const(), ArrayVec::new_const());
        let mut seen = Seen::of(&self.meter, to, now, &mut sights, &mut places);
        let mut classes = [(0, 0); 8];
        let mut bytes = 0;
        // A last word that speaks for packets without the flag that came by a port: none as yet.
        let mut trusted = (0, NO_PORT);
        for (n, mbuf) in (0_u8..).zip(&mut *burst) {
            let len_bytes = mbuf.len_bytes();
            bytes += u64::from(len_bytes);
            let vouches = |mbuf: &Mbuf<'_>, [_, _, last]: [u64; 3]| {
                // Packets of a burst share it.
                let is_vouched =
                    (last, mbuf.port()) == trusted || stamps.ids.vouch(last, mbuf.port());
                if is_vouched {
                    trusted = (last, mbuf.port());
                }
                is_vouched
            };
            let Some([flow, packet, last]) = stamps.field.take(mbuf, vouches) else {
                continue;
            };
            let hashes = if HASHED {
                (FlowHash(flow), PacketHash(packet))
            } else {
                // An LDA spreads packets over its rows by chance: that of their hashes, or any other.
                self.nameless = self.nameless.wrapping_add(1);
                (FlowHash(0), PacketHash(stamp::spread(self.nameless)))
            };
            let class = seen.add::<HASHED>(hashes, last, len_bytes, n);
            if stamps.has_classes {
                let (packets, bytes) = &mut classes[usize::from(class.0 & 7)];
                *packets += 1;
                *bytes += u64::from(len_bytes);
            }
        }
        counters.tx_packets.add(burst.len() as u64);
        counters.tx_bytes.add(bytes);
        if !stamps.has_classes {
            classes[0] = (burst.len() as u64, bytes);
        }
        for (counters, (packets, bytes)) in counters.classes.iter().zip(classes) {
            if packets > 0 {
                counters.tx_packets.add(packets);
                counters.tx_bytes.add(bytes);
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
    /// What port, class and time of the last packet came to, and the word that they were in.
    last: (u64, Sight, ClassIndex),
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
        let nothing = Sight {
            flow: FlowHash(0),
            packet: PacketHash(0),
            time: 0,
            delay: 0,
            bytes: 0,
            segment: NO_SEGMENT,
            epoch: EpochTag(0),
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
            last: (u64::MAX, nothing, ClassIndex(0)),
            are_alike: true,
        }
    }

    /// Adds a packet; its class.
    #[expect(
        clippy::inline_always,
        reason = "called for every packet, the words would go through memory"
    )]
    #[inline(always)]
    fn add<const HASHED: bool>(
        &mut self,
        (flow, packet): (FlowHash, PacketHash),
        last: u64,
        bytes: u32,
        place: u8,
    ) -> ClassIndex {
        // Packets of a burst share all but their hashes.
        if last != self.last.0 || self.stamps_packets {
            self.are_alike &= self.sights.is_empty();
            self.last = self.read(last);
        }
        let sight = Sight {
            flow,
            packet,
            bytes,
            ..self.last.1
        };
        // Without hashes there are no flows.
        if HASHED && let Some(flows) = self.flows {
            flows.prefetch(FlowId::of(&sight));
            self.places.push(place);
        }
        self.sights.push(sight);
        self.last.2
    }

    #[inline(never)]
    fn read(&self, last: u64) -> (u64, Sight, ClassIndex) {
        let now = if self.stamps_packets {
            tsc::now()
        } else {
            self.now
        };
        let stamp = Stamp::read(last, now);
        let segments = self.meter.segments(stamp.port, self.to);
        let (epoch, start) = self.meter.epoch_of(stamp.arrived);
        let sight = Sight {
            flow: FlowHash(0),
            packet: PacketHash(0),
            time: now.wrapping_sub(start),
            delay: now.wrapping_sub(stamp.arrived),
            bytes: 0,
            segment: segments[usize::from(stamp.class.0 & 7)],
            epoch,
        };
        (last, sight, stamp.class)
    }
}
