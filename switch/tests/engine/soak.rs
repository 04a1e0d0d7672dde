//! A long run of everything that disturbs a switch: the engine in memory with a simulated clock,
//! random traffic, links that flap, generations, drivers that refuse, memory that runs out, and a
//! control core that stalls.
//!
//! A hundred thousand passes here; `make soak` goes on for ten minutes, CI for one (`VERNIER_SOAK_SECONDS`).
use std::time::{Duration, Instant};

use contract::config::Config;
use contract::handover::SealedShard;
use contract::ids::PortIndex;
use measure::shard::Tally;
use measure::time::Epoch;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use simulate::rack::{INTERVAL, Rack, between, config, port};
use switch::packet_io::BURST;

const PORTS: usize = 4;
const STATIONS: u8 = 40;

/// Enough for stalls that cost epochs, however busy the machine is.
const PASSES_MIN: u64 = 100_000;

/// Minimum duration.
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

/// Sums over all epochs.
#[derive(Debug, Default)]
struct Ledger {
    tally: Tally,
    epochs: u64,
    estimates: u64,
    within_bound: u64,
}

impl Ledger {
    fn enter(&mut self, sealed: &SealedShard) {
        self.epochs += 1;
        for segment in sealed.segments() {
            let received = segment.tally.received;
            self.tally.merge(&segment.tally);
            assert_eq!(segment.moments.count(), received);
            let Some(truth) = segment.moments.mean_ticks() else {
                continue;
            };
            let estimate = segment.lda.as_ref().unwrap().estimate(received);
            let interval = estimate.mean_ticks.zip(estimate.ci98_half_width_ticks);
            if let Some((mean, half_width)) = interval {
                self.estimates += 1;
                // Nothing is known more exactly than to a tick.
                self.within_bound += u64::from((mean - truth).abs() <= half_width.max(1.0));
            }
        }
    }
}

struct Soak {
    rack: Rack,
    ledger: Ledger,
    rng: Pcg64,
    sequence: u32,
    generations: u32,
    stalled_until: u64,
    stalls: u64,
    /// By port: when it is well again.
    links_down_until: [u64; PORTS],
    refuses_until: [u64; PORTS],
}

