use super::*;
use crate::wire::attack::{self, Refused};
use crate::wire::capture::Comparison;
use crate::wire::truth::Packets;
use crate::wire::{around, asked, flood};

fn means(within: usize) -> Errors {
    Errors {
        method: CHOSEN.to_owned(),
        bounded: 200,
        within,
        ..Errors::default()
    }
}

fn flows(packets: RangeInclusive<u64>, error: f64) -> FlowClass {
    let methods = [("joint", 0.02), ("rli", 0.03), (CHOSEN, error)];
    let errors = methods.map(|(method, error)| Errors {
        method: method.to_owned(),
        count: FLOWS_MIN,
        error,
        error_min: error,
        ..Errors::default()
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
            epochs: 200,
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
        control_of_share: 0.5,
        ..Way::default()
    };
    Outcome {
        name: "attack",
        words: "words",
        ways: [way(), way()],
        tcp_bps: Some(1e9),
    }
}

fn attacked() -> (Outcome, attack::Outcome) {
    let attack = attack::Outcome {
        made_up: 2,
        sent: [("trick".to_owned(), 3)].into(),
        at: [refused(3), refused(5)],
        ..attack::Outcome::default()
    };
    (outcome(), attack)
}

/// The failed checks of a report.
fn missed(report: &Report) -> Vec<String> {
    let missed = report.checks.missed();
    missed.map(|check| check.got.clone()).collect()
}

/// A change to the outcome, and the names of the limits that it breaks.
type Spoiler<T> = (&'static str, fn(&mut T));

/// A good outcome breaks no limit, and each change breaks exactly the named limits.
fn each_is_found<T: Clone>(
    good: &T,
    add: fn(&T, &mut Report),
    section: &str,
    count: usize,
    spoilers: &[Spoiler<T>],
) {
    let report_of = |outcome: &T| {
        let mut report = Report::default();
        add(outcome, &mut report);
        let page = report.markdown();
        assert!(page.contains(section), "{page}");
        report
    };
    assert_eq!(missed(&report_of(good)), [""; 0]);
    for (what, spoil) in spoilers {
        let mut spoilt = good.clone();
        spoil(&mut spoilt);
        let checks = report_of(&spoilt).checks;
        assert_eq!(checks.missed().count(), count, "{what}: {checks:#?}");
        let is_named = checks.missed().all(|check| check.what.contains(what));
        assert!(is_named, "{what}: {checks:#?}");
    }
}

#[test]
fn each_fault_of_a_run_is_found() {
    let add = |(run, attack): &(Outcome, attack::Outcome), report: &mut Report| {
        report.add(run.clone());
        attack.add_to(report);
    };
    each_is_found(
        &attacked(),
        add,
        "TCP through the switches: 1000 Mbit/s",
        1,
        &[
            ("usable epochs", |(run, _)| run.ways[0].verdict.usable = 99),
            ("truth within", |(run, _)| {
                run.ways[1].verdict.means = vec![means(185)];
            }),
            ("packets exact", |(run, _)| {
                run.ways[0].verdict.counts_exact = 199;
            }),
            ("10 to 99 packets by the chooser", |(run, _)| {
                run.ways[0].verdict.flows[0].errors[2].error_min = 0.0221;
            }),
            ("enough flows to judge", |(run, _)| {
                run.ways[0].verdict.flows.clear();
            }),
            ("packets changed", |(run, _)| {
                run.ways[0].compared.as_mut().unwrap().changed = 1;
            }),
            ("got out", |(run, _)| run.ways[1].leaked = 1),
            ("may take", |(run, _)| run.ways[1].control_of_share = 1.05),
            ("all counted", |(_, attack)| attack.made_up = 3),
            ("epochs lost", |(_, attack)| {
                attack.epochs_lost[1] = vec![("partial".to_owned(), 1)];
            }),
        ],
    );
}

#[test]
fn what_a_flood_costs_is_found() {
    let flood = flood::Outcome {
        replayed: 5_000,
        accepted: 10,
        refused: refused(5_002),
        hellos: 12,
        flooded: flood::Phase {
            fates: vec![("usable".to_owned(), 120), ("idle".to_owned(), 1)],
            packets: 1.0,
        },
        is_session_kept: true,
        ..flood::Outcome::default()
    };
    each_is_found(
        &flood,
        flood::Outcome::add_to,
        "Under a replayed hello",
        1,
        &[
            ("epochs missed", |flood| {
                flood.flooded.fates.push(("partial".to_owned(), 1));
            }),
            ("epochs missed", |flood| flood.flooded.fates[0].1 = 99),
            ("sessions kept", |flood| flood.is_session_kept = false),
            ("packets lost", |flood| flood.lost_packets = 1),
            ("all counted", |flood| flood.replayed += 1),
        ],
    );
}

#[test]
fn wrong_answers_are_found() {
    let judged = |error| Judged {
        flows: 20,
        known: 20,
        error,
    };
    let answers = asked::Answers {
        packets: 0..=u64::MAX,
        mean: judged(0.01),
        within: 970,
        bounded: 999,
        received_exact: 999,
        lost_exact: 999,
        lost_more: 0,
    };
    let asked = asked::Outcome {
        asked: 1_000,
        answered: 999,
        missed: 0,
        loss: 0.01,
        references_of_data: 0.0017,
        sizes: std::array::from_fn(|_| answers.clone()),
        deviation: judged(0.02),
        p99: judged(0.03),
    };
    each_is_found(
        &asked,
        asked::Outcome::add_to,
        "asked for by name",
        1,
        &[
            ("without an answer", |asked| asked.missed = 1),
            ("without an answer", |asked| asked.answered = 900),
            ("whose bound", |asked| asked.sizes[4].within = 950),
            ("lost more", |asked| asked.sizes[4].lost_more = 1),
            ("deviation", |asked| asked.deviation.error = 0.26),
            ("p99", |asked| asked.p99.error = 0.31),
            ("p99", |asked| asked.p99.known = 9),
            ("references", |asked| asked.references_of_data = 0.002),
        ],
    );
}

#[test]
fn figures_around_the_box_have_to_be_its_own() {
    let packets = Packets {
        sent: 1_000,
        received: 990,
        sum_ns: 990 * 5_000_000,
        squares: 990.0 * 26e12,
    };
    let way = around::Way {
        packets: [1_000, 990, 10],
        measured: packets,
        truth: packets,
        unknown: 0,
    };
    each_is_found(
        &way,
        |way, report| around::add(&[*way, *way], report),
        "Around a device",
        2,
        &[
            ("packets", |way| way.packets[2] = 9),
            ("packets", |way| way.truth.sent = 1_001),
            ("packets", |way| way.unknown = 1),
            ("mean", |way| way.measured.sum_ns = 990 * 4_900_000),
        ],
    );
}

#[test]
fn the_chooser_is_judged_over_all_runs() {
    let missed_with = |error: f64| {
        let mut report = Report::default();
        for _ in 0..CLASSES_MIN / 4 {
            let mut run = outcome();
            for way in &mut run.ways {
                way.verdict.flows = vec![flows(10..=99, error), flows(100..=u64::MAX, 0.02)];
            }
            report.add(run);
        }
        report.check_chooser();
        missed(&report)
    };
    assert_eq!(missed_with(0.021), [""; 0]);
    assert_eq!(missed_with(0.0219), ["1.046 (20 sizes)"]);
}
