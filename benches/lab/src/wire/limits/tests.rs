use super::*;
use crate::wire::attack::Refused;
use crate::wire::capture::Comparison;
use crate::wire::flood::Phase;
use crate::wire::scenario::{Outcome, Overhead};
use crate::wire::verdict::{Means, Path};

fn means(within: usize) -> Means {
    Means {
        method: CHOSEN.to_owned(),
        epochs: 200,
        within,
        error_ns: 1.0,
        bound_ns: 2.0,
    }
}

fn flows(packets: std::ops::RangeInclusive<u64>, error: f64) -> FlowClass {
    let methods = [("joint", 0.02), ("rli", 0.03), (CHOSEN, error)];
    let errors = methods.map(|(method, error)| FlowErrors {
        method: method.to_owned(),
        flows: FLOWS_MIN,
        error,
        error_min: error,
        bounded: FLOWS_MIN,
        within: FLOWS_MIN,
    });
    FlowClass {
        packets,
        errors: errors.to_vec(),
    }
}

fn refused(frames: u64) -> Refused {
    Refused {
        by_reason: vec![("tag".to_owned(), frames)],
        useless: 0,
    }
}

fn outcome() -> Outcome {
    let way = || Way {
        verdict: Verdict {
            path: Path {
                epochs: 200,
                ..Path::default()
            },
            usable: 200,
            counted: 200,
            counts_exact: 200,
            means: vec![means(190)],
            flows: vec![flows(10..=99, 0.021), flows(100..=u64::MAX, 0.02)],
            ..Verdict::default()
        },
        compared: Some(Comparison {
            sent: 5,
            received: 5,
            ..Comparison::default()
        }),
        overhead: Overhead {
            control_bps: 1.0,
            share_bps: 2.0,
            ..Overhead::default()
        },
        ..Way::default()
    };
    Outcome {
        name: "attack",
        words: "words",
        ways: [way(), way()],
        tcp_bps: Some(1e9),
        attack: Some(attack::Outcome {
            made_up: 2,
            sent: [("trick".to_owned(), 3)].into(),
            at: [refused(3), refused(5)],
            ..attack::Outcome::default()
        }),
    }
}

fn report(outcome: Outcome) -> Report {
    let mut report = Report::new();
    report.runs.push(outcome);
    report
}

/// What is missed, as it was found.
fn missed(report: &Report) -> Vec<String> {
    let checks = checks(report);
    checks.missed().map(|check| check.got.clone()).collect()
}

#[test]
fn a_good_run_holds_and_is_shown() {
    let report = report(outcome());
    assert_eq!(missed(&report), [""; 0]);
    let text = report.markdown();
    assert!(
        text.contains("TCP through the switches: 1000 Mbit/s"),
        "{text}"
    );
    assert!(!text.contains("**missed**"), "{text}");
}

#[test]
fn what_a_flood_costs_is_found() {
    let flood = flood::Outcome {
        replayed: 5_000,
        accepted: 10,
        refused: refused(5_002),
        hellos: 12,
        flooded: Phase {
            fates: vec![("usable".to_owned(), 120), ("idle".to_owned(), 1)],
            packets: 1.0,
        },
        is_session_kept: true,
        ..flood::Outcome::default()
    };
    let missed = |spoil: fn(&mut flood::Outcome)| {
        let mut flood = flood.clone();
        spoil(&mut flood);
        let mut report = Report::new();
        report.flood = Some(flood);
        assert!(report.markdown().contains("Under a replayed hello"));
        missed(&report).len()
    };
    assert_eq!(missed(|_| ()), 0);
    let spoilers: [fn(&mut flood::Outcome); 5] = [
        |flood| flood.flooded.fates.push(("partial".to_owned(), 1)),
        |flood| flood.flooded.fates[0].1 = 99,
        |flood| flood.is_session_kept = false,
        |flood| flood.lost_packets = 1,
        |flood| flood.replayed += 1,
    ];
    for (number, spoil) in spoilers.into_iter().enumerate() {
        assert_eq!(missed(spoil), 1, "{number}");
    }
}