/// Random queues, VLANs, filtering database and measurement.
fn configuration(rng: &mut Pcg64) -> Config {
    let has_vlans = rng.random_bool(0.5);
    let ports: Vec<String> = (0..PORTS)
        .map(|n| {
            let vlan = match n {
                _ if !has_vlans => "",
                2 => r#""vlan": {"mode": "trunk", "native": 7},"#,
                _ => r#""vlan": {"mode": "access", "vlan": 7},"#,
            };
            // The last port is slow: its queue fills, and drops.
            let capacity = r#", "capacity_bps": 500000000"#;
            let capacity = if n == PORTS - 1 { capacity } else { "" };
            let packets = rng.random_range(4..200);
            let egress = format!(r#""egress": {{"queue_packets": {packets}{capacity}}},"#);
            port(&n.to_string(), &format!("{vlan}{egress}"))
        })
        .collect();
    let entries = [64, 1_024][rng.random_range(0..2)];
    let limit = rng.random_range(1_000..1_000_000);
    let stamps = ["burst", "packet"][rng.random_range(0..2)];
    let rest = format!(
        r#""forwarding": {{"mode": "bridge", "fdb_entries": {entries}, "ageing_s": 1, "flood_limit_pps": {limit}}},
        "measurement": {{"enabled": {}, "stamps": "{stamps}",
            "lda": {{"banks": [{{"rows": 128, "probability": 1.0}}]}}}}"#,
        rng.random_bool(0.75)
    );
    config(1, &ports.join(", "), &rest)
}

impl Soak {
    fn new(seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut rack = Rack::new(&configuration(&mut rng));
        rack.now = 1_000;
        Self {
            rack,
            ledger: Ledger::default(),
            rng,
            sequence: 0,
            generations: 0,
            stalled_until: 0,
            stalls: 0,
            links_down_until: [0; PORTS],
            refuses_until: [0; PORTS],
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
                usize::from(source) % PORTS
            };
            let destination = match self.rng.random_range(0..100) {
                0 => [0xff; 6],
                1 => [0x01, 0x80, 0xc2, 0, 0, 2],
                _ => [2, 0, 0, 0, 0, self.rng.random_range(0..STATIONS)],
            };
            self.sequence += 1;
            let mut frame = between(destination, [2, 0, 0, 0, 0, source], 7, self.sequence, 60);
            match self.rng.random_range(0..200) {
                0 => frame.truncate(self.rng.random_range(0..60)),
                1 => frame.resize(3_000, 0),
                2 => drop(frame.splice(12..12, [0x81, 0, 0x60, self.rng.random_range(0..9)])),
                _ => {}
            }
            self.rack.arrive(port, frame);
        }
    }

    /// Something happens that disturbs.
    fn disturb(&mut self) {
        let port = self.rng.random_range(0..PORTS);
        let until = self.rack.now + self.rng.random_range(INTERVAL / 10..4 * INTERVAL);
        match self.rng.random_range(0..5) {
            0 => {
                self.links_down_until[port] = until;
                self.rack.master.set_link(PortIndex::new(port), false);
            }
            1 if self.stalled_until == 0 => {
                self.stalls += 1;
                self.stalled_until = self.rack.now + self.rng.random_range(1..8) * INTERVAL;
            }
            2 => {
                self.refuses_until[port] = until;
                let room = self.rng.random_range(0..20);
                self.rack.set_room(port, Some(room));
            }
            3 => {
                let copies = self.rng.random_range(0..100);
                self.set_copies_left(copies);
            }
            _ => {
                let from = Epoch(self.rack.now / INTERVAL + 2);
                let is_sent = self.rack.reload(configuration(&mut self.rng), from);
                self.generations += u32::from(is_sent);
            }
        }
    }

    fn set_copies_left(&mut self, copies: usize) {
        let io = self.rack.workers[0].worker.io_mut();
        io.set_copies_left(copies);
    }

    /// Finished generations do not come back.
    fn heal(&mut self) {
        let now = self.rack.now;
        for port in 0..PORTS {
            if is_over(&mut self.links_down_until[port], now) {
                self.rack.master.set_link(PortIndex::new(port), true);
            }
            if is_over(&mut self.refuses_until[port], now) {
                self.rack.set_room(port, None);
                self.set_copies_left(usize::MAX);
            }
        }
        is_over(&mut self.stalled_until, now);
    }

    /// The control core, where it does not stall.
    fn control(&mut self) {
        if self.stalled_until == 0 {
            self.rack.poll_master();
            let ledger = &mut self.ledger;
            self.rack.take_sealed(|_, shard| ledger.enter(shard));
        }
    }

    fn pass(&mut self) {
        let moved = self.rack.pass(self.rack.now);
        // Each queue brings a burst, and a port sends a few: whatever waits.
        let bound = PORTS * (BURST + 8 * BURST);
        assert!(moved[0] <= bound, "{moved:?} packets in one pass");
        for port in 0..PORTS {
            self.rack.departed(port);
        }
    }

    fn settle(&mut self) {
        self.rack.now += 20 * INTERVAL;
        self.heal();
        for _ in 0..20 * 20 {
            self.rack.now += INTERVAL / 20;
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
            soak.rack.now += ticks;
            soak.traffic();
            if soak.rng.random_bool(0.001) {
                soak.disturb();
            }
            soak.heal();
            soak.pass();
            soak.control();
            passes += 1;
        }
        soak.rack.assert_conserved();
        if early_pages == 0 && passes >= PASSES_MIN / 4 && began.elapsed() > length / 4 {
            early_pages = resident_pages();
        }
    }
    let grown = resident_pages().saturating_sub(early_pages);
    soak.settle();
    soak.rack.assert_conserved();
    assert_eq!(soak.rack.live_packets(), 0, "every packet's memory is back");

    let transmitted = soak.rack.sum(|port| port.tx_packets.get());
    let (ledger, missed_epochs) = (&soak.ledger, soak.rack.missed_epochs());
    println!(
        "{passes} passes, {} ms of traffic, {transmitted} packets sent, {} generations, {} stalls of \
         the control core, {} stations moved; {grown} pages more than after a quarter\n{missed_epochs} epochs missed, {ledger:?}",
        soak.rack.now / 1_000_000,
        soak.generations,
        soak.stalls,
        soak.rack.master.stats().moves,
    );
    assert!(
        grown < 2_048,
        "{grown} pages (4 KiB) more than after a quarter of the run"
    );
    let tally = &ledger.tally;
    assert_eq!(tally.sent, tally.received + tally.dropped + tally.late);
    assert!(tally.received + tally.late <= transmitted);
    assert!(tally.received > transmitted / 4, "most is measured");
    assert!(
        missed_epochs > 0,
        "stalls cost epochs, and they are counted"
    );
    let share = ledger.within_bound as f64 / ledger.estimates as f64;
    assert!(
        share > 0.95,
        "nominal 98 %: {share} of {} estimates",
        ledger.estimates
    );
}
