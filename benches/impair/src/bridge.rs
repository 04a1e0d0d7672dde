//! Two DPDK ports, and the loop between them.

use std::time::{SystemTime, UNIX_EPOCH};

use arrayvec::ArrayVec;
use dpdk_bindings::{Mbuf, Mempool, Port, RxQueue, TxQueue, tsc};
use measure::packet::Hasher;
use measure::time::TickRate;
use testkit::frames::Class;
use testkit::transits::{Counts, Fate, Summary, Transit};

use crate::flood::Flood;
use crate::frame::Packet;
use crate::impairment::Plan;
use crate::mutate::Mutator;
use crate::pipeline::{Arrival, Pipeline};
use crate::record::Recorder;

/// Packets received or sent at a time.
pub(crate) const BURST: usize = 32;

/// Longest nap of the loop, and how late it may wake up.
const NAP_NS: u64 = 100_000;

/// How often the counter is compared with the system's clock.
const CLOCK_NS: u64 = 100_000_000;

/// What all packets have in common.
#[derive(Debug, Clone)]
pub struct Setting {
    /// What is done to them.
    pub plan: Plan,
    /// The deployment's hash.
    pub hasher: Hasher,
    /// `EtherType` of control frames.
    pub ethertype: u16,
    /// Packets under way in each direction, at most.
    pub room: usize,
}

/// The box.
#[derive(Debug)]
pub struct Bridge<'pool> {
    ways: [Way<'pool>; 2],
    pool: &'pool Mempool<'pool>,
    hasher: Hasher,
    ethertype: u16,
    clock: Clock,
    recorder: Option<Recorder>,
    summary: Summary,
}

/// One direction.
#[derive(Debug)]
struct Way<'pool> {
    rx: RxQueue<'pool>,
    tx: TxQueue<'pool>,
    pipeline: Pipeline<Packet<'pool>>,
    mutator: Mutator,
    flood: Flood<'pool>,
    /// What is due, and not with the driver yet.
    due: ArrayVec<Mbuf<'pool>, BURST>,
    transits: ArrayVec<Transit, BURST>,
}

