use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use records::snapshot::{FlowFigures, FlowMethod, WireEstimate};

use super::*;
use crate::wire::truth::tests::{estimate, flow, ten_epochs};

const FLOW: &str = "10.0.0.1:5>10.0.0.2:6/udp";

fn lda(mean_ns: f64) -> WireEstimate {
    WireEstimate {
        method: "lda".to_owned(),
        mean_ns,
        bound_ns: Some(2.0),
        effective_samples: Some(5),
    }
}

/// The flow in every epoch; the chosen estimate is the mean of joint decoding.
fn seen(packets: u64, joint_ns: f64, rli_ns: f64) -> Seen {
    let joint = estimate(FlowMethod::LdsJoint, joint_ns, 2.0);
    let last = FlowFigures {
        packets,
        ..FlowFigures::default()
    };
    let mut flow = flow(last, joint, 1_100.0);
    FLOW.clone_into(&mut flow.flow.flow);
    flow.flow.estimates = vec![joint, estimate(FlowMethod::RliS, rli_ns, 2.0)];
    let mut seen = Seen::default();
    seen.flows
        .extend((0..10).map(|epoch| (epoch, vec![flow.clone()])));
    seen
}

fn verdict(packets: u64, seen: &Seen) -> Verdict {
    let flow = hasher().flow_hash(&FLOW.parse().unwrap()).0;
    judge(&ten_epochs(flow, packets), seen, 0.0)
}

#[test]
fn reports_are_compared_with_what_happened() {
    let mut seen = seen(9, 104.0, 114.4);
    for epoch in (0..10).filter(|epoch| *epoch != 5) {
        // Of the six that count one is missing, one is wrong, one lost too few, one has no counts.
        let mean_ns = if epoch == 3 { 107.0 } else { 105.0 };
        let figures = WireFigures {
            epoch,
            sent_packets: Some(10),
            received_packets: Some(9),
            lost_packets: (epoch != 6).then_some(i64::from(epoch != 4)),
            usable_cells_ratio: 0.5,
            estimates: vec![lda(mean_ns)],
            chosen: Some(lda(104.0)),
            ..WireFigures::default()
        };
        seen.epochs.insert(epoch, figures);
    }
    let verdict = verdict(10, &seen);
    assert_eq!((verdict.epochs, verdict.usable), (6, 5));
    assert!((verdict.mean_ns - 104.0).abs() < 1e-9);
    let loss = ("lost", "10.0 %".to_owned());
    assert!(verdict.usability.contains(&loss), "{verdict:?}");
    assert_eq!((verdict.counted, verdict.counts_exact), (4, 3));
    let [lda, chosen] = verdict.means.as_slice() else {
        panic!("{:?}", verdict.means);
    };
    assert_eq!((lda.bounded, lda.within), (5, 4));
    assert!((lda.error - 1.0).abs() < 1e-9);
    let of_chosen = (chosen.method.as_str(), chosen.within_share());
    assert_eq!(of_chosen, (CHOSEN, 1.0));
    // Nine packets are too few.
    assert!(verdict.flows.is_empty());
}

#[test]
fn flows_are_judged_beside_flows_of_their_size() {
    let seen = seen(11, 106.05, 115.5);
    // Eleven arrive after 105 ns on average; 101 after 150.
    for (packets, size, best_method, chosen_error, best_error) in [
        (12, 10, "lds-joint", 0.01, 0.01),
        (102, 100, "rli-s", 0.293, 0.23),
    ] {
        let classes = verdict(packets, &seen).flows;
        let sizes = classes.iter();
        let sizes = sizes.map(|class| (*class.packets.start(), class.is_all()));
        assert_eq!(sizes.collect::<Vec<_>>(), [(size, false), (10, true)]);
        let (chosen, best) = classes[0].chosen_and_best().unwrap();
        assert_eq!((chosen.count, best.method.as_str()), (6, best_method));
        assert!((chosen.error - chosen_error).abs() < 1e-9);
        assert!((best.error - best_error).abs() < 1e-9);
        let within = if best.method == "lds-joint" { 6 } else { 0 };
        assert_eq!((best.bounded, best.within), (6, within));
        assert_eq!((chosen.bounded, chosen.within), (6, within));
    }
}

