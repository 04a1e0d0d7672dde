//! The four scenarios of the hybrid, through the live decoder: packets of queues into flow slots, a sketch and
//! references; what the judge publishes is compared by method and size of flows.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of small experiments"
)]

use std::f64::consts::TAU;

use measure::flows::{FlowSlots, Slot};
use measure::rli::{Link, Method, Receiver, ReceiverConfig, Reference, ReferenceSender, StreamId};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

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

/// As `benches/accuracy` has them; in a switch each queue is a segment, with references of its own.
struct Scenario {
    name: &'static str,
    /// Delay of each queue; the first takes 60 % of flows.
    modes: &'static [f64],
    /// Deviation of the logarithm of a flow's own factor.
    spread: f64,
    /// Weight of what waits in a queue.
    queue: f64,
    /// Mean of what each packet meets besides.
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

/// What waits in a queue, of mean 1, step by step: exp(.7 OU - .245).
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

/// What the decoder publishes of a scenario.
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
    // Both ends of each stream, and what comes out of its queue.
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
