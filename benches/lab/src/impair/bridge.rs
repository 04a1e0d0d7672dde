//! Two DPDK ports, and the loop between them.

use arrayvec::ArrayVec;
use dpdk_bindings::{Mbuf, Mempool, RxQueue, TxQueue};
use measure::packet::Hasher;

use crate::frames::kind;
use crate::impair::Plan;
use crate::impair::flood::{Flood, Replay};
use crate::impair::mutate::{MadeUp, Mutator};
use crate::impair::pipeline::Pipeline;
use crate::impair::record::Recorder;
use crate::impair::rewrite::rewrite;
use crate::impair::rule::Rule;
use crate::ports::{BURST, Clock, Queues};
use crate::transits::{Counts, Fate, Summary, Transit};

/// Longest sleep of the loop, and how late it may wake up.
const NAP_NS: u64 = 100_000;

/// Maximum number of packets in flight in each direction.
const ROOM: usize = 16_384;

#[derive(Debug)]
pub struct Bridge<'pool> {
    /// To the right, and to the left.
    ways: [Way<'pool>; 2],
    common: Common<'pool>,
}

/// State used by both directions.
#[derive(Debug)]
struct Common<'pool> {
    pool: &'pool Mempool<'pool>,
    hasher: Hasher,
    clock: Clock,
    recorder: Option<Recorder>,
}

/// One direction.
#[derive(Debug)]
struct Way<'pool> {
    rule: Rule,
    rx: RxQueue<'pool>,
    tx: TxQueue<'pool>,
    pipeline: Pipeline<Mbuf<'pool>>,
    mutator: Mutator,
    flood: Flood<'pool>,
    /// Packets that are due and not yet passed to the driver.
    due: ArrayVec<Mbuf<'pool>, BURST>,
    transits: ArrayVec<Transit, BURST>,
    counts: Counts,
}

impl<'pool> Bridge<'pool> {
    /// Between the queues of the left port and of the right one.
    pub fn new(
        [(left_rx, left_tx), (right_rx, right_tx)]: [Queues<'pool>; 2],
        pool: &'pool Mempool<'pool>,
        plan: &Plan,
        hasher: Hasher,
        recorder: Option<Recorder>,
    ) -> Self {
        let rule = |rule: &Option<Rule>| rule.clone().or(plan.both.clone()).unwrap_or_default();
        let way = |direction: u8, rule: Rule, rx, tx| {
            let (made_up, replay) = match direction {
                0 => (plan.made_up.clone(), plan.replay.clone()),
                _ => (MadeUp::default(), Replay::default()),
            };
            Way {
                rx,
                tx,
                pipeline: Pipeline::new(direction, &rule, plan.seed, ROOM),
                mutator: Mutator::new(made_up, plan.seed, direction),
                flood: Flood::new(replay),
                due: ArrayVec::new(),
                transits: ArrayVec::new(),
                counts: Counts::default(),
                rule,
            }
        };
        Self {
            ways: [
                way(0, rule(&plan.to_right), left_rx, right_tx),
                way(1, rule(&plan.to_left), right_rx, left_tx),
            ],
            common: Common {
                pool,
                hasher,
                clock: Clock::default(),
                recorder,
            },
        }
    }

    /// Receives packets, and sends those that are due. Returns whether there was, or is, anything to do.
    pub fn pass(&mut self) -> bool {
        let mut is_busy = false;
        for way in &mut self.ways {
            is_busy |= way.take_in(&mut self.common);
            is_busy |= way.send(&mut self.common);
        }
        is_busy
    }

    /// Counts so far.
    pub fn summary(&self) -> Summary {
        let recorder = self.common.recorder.as_ref();
        Summary {
            ways: self.ways.each_ref().map(|way| way.counts.clone()),
            unwritten: recorder.map_or(0, Recorder::unwritten),
        }
    }

    /// Drops the remaining packets, and waits until the record is written.
    pub fn end(mut self) -> std::io::Result<Summary> {
        for way in &mut self.ways {
            for transit in way.transits.drain(..) {
                let fate = Fate::Overrun;
                self.common
                    .note(&mut way.counts, Transit { fate, ..transit });
            }
            way.pipeline
                .end(|transit| self.common.note(&mut way.counts, transit));
        }
        let summary = self.summary();
        self.common.recorder.map_or(Ok(()), Recorder::end)?;
        Ok(summary)
    }
}

impl<'pool> Way<'pool> {
    fn take_in(&mut self, common: &mut Common<'pool>) -> bool {
        let mut burst: ArrayVec<Mbuf<'pool>, BURST> = ArrayVec::new();
        let received = self.rx.receive(&mut burst);
        self.counts.arrived += received as u64;
        let now_ns = common.clock.now_ns();
        let made_up = self.mutator.next(now_ns);
        for mbuf in burst {
            let arrival = common.arrival(&mbuf, now_ns);
            if arrival.kind > 0 {
                self.mutator.see(mbuf.head());
                self.flood.see(mbuf.head(), arrival.kind, now_ns);
            }
            self.arrive(common, arrival, mbuf);
        }
        if let Some(frame) = made_up
            && let Some(mbuf) = common.pool.alloc_frame(&frame, 0)
        {
            self.counts.made_up += 1;
            let arrival = Transit {
                is_made_up: true,
                ..common.arrival(&mbuf, now_ns)
            };
            self.arrive(common, arrival, mbuf);
        }
        received > 0
    }

    fn arrive(&mut self, common: &mut Common<'pool>, mut arrival: Transit, mut mbuf: Mbuf<'pool>) {
        if let Err(fate) = rewrite(&self.rule, mbuf.head_mut()) {
            arrival.fate = fate;
        }
        self.pipeline.arrive(arrival, mbuf, |transit| {
            common.note(&mut self.counts, transit);
        });
    }

    fn send(&mut self, common: &mut Common<'pool>) -> bool {
        let now_ns = common.clock.now_ns();
        while !self.due.is_full()
            && let Some((mbuf, transit)) = self.pipeline.next(now_ns)
        {
            self.due.push(mbuf);
            self.transits.push(transit);
        }
        if self.due.is_empty() {
            let replayed = self.flood.send(&mut self.tx, common.pool, now_ns);
            self.counts.replayed += replayed;
            // Do not sleep if a packet is due soon.
            let next_ns = self.pipeline.next_ns();
            return replayed > 0 || next_ns.is_some_and(|next_ns| next_ns < now_ns + NAP_NS);
        }
        let sent = self.tx.transmit(&mut self.due);
        let now_ns = common.clock.now_ns();
        for transit in self.transits.drain(..sent) {
            let transit = self.pipeline.leave(transit, now_ns);
            common.note(&mut self.counts, transit);
        }
        true
    }
}

impl Common<'_> {
    fn arrival(&self, mbuf: &Mbuf<'_>, arrival_ns: u64) -> Transit {
        let parsed = self.hasher.parse(mbuf.head(), mbuf.len_bytes());
        Transit {
            packet: parsed.packet.0,
            arrival_ns,
            bytes: mbuf.len_bytes(),
            kind: kind(mbuf.head()),
            ..Transit::default()
        }
    }

    /// Counts and records the fate of a packet.
    fn note(&mut self, counts: &mut Counts, transit: Transit) {
        counts.count(&transit);
        if let Some(recorder) = &mut self.recorder {
            recorder.put(transit);
        }
    }
}