#[test]
fn a_method_with_few_flows_is_no_measure() {
    let of = |method: &str, count, error| Errors {
        method: method.to_owned(),
        count,
        error,
        ..Errors::default()
    };
    let class = FlowClass {
        packets: 10..=99,
        errors: vec![
            of("hybrid", 95, 0.02),
            of("rli-s", 89, 0.01),
            of(CHOSEN, 100, 0.02),
        ],
    };
    let (_, best) = class.chosen_and_best().unwrap();
    assert_eq!(best.method, "hybrid");
}

#[test]
fn the_interval_of_a_median_narrows_with_its_numbers() {
    // Between the 40th and the 41st of 100.
    let least = |count: u32| median_min(&(1..=count).map(f64::from).collect::<Vec<_>>());
    assert!((40.0..41.0).contains(&least(100)));
    assert!((4_902.0..4_903.0).contains(&least(10_000)));
    assert!((least(1) - 1.0).abs() < 1e-12);
}

#[test]
fn the_tail_of_large_flows_is_held_against_every_packet() {
    // Packets lie closer in epochs than epochs here: 1,000 arrive, of 100 to 1,099 ns.
    let verdict = verdict(1_001, &seen(1_001, 0.0, 0.0));
    let tails = verdict.tails;
    assert_eq!((tails.flows, tails.known), (6, 6));
    let exact_ns = 100.0 + 0.99 * 999.0;
    assert!(
        (tails.error - (1_100.0 / exact_ns - 1.0)).abs() < 1e-9,
        "{tails:?}"
    );
    let small = Judged::tails([].into_iter());
    assert_eq!((small.flows, small.known), (0, 0));
}

#[test]
fn usable_cells_are_as_many_as_in_a_simulation() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let (packets, loss) = (5_000_u32, 0.02);
    let bank = Bank {
        rows: 50,
        probability: 0.5,
    };
    let runs = 200;
    let (mut usable, mut samples) = (0.0, 0.0);
    for _ in 0..runs {
        let mut cells = [(0_u32, true); 50];
        for _ in 0..packets {
            if !random.random_bool(bank.probability) {
                continue;
            }
            let (count, clean) = &mut cells[random.random_range(0..50)];
            if random.random_bool(loss) {
                *clean = false;
            } else {
                *count += 1;
            }
        }
        let clean = cells.iter().filter(|(_, clean)| *clean);
        usable += clean.clone().count() as f64;
        samples += clean.map(|(count, _)| f64::from(*count)).sum::<f64>();
    }
    let (n, runs) = (f64::from(packets), f64::from(runs));
    let expected = usable_cells(&bank, n, loss);
    // As if cells were independent, which they nearly are.
    let clean = expected / f64::from(bank.rows);
    let error = (expected * (1.0 - clean) / runs).sqrt();
    assert!((usable / runs - expected).abs() < 4.0 * error, "{usable}");
    let expected = effective_samples(&bank, n, loss);
    assert!((samples / runs / expected - 1.0).abs() < 0.03, "{samples}");
}

#[test]
fn markers_and_ranges_arrive_with_the_probability_of_their_copies() {
    let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(close(rollover_seen(0.0), 1.0) && close(rollover_seen(0.2), 0.992));
    assert!(close(epoch_seen(0.2), 0.992 * 0.992));
    // Sent, lost (.2); asked for and sent again: both must arrive (.64).
    assert!(close(range_arrives(0.2, 0.2), 1.0 - 0.2 * 0.36));
    assert!(close(range_arrives(0.0, 0.5), 1.0));
    let bank = Bank {
        rows: 1,
        probability: 1.0,
    };
    assert!(close(usable_cells(&bank, 0.0, 0.5), 1.0));
    assert!(close(effective_samples(&bank, 2.0, 0.5), 0.5));
}

#[test]
fn a_mean_of_all_packets_has_no_error() {
    assert!(standard_error_ns(5.0, 100.0, 100.0).abs() < 1e-9);
    assert!((standard_error_ns(5.0, 100.0, 1e12) - 0.5).abs() < 1e-6);
    assert!(standard_error_ns(5.0, 0.0, 100.0).is_infinite());
}
