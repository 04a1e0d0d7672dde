//! With one packet in a hundred lost between the points, estimates stay inside their bounds as often as they say (98
//! %): judged over many epochs, compared with the truth about each packet.
use std::collections::HashMap;

use contract::counters::DropReason;
use measure::lds::{DecodeOptions, FlowTable, decode};
use measure::observation::SegmentIndex;
use measure::packet::FlowKey;
use measure::shard::Shard;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;
use simulate::rack::{GRACE, INTERVAL, Rack, config, hasher, port, udp};

const FLOWS: u16 = 150;
const EPOCHS: u64 = 250;

const REST: &str = r#"
    "forwarding": {"mode": "patch", "pairs": [["east", "west"]]},
    "classes": [{"name": "all"}],
    "measurement": {
        "segments": [{"from": "east", "to": "west"}],
        "lda": {"banks": [{"rows": 128, "probability": 0.9}, {"rows": 16, "probability": 0.1}]},
        "lds": {"cells": 300}
    }"#;

/// The truth about an epoch.
#[derive(Debug, Default)]
struct Truth {
    sent: u64,
    /// Packets received of each flow, and the sum of their delays.
    flows: HashMap<u16, (u64, u64)>,
}

/// By epoch.
type Truths = HashMap<u64, Truth>;

/// How often an estimate was inside its bound.
#[derive(Debug, Default)]
struct Coverage {
    inside: u32,
    judged: u32,
    /// Bounds in parts of the estimates, summed up.
    relative: f64,
}

impl Coverage {
    fn judge(&mut self, estimate: f64, bound: f64, truth: f64) {
        // A stamp is cut to a whole tick, and so no bound is less.
        let bound = bound.max(1.0);
        self.judged += 1;
        self.inside += u32::from((estimate - truth).abs() <= bound);
        self.relative += bound / truth.max(1_000.0);
    }

    /// At least 98 %, less four standard deviations of so many trials, with bounds worth having.
    fn assert_nominal(&self, of: &str, relative_max: f64) {
        assert!(
            self.relative <= relative_max * f64::from(self.judged),
            "{of}: {self:?}"
        );
        let judged = f64::from(self.judged);
        let least = 0.98 * judged - 4.0 * (judged * 0.98 * 0.02).sqrt();
        assert!(
            f64::from(self.inside) >= least,
            "{of}: {self:?}, at least {least}"
        );
    }
}

