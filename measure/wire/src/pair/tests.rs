use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp};
use rand_pcg::Pcg64;

use super::*;
use crate::{DecodeJob, FlowOutcome, WireLayout};
use measure::lda::{Bank, LdaLayout};
use measure::lds::LdsLayout;
use measure::observation::{End, Observation, SegmentIndex};
use measure::packet::{FlowHash, PacketHash};
use measure::rli::{self, Estimates, FlowDistribution};
use measure::time::EpochTag;

const CLOCKS: ClockBound = ClockBound {
    error_ns: 1_000.0,
    resolution_ns: 10.0,
};

/// Nanoseconds of TAI, where sums wrap after a dozen packets.
const NOW_NS: u64 = 1_800_000_000_000_000_000;

fn layout() -> WireLayout {
    let bank = |probability| Bank {
        rows: 64,
        probability,
    };
    WireLayout {
        segments: 2,
        lda: LdaLayout::new(&[bank(0.1), bank(0.9)]).unwrap(),
        lds: Some(LdsLayout::new(400, 5, &[0.1, 0.5, 1.0, 1.0]).unwrap()),
        stash_packets: 16,
        flows: 500,
        references: None,
    }
}

/// Both ends' shards, and each flow's true mean of what arrived.
struct Epoch {
    sender: WireShard,
    receiver: WireShard,
    /// By segment.
    means_ns: [f64; 2],
    /// By flow's number.
    flows_ns: Vec<f64>,
}

fn flow(number: u64) -> (FlowHash, SegmentIndex) {
    let hash = number.wrapping_add(1).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (FlowHash(hash), SegmentIndex(u16::from(number % 2 == 1)))
}

/// `spread_ns` apart lie the means of flows: 0 where all share one queue, which references suppose.
fn epoch(seed: u64, packets: usize, flows: u64, spoilt: (f64, f64)) -> Epoch {
    epoch_of(&layout(), seed, (packets, flows), spoilt)
}

fn epoch_of(
    layout: &WireLayout,
    seed: u64,
    (packets, flows): (usize, u64),
    (loss, spread_ns): (f64, f64),
) -> Epoch {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut sender = WireShard::new(layout, End::Sender);
    let mut receiver = WireShard::new(layout, End::Receiver);
    let mut segments = [(0.0, 0.0); 2];
    let mut all = vec![(0.0, 0.0); usize::try_from(flows).unwrap()];
    let wait = Exp::new(1.0 / 5_000.0).unwrap();
    for place in 0..packets {
        let number = random.random_range(0..flows);
        let (flow, segment) = flow(number);
        let base = -20_000.0 + 200_000.0 * f64::from(segment.0);
        let noise: f64 = wait.sample(&mut random);
        #[expect(clippy::cast_possible_truncation, reason = "small")]
        let delay = (base + spread_ns * number as f64 + noise) as i64;
        let observation = Observation {
            flow,
            packet: PacketHash(random.random()),
            time: NOW_NS + 10_000 * place as u64,
            delay: 0,
            bytes: 100,
            segment,
            epoch: EpochTag(0),
        };
        sender.record(End::Sender, &[observation]);
        if random.random_bool(loss) {
            continue;
        }
        let time = observation.time.wrapping_add_signed(delay);
        receiver.record(
            End::Receiver,
            &[Observation {
                time,
                ..observation
            }],
        );
        let slot = receiver.flows.count(flow, segment, observation.bytes);
        let estimate = rli::Estimate {
            epoch: EpochTag(0),
            received_ns: time,
            delay_ns: base + 5_000.0,
            squared_error_ns2: 4e7,
            share_of_sum: 0.0,
            interval: u32::try_from(place / 100).unwrap(),
        };
        receiver.flows.estimate(&Estimates {
            flows: &[slot],
            estimate,
        });
        for (sum, count) in [
            &mut segments[usize::from(segment.0)],
            &mut all[usize::try_from(number).unwrap()],
        ] {
            *sum += delay as f64;
            *count += 1.0;
        }
    }
    Epoch {
        sender,
        receiver,
        means_ns: segments.map(|(sum, count)| sum / count),
        flows_ns: all.into_iter().map(|(sum, count)| sum / count).collect(),
    }
}

/// The sender's halves; cells for which `is_missing` are not there.
struct Arrived {
    ldas: Vec<Vec<Option<Cell>>>,
    lds: Vec<Option<Cell>>,
    tallies: Vec<Option<Tally>>,
}

