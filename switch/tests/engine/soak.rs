//! A long run of everything that disturbs a switch: the engine in memory with a simulated clock,
//! random traffic, links that flap, generations, drivers that refuse, memory that runs out, and a
//! control core that stalls.
//!
//! A hundred thousand passes here; `make soak` goes on for ten minutes, CI for one (`VERNIER_SOAK_SECONDS`).
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use contract::config::{Vlan, VlanIds};
use contract::counters::{PortCounters, WorkerCounters};
use contract::fdb::{DELTAS, FdbMaster, REPORTS, fdb_rings};
use contract::handover::{ControlEnd, handover};
use contract::ids::{GenerationId, PortIndex};
use measure::lda::{Bank, LdaLayout};
use measure::packet::Hasher;
use measure::shard::{ShardLayout, Tally};
use measure::time::{EpochSchedule, Ticks};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use simulate::tube::{GRACE, INTERVAL, frame_between, one_queue, pairs, rate};
use switch::decide::{BridgeLayout, Decide, Lan};
use switch::egress::Lane;
use switch::generation::{Generation, Generations, Measuring, generations};
use switch::meter::{Meter, Plan, SegmentMap};
use switch::packet_io::BURST;
use switch::packet_io::memory::MemoryIo;
use switch::worker::Worker;

const PORTS: u8 = 4;
const STATIONS: u8 = 40;

/// Enough for stalls that cost epochs, however busy the machine is.
const PASSES_MIN: u64 = 100_000;

/// How long to go on at least.
fn length() -> Duration {
    let seconds = std::env::var("VERNIER_SOAK_SECONDS");
    seconds.map_or(Duration::ZERO, |seconds| {
        Duration::from_secs(
            seconds
                .parse()
                .expect("VERNIER_SOAK_SECONDS is a number of seconds"),
        )
    })
}

/// Memory of this process in pages.
fn resident_pages() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The control core's side of one generation of measuring, and what it has seen.
struct Watch {
    end: ControlEnd,
    epochs: BTreeSet<u64>,
}

/// What all epochs together came to.
#[derive(Debug, Default)]
struct Ledger {
    sent: u64,
    received: u64,
    dropped: u64,
    late: u64,
    epochs: u64,
    missed_epochs: u64,
    estimates: u64,
    within_bound: u64,
}

impl Watch {
    fn poll(&mut self, ledger: &mut Ledger) {
        while let Some(sealed) = self.end.take_sealed() {
            assert!(
                self.epochs.insert(sealed.epoch().0),
                "each epoch comes once"
            );
            ledger.epochs += 1;
            for segment in sealed.segments() {
                let Tally {
                    sent,
                    received,
                    dropped,
                    late,
                    ..
                } = segment.tally;
                ledger.sent += sent;
                ledger.received += received;
                ledger.dropped += dropped;
                ledger.late += late;
                assert_eq!(segment.moments.count(), received);
                let Some(truth) = segment.moments.mean_ticks() else {
                    continue;
                };
                let estimate = segment.lda.as_ref().unwrap().estimate(received);
                let interval = estimate.mean_ticks.zip(estimate.ci98_half_width_ticks);
                if let Some((mean, half_width)) = interval {
                    ledger.estimates += 1;
                    // Nothing is known more exactly than to a tick.
                    ledger.within_bound += u64::from((mean - truth).abs() <= half_width.max(1.0));
                }
            }
            self.end.give_back(sealed, []);
        }
    }
}

struct Soak {
    worker: Worker<MemoryIo>,
    counters: Arc<WorkerCounters>,
    generations: Generations<MemoryIo>,
    master: FdbMaster,
    watches: Vec<Watch>,
    ledger: Ledger,
    rng: Pcg64,
    now: u64,
    sequence: u32,
    generation: u32,
    is_change_under_way: bool,
    stalled_until: u64,
    stalls: u64,
    /// By port: when it is well again.
    links_down_until: [u64; PORTS as usize],
    refuses_until: [u64; PORTS as usize],
}