/// Offers 1 % more than the link carries, so that 1 % is lost; returns the epochs and the truth.
fn run(queue: &str, seed: u64) -> (Rack, Vec<(u64, Shard)>, Truths) {
    let west = format!(r#""egress": {{"capacity_bps": 1000000000, "queues": [{queue}]}},"#);
    let ports = [port("east", ""), port("west", &west)].join(", ");
    let mut rack = Rack::new(&config(1, &ports, REST));
    let mut rng = Pcg32::seed_from_u64(seed);
    // Flow and arrival of each packet, by its number.
    let mut packets: Vec<(u16, u64)> = Vec::new();
    let mut truth = Truths::new();
    let mut shards = Vec::new();
    // A frame of 101 bytes takes 1 us; three chances every 2 us make 1.01 of what the link carries.
    while rack.now < EPOCHS * INTERVAL {
        let now = rack.now + 2_000;
        for _ in 0..3 {
            if rng.random_bool(2.02 / 3.0) {
                // A few flows have most packets.
                let most = rng.random_range(1..=FLOWS);
                let flow = rng.random_range(0..most);
                rack.arrive(0, udp(flow, u32::try_from(packets.len()).unwrap(), 101));
                packets.push((flow, now));
                truth.entry(now / INTERVAL).or_default().sent += 1;
            }
        }
        rack.pass_at(now);
        for (at, frame) in rack.departed(1) {
            let number = u32::from_be_bytes(frame[42..46].try_into().unwrap());
            let (flow, arrived) = packets[number as usize];
            let epoch = arrived / INTERVAL;
            assert!(at < (epoch + 1) * INTERVAL + GRACE, "none is late here");
            let of_flow = truth
                .entry(epoch)
                .or_default()
                .flows
                .entry(flow)
                .or_default();
            *of_flow = (of_flow.0 + 1, of_flow.1 + at - arrived);
        }
        shards.extend(rack.take_epochs());
    }
    (rack, shards, truth)
}

/// Judges every epoch, and every flow in it.
fn assert_estimates_keep_their_bounds(shards: &[(u64, Shard)], truth: &Truths) {
    let hashes: Vec<_> = (0..FLOWS)
        .map(|flow| hasher().flow_hash(&FlowKey::parse(&udp(flow, 0, 101))))
        .collect();
    let (mut segment_means, mut flow_means) = (Coverage::default(), Coverage::default());
    let (mut sent, mut dropped) = (0, 0);
    for (epoch, shard) in shards {
        let Truth {
            sent: offered,
            flows,
        } = &truth[epoch];
        let (packets, delays) = flows
            .values()
            .fold((0, 0), |sum, flow| (sum.0 + flow.0, sum.1 + flow.1));
        let segment = &shard.segments()[0];
        assert_eq!(segment.tally.sent, *offered);
        assert_eq!(segment.tally.received, packets);
        assert_eq!(segment.tally.dropped, offered - packets);
        assert_eq!(segment.moments.sum_ticks(), u128::from(delays));
        sent += segment.tally.sent;
        dropped += segment.tally.dropped;

        let estimate = segment.lda.as_ref().unwrap().estimate(packets);
        let mean = delays as f64 / packets as f64;
        let half_width = estimate.ci98_half_width_ticks.unwrap();
        segment_means.judge(estimate.mean_ticks.unwrap(), half_width, mean);

        let sketch = &shard.sketches()[0];
        let listed: Vec<u16> = (0..FLOWS).filter(|flow| flows.contains_key(flow)).collect();
        let rows = sketch.layout().rows();
        let columns: Vec<u32> = (listed.iter())
            .flat_map(|&flow| {
                let hash = hashes[usize::from(flow)];
                let columns = sketch.layout().base_columns(hash, SegmentIndex(0));
                columns.into_iter().take(rows)
            })
            .collect();
        let packets: Vec<f64> = listed.iter().map(|flow| flows[flow].0 as f64).collect();
        let table = FlowTable {
            columns: &columns,
            packets: Some(&packets),
            weights: None,
            features: &[],
            features_per_flow: 0,
            known: None,
        };
        let decoded = decode(&sketch.delays(), table, &DecodeOptions::default(), || false).unwrap();
        for (flow, decoded) in listed.iter().zip(&decoded.flows) {
            let (packets, delays) = flows[flow];
            let mean = delays as f64 / packets as f64;
            let bound = 3.0 * decoded.variance_ticks2.sqrt();
            flow_means.judge(decoded.mean_ticks, bound, mean);
        }
    }
    let share = dropped as f64 / sent as f64;
    assert!((0.005..0.02).contains(&share), "{share} lost");
    assert!(segment_means.judged > 200 && flow_means.judged > 10_000);
    segment_means.assert_nominal("LDA, mean of the segment", 0.01);
    flow_means.assert_nominal("LDS, means of flows", 0.2);
}

#[test]
fn one_in_a_hundred_dropped_early() {
    let queue = r#"{"classes": ["all"], "packets": 400,
        "red": {"min_packets": 10, "max_packets": 130, "probability": 0.02}}"#;
    let (rack, shards, truth) = run(queue, 1);
    assert_eq!(rack.dropped(1, DropReason::QueueFull), 0);
    assert!(rack.dropped(1, DropReason::Red) > 1_000);
    assert_estimates_keep_their_bounds(&shards, &truth);
}

#[test]
fn one_in_a_hundred_dropped_at_the_tail() {
    let (rack, shards, truth) = run(r#"{"classes": ["all"], "packets": 100}"#, 2);
    assert!(rack.dropped(1, DropReason::QueueFull) > 1_000);
    assert_estimates_keep_their_bounds(&shards, &truth);
}
