//! Generations under traffic: whatever changes while packets wait, none is lost, duplicated or reordered within its
//! class, and every count continues.
use std::collections::BTreeMap;

use contract::config::Config;
use contract::counters::PortCounters;
use contract::ids::{GenerationId, PortIndex};
use measure::shard::Tally;
use measure::time::Epoch;
use proptest::collection::vec;
use proptest::prelude::*;
use simulate::rack::{INTERVAL, Rack, config, port, udp};
use switch::generation::Generation;

const REST: &str = r#"
    "forwarding": {"mode": "patch", "pairs": [["east", "west"]]},
    "classes": [{"name": "gold"}, {"name": "silver"}, {"name": "bronze"}],
    "rules": [
        {"class": "gold", "source_ports": [1000, 65535]},
        {"class": "silver", "source_ports": [500, 999]}
    ],
    "measurement": {"lds": {"cells": 90}}"#;

const FLOW_OF_CLASS: [u16; 3] = [1000, 500, 0];

/// Ways to queue at the port `west`; nothing is ever refused by the first of them.
const EGRESS: [&str; 5] = [
    r#""queue_packets": 65536"#,
    r#""queue_packets": 65536, "capacity_bps": 400000000"#,
    r#""queues": [
        {"classes": ["silver", "gold"], "service": "strict", "packets": 40000},
        {"classes": ["bronze"], "service": {"weight": 3}, "packets": 40000}
    ], "capacity_bps": 300000000"#,
    r#""queues": [
        {"classes": ["bronze"], "service": {"weight": 1}, "packets": 40000},
        {"classes": ["gold"], "service": {"weight": 2}, "packets": 40000},
        {"classes": ["silver"], "service": "strict", "packets": 40000}
    ], "capacity_bps": 500000000, "burst_bytes": 3000"#,
    r#""queue_packets": 50000, "capacity_bps": 200000000"#,
];

/// The configuration with the n-th way; one worker owns the port if there are several.
fn with_egress(workers: usize, n: usize) -> Config {
    let owner = if workers == 1 { "" } else { r#""owner": 0, "# };
    let west = format!(r#""egress": {{{owner}{}}},"#, EGRESS[n]);
    let ports = [port("east", ""), port("west", &west)];
    config(workers, &ports.join(", "), REST)
}

/// What happens in one pass.
#[derive(Debug, Clone)]
struct Step {
    ticks: u64,
    /// Class and length of incoming packets.
    frames: Vec<(usize, usize)>,
    /// The way of the next generation, and whether its shards have another shape.
    change: Option<(usize, bool)>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let change = (0..EGRESS.len(), any::<bool>());
    let frames = vec((0..3usize, 60..1_518usize), 0..60);
    let step = (1..300_000u64, frames, prop::option::weighted(0.2, change));
    let step = step.prop_map(|(ticks, frames, change)| Step {
        ticks,
        frames,
        change,
    });
    vec(step, 1..100)
}

fn run(workers: usize, steps: &[Step]) {
    let mut rack = Rack::new(&with_egress(workers, 1));
    let mut sent = 0;
    let mut came: BTreeMap<(usize, u16), Vec<u32>> = BTreeMap::new();
    let mut number = 0;
    for step in steps {
        for &(class, len_bytes) in &step.frames {
            number += 1;
            // Order is kept within a class among packets that one worker received.
            let worker = number as usize % workers;
            let flow = FLOW_OF_CLASS[class] + u16::try_from(worker).unwrap();
            rack.arrive_at(worker, 0, udp(flow, number, len_bytes));
            came.entry((worker, flow)).or_default().push(number);
        }
        if let Some((egress, is_other)) = step.change {
            let mut config = with_egress(workers, egress);
            let lds = config.measurement.lds.as_mut().unwrap();
            lds.cells = if is_other { 120 } else { 90 };
            let from = Epoch(rack.now / INTERVAL + 2);
            sent += u64::from(rack.reload(config, from));
        }
        rack.pass_at(rack.now + step.ticks);
        rack.assert_conserved();
    }
    rack.settle();
    rack.assert_conserved();
    assert!(rack.running.workers.collect(), "all were taken up");
    let mut counters = rack.workers.iter().map(|one| &one.counters);
    assert!(counters.all(|counters| counters.generation.get() == sent));

    let mut left: BTreeMap<(usize, u16), Vec<u32>> = BTreeMap::new();
    let mut bytes = 0;
    for (_, frame) in rack.departed(1) {
        let flow = u16::from_be_bytes([frame[34], frame[35]]);
        let worker = usize::from(flow) % 500;
        let number = u32::from_be_bytes(frame[42..46].try_into().unwrap());
        left.entry((worker, flow)).or_default().push(number);
        bytes += frame.len() as u64;
    }
    assert_eq!(left, came, "each flow whole and in its order");
    assert_eq!(rack.sum(PortCounters::dropped_total), 0);
    assert_eq!(rack.sum_at(1, |port| port.tx_bytes.get()), bytes);
    assert_eq!(rack.live_packets(), 0);

    // Something was measured all the time: so every packet is in one epoch, in time or late, unless it outlived the
    // plan that it came under. Gauges are renewed every ten epochs.
    for _ in 0..12 {
        rack.pass_at(rack.now + INTERVAL);
    }
    let workers = rack.workers.iter();
    let outlived: u64 = workers
        .map(|rack_worker| rack_worker.counters.exceptions.outlived_packets.get())
        .sum();
    let tally: Tally = rack.ledger();
    assert_eq!(tally.sent + outlived, u64::from(number));
    assert_eq!(tally.sent, tally.received + tally.late);
    assert!(outlived == 0 || steps.iter().any(|step| step.change.is_some()));
}

/// An epoch that begins while packets leave brings its generation at that moment: in the middle of a
/// pass, between two receive queues: it leaves one.
#[test]
fn a_queue_may_go_in_the_middle_of_a_pass() {
    for before in 1..16 {
        let mut rack = Rack::new(&with_egress(1, 0));
        let generation = Generation {
            from: Epoch(1),
            ..Generation::giving_back(GenerationId(1), &rack.running.config, &[PortIndex(1)])
        };
        rack.running.workers.send([generation]);
        rack.workers[0].worker.io_mut().set_tick(1);
        rack.arrive(0, udp(0, 0, 60));
        rack.pass_at(INTERVAL - before);
        rack.pass_at(INTERVAL + 100);
        assert_eq!(rack.workers[0].counters.generation.get(), 1);
        assert_eq!(rack.departed(1).len(), 1, "{before} ticks before");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn one_worker_changes_and_loses_nothing(steps in steps()) {
        run(1, &steps);
    }

    #[test]
    fn two_workers_change_and_lose_nothing(steps in steps()) {
        run(2, &steps);
    }
}
