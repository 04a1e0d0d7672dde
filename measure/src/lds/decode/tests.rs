mod blup;
mod parts;
mod synthetic;

use super::*;
use synthetic::{Case, Truth, median};

fn options(components: usize, sweeps: usize) -> DecodeOptions {
    DecodeOptions {
        components,
        sweeps,
        ..DecodeOptions::default()
    }
}

/// Flows worth looking at under overload.
const LARGE: f64 = 50.0;

#[test]
fn few_flows_come_out_exact() {
    for seed in 1..6 {
        let truth = Truth::new(&Case {
            seed,
            flows: 750,
            columns: 334,
            rows: 3,
            ..Case::default()
        });
        let decoded = truth.decode(&options(1, 40));
        assert_eq!(decoded.fallback, None);
        let worst = truth.worst_error(&decoded);
        assert!(worst < 1e-12, "{worst}, change {}", decoded.last_change);
    }
}

#[test]
fn delays_far_from_zero_and_below_it_come_out_as_well() {
    for mode in [1e12, -3e6] {
        let truth = Truth::new(&Case {
            seed: 1,
            flows: 500,
            columns: 334,
            rows: 3,
            modes: vec![mode],
            ..Case::default()
        });
        assert!(truth.worst_error(&truth.decode(&options(1, 40))) < 1e-8);
    }
}

#[test]
fn flows_that_share_all_cells_keep_their_mean_and_their_doubt() {
    let mut truth = Truth::new(&Case {
        seed: 1,
        flows: 300,
        columns: 334,
        rows: 3,
        ..Case::default()
    });
    // One flow becomes two of the same cells.
    let flow = truth
        .packets
        .iter()
        .position(|&packets| packets >= 10.0)
        .unwrap();
    let packets = truth.packets[flow];
    truth.packets[flow] = 0.4 * packets;
    truth.packets.push(0.6 * packets);
    truth.weights.push(1.0);
    truth.columns.extend_from_within(flow * 3..flow * 3 + 3);
    let decoded = truth.decode(&options(1, 40));
    let (one, other) = (&decoded.flows[flow], &decoded.flows[300]);
    let mean = 0.4 * one.mean_ticks + 0.6 * other.mean_ticks;
    assert!((mean / truth.means[flow] - 1.0).abs() < 1e-9);
    assert!(one.variance_ticks2 > other.variance_ticks2 && other.variance_ticks2 > 1e6);
    assert_eq!(
        decoded
            .flows
            .iter()
            .filter(|f| f.variance_ticks2 > 0.0)
            .count(),
        2
    );
}

#[test]
fn joint_beats_the_paper_under_overload_and_knows_its_error() {
    let truth = Truth::new(&Case {
        flows: 8_000,
        columns: 1_000,
        ..Case::default()
    });
    let decoded = truth.decode(&options(1, 10));
    let paper = truth.paper();
    let (joint, paper) = (
        truth.median_error(&decoded.flows, LARGE),
        truth.median_error(&paper, LARGE),
    );
    assert!(joint < 0.5 * paper, "{joint} {paper}");
    let covered = truth.coverage(&decoded, 3.0);
    assert!(covered > 0.99, "{covered}");
    // And two deviations are not wide enough for everything: the variance means something.
    let covered = truth.coverage(&decoded, 1.0);
    assert!((0.5..0.85).contains(&covered), "{covered}");
}

#[test]
fn two_components_are_better_where_there_are_two_modes() {
    let truth = Truth::new(&Case {
        flows: 4_000,
        columns: 1_000,
        modes: vec![100_000.0, 160_000.0],
        between: 2_000.0,
        within: 8_000.0,
        ..Case::default()
    });
    let (one, two) = (truth.decode(&options(1, 20)), truth.decode(&options(2, 20)));
    let error = |decoded: &Decoded| truth.median_error(&decoded.flows, LARGE);
    assert!(
        error(&two) < 0.8 * error(&one),
        "{} {}",
        error(&two),
        error(&one)
    );
}