fn plan(generation: u32) -> (Box<Plan>, Watch) {
    let lda = LdaLayout::new(&[Bank {
        rows: 128,
        probability: 1.0,
    }])
    .unwrap();
    let pairs = pairs(PORTS);
    let layout = ShardLayout {
        lda: Some(lda),
        ..ShardLayout::new(rate(), pairs.len())
    };
    let (handover, end) = handover(&layout);
    let plan = Plan {
        handover,
        segments: SegmentMap::new(usize::from(PORTS), pairs),
        hashing: layout.hashing(),
        flows: None,
        stamps_packets: generation % 2 == 1,
        arounds: None,
        references: None,
    };
    (
        Box::new(plan),
        Watch {
            end,
            epochs: BTreeSet::new(),
        },
    )
}

fn lane(port: u8, packets: u32) -> Lane<switch::packet_io::memory::MemoryPacket> {
    // The last port is slow: its queue fills, and drops.
    let capacity_bps = (port == PORTS - 1).then_some(500_000_000);
    Lane::own(
        &one_queue(packets, capacity_bps),
        1500,
        rate(),
        port.into(),
        Vec::new(),
    )
}

fn bridge(rng: &mut Pcg64) -> BridgeLayout {
    let access = Vlan::Access { vlan: 7 };
    let trunk = Vlan::Trunk {
        vlans: VlanIds::All,
        native: Some(7),
    };
    let vlans = [Some(&access), Some(&access), Some(&trunk), Some(&access)];
    let has_vlans = rng.random_bool(0.5);
    let lan = if has_vlans {
        Lan::of((0..PORTS).map(PortIndex).zip(vlans))
    } else {
        Lan::of_plain(PORTS)
    };
    BridgeLayout {
        lan,
        stations_max: if rng.random_bool(0.5) { 64 } else { 1024 },
        ageing: Duration::from_secs(1),
        flood_limit_pps: rng.random_range(1_000..1_000_000),
        seed: rng.random(),
        ..BridgeLayout::plain(PORTS)
    }
}

impl Soak {
    fn new(seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let ports = usize::from(PORTS);
        let (plan, watch) = plan(0);
        let schedule = EpochSchedule::new(Ticks(0), INTERVAL, GRACE);
        let meter = Meter::new(Hasher::new([7; 16]), schedule, Some(plan), Ticks(0));
        let (replica, end) = fdb_rings(REPORTS, DELTAS);
        let mut decide = Decide::bridge(bridge(&mut rng), rate());
        decide.connect(replica);
        let counters = Arc::new(WorkerCounters::new(ports));
        let (generations, worker_generations) = generations();
        let worker = Worker::new(
            MemoryIo::new(ports),
            (0..PORTS).map(|port| lane(port, 64)).collect(),
            Box::new(decide),
            meter,
            Arc::clone(&counters),
            worker_generations,
            Arc::new(AtomicUsize::new(1)),
            10 * INTERVAL,
        );
        Self {
            worker,
            counters,
            generations,
            master: FdbMaster::new(1024, Duration::from_secs(1), [], vec![end]),
            watches: vec![watch],
            ledger: Ledger::default(),
            rng,
            now: 1_000,
            sequence: 0,
            generation: 0,
            is_change_under_way: false,
            stalled_until: 0,
            stalls: 0,
            links_down_until: [0; PORTS as usize],
            refuses_until: [0; PORTS as usize],
        }
    }

