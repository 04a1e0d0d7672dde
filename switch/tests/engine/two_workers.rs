//! Two workers give exactly the same result as one: the same sums, counts, and packets at the same times, however the
//! packets are spread over them.
use contract::config::Config;
use contract::counters::DropReason;
use measure::shard::Shard;
use proptest::collection::vec;
use proptest::prelude::*;
use simulate::rack::{Rack, config, ledger, port, udp};

/// What happens between two passes.
#[derive(Debug, Clone)]
struct Step {
    ticks: u64,
    /// Flow and length of incoming packets by port.
    east: Vec<(u16, usize)>,
    west: Vec<(u16, usize)>,
    /// Whether the driver of each port takes packets.
    is_open: [bool; 2],
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Now and then too short, or too long.
    let len = prop_oneof![20 => 60..1_518usize, 1 => Just(0usize), 1 => Just(1_600usize)];
    let frames = |most| vec((0..200u16, len.clone()), 0..most);
    let step = (1..120_000u64, frames(40), frames(12), any::<[bool; 2]>());
    let step = step.prop_map(|(ticks, east, west, is_open)| Step {
        ticks,
        east,
        west,
        is_open,
    });
    vec(step, 1..120)
}

const REST: &str = r#"
    "forwarding": {"mode": "patch", "pairs": [["east", "west"]]},
    "classes": [{"name": "low"}, {"name": "high", "lds_weight": 3}],
    "rules": [{"class": "high", "source_ports": [100, 65535]}],
    "measurement": {
        "lda": {"banks": [{"rows": 64, "probability": 0.5}, {"rows": 16, "probability": 0.01}]},
        "lds": {"cells": 300, "rows": [1.0, 0.5, 1.0]}
    }"#;

/// Everything that must be the same.
#[derive(Debug, PartialEq)]
struct Outcome {
    epochs: Vec<(u64, Shard)>,
    counters: Vec<Vec<u64>>,
    departures: Vec<Vec<(u64, Vec<u8>)>>,
}

fn run(config: &Config, steps: &[Step]) -> Outcome {
    let mut rack = Rack::new(config);
    let mut number = 0;
    let mut closed = [0; 2];
    for step in steps {
        for (port, frames) in [&step.east, &step.west].into_iter().enumerate() {
            for &(flow, len_bytes) in frames {
                number += 1;
                let frame = match len_bytes {
                    0 => vec![0; 13],
                    _ => udp(flow, number, len_bytes),
                };
                rack.arrive(port, frame);
            }
        }
        for (port, closed) in closed.iter_mut().enumerate() {
            // A worker sends at most four bursts of 32 a pass, however many workers there are: two closed passes and the
            // pass that opens give at most 3 x 39 packets.
            *closed = if step.is_open[port] { 0 } else { *closed + 1 };
            rack.set_room(port, (1..=2).contains(closed).then_some(0));
        }
        rack.pass_at(rack.now + step.ticks);
        rack.assert_conserved();
    }
    rack.settle();
    assert_eq!(rack.dropped(1, DropReason::QueueFull), 0);
    let mut departures: Vec<_> = (0..2).map(|port| rack.departed(port)).collect();
    for packets in &mut departures {
        packets.sort();
    }
    assert_eq!(rack.live_packets(), 0);
    Outcome {
        epochs: rack.take_epochs(),
        counters: (0..2).map(|port| rack.counters_of(port)).collect(),
        departures,
    }
}

fn ports(west: &str) -> String {
    [port("east", ""), port("west", west)].join(", ")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn two_workers_of_plain_ports_give_what_one_gives(steps in steps()) {
        let one = run(&config(1, &ports(""), REST), &steps);
        let two = config(2, &ports(""), REST);
        prop_assert_eq!((two.owner(0), two.owner(1)), (None, None));
        prop_assert_eq!(&one, &run(&two, &steps));

        let tally = ledger(one.epochs.iter().map(|(_, shard)| shard));
        let sent = one.departures.iter().map(Vec::len).sum::<usize>() as u64;
        prop_assert_eq!(tally.sent, tally.received + tally.late);
        prop_assert_eq!(tally.received + tally.late, sent);
    }

    #[test]
    fn a_port_that_one_of_them_owns_gives_the_same(steps in steps()) {
        let owned = ports(r#""egress": {"owner": 0, "queues": [
            {"classes": ["high"], "service": "strict"},
            {"classes": ["low"], "service": {"weight": 2}}
        ]},"#);
        let one = run(&config(1, &owned, REST), &steps);
        let two = config(2, &owned, REST);
        prop_assert_eq!((two.owner(0), two.owner(1)), (None, Some(0)));
        prop_assert_eq!(one, run(&two, &steps));
    }
}
