//! Decoding against exact sums.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of small experiments"
)]

use measure::flows::{FlowSlots, Slot};
use measure::rli::{Link, Method, Receiver, ReceiverConfig, Reference, ReferenceSender, StreamId};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::f64::consts::TAU;
use std::net::Ipv4Addr;

use contract::ids::GenerationId;
use measure::cell::PassedCell;
use measure::lds::LdsPair;
use measure::observation::{End, Observation};
use measure::packet::{FiveTuple, PacketHash};
use measure::time::EpochTag;

use super::*;
use crate::background::ResultMode;
use crate::contain::{Part, Point, inject};
use crate::estimate::tests::rate;
use crate::flows::Directory;
use contract::config::Decode;
use measure::lds::LdsLayout;
use records::snapshot::{
    FlowFigures, FlowList, FlowName, FlowRecord, JudgedEstimates, SegmentName, SketchedFlow,
};

fn key(n: u32) -> FlowKey {
    FlowKey::Ip(FiveTuple {
        source: Ipv4Addr::from(0x0a00_0000 + n).into(),
        destination: Ipv4Addr::new(10, 1, 0, 1).into(),
        source_port: 9,
        destination_port: 80,
        protocol: 6,
    })
}

fn hasher() -> Hasher {
    Hasher::new([3; 16])
}

/// Packets of flow `n`, and the delay in ticks of each.
fn traffic(n: u32) -> (u64, u64) {
    (1 + u64::from(n % 40), 1_000 + 37 * u64::from(n % 101))
}

/// A sketch with flows 0 to `flows`; with every thousandth packet another one is lost.
fn sketch(flows: u32) -> LdsPair<PassedCell> {
    let layout = LdsLayout::new(1_000, 1, &[1.0; 3]).unwrap();
    let mut sketch = LdsPair::empty(&layout);
    let mut total = 0;
    for n in 0..flows {
        let (packets, delay) = traffic(n);
        for packet in 0..packets {
            let observation = Observation {
                flow: hasher().flow_hash(&key(n)),
                packet: PacketHash(total),
                time: 10_000 * packet + delay,
                delay,
                bytes: 64,
                segment: SegmentIndex(2),
                epoch: EpochTag(0),
            };
            total += 1;
            if total % 1_000 == 0 {
                let sent = Observation {
                    time: observation.time - delay,
                    delay: 0,
                    ..observation
                };
                sketch.record(End::Sender, &[sent]);
            }
            sketch.record_passed(&[observation]);
        }
    }
    sketch
}

/// Segment 5 is the third of its generation, in its only sketch.
fn cells(epoch: u64, sketch: &LdsPair<PassedCell>) -> EpochCells {
    let mut segments = vec![None; 6];
    segments[5] = Some((SegmentIndex(2), 0));
    EpochCells {
        epoch: Epoch(epoch),
        generation: GenerationId(0),
        sketches: vec![Some(Arc::new(sketch.delays()))],
        segments: Arc::new(segments),
        methods: Arc::default(),
    }
}

/// Counts of the flow with this number.
fn counted(n: u32) -> FlowSums {
    let (packets, delay) = traffic(n);
    FlowSums {
        packets,
        bytes: 64 * packets,
        lost: 0,
        sum_ticks: (packets * delay).into(),
        sum_of_squares_ticks2: (packets * delay * delay).into(),
    }
}

/// A directory of flows 0 to `flows` that counts in `epoch`.
fn count(directory: &mut Directory, flows: u32, epoch: u64) {
    for n in 0..flows {
        directory.count_for_tests(key(n), 5, Epoch(epoch), &counted(n), None);
    }
}

fn decoder(interval: Duration) -> Decoder {
    let mut decoder = Decoder::new(ResultMode::Polled);
    let settings = Decode {
        components: 1,
        interval_s: 1,
    };
    decoder.set(Some(settings), interval, &hasher(), rate());
    decoder
}