    /// Some frames arrive, from stations that mostly stay where they are.
    fn traffic(&mut self) {
        let burst = if self.rng.random_bool(0.02) {
            100
        } else {
            self.rng.random_range(0..12)
        };
        for _ in 0..burst {
            let source: u8 = self.rng.random_range(0..STATIONS);
            let moves = self.rng.random_bool(0.001);
            let port = if moves {
                self.rng.random_range(0..PORTS)
            } else {
                source % PORTS
            };
            let destination = match self.rng.random_range(0..100) {
                0 => [0xff; 6],
                1 => [0x01, 0x80, 0xc2, 0, 0, 2],
                _ => [2, 0, 0, 0, 0, self.rng.random_range(0..STATIONS)],
            };
            self.sequence += 1;
            let mut frame = frame_between(destination, [2, 0, 0, 0, 0, source], self.sequence);
            match self.rng.random_range(0..200) {
                0 => frame.truncate(self.rng.random_range(0..60)),
                1 => frame.resize(3_000, 0),
                2 => drop(frame.splice(12..12, [0x81, 0, 0x60, self.rng.random_range(0..9)])),
                _ => {}
            }
            self.worker.io_mut().arrive(PortIndex(port), frame);
        }
    }

    /// Something happens that disturbs.
    fn disturb(&mut self) {
        let port = self.rng.random_range(0..PORTS);
        let until = self.now + self.rng.random_range(INTERVAL / 10..4 * INTERVAL);
        match self.rng.random_range(0..5) {
            0 => {
                self.links_down_until[usize::from(port)] = until;
                self.master.set_link(PortIndex(port), false);
            }
            1 if self.stalled_until == 0 => {
                self.stalls += 1;
                self.stalled_until = self.now + self.rng.random_range(1..8) * INTERVAL;
            }
            2 => {
                self.refuses_until[usize::from(port)] = until;
                let room = self.rng.random_range(0..20);
                self.worker.io_mut().set_room(PortIndex(port), Some(room));
            }
            3 => {
                let copies = self.rng.random_range(0..100);
                self.worker.io_mut().set_copies_left(copies);
            }
            _ => self.change(),
        }
    }

    /// Another generation, with any of its parts.
    fn change(&mut self) {
        if self.is_change_under_way {
            return;
        }
        self.generation += 1;
        let mut lanes = Vec::new();
        if self.rng.random_bool(0.5) {
            let port = self.rng.random_range(0..PORTS);
            lanes.push((usize::from(port), lane(port, self.rng.random_range(4..200))));
        }
        let decide = self.rng.random_bool(0.5);
        let decide = decide.then(|| Box::new(Decide::bridge(bridge(&mut self.rng), rate())));
        let measuring = match self.rng.random_range(0..4) {
            0 => Measuring::Changed(None),
            1 | 2 => {
                let (plan, watch) = plan(self.generation);
                self.watches.push(watch);
                Measuring::Changed(Some(plan))
            }
            _ => Measuring::Unchanged,
        };
        let present = EpochSchedule::new(Ticks(0), INTERVAL, GRACE).epoch_at(Ticks(self.now));
        let generation = Generation {
            from: present.next().next(),
            decide,
            lanes,
            measuring,
            ..Generation::unchanged(GenerationId(self.generation))
        };
        self.generations
            .send(Box::new(generation))
            .expect("one is under way at a time");
        self.is_change_under_way = true;
    }

    /// What is over is over.
    fn heal(&mut self) {
        for port in 0..PORTS {
            let index = usize::from(port);
            if is_over(&mut self.links_down_until[index], self.now) {
                self.master.set_link(PortIndex(port), true);
            }
            if is_over(&mut self.refuses_until[index], self.now) {
                self.worker.io_mut().set_room(PortIndex(port), None);
                self.worker.io_mut().set_copies_left(usize::MAX);
            }
        }
        is_over(&mut self.stalled_until, self.now);
    }

    /// The control core, where it does not stall.
    fn control(&mut self) {
        if self.stalled_until != 0 {
            return;
        }
        self.master.poll(Duration::from_nanos(self.now));
        for watch in &mut self.watches {
            watch.poll(&mut self.ledger);
        }
        if self.generations.take_gone().is_some() {
            self.is_change_under_way = false;
            // Of what was replaced all shards are in, since the worker let go of its end.
            let ledger = &mut self.ledger;
            self.watches.retain_mut(|watch| {
                let is_over = watch.end.is_over();
                watch.poll(ledger);
                ledger.missed_epochs += if is_over {
                    watch.end.missed_epochs()
                } else {
                    0
                };
                !is_over
            });
            assert!(self.watches.len() <= 2, "old generations go");
        }
    }

