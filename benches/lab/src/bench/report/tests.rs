use super::*;
use crate::bench::contender::{BASE_EVERYTHING, EVERYTHING, FIVE_TUPLE_SWAP, IO, OFF, OVS};
use crate::bench::load::Load;
use crate::bench::plan::{self, BASE_OF_LIMIT, PLUGIN, Run, THROUGHPUT};

fn series(contender: crate::bench::contender::Contender, rates_pps: &[f64]) -> Series {
    Series {
        run: Run {
            contender,
            load: Load::Small,
        },
        rates_pps: Ok(rates_pps.to_vec()),
    }
}

fn report(all: &[Series]) -> Report {
    report_beside(None, all)
}

fn report_beside(base: Option<&Base>, all: &[Series]) -> Report {
    let setting = Setting::of_this_machine(Memory::Hugepages, base);
    Report::new(setting, 1, THROUGHPUT.claims, all)
}

/// Without the spaces that align columns.
fn squeezed(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[test]
fn the_table_tells_what_was_reached_and_what_missed() {
    let all = [
        series(IO, &[40e6]),
        series(FIVE_TUPLE_SWAP, &[30e6]),
        series(OFF, &[33e6]),
        series(EVERYTHING, &[14e6]),
    ];
    let missed = report(&all);
    assert!(!missed.holds());
    let text = squeezed(&missed.markdown());
    for part in [
        "| 1.10 | 1.10 to 1.10 | 1 | 1.15 | kept |",
        "| 0.35 | 0.35 to 0.35 | 0.37 | 0.45 | **missed** |",
        "| testpmd io | 40.0 (25.0) |",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // A claim about runs that were not wanted is left out.
    assert!(!text.contains("1,000,000 flows"), "{text}");

    let mut kept = all;
    kept[2] = series(OFF, &[36e6]);
    kept[3] = series(EVERYTHING, &[20e6]);
    let kept = report(&kept);
    assert!(kept.holds());
    assert!(kept.rows[0].outcome.verdict == Verdict::Aim, "{kept:?}");
}

#[test]
fn a_limit_by_a_base_is_for_that_base() {
    let all = [
        series(IO, &[100e6]),
        series(EVERYTHING, &[20e6]),
        series(BASE_EVERYTHING, &[16e6]),
    ];
    for (commit, goal, holds) in [
        (
            BASE_OF_LIMIT,
            "| 0.76 | 0.76 to 0.76 | 0.68 | 0.55 | **missed** |",
            false,
        ),
        ("0123abc", "| 0.76 | 0.76 to 0.76 | - | - | |", true),
    ] {
        let base: Base = format!("{commit}=/bin/vernierd").parse().unwrap();
        let mut report = report_beside(Some(&base), &all);
        report.rows.retain(|row| row.label.starts_with("own ns"));
        let text = squeezed(&report.markdown());
        assert!(text.contains(goal), "{text}");
        assert!(text.contains(&format!(", base {commit}; ")), "{text}");
        assert_eq!(report.holds(), holds);
    }
}

#[test]
fn fewer_nanoseconds_are_better() {
    let goal = Goal::AtMost {
        must: 2.0,
        aim: 1.6,
    };
    let verdicts = [2.1, 1.9, 1.5].map(|ratio| Verdict::of(goal, ratio));
    assert_eq!(verdicts, [Verdict::Missed, Verdict::Must, Verdict::Aim]);
}

#[test]
fn who_is_not_here_is_skipped_and_who_fails_is_not() {
    let rows = [Absence::Skipped as fn(String) -> Absence, Absence::Failed].map(|absence| {
        let ovs = Series {
            rates_pps: Err(absence("it is broken".to_owned())),
            ..series(OVS, &[])
        };
        report(&[series(EVERYTHING, &[14e6]), ovs])
    });
    assert!(rows[0].holds());
    assert!(squeezed(&rows[0].markdown()).contains("| skipped: it is broken |"));
    assert!(!rows[1].holds());
    assert!(squeezed(&rows[1].markdown()).contains("| **failed**: it is broken |"));
}

#[test]
fn results_of_other_machines_and_words_of_people_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = report(&[series(IO, &[30e6])]);
    other.setting.machine.cpu = "Another CPU".to_owned();
    let mut results = Results::load(folder.path(), &THROUGHPUT).unwrap();
    results.put(other);
    results.write(folder.path(), &THROUGHPUT).unwrap();
    let page = folder.path().join("throughput.md");
    let text = fs::read_to_string(&page).unwrap();
    fs::write(
        &page,
        text.replace("# Throughput", "# Throughput\n\nA word."),
    )
    .unwrap();

    let mut results = Results::load(folder.path(), &THROUGHPUT).unwrap();
    let mut first = report(&[series(IO, &[40e6])]);
    first.steps = Some(Costs {
        setting: first.setting.clone(),
        costs: vec![Step {
            label: "forwarding".to_owned(),
            ns: 25.0,
            added_ns: None,
            instructions: Some(120.0),
            outcome: Outcome::new(plan::instructions(&OFF), Ok(120.0)),
        }],
    });
    results.put(first);
    results.put(report(&[series(IO, &[42e6])]));
    results.write(folder.path(), &THROUGHPUT).unwrap();
    let text = squeezed(&fs::read_to_string(&page).unwrap());
    assert!(
        text.starts_with("# Throughput\n\nA word.\n\n<!-- "),
        "{text}"
    );
    assert!(text.contains("## Another CPU"), "{text}");
    assert!(text.contains("| testpmd io | 42.0 (23.8) |"), "{text}");
    assert!(
        text.contains("| forwarding | 25.0 | - | 120 | - | 295 | 270 | aim reached |"),
        "{text}"
    );
    assert_eq!(Results::load(folder.path(), &THROUGHPUT).unwrap(), results);

    // Another comparison has files of its own.
    let plugin = Results::load(folder.path(), &PLUGIN).unwrap();
    assert_eq!(plugin, Results::default());
    plugin.write(folder.path(), &PLUGIN).unwrap();
    let text = fs::read_to_string(folder.path().join("plugin.md")).unwrap();
    assert!(text.starts_with("# What the plugin costs\n"), "{text}");
    assert!(text.contains("`make bench-plugin`"), "{text}");
}