#[test]
fn the_hybrid_beats_both_of_its_sources() {
    let truth = Truth::new(&Case {
        flows: 8_000,
        columns: 1_000,
        between: 15_000.0,
        within: 2_000.0,
        ..Case::default()
    });
    let references = truth.noisy_means(4_000.0);
    let table = FlowTable {
        features: &references,
        features_per_flow: 1,
        known: None,
        ..truth.table()
    };
    let hybrid = truth.decode_table(table, &options(1, 10));
    let alone = truth.decode(&options(1, 10));
    let flow = |(&mean_ticks, flow): (&f64, &FlowDelay)| FlowDelay {
        mean_ticks,
        ..*flow
    };
    let rli: Vec<FlowDelay> = references.iter().zip(&alone.flows).map(flow).collect();
    for least in [1.0, LARGE] {
        let error = |flows: &[FlowDelay]| truth.median_error(flows, least);
        let best = error(&alone.flows).min(error(&rli));
        assert!(
            error(&hybrid.flows) < best,
            "{} {best}",
            error(&hybrid.flows)
        );
    }
}

#[test]
fn a_flow_without_its_feature_is_less_certain() {
    let truth = Truth::new(&Case {
        flows: 8_000,
        columns: 1_000,
        between: 15_000.0,
        within: 2_000.0,
        ..Case::default()
    });
    let mut references = truth.noisy_means(1_000.0);
    for reference in references.iter_mut().step_by(3) {
        *reference = f64::NAN;
    }
    let table = FlowTable {
        features: &references,
        features_per_flow: 1,
        known: None,
        ..truth.table()
    };
    let decoded = truth.decode_table(table, &options(1, 15));
    let deviation = |lacking: bool| {
        let flows = decoded.flows.iter().enumerate();
        let chosen = flows.filter(|(flow, _)| (flow % 3 == 0) == lacking);
        median(
            chosen
                .map(|(_, flow)| flow.variance_ticks2.sqrt())
                .collect(),
        )
    };
    assert!(deviation(true) > 2.0 * deviation(false));
    assert!(truth.coverage(&decoded, 3.0) > 0.98);
}

#[test]
fn weights_buy_accuracy() {
    let case = |weights: &[f64]| Case {
        flows: 6_000,
        columns: 1_000,
        weights: weights.to_vec(),
        ..Case::default()
    };
    let (even, weighted) = (Truth::new(&case(&[1.0; 10])), {
        let mut weights = [1.0; 10];
        weights[0] = 100.0;
        Truth::new(&case(&weights))
    });
    let gold_error = |truth: &Truth| {
        let decoded = truth.decode(&options(1, 15));
        median(
            truth
                .errors(&decoded.flows)
                .into_iter()
                .step_by(10)
                .collect(),
        )
    };
    assert!(gold_error(&weighted) < 0.3 * gold_error(&even));
}

#[test]
fn flows_missing_from_the_list_are_taken_into_account() {
    let truth = Truth::new(&Case {
        flows: 3_000,
        columns: 1_000,
        ..Case::default()
    });
    let listed = truth.without_each_tenth();
    let decoded = listed.decode(&options(1, 15));
    let share = decoded.warnings.iter().find_map(|warning| match warning {
        Warning::UnlistedPackets { share } => Some(*share),
        _ => None,
    });
    assert!(
        share.is_some_and(|share| (0.02..0.4).contains(&share)),
        "{share:?}"
    );
    let error = listed.median_error(&decoded.flows, LARGE);
    assert!(error < listed.median_error(&listed.paper(), LARGE));
    assert!(listed.coverage(&decoded, 3.0) > 0.97);
}

#[test]
fn counts_that_are_not_known_are_decoded() {
    let truth = Truth::new(&Case {
        seed: 1,
        flows: 500,
        columns: 334,
        rows: 3,
        ..Case::default()
    });
    let table = FlowTable {
        packets: None,
        ..truth.table()
    };
    let decoded = truth.decode_table(table, &options(1, 40));
    let found: Vec<f64> = decoded.flows.iter().map(|flow| flow.packets).collect();
    assert_eq!(found, truth.packets);
    assert!(truth.worst_error(&decoded) < 1e-8);
}