impl Arrived {
    fn of(sender: &WireShard, mut is_missing: impl FnMut() -> bool) -> Self {
        let mut arrives = |cell: &CellPair| (!is_missing()).then_some(cell.sender);
        let segments = &sender.segments;
        Self {
            ldas: segments
                .iter()
                .map(|segment| segment.lda.cells().iter().map(&mut arrives).collect())
                .collect(),
            lds: sender
                .lds
                .as_ref()
                .unwrap()
                .cells()
                .iter()
                .map(&mut arrives)
                .collect(),
            tallies: segments.iter().map(|segment| Some(segment.tally)).collect(),
        }
    }

    fn halves(&self) -> SenderHalves<'_> {
        let segments = self.tallies.iter().zip(&self.ldas);
        SenderHalves {
            segments: segments
                .map(|(tally, lda)| SegmentHalves { tally: *tally, lda })
                .collect(),
            lds: &self.lds,
        }
    }
}

fn job(epoch: &Epoch, arrived: &Arrived, method: Option<rli::Method>) -> DecodeJob {
    let (cells, _) = flow_cells(&epoch.receiver, &arrived.halves()).unwrap();
    DecodeJob {
        cells,
        flows: epoch.receiver.flows.flows().to_vec(),
        delays: epoch.receiver.flows.delays().to_vec(),
        method,
        is_fifo: true,
        clocks: CLOCKS,
        components: 1,
    }
}

fn decoded(epoch: &Epoch, arrived: &Arrived, method: Option<rli::Method>) -> Vec<FlowOutcome> {
    let job = job(epoch, arrived, method);
    assert!(job.effort() >= job.flows.len() * 20);
    job.decode(|| false).unwrap()
}

#[test]
fn without_loss_every_cell_speaks_and_counts_agree() {
    let epoch = epoch(1, 3_000, 50, (0.0, 50.0));
    let arrived = Arrived::of(&epoch.sender, || false);
    let outcomes = pair(&epoch.receiver, &arrived.halves(), CLOCKS);
    for (outcome, mean_ns) in outcomes.iter().zip(epoch.means_ns) {
        assert_eq!(outcome.lost(), Some(0));
        assert_eq!(outcome.cells.usable, 128);
        assert_eq!(outcome.lda.effective_samples, outcome.tally.received);
        let lda = outcome.lda_mean.unwrap();
        assert!((lda.mean_ns - mean_ns).abs() < 1e-6 * mean_ns.abs());
        // Only the errors of clocks and stamps remain.
        assert_eq!(lda.bound_ns, Some(1_010.0));
        assert_eq!(outcome.chosen, Some(lda));
        assert_eq!(outcome.rli_mean, None);
        assert!((outcome.stddev_ns().unwrap() / 5_000.0 - 1.0).abs() < 0.3);
    }
}

#[test]
fn the_mean_lies_within_its_bound_whatever_is_lost_and_missing() {
    let (mut all, mut within) = (0, 0);
    for seed in 0..150 {
        let epoch = epoch(seed, 2_000, 50, (0.02, 50.0));
        let mut random = Pcg64::seed_from_u64(seed);
        let arrived = Arrived::of(&epoch.sender, || random.random_bool(0.1));
        let outcomes = pair(&epoch.receiver, &arrived.halves(), ClockBound::default());
        for (outcome, mean_ns) in outcomes.iter().zip(epoch.means_ns) {
            assert!(outcome.cells.missing > 0 && outcome.cells.unusable() > outcome.cells.missing);
            assert!(outcome.lost().unwrap() > 0);
            let lda = outcome.lda_mean.unwrap();
            all += 1;
            within += usize::from((lda.mean_ns - mean_ns).abs() <= lda.bound_ns.unwrap());
        }
    }
    assert!(within * 100 >= all * 96, "{within} of {all}");
}

#[test]
fn what_did_not_arrive_is_not_known() {
    let epoch = epoch(1, 1_000, 50, (0.0, 50.0));
    let outcomes = pair(&epoch.receiver, &SenderHalves::default(), CLOCKS);
    for outcome in outcomes {
        assert_eq!(outcome.lost(), None);
        assert_eq!(outcome.cells.missing, outcome.cells.cells);
        assert_eq!(outcome.cells.usable, 0);
        assert_eq!((outcome.lda_mean, outcome.chosen), (None, None));
        assert_eq!(outcome.tally.sent, 0);
        assert!(outcome.tally.received > 0);
    }
    let (cells, counts) = flow_cells(&epoch.receiver, &SenderHalves::default()).unwrap();
    assert_eq!(counts.missing, 1_600);
    assert!(
        cells
            .cells()
            .iter()
            .all(|cell| cell.missing && !cell.usable)
    );
}

