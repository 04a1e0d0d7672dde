//! Segment by segment, through reloads that give segments other numbers while packets wait: each packet counts in the
//! segment that it took, in the generation that it came in, or in none, counted.
use std::collections::BTreeMap;

use contract::config::Config;
use contract::handover::ControlEnd;
use contract::ids::{GenerationId, PortIndex};
use measure::shard::Tally;
use measure::time::Epoch;
use proptest::collection::vec;
use proptest::prelude::*;
use simulate::rack::{INTERVAL, Rack, config, plan, port, udp};
use switch::generation::{Generation, Measuring};

/// What is measured: each way numbers the segments differently. All packets go from the even ports to the odd ones.
const SEGMENTS: [[(&str, &str); 2]; 4] = [
    [("a", "b"), ("c", "d")],
    [("b", "a"), ("c", "d")],
    [("a", "b"), ("d", "c")],
    [("b", "a"), ("d", "c")],
];

/// Two patched pairs. With several workers the first owns `b` and `d`, behind which packets wait.
fn with_segments(workers: usize, n: usize) -> Config {
    let owner = if workers > 1 { r#""owner": 0, "# } else { "" };
    let slow = |bps: u32| {
        format!(r#""egress": {{{owner}"queue_packets": 65536, "capacity_bps": {bps}}},"#)
    };
    let ports = [
        port("a", ""),
        port("b", &slow(400_000_000)),
        port("c", ""),
        port("d", &slow(150_000_000)),
    ];
    let segments = SEGMENTS[n].map(|(from, to)| format!(r#"{{"from": "{from}", "to": "{to}"}}"#));
    let rest = format!(
        r#""forwarding": {{"mode": "patch", "pairs": [["a", "b"], ["c", "d"]]}},
        "measurement": {{"segments": [{}]}}"#,
        segments.join(", ")
    );
    config(workers, &ports.join(", "), &rest)
}

/// What happens in one pass.
#[derive(Debug, Clone)]
struct Step {
    ticks: u64,
    /// Frames that come in by `a` and by `c`.
    frames: [usize; 2],
    /// The driver of `b` takes packets.
    is_open: bool,
    change: Option<usize>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ticks =
        prop_oneof![20 => 1..300_000_u64, 1 => INTERVAL..20 * INTERVAL, 1 => Just(64 * INTERVAL)];
    let change = prop::option::weighted(0.3, 0..SEGMENTS.len());
    let step = (
        ticks,
        [0..40_usize, 0..40],
        prop::bool::weighted(0.8),
        change,
    );
    let step = step.prop_map(|(ticks, frames, is_open, change)| Step {
        ticks,
        frames,
        is_open,
        change,
    });
    vec(step, 1..80)
}

/// The control core's side of all generations.
struct Generations {
    /// Which way each worker measured in each, and the shards' way out.
    ends: Vec<(usize, ControlEnd)>,
    sent: u64,
    /// By names of ports, over all generations.
    sums: BTreeMap<(usize, usize), Tally>,
}

impl Generations {
    fn new(rack: &mut Rack, n: usize) -> Self {
        let mut ends = Vec::new();
        for rack_worker in &mut rack.workers {
            ends.extend(rack_worker.controls.drain(..).map(|end| (n, end)));
        }
        Self {
            ends,
            sent: 0,
            sums: BTreeMap::new(),
        }
    }

    fn send(&mut self, rack: &mut Rack, config: &Config, n: usize) {
        self.sent += 1;
        // Now and then too late for a worker that has begun the epoch already.
        let from = Epoch(rack.now / INTERVAL + self.sent % 3);
        let number = GenerationId(u32::try_from(self.sent).unwrap());
        let mut generations = Vec::new();
        for _ in &rack.workers {
            let (plan, end) = plan(config, None);
            self.ends.push((n, end));
            generations.push(Generation {
                from,
                measuring: Measuring::Changed(Some(plan)),
                ..Generation::unchanged(number)
            });
        }
        rack.ends.send(generations);
    }

    /// Adds up what came, each segment by its name in its own generation.
    fn collect(&mut self, configs: &[Config]) {
        for (n, end) in &mut self.ends {
            while let Some(shard) = end.take_sealed() {
                for (segment, named) in shard.segments().iter().zip(configs[*n].segments()) {
                    let sum = self.sums.entry((named.ingress, named.egress)).or_default();
                    sum.sent += segment.tally.sent;
                    sum.received += segment.tally.received;
                    sum.dropped += segment.tally.dropped;
                    sum.late += segment.tally.late;
                }
                end.give_back(shard, []);
            }
        }
    }
}

fn run(workers: usize, steps: &[Step]) {
    let configs: Vec<_> = (0..SEGMENTS.len())
        .map(|n| with_segments(workers, n))
        .collect();
    let mut rack = Rack::new(configs[0].clone());
    let mut generations = Generations::new(&mut rack, 0);
    let (mut way, mut number) = (0, 0);
    let mut came = [0; 2];
    for step in steps {
        for (pair, &frames) in step.frames.iter().enumerate() {
            for _ in 0..frames {
                number += 1;
                let worker = number as usize % workers;
                rack.arrive_at(worker, 2 * pair, udp(7, number, 900));
            }
            came[pair] += frames as u64;
        }
        if let Some(n) = step.change
            && rack.ends.collect()
        {
            way = n;
            generations.send(&mut rack, &configs[n], n);
        }
        rack.set_room(1, (!step.is_open).then_some(0));
        rack.pass_at(rack.now + step.ticks);
        generations.collect(&configs);
        rack.assert_conserved();
    }
    rack.set_room(1, None);
    // Until nothing waits, and gauges were renewed.
    let mut rest = 60;
    while rest > 0 {
        rack.pass_at(rack.now + INTERVAL / 4);
        generations.collect(&configs);
        rest -= usize::from(rack.sum(|port| port.queued_packets.get()) == 0);
    }
    assert!(rack.ends.collect(), "the last one is {way}");
    let outlived: u64 = rack
        .workers
        .iter()
        .map(|rack_worker| rack_worker.counters.exceptions.outlived_packets.get())
        .sum();
    let mut counted = outlived;
    for (&(ingress, egress), tally) in &generations.sums {
        assert_eq!(
            tally.sent,
            tally.received + tally.dropped + tally.late,
            "{ingress}>{egress}"
        );
        let came = if ingress < egress {
            came[ingress / 2]
        } else {
            0
        };
        assert!(
            tally.sent <= came,
            "{ingress}>{egress}: {} of {came}",
            tally.sent
        );
        counted += tally.sent;
    }
    let is_all_measured = steps.iter().all(|step| step.change.is_none());
    assert!(counted <= came[0] + came[1]);
    if is_all_measured {
        assert_eq!((counted, outlived), (came[0] + came[1], 0));
    }
}

/// A reload while packets wait, plain: `a` to `b` is the first segment, then no segment; `c` to `d` takes its place.
#[test]
fn packets_that_outlive_a_reload_count_in_no_other_segment() {
    for drop in [false, true] {
        let configs: Vec<_> = (0..SEGMENTS.len()).map(|n| with_segments(1, n)).collect();
        let mut rack = Rack::new(configs[0].clone());
        let mut generations = Generations::new(&mut rack, 0);
        rack.set_room(1, Some(0));
        for number in 0..10 {
            rack.arrive_at(0, 0, udp(7, number, 900));
        }
        rack.pass_at(1_000);
        generations.send(&mut rack, &configs[1], 1);
        for _ in 0..10 {
            rack.pass_at(rack.now + INTERVAL);
            generations.collect(&configs);
        }
        if drop {
            rack.master.set_link(PortIndex(1), false);
            rack.poll_master();
        } else {
            rack.set_room(1, None);
        }
        for _ in 0..20 {
            rack.pass_at(rack.now + INTERVAL);
            generations.collect(&configs);
        }
        let left = rack.departed(1).len();
        assert_eq!(left, if drop { 0 } else { 10 });
        let sums: Vec<_> = generations
            .sums
            .iter()
            .filter(|(_, tally)| tally.sent > 0)
            .collect();
        assert!(sums.is_empty(), "{sums:?}");
        assert_eq!(
            rack.workers[0].counters.exceptions.outlived_packets.get(),
            10
        );
    }
}

/// Tags name epochs by few bits: a packet that waited until they come round is late all the same.
#[test]
fn a_packet_that_waits_for_many_epochs_is_late() {
    for epochs in [2, 63, 64, 65, 128, 255, 256, 257, 512] {
        let configs = [with_segments(1, 0)];
        let mut rack = Rack::new(configs[0].clone());
        let mut generations = Generations::new(&mut rack, 0);
        rack.set_room(1, Some(0));
        rack.arrive_at(0, 0, udp(7, 1, 900));
        for _ in 0..epochs {
            rack.pass_at(rack.now + INTERVAL);
            generations.collect(&configs);
        }
        rack.set_room(1, None);
        for _ in 0..4 {
            rack.pass_at(rack.now + INTERVAL);
            generations.collect(&configs);
        }
        assert_eq!(rack.departed(1).len(), 1);
        let tally = generations.sums[&(0, 1)];
        let counts = (tally.sent, tally.received, tally.late);
        assert_eq!(counts, (1, 0, 1), "after {epochs} epochs");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn one_worker_counts_by_segment(steps in steps()) {
        run(1, &steps);
    }

    #[test]
    fn two_workers_count_by_segment(steps in steps()) {
        run(2, &steps);
    }
}