#[test]
fn counts_are_decoded_under_overload_and_some_may_be_given() {
    let truth = Truth::new(&Case {
        flows: 6_000,
        columns: 1_000,
        ..Case::default()
    });
    let count_error = |packets: Option<&[f64]>| {
        let table = FlowTable {
            packets,
            ..truth.table()
        };
        let decoded = truth.decode_table(table, &options(1, 10));
        let pairs = decoded.flows.iter().zip(&truth.packets);
        let large = pairs.filter(|&(_, &packets)| packets >= LARGE);
        median(
            large
                .map(|(flow, n)| (flow.packets / n - 1.0).abs())
                .collect(),
        )
    };
    let some: Vec<f64> = truth
        .packets
        .iter()
        .enumerate()
        .map(|(flow, &packets)| if flow % 2 == 0 { packets } else { f64::NAN })
        .collect();
    let bounds = truth.columns.chunks(4).zip(&truth.packets);
    let bounds = bounds.filter(|&(_, &packets)| packets >= LARGE);
    let count_min = median(
        bounds
            .map(|(columns, packets)| {
                truth.cells.packets_at(columns).unwrap() as f64 / packets - 1.0
            })
            .collect(),
    );
    let (none, half) = (count_error(None), count_error(Some(&some)));
    assert!(
        none < 0.3 * count_min && half < none,
        "{half} {none} {count_min}"
    );
}

#[test]
fn the_same_input_gives_the_same_output() {
    let truth = Truth::new(&Case::default());
    for components in 1..=3 {
        let decode = || truth.decode(&options(components, 12));
        assert_eq!(decode(), decode());
    }
}

#[test]
fn it_can_be_cancelled_between_sweeps() {
    let truth = Truth::new(&Case {
        flows: 3_000,
        ..Case::default()
    });
    let mut asked = 0;
    let result = decode(&truth.cells, truth.table(), &options(1, 10), || {
        asked += 1;
        asked == 3
    });
    assert_eq!(result, Err(DecodeError::Cancelled));
    assert_eq!(asked, 3);
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let truth = Truth::new(&Case::default());
    let table = truth.table();
    let refused = |table: FlowTable<'_>, components, wanted: &str| {
        let options = options(components, 1);
        let error = decode(&truth.cells, table, &options, || false).unwrap_err();
        assert_eq!(error.to_string(), wanted);
    };
    let spoilt = |list: &[f64], flow: usize, value| {
        let mut list = list.to_vec();
        list[flow] = value;
        list
    };
    let columns = &table.columns[..7];
    let wanted = "columns: 7 entries are no multiple of the sketch's 4 rows";
    refused(FlowTable { columns, ..table }, 1, wanted);
    let mut columns = table.columns.to_vec();
    columns[9] = 250;
    let columns = &columns;
    let wanted = "flow 2, row 1: column 250 is not below 250; use this layout's own";
    refused(FlowTable { columns, ..table }, 1, wanted);
    for (packets, wanted) in [
        (vec![1.0], "packets: 1 entries, but 500 flows need 500"),
        (
            spoilt(&truth.packets, 3, -1.0),
            "flow 3: packets must be finite and not negative (NaN where not known)",
        ),
    ] {
        let packets = Some(&packets[..]);
        refused(FlowTable { packets, ..table }, 1, wanted);
    }
    for (features_per_flow, wanted) in [
        (2, "features: 0 entries, but 500 flows need 1000"),
        (9, "9 features a flow; at most 8 can be used"),
    ] {
        let table = FlowTable {
            features_per_flow,
            ..table
        };
        refused(table, 1, wanted);
    }
    let weights = spoilt(&truth.weights, 4, 0.0);
    let weights = Some(&weights[..]);
    let wanted = "flow 4: the weight must be finite and positive";
    refused(FlowTable { weights, ..table }, 1, wanted);
    refused(table, 4, "4 components asked for; choose 1 to 3");
}