#[test]
fn other_packets_in_as_many_cells_are_told_by_their_digests() {
    let mut epoch = epoch(1, 1_000, 50, (0.0, 50.0));
    let placed = *epoch.receiver.stash.last().next().unwrap();
    let other = Observation {
        packet: PacketHash(placed.packet.0 ^ 1 << 40),
        ..placed.observation()
    };
    // It goes to the same cell, or to another one: then both differ in their counts.
    epoch
        .receiver
        .uncount(End::Receiver, &[placed.observation()]);
    epoch.receiver.count(End::Receiver, &[other]);
    let arrived = Arrived::of(&epoch.sender, || false);
    let outcomes = pair(&epoch.receiver, &arrived.halves(), CLOCKS);
    let outcome = &outcomes[usize::from(placed.segment.0)];
    assert_eq!(outcome.lost(), Some(0));
    assert!((1..=2).contains(&outcome.cells.unusable()));
    let lds = flow_cells(&epoch.receiver, &arrived.halves()).unwrap().1;
    assert!(lds.unusable() >= 2);
}

#[test]
fn flows_of_two_segments_are_decoded_within_their_bounds() {
    for (loss, method) in [
        ((0.0, 50.0), None),
        ((0.005, 50.0), None),
        ((0.005, 0.0), Some(rli::Method::Sums)),
    ] {
        let epoch = epoch(3, 20_000, 200, loss);
        let mut random = Pcg64::seed_from_u64(3);
        let arrived = Arrived::of(&epoch.sender, || random.random_bool(0.02));
        let flows = decoded(&epoch, &arrived, method);
        assert_eq!(flows.len(), 200);
        let within = flows.iter().filter(|outcome| {
            let number = (0..200).find(|n| flow(*n) == (outcome.flow, outcome.segment));
            let truth_ns = epoch.flows_ns[usize::try_from(number.unwrap()).unwrap()];
            let chosen = outcome.chosen.unwrap();
            assert_eq!(
                outcome.estimates.len(),
                if method.is_some() { 3 } else { 1 }
            );
            let is_combined = chosen.method == Method::Combined && method.is_some();
            assert!(is_combined || outcome.estimates.contains(&chosen));
            (chosen.mean_ns - truth_ns).abs() <= chosen.bound_ns.unwrap_or(f64::INFINITY)
        });
        let within = within.count();
        assert!(within >= 190, "{within} at {loss:?}, {method:?}");
    }
}

#[test]
fn references_that_packets_overtake_say_nothing_of_flows() {
    let mut epoch = epoch(3, 2_000, 50, (0.0, 50.0));
    epoch.receiver.marks.disordered_intervals = 1;
    let arrived = Arrived::of(&epoch.sender, || false);
    let (cells, _) = flow_cells(&epoch.receiver, &arrived.halves()).unwrap();
    let job = DecodeJob {
        cells,
        flows: epoch.receiver.flows.flows().to_vec(),
        delays: Vec::new(),
        method: Some(rli::Method::Sums),
        is_fifo: epoch.receiver.is_fifo(),
        clocks: CLOCKS,
        components: 1,
    };
    let flows = job.decode(|| false).unwrap();
    let by_references = |one: &&Estimate| matches!(one.method, Method::Rli(_));
    let estimates = || flows.iter().flat_map(|flow| &flow.estimates);
    assert_eq!(estimates().filter(by_references).count(), 0);
    assert!(job.decode(|| true).is_err());
}

/// All flows of an epoch, decoded except for flows without a slot.
fn without(all: &DecodeJob, is_left_out: impl Fn(usize) -> bool) -> (DecodeJob, Vec<FlowOutcome>) {
    let mut job = all.clone();
    let mut places = 0..;
    job.flows
        .retain(|_| !is_left_out(places.next().unwrap_or_default()));
    let outcomes = job.decode(|| false).unwrap();
    (job, outcomes)
}

#[test]
fn a_flow_that_was_counted_is_answered_as_it_was_decoded() {
    let epoch = epoch(3, 20_000, 200, (0.005, 0.0));
    let arrived = Arrived::of(&epoch.sender, || false);
    let (job, outcomes) = without(&job(&epoch, &arrived, Some(rli::Method::Sums)), |_| false);
    for outcome in &outcomes {
        let asked = job.ask(&outcomes, outcome.flow, 2).unwrap();
        let counted: Vec<_> = asked.iter().filter(|one| one.is_counted).collect();
        assert_eq!(counted.len(), 1);
        assert_eq!(&counted[0].outcome, outcome);
        assert!(outcome.lost_max.is_some());
    }
    let of = &outcomes[0];
    let mut disordered = job.clone();
    disordered.is_fifo = false;
    assert!(of.stddev_ns.is_some());
    let outcomes = disordered.decode(|| false).unwrap();
    assert!(outcomes.iter().all(|one| one.stddev_ns.is_none()));
}