    fn pass(&mut self) {
        let moved = self.worker.pass();
        // Each queue brings a burst, and a port sends a few: whatever waits.
        let bound = usize::from(PORTS) * (BURST + 8 * BURST);
        assert!(moved <= bound, "{moved} packets in one pass");
        for port in 0..PORTS {
            self.worker.io_mut().departed(PortIndex(port));
        }
    }

    fn advance(&mut self, ticks: u64) {
        self.now += ticks;
        self.worker.io_mut().set_now(Ticks(self.now));
    }

    fn assert_conserved(&self) {
        let sum = |f: fn(&PortCounters) -> u64| -> u64 { self.counters.ports.iter().map(f).sum() };
        assert_eq!(
            sum(|port| port.rx_packets.get() + port.copies.get()),
            sum(|port| port.tx_packets.get() + port.dropped_total() + port.queued_packets.get()),
            "at {} ns",
            self.now
        );
    }

    fn settle(&mut self) {
        self.now += 20 * INTERVAL;
        self.heal();
        for _ in 0..20 * 20 {
            self.advance(INTERVAL / 20);
            self.pass();
            self.control();
        }
    }
}

/// Whether the time has come; then it is taken back.
fn is_over(until: &mut u64, now: u64) -> bool {
    let is_over = *until != 0 && now >= *until;
    if is_over {
        *until = 0;
    }
    is_over
}

#[test]
fn nothing_leaks_and_nothing_is_wrong_however_it_is_disturbed() {
    let mut soak = Soak::new(0x5eed);
    let (began, length) = (Instant::now(), length());
    let mut early_pages = 0;
    let mut passes = 0_u64;
    while passes < PASSES_MIN || began.elapsed() < length {
        for _ in 0..1_000 {
            let ticks = soak.rng.random_range(200..3_000);
            soak.advance(ticks);
            soak.traffic();
            if soak.rng.random_bool(0.001) {
                soak.disturb();
            }
            soak.heal();
            soak.pass();
            soak.control();
            passes += 1;
        }
        soak.assert_conserved();
        if early_pages == 0 && passes >= PASSES_MIN / 4 && began.elapsed() > length / 4 {
            early_pages = resident_pages();
        }
    }
    let grown = resident_pages().saturating_sub(early_pages);
    soak.settle();
    soak.assert_conserved();
    assert_eq!(
        soak.worker.io_mut().live_packets(),
        0,
        "every packet's memory is back"
    );

    let transmitted: u64 = soak
        .counters
        .ports
        .iter()
        .map(|port| port.tx_packets.get())
        .sum();
    let ledger = &mut soak.ledger;
    ledger.missed_epochs += soak
        .watches
        .iter()
        .map(|watch| watch.end.missed_epochs())
        .sum::<u64>();
    println!(
        "{passes} passes, {} ms of traffic, {transmitted} packets sent, {} generations, {} stalls of \
         the control core, {} stations moved; {grown} pages more than after a quarter\n{ledger:?}",
        soak.now / 1_000_000,
        soak.generation,
        soak.stalls,
        soak.master.stats().moves,
    );
    assert!(
        grown < 2_048,
        "{grown} pages (4 KiB) more than after a quarter of the run"
    );
    assert_eq!(ledger.sent, ledger.received + ledger.dropped + ledger.late);
    assert!(ledger.received + ledger.late <= transmitted);
    assert!(ledger.received > transmitted / 4, "most is measured");
    assert!(
        ledger.missed_epochs > 0,
        "stalls cost epochs, and they are counted"
    );
    let share = ledger.within_bound as f64 / ledger.estimates as f64;
    assert!(
        share > 0.95,
        "nominal 98 %: {share} of {} estimates",
        ledger.estimates
    );
}