impl<'pool> Bridge<'pool> {
    /// Takes the first queues of both ports; `None` where they are taken.
    pub fn new(
        ports: [&Port<'pool>; 2],
        pool: &'pool Mempool<'pool>,
        rate: TickRate,
        setting: &Setting,
        recorder: Option<Recorder>,
    ) -> Option<Self> {
        let [left, right] = ports;
        let Setting {
            plan,
            ethertype,
            room,
            ..
        } = setting;
        let way = |number: u8, from: &Port<'pool>, to: &Port<'pool>| {
            let direction = [&plan.to_right, &plan.to_left][usize::from(number)];
            let seed = [plan.seed, number.into()];
            Some(Way {
                rx: from.rx_queue(0)?,
                tx: to.tx_queue(0)?,
                pipeline: Pipeline::new(number, &direction.rules, plan.seed, *room),
                mutator: Mutator::new(&direction.made_up, seed, *ethertype),
                flood: Flood::new(direction.replay.clone()),
                due: ArrayVec::new(),
                transits: ArrayVec::new(),
            })
        };
        Some(Self {
            ways: [way(0, left, right)?, way(1, right, left)?],
            pool,
            hasher: setting.hasher.clone(),
            ethertype: *ethertype,
            clock: Clock::new(rate),
            recorder,
            summary: Summary::default(),
        })
    }

    /// Goes round once: takes in what has come, sends what is due. Returns whether there was, or is,
    /// anything to do.
    pub fn pass(&mut self) -> bool {
        let mut is_busy = false;
        for number in 0..self.ways.len() {
            is_busy |= self.take_in(number);
            is_busy |= self.send(number);
        }
        is_busy
    }

    fn take_in(&mut self, number: usize) -> bool {
        let (Some(way), Some(counts)) =
            (self.ways.get_mut(number), self.summary.ways.get_mut(number))
        else {
            return false;
        };
        let mut burst: ArrayVec<Mbuf<'pool>, BURST> = ArrayVec::new();
        way.rx.receive(&mut burst);
        let now_ns = self.clock.now_ns();
        let made_up = way.mutator.next(now_ns);
        let mut is_made_up = false;
        let mut arrive = |way: &mut Way<'pool>, mbuf: Mbuf<'pool>, is_made_up| {
            let parsed = self.hasher.parse(mbuf.head(), mbuf.len_bytes());
            let arrival = Arrival {
                now_ns,
                packet: parsed.packet.0,
                class: Class::of(mbuf.head(), self.ethertype),
                is_made_up,
            };
            if arrival.class.is_control() && !is_made_up {
                way.mutator.see(mbuf.head());
                way.flood.see(mbuf.head(), arrival.class, now_ns);
            }
            let packet = Packet {
                mbuf,
                pool: self.pool,
            };
            way.pipeline.arrive(arrival, packet, |transit| {
                tell(counts, self.recorder.as_mut(), &self.clock, transit);
            });
        };
        let is_busy = !burst.is_empty();
        let arrived = burst.len() as u64;
        for mbuf in burst {
            arrive(way, mbuf, false);
        }
        if let Some(frame) = made_up
            && let Some(mbuf) = self.pool.alloc_frame(&frame, 0)
        {
            arrive(way, mbuf, true);
            is_made_up = true;
        }
        counts.arrived += arrived;
        counts.made_up += u64::from(is_made_up);
        is_busy
    }

    fn send(&mut self, number: usize) -> bool {
        let (Some(way), Some(counts)) =
            (self.ways.get_mut(number), self.summary.ways.get_mut(number))
        else {
            return false;
        };
        let now_ns = self.clock.now_ns();
        while !way.due.is_full()
            && let Some((packet, transit)) = way.pipeline.next(now_ns)
        {
            way.due.push(packet.mbuf);
            way.transits.push(transit);
        }
        if way.due.is_empty() {
            let replayed = way.flood.send(&mut way.tx, self.pool, now_ns);
            counts.replayed += replayed;
            // What is soon due is not slept on.
            let next_ns = way.pipeline.next_ns();
            return replayed > 0 || next_ns.is_some_and(|next_ns| next_ns < now_ns + NAP_NS);
        }
        let sent = way.tx.transmit(&mut way.due);
        let now_ns = self.clock.now_ns();
        for transit in way.transits.drain(..sent) {
            let transit = way.pipeline.leave(transit, now_ns);
            tell(counts, self.recorder.as_mut(), &self.clock, transit);
        }
        true
    }

    /// What was done so far.
    pub fn summary(&self) -> Summary {
        let unwritten = self.recorder.as_ref().map_or(0, Recorder::unwritten);
        Summary {
            unwritten,
            ..self.summary.clone()
        }
    }

    /// Lets go of what is still here, and waits until the record is written.
    ///
    /// # Errors
    /// When the record could not be written.
    pub fn end(mut self) -> std::io::Result<Summary> {
        for (way, counts) in self.ways.iter_mut().zip(&mut self.summary.ways) {
            let mut ended = |transit| tell(counts, self.recorder.as_mut(), &self.clock, transit);
            for transit in way.transits.drain(..) {
                ended(Transit {
                    fate: Fate::Overrun,
                    ..transit
                });
            }
            way.pipeline.end(ended);
        }
        let summary = self.summary();
        self.recorder.map_or(Ok(()), Recorder::end)?;
        Ok(summary)
    }
}

fn tell(counts: &mut Counts, recorder: Option<&mut Recorder>, clock: &Clock, transit: Transit) {
    counts.count(&transit);
    if let Some(recorder) = recorder {
        let departs = transit.fate == Fate::Passed;
        recorder.put(Transit {
            arrival_ns: clock.system_ns(transit.arrival_ns),
            departure_ns: if departs {
                clock.system_ns(transit.departure_ns)
            } else {
                0
            },
            ..transit
        });
    }
}

/// Nanoseconds by the counter since the start, and where the system's clock stands to them.
#[derive(Debug)]
struct Clock {
    rate: TickRate,
    started: u64,
    /// What the system's clock is ahead by.
    ahead_ns: u64,
    compared_ns: u64,
}

impl Clock {
    fn new(rate: TickRate) -> Self {
        let mut clock = Self {
            rate,
            started: tsc::now(),
            ahead_ns: 0,
            compared_ns: 0,
        };
        clock.compare(0);
        clock
    }

    /// Only rises.
    fn now_ns(&mut self) -> u64 {
        let elapsed = tsc::now().wrapping_sub(self.started);
        let now_ns = self.rate.ticks_to_ns(elapsed);
        if now_ns >= self.compared_ns + CLOCK_NS {
            self.compare(now_ns);
        }
        now_ns
    }

    fn compare(&mut self, now_ns: u64) {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let since_1970 = since_1970.map_or(0, |since| since.as_nanos());
        self.ahead_ns = u64::try_from(since_1970)
            .unwrap_or(0)
            .saturating_sub(now_ns);
        self.compared_ns = now_ns;
    }

    fn system_ns(&self, now_ns: u64) -> u64 {
        now_ns + self.ahead_ns
    }
}