#[test]
fn quantiles_agree_with_the_chosen_mean_and_are_withheld_without_references() {
    let epoch = epoch(3, 20_000, 200, (0.0, 0.0));
    let arrived = Arrived::of(&epoch.sender, || false);
    let mut job = job(&epoch, &arrived, Some(rli::Method::Sums));
    let mut delays = FlowDistribution::default();
    for packet in 0..u32::try_from(job.flows[0].packets).unwrap() {
        let delay_ns = if packet % 10 < 8 { 10_000.0 } else { 80_000.0 };
        let estimate = rli::Estimate {
            epoch: EpochTag::default(),
            received_ns: 0,
            delay_ns,
            squared_error_ns2: 0.0,
            share_of_sum: 0.0,
            interval: packet / 10 + 1,
        };
        delays.add(&estimate);
    }
    job.delays = vec![delays, FlowDistribution::default()];
    let outcomes = job.decode(|| false).unwrap();
    let mean_ns = outcomes[0].chosen.unwrap().mean_ns;
    let quantiles = job.delays[0].quantiles_ns([0.5, 0.9, 0.99], mean_ns);
    assert!(quantiles.is_some());
    assert_eq!(outcomes[0].quantiles_ns, quantiles);
    // Not of flows of whose packets few have an estimate, nor where packets overtake references.
    assert!(outcomes[1..].iter().all(|one| one.quantiles_ns.is_none()));
    job.is_fifo = false;
    let outcomes = job.decode(|| false).unwrap();
    assert_eq!(outcomes[0].quantiles_ns, None);
}

/// Cells do not depend on the packet, so the rest of a cell belongs to the requested flow.
fn fixed_cells() -> WireLayout {
    WireLayout {
        lds: Some(LdsLayout::new(2_000, 1, &[1.0; 3]).unwrap()),
        ..layout()
    }
}

#[test]
fn a_flow_without_a_slot_is_decoded_with_all_others() {
    for (layout, is_exact) in [(fixed_cells(), true), (layout(), false)] {
        let epoch = epoch_of(&layout, 3, (20_000, 200), (0.005, 50.0));
        let arrived = Arrived::of(&epoch.sender, || false);
        let all = job(&epoch, &arrived, None);
        let (mut bounded, mut within) = (0, 0);
        for number in 0..200 {
            let (hash, segment) = flow(number);
            let place = all.flows.iter().position(|one| one.flow == hash);
            let (job, outcomes) = without(&all, |at| Some(at) == place);
            let asked = job.ask(&outcomes, hash, 2).unwrap();
            let mut asked = asked.iter().filter(|one| !one.is_counted);
            let one = asked.find(|one| one.outcome.segment == segment).unwrap();
            let packets = all.flows[place.unwrap()].packets;
            if is_exact {
                assert_eq!(one.outcome.packets, packets);
            } else {
                assert!(one.outcome.packets >= packets);
            }
            let chosen = one.outcome.chosen.unwrap();
            let truth_ns = epoch.flows_ns[usize::try_from(number).unwrap()];
            if !is_exact {
                assert_eq!((chosen.method, chosen.bound_ns), (Method::LdsPaper, None));
            } else if let Some(bound_ns) = chosen.bound_ns {
                bounded += 1;
                within += usize::from((chosen.mean_ns - truth_ns).abs() <= bound_ns);
            }
        }
        assert!(within * 100 >= bounded * 96, "{within} of {bounded}");
        assert_eq!(bounded > 100, is_exact, "{bounded}");
    }
}

#[test]
fn where_more_flows_had_no_slot_nothing_bounds_the_answer() {
    let epoch = epoch_of(&fixed_cells(), 3, (20_000, 200), (0.0, 50.0));
    let arrived = Arrived::of(&epoch.sender, || false);
    let (job, outcomes) = without(&job(&epoch, &arrived, None), |at| at % 2 == 0);
    let is_counted = |hash| outcomes.iter().any(|one| one.flow == hash);
    let (hash, segment) = (0..200).map(flow).find(|of| !is_counted(of.0)).unwrap();
    let asked = job.ask(&outcomes, hash, 2).unwrap();
    let one = asked.iter().find(|one| one.outcome.segment == segment);
    let chosen = one.unwrap().outcome.chosen.unwrap();
    assert_eq!((chosen.method, chosen.bound_ns), (Method::LdsPaper, None));
    // A flow that never existed has no packets, unless others share all of its cells.
    let strangers = (1_000..1_200).map(|n| flow(n).0);
    let answered = strangers.filter(|&hash| !job.ask(&outcomes, hash, 2).unwrap().is_empty());
    assert!(answered.count() < 10);
}