fn wait(decoder: &mut Decoder, directory: &mut Directory) -> Epoch {
    for _ in 0..3_000 {
        if let Some(epoch) = decoder.take(directory) {
            return epoch;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no results in 30 s");
}

#[test]
fn an_epoch_is_decoded_alone_where_there_is_time() {
    let mut directory = Directory::default();
    let mut decoder = decoder(Duration::from_hours(1));
    let sketch = sketch(2_000);
    for epoch in [3, 4] {
        count(&mut directory, 2_000, epoch);
        assert!(decoder.close(&cells(epoch, &sketch), &mut directory, Instant::now()));
        assert_eq!(wait(&mut decoder, &mut directory), Epoch(epoch));
    }
    let shown = decoder.shown().unwrap();
    assert_eq!((shown.epoch, shown.epochs, shown.runs), (Some(4), 1, 2));
    assert_eq!(
        (shown.flows, shown.skipped_epochs, shown.summed_epochs),
        (2_000, 0, 0)
    );
    let judged = decoder.judged.shown();
    let kinds = judged
        .iter()
        .map(|one| (one.method.as_str(), one.size.as_str()));
    let expected =
        ["chosen", "lds-joint", "lds-prior"].map(|method| [(method, "1-9"), (method, "10-99")]);
    assert!(kinds.eq(expected.into_iter().flatten()), "{judged:?}");
    let joint = &judged[2..4];
    assert!(joint[1].error_ratio_median.unwrap() < 1e-3, "{judged:?}");
    let within: u64 = joint.iter().map(|one| one.within_bound).sum();
    let beyond: u64 = joint.iter().map(|one| one.beyond_bound).sum();
    // Nominal 98 %. One flow in twenty lost a packet, which is missing from its count.
    assert!(
        within as f64 > 0.93 * (within + beyond) as f64,
        "{judged:?}"
    );
    // Of a few flows every cell has a packet lost in it.
    assert!(within + beyond > 3_800, "{judged:?}");
    assert!(
        judged[4..].iter().all(|prior| prior.without_bound > 0),
        "{judged:?}"
    );
    for (_, flow) in directory.numbered() {
        let estimate = flow.estimate().copied().unwrap();
        assert_eq!((estimate.epoch, estimate.epochs), (4, 1));
        assert_eq!(estimate.packets, flow.recent.packets);
        let has_bound = estimate.method == FlowMethod::LdsJoint;
        assert_eq!(estimate.bound_ns.is_some(), has_bound);
        assert_eq!(estimate.is_within_bound.is_some(), has_bound);
    }
}

#[test]
fn a_panic_costs_the_estimates_of_its_epoch_and_no_other() {
    let mut directory = Directory::default();
    let mut decoder = decoder(Duration::from_hours(1));
    let sketch = sketch(500);
    inject::arm(Point::In(Part::Decode), 2);
    for epoch in 0..4 {
        count(&mut directory, 500, epoch);
        assert!(decoder.close(&cells(epoch, &sketch), &mut directory, Instant::now()));
        assert_eq!(wait(&mut decoder, &mut directory), Epoch(epoch));
    }
    let shown = decoder.shown().unwrap();
    assert_eq!(
        (shown.epoch, shown.runs, shown.skipped_epochs),
        (Some(3), 2, 2)
    );
}

#[test]
fn epochs_are_summed_where_one_takes_too_long() {
    let mut directory = Directory::default();
    // No decoding is done in that.
    let mut decoder = decoder(Duration::from_nanos(1));
    let sketch = sketch(500);
    count(&mut directory, 500, 0);
    assert!(decoder.close(&cells(0, &sketch), &mut directory, Instant::now()));
    wait(&mut decoder, &mut directory);
    for epoch in 1..4 {
        count(&mut directory, 500, epoch);
        assert!(!decoder.close(&cells(epoch, &sketch), &mut directory, Instant::now()));
    }
    std::thread::sleep(Duration::from_millis(1_050));
    count(&mut directory, 500, 4);
    decoder.close(&cells(4, &sketch), &mut directory, Instant::now());
    assert_eq!(wait(&mut decoder, &mut directory), Epoch(4));
    let shown = decoder.shown().unwrap();
    assert_eq!((shown.epochs, shown.summed_epochs), (4, 4));
    for (_, flow) in directory.numbered() {
        let estimate = flow.estimate().copied().unwrap();
        assert_eq!(estimate.packets, 4 * flow.recent.packets);
        if estimate.bound_ns.is_some() {
            assert_ne!(estimate.method, FlowMethod::LdsJoint);
        }
    }
}

#[test]
fn a_sketch_that_cannot_be_trusted_is_skipped_and_another_generation_starts_a_new_sum() {
    let mut directory = Directory::default();
    let mut decoder = decoder(Duration::from_nanos(1));
    let sketch = sketch(100);
    count(&mut directory, 100, 0);
    decoder.close(&cells(0, &sketch), &mut directory, Instant::now());
    wait(&mut decoder, &mut directory);
    let disturbed = EpochCells {
        sketches: vec![None],
        ..cells(1, &sketch)
    };
    decoder.close(&disturbed, &mut directory, Instant::now());
    assert_eq!(decoder.shown().unwrap().skipped_epochs, 1);
    decoder.close(&cells(2, &sketch), &mut directory, Instant::now());
    let next = EpochCells {
        generation: GenerationId(1),
        ..cells(3, &sketch)
    };
    decoder.close(&next, &mut directory, Instant::now());
    let shown = decoder.shown().unwrap();
    assert_eq!((shown.skipped_epochs, shown.summed_epochs), (2, 0));
}

#[test]
fn stopping_does_not_wait_for_a_long_decoding() {
    let mut directory = Directory::default();
    let mut decoder = decoder(Duration::from_hours(1));
    count(&mut directory, 2_000, 0);
    decoder.close(&cells(0, &sketch(2_000)), &mut directory, Instant::now());
    drop(decoder);
}

/// A list with flows 0 to `flows`, without those that `is_left_out`.
fn list(flows: u32, is_left_out: impl Fn(u32) -> bool) -> FlowList {
    let record = |n| {
        let (packets, delay) = traffic(n);
        let figures = FlowFigures {
            packets,
            mean_ns: Some(rate().to_ns(delay as f64)),
            ..FlowFigures::default()
        };
        FlowRecord {
            name: FlowName::Key(key(n)),
            segment: 5,
            first_epoch: 1,
            last_epoch: 7,
            last: figures,
            total: figures,
            quantiles: None,
            estimates: None,
            more: None,
        }
    };
    let name = SegmentName {
        ingress: "east".to_owned(),
        egress: "west".to_owned(),
        class: "all".to_owned(),
    };
    FlowList {
        epoch: Some(7),
        segments: std::iter::repeat_n(Arc::new(name), 6).collect(),
        flows: (0..flows)
            .filter(|&n| !is_left_out(n))
            .map(record)
            .collect(),
        wire_times: None,
    }
}

#[test]
fn a_flow_that_is_not_tracked_is_answered_by_the_sketch() {
    let sketches = Sketches {
        hasher: hasher(),
        rate: rate(),
        components: 1,
        cells: cells(7, &sketch(600)),
        names: list(0, |_| true).segments,
    };
    let untracked = 39 + 40 * 3;
    let list = list(600, |n| n == untracked);
    let answers = sketches.ask(&key(untracked), &list);
    assert_eq!(answers.len(), 1);
    let answer = &answers[0];
    let (packets, delay) = traffic(untracked);
    assert!(answer.packets_max >= packets);
    let estimate = answer.estimate.unwrap();
    assert_eq!(
        (answer.segment.ingress.as_str(), estimate.epoch),
        ("east", 7)
    );
    let error_ns = (estimate.mean_ns - rate().to_ns(delay as f64)).abs();
    assert!(error_ns <= estimate.bound_ns.unwrap(), "{answer:?}");
    assert!(error_ns < 0.05 * rate().to_ns(delay as f64), "{answer:?}");
    assert_eq!(answer.packets_max, packets, "those of the others are known");
    // If no flow is tracked, there is also an answer, but without a bound.
    let alone = &sketches.ask(&key(untracked), &FlowList::default())[0];
    assert!(alone.packets_max >= packets && alone.segment.ingress == "east");
    let estimate = alone.estimate.unwrap();
    assert_eq!(
        (estimate.method, estimate.bound_ns),
        (FlowMethod::LdsPaper, None)
    );
    assert!(
        estimate.mean_ns > 500.0 && estimate.mean_ns < 2_500.0,
        "{alone:?}"
    );
    // A tracked flow needs no estimate from a sketch.
    assert_eq!(sketches.ask(&key(3), &list), []);
    // The tracked flows account for all packets except those of one flow: most untracked flows had none, and some may
    // have had at most a lost packet in each of their cells.
    let answers = (10_000..10_200).map(|n| sketches.ask(&key(n), &list));
    let asked: Vec<SketchedFlow> = answers.flatten().collect();
    assert!(asked.len() < 10, "{asked:?}");
    for stranger in asked.iter().filter(|stranger| stranger.packets_max == 0) {
        assert!(stranger.lost_packets_max > 0 && stranger.estimate.is_none());
    }
}

const SECONDS: f64 = 8.0;
/// Delays are given in units of 100 us; a tick is a nanosecond.
const UNIT_NS: f64 = 100_000.0;
/// Steps of a queue's process, and how long it remembers.
const STEP_S: f64 = 1e-4;
const MEMORY_S: f64 = 0.02;
/// References of each queue.
const REFERENCES_PER_S: f64 = 1_000.0;
/// Flows with packets from 10^n to 10^(n + 1).
const FLOWS: [u32; 4] = [2_000, 700, 250, 80];
/// As many cells for a flow as 17500 x 4 for 146,000.
const COLUMNS: u32 = 363;
const SEEDS: u64 = 3;

/// As in `benches/accuracy`; in a switch each queue is a segment with its own references.
struct Scenario {
    name: &'static str,
    /// Delay of each queue; the first takes 60 % of flows.
    modes: &'static [f64],
    /// Deviation of the logarithm of a flow's own factor.
    spread: f64,
    /// Weight of the queued packets.
    queue: f64,
    /// Mean of the further delay of each packet.
    noise: f64,
    /// Share of packets that take any queue.
    random: f64,
}

const SCENARIOS: [Scenario; 4] = [
    Scenario {
        name: "one FIFO queue",
        modes: &[1.0],
        spread: 0.0,
        queue: 0.6,
        noise: 0.03,
        random: 0.0,
    },
    Scenario {
        name: "two uncorrelated queues",
        modes: &[1.0, 1.6],
        spread: 0.05,
        queue: 0.15,
        noise: 0.15,
        random: 0.1,
    },
    Scenario {
        name: "ECMP over two paths",
        modes: &[1.0, 1.3],
        spread: 0.0,
        queue: 0.5,
        noise: 0.05,
        random: 0.0,
    },
    Scenario {
        name: "mixed",
        modes: &[1.0, 1.15],
        spread: 0.02,
        queue: 0.5,
        noise: 0.15,
        random: 0.05,
    },
];

/// What departs, and when it came.
#[derive(Clone, Copy)]
enum Sent {
    /// Of a flow.
    Packet(u32),
    Reference(Reference),
}

fn normal(random: &mut Pcg64) -> f64 {
    let [a, b]: [f64; 2] = random.random();
    (-2.0 * (1.0 - a).ln()).sqrt() * (TAU * b).cos()
}

fn exponential(random: &mut Pcg64) -> f64 {
    -(1.0 - random.random::<f64>()).ln()
}

/// The length of a queue, of mean 1, step by step: exp(.7 OU - .245).
fn queue(random: &mut Pcg64) -> Vec<f64> {
    let keeps = (-STEP_S / MEMORY_S).exp();
    let mut state = normal(random);
    let steps = (0..=(SECONDS / STEP_S) as usize).map(|_| {
        state = keeps * state + (1.0 - keeps * keeps).sqrt() * normal(random);
        (0.7 * state - 0.245).exp()
    });
    steps.collect()
}

/// Flows: the queue of each, its factor, and when its packets come.
fn flows(of: &Scenario, random: &mut Pcg64) -> Vec<(usize, f64, Vec<f64>)> {
    let mut flows = Vec::new();
    for (decade, count) in FLOWS.into_iter().enumerate() {
        for _ in 0..count {
            let size = 10_f64.powf(decade as f64 + random.random::<f64>()) as usize;
            let mode = if random.random_bool(0.6) {
                0
            } else {
                of.modes.len() - 1
            };
            let factor = (of.spread * normal(random)).exp();
            let lasts = (0.5 * (size as f64).sqrt() * normal(random).exp()).min(0.98 * SECONDS);
            let begins = random.random::<f64>() * (SECONDS - lasts);
            let times = (0..size).map(|_| begins + random.random::<f64>() * lasts);
            flows.push((mode, factor, times.collect()));
        }
    }
    flows
}

/// The decoder's results for a scenario.
fn judged(of: &Scenario, seed: u64) -> Vec<JudgedEstimates> {
    let random = &mut Pcg64::seed_from_u64(seed);
    let queues: Vec<Vec<f64>> = of.modes.iter().map(|_| queue(random)).collect();
    let flows = flows(of, random);
    let mut sent: Vec<(f64, usize, Option<u32>)> = Vec::new();
    for (number, (mode, _, times)) in (0..).zip(&flows) {
        sent.extend(times.iter().map(|&at| (at, *mode, Some(number))));
    }
    for mode in 0..of.modes.len() {
        let references = 0..(SECONDS * REFERENCES_PER_S) as u32;
        sent.extend(references.map(|n| (f64::from(n) / REFERENCES_PER_S, mode, None)));
    }
    sent.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Both ends of each stream, and the packets from its queue.
    let mut senders: Vec<ReferenceSender> = Vec::new();
    let mut departures: Vec<Vec<(u64, u64, PacketHash, Sent)>> = Vec::new();
    for mode in 0..of.modes.len() {
        senders.push(ReferenceSender::new(stream(mode)));
        departures.push(Vec::new());
    }
    for (hash, &(at_s, mode, flow)) in (1..).zip(&sent) {
        let sent_ns = (at_s * 1e9) as u64;
        let mut taken = mode;
        if flow.is_some() && random.random_bool(of.random) {
            taken = random.random_range(0..of.modes.len());
        }
        let factor = flow.map_or(1.0, |flow| flows[flow as usize].1);
        let waits = of.queue * queues[taken][(at_s / STEP_S) as usize];
        let noise = of.noise * exponential(random);
        let delay_ns = (UNIT_NS * (of.modes[taken] * factor + waits + noise)) as u64;
        let packet = PacketHash(u64::wrapping_mul(hash, 0x9e37_79b9_7f4a_7c15));
        let what = match flow {
            Some(flow) => {
                senders[mode].record(packet, sent_ns);
                Sent::Packet(flow)
            }
            None => Sent::Reference(senders[mode].reference(sent_ns)),
        };
        departures[mode].push((sent_ns + delay_ns, delay_ns, packet, what));
    }
    live(flows.len(), departures)
}

fn stream(mode: usize) -> StreamId {
    StreamId {
        worker: 0,
        segment: SegmentIndex(mode as u16),
        queue: 0,
    }
}

/// Packets by segment, as they depart, through slots, sketch, directory and decoder.
fn live(flows: usize, departures: Vec<Vec<(u64, u64, PacketHash, Sent)>>) -> Vec<JudgedEstimates> {
    let rate = TickRate::from_hz(1_000_000_000);
    let layout = LdsLayout::new(COLUMNS, 1, &[1.0; 4]).unwrap();
    let mut sketch: LdsPair<PassedCell> = LdsPair::empty(&layout);
    let mut slots = FlowSlots::new(flows).with_estimates();
    let mut sums = vec![(0, FlowSums::default()); flows];
    for (segment, mut departures) in (0..).zip(departures) {
        departures.sort_by_key(|departure| departure.0);
        let link = Link::new(10_000_000_000, 0).unwrap();
        let config = ReceiverConfig::new(stream(segment.into()), Method::Sums, link);
        let mut receiver = Receiver::new(config).unwrap();
        let mut sink = |estimates: measure::rli::Estimates<'_, Slot>| {
            slots.record_estimates(&estimates);
        };
        for (departed_ns, delay, packet, what) in departures {
            let flow = match what {
                Sent::Packet(flow) => flow,
                Sent::Reference(reference) => {
                    receiver.reference(&reference, 0, departed_ns, &mut sink);
                    continue;
                }
            };
            receiver.regular(Slot(flow), packet, 0, departed_ns, &mut sink);
            let observation = Observation {
                flow: hasher().flow_hash(&key(flow)),
                packet,
                time: departed_ns,
                delay,
                bytes: 64,
                segment: SegmentIndex(segment),
                epoch: EpochTag(0),
            };
            sketch.record_passed(&[observation]);
            let (of, sums) = &mut sums[flow as usize];
            *of = segment;
            sums.packets += 1;
            sums.sum_ticks += u128::from(delay);
        }
        receiver.flush(&mut sink);
    }
    let mut directory = Directory::default();
    for (flow, (segment, sums)) in (0..).zip(&sums) {
        let estimates = slots.estimates(Slot(flow));
        directory.count_for_tests(key(flow), (*segment).into(), Epoch(0), sums, estimates);
    }
    let mut decoder = Decoder::new(ResultMode::Polled);
    let settings = Decode {
        components: 2,
        interval_s: 1,
    };
    decoder.set(Some(settings), Duration::from_hours(1), &hasher(), rate);
    let epoch = EpochCells {
        epoch: Epoch(0),
        generation: GenerationId(0),
        sketches: vec![Some(Arc::new(sketch.delays()))],
        segments: Arc::new(vec![Some((SegmentIndex(0), 0)), Some((SegmentIndex(1), 0))]),
        methods: Arc::new(vec![Some(Method::Sums); 2]),
    };
    assert!(decoder.close(&epoch, &mut directory, Instant::now()));
    wait(&mut decoder, &mut directory);
    decoder.judged.shown()
}

/// The geometric mean over seeds of the median error of a method's estimates, of flows of one size.
fn error(runs: &[Vec<JudgedEstimates>], method: &str, size: &str) -> f64 {
    let logarithms = runs.iter().map(|run| {
        let is_it =
            |one: &&JudgedEstimates| (one.method.as_str(), one.size.as_str()) == (method, size);
        let ratio = run.iter().find(is_it).unwrap().error_ratio_median.unwrap();
        ratio.max(1e-9).ln()
    });
    (logarithms.sum::<f64>() / runs.len() as f64).exp()
}

#[test]
fn the_hybrid_is_as_good_as_the_better_of_sketch_and_references() {
    let mut worse = Vec::new();
    for scenario in &SCENARIOS {
        let runs: Vec<_> = (0..SEEDS).map(|seed| judged(scenario, seed)).collect();
        for size in ["1-9", "10-99", "100-999", "1000-"] {
            let methods = ["hybrid", "lds-joint", "rli-s", "chosen"];
            let errors = methods.map(|method| error(&runs, method, size));
            let [hybrid, joint, rli, _] = errors;
            println!("{}, {size}: {methods:?} {errors:.5?}", scenario.name);
            if hybrid > 1.1 * joint.min(rli) {
                worse.push((scenario.name, size, errors));
            }
        }
    }
    assert!(worse.is_empty(), "{worse:?}");
}
