//! Segment by segment, through reloads that give segments other numbers while packets wait: each packet counts in the
//! segment that it took, in the generation that it came in, or in none, counted.
use contract::config::Config;
use contract::ids::PortIndex;
use measure::time::Epoch;
use proptest::collection::vec;
use proptest::prelude::*;
use simulate::rack::{INTERVAL, Rack, config, port, udp};

/// The measured segments, which each variant numbers differently. All packets go from the even ports to the odd ones.
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

/// Packets that no segment counts, since they were in the switch for longer than their generation.
fn outlived(rack: &Rack) -> u64 {
    let exceptions = rack.workers.iter().map(|one| &one.counters.exceptions);
    exceptions.map(|of| of.outlived_packets.get()).sum()
}

fn run(workers: usize, steps: &[Step]) {
    let mut rack = Rack::new(&with_segments(workers, 0));
    let (mut way, mut sent, mut number) = (0, 0, 0);
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
        if let Some(n) = step.change {
            // Now and then too late for a worker that has begun the epoch already.
            let from = Epoch(rack.now / INTERVAL + (sent + 1) % 3);
            if rack.reload(with_segments(workers, n), from) {
                (way, sent) = (n, sent + 1);
            }
        }
        rack.set_room(1, (!step.is_open).then_some(0));
        rack.pass_at(rack.now + step.ticks);
        rack.assert_conserved();
    }
    rack.set_room(1, None);
    // Until nothing waits, and gauges were renewed.
    let mut rest = 60;
    while rest > 0 {
        rack.pass_at(rack.now + INTERVAL / 4);
        rest -= usize::from(rack.sum(|port| port.queued_packets.get()) == 0);
    }
    assert!(rack.running.workers.collect(), "the last one is {way}");
    let outlived = outlived(&rack);
    let mut counted = outlived;
    for (&(ingress, egress), tally) in &rack.tallies {
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
    assert!(counted <= came[0] + came[1]);
    if steps.iter().all(|step| step.change.is_none()) {
        assert_eq!((counted, outlived), (came[0] + came[1], 0));
    }
}

/// A reload while packets wait, plain: `a` to `b` is the first segment, then no segment; `c` to `d` takes its place.
#[test]
fn packets_that_outlive_a_reload_count_in_no_other_segment() {
    for drop in [false, true] {
        let mut rack = Rack::new(&with_segments(1, 0));
        rack.set_room(1, Some(0));
        for number in 0..10 {
            rack.arrive_at(0, 0, udp(7, number, 900));
        }
        rack.pass_at(1_000);
        assert!(rack.reload(with_segments(1, 1), Epoch(1)));
        for _ in 0..10 {
            rack.pass_at(rack.now + INTERVAL);
        }
        if drop {
            rack.master.set_link(PortIndex(1), false);
            rack.poll_master();
        } else {
            rack.set_room(1, None);
        }
        for _ in 0..20 {
            rack.pass_at(rack.now + INTERVAL);
        }
        let left = rack.departed(1).len();
        assert_eq!(left, if drop { 0 } else { 10 });
        assert_eq!(rack.ledger().sent, 0, "{:?}", rack.tallies);
        assert_eq!(outlived(&rack), 10);
    }
}

/// Tags name epochs by few bits: a packet that waited until they come round is late all the same.
#[test]
fn a_packet_that_waits_for_many_epochs_is_late() {
    for epochs in [2, 63, 64, 65, 128, 255, 256, 257, 512] {
        let mut rack = Rack::new(&with_segments(1, 0));
        rack.set_room(1, Some(0));
        rack.arrive_at(0, 0, udp(7, 1, 900));
        for _ in 0..epochs {
            rack.pass_at(rack.now + INTERVAL);
        }
        rack.set_room(1, None);
        for _ in 0..4 {
            rack.pass_at(rack.now + INTERVAL);
        }
        assert_eq!(rack.departed(1).len(), 1);
        let tally = rack.tallies[&(0, 1)];
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