#[test]
fn wrong_answers_are_found() {
    let judged = |error| crate::wire::verdict::Judged {
        flows: 20,
        known: 20,
        error,
    };
    let asked = asked::Outcome {
        asked: 1_000,
        answered: 999,
        missed: 0,
        loss: 0.01,
        references_of_data: 0.0017,
        sizes: vec![asked::Answers {
            packets: 0..=u64::MAX,
            mean: judged(0.01),
            within: 970,
            bounded: 999,
            received_exact: 999,
            lost_exact: 999,
            lost_more: 0,
        }],
        deviation: judged(0.02),
        p99: judged(0.03),
    };
    let missed = |spoil: fn(&mut asked::Outcome)| {
        let mut asked = asked.clone();
        spoil(&mut asked);
        let mut report = Report::new();
        report.asked = Some(asked);
        assert!(report.markdown().contains("asked for by name"));
        missed(&report).len()
    };
    assert_eq!(missed(|_| ()), 0);
    let spoilers: [fn(&mut asked::Outcome); 8] = [
        |asked| asked.missed = 1,
        |asked| asked.answered = 900,
        |asked| asked.sizes[0].within = 950,
        |asked| asked.sizes[0].lost_more = 1,
        |asked| asked.deviation.error = 0.26,
        |asked| asked.p99.error = 0.31,
        |asked| asked.p99.known = 9,
        |asked| asked.references_of_data = 0.002,
    ];
    for (number, spoil) in spoilers.into_iter().enumerate() {
        assert_eq!(missed(spoil), 1, "{number}");
    }
}

#[test]
fn the_chooser_is_judged_over_all_runs() {
    let missed_with = |error: f64| {
        let mut report = Report::new();
        for _ in 0..CLASSES_MIN / 4 {
            let mut run = outcome();
            for way in &mut run.ways {
                way.verdict.flows = vec![flows(10..=99, error), flows(100..=u64::MAX, 0.02)];
            }
            report.runs.push(run);
        }
        missed(&report)
    };
    assert_eq!(missed_with(0.021), [""; 0]);
    assert_eq!(missed_with(0.0219), ["1.046 (20 sizes)"]);
}

#[test]
fn each_fault_is_found() {
    type Spoiler = (&'static str, fn(&mut Outcome));
    let mut failing = report(outcome());
    failing.failed.push(("loss-1".to_owned(), "why".to_owned()));
    assert_eq!(missed(&failing), ["why"]);
    let spoilers: [Spoiler; 10] = [
        ("usable epochs", |run| run.ways[0].verdict.usable = 99),
        ("truth within", |run| {
            run.ways[1].verdict.means = vec![means(185)];
        }),
        ("packets exact", |run| {
            run.ways[0].verdict.counts_exact = 199;
        }),
        ("10 to 99 packets by the chooser", |run| {
            run.ways[0].verdict.flows[0].errors[2].error_min = 0.0221;
        }),
        ("enough flows to judge", |run| {
            run.ways[0].verdict.flows.clear();
        }),
        ("packets changed", |run| {
            run.ways[0].compared.as_mut().unwrap().changed = 1;
        }),
        ("got out", |run| {
            run.ways[1].leaked = 1;
        }),
        ("may take", |run| run.ways[1].overhead.control_bps = 2.1),
        ("all counted", |run| {
            run.attack.as_mut().unwrap().made_up = 3;
        }),
        ("epochs lost", |run| {
            run.attack.as_mut().unwrap().epochs_lost[1] = vec![("partial".to_owned(), 1)];
        }),
    ];
    for (what, spoil) in spoilers {
        let mut run = outcome();
        spoil(&mut run);
        let checks = checks(&report(run));
        assert!(
            checks.missed().any(|check| check.what.contains(what)),
            "{what}: {checks:#?}"
        );
    }
}

#[test]
fn figures_around_the_box_have_to_be_its_own() {
    let figures = around::Figures {
        entered: 1_000,
        returned: 990,
        lost: 10,
        mean_ns: 5e6,
        deviation_ns: 1e6,
    };
    let way = |spoil: fn(&mut around::Way)| {
        let mut way = around::Way {
            seen: figures,
            truth: figures,
            unknown: 0,
        };
        spoil(&mut way);
        let report = Report {
            around: Some([way, way]),
            ..report(outcome())
        };
        missed(&report).len()
    };
    assert_eq!(way(|_| ()), 0);
    let spoilers: [fn(&mut around::Way); 4] = [
        |way| way.seen.lost = 9,
        |way| way.truth.entered = 1_001,
        |way| way.unknown = 1,
        |way| way.seen.mean_ns = 4.9e6,
    ];
    for spoil in spoilers {
        assert_eq!(way(spoil), 2, "both ways");
    }
}
