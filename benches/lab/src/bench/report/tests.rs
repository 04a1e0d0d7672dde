use super::*;
use crate::bench::contender::{
    BASE_EVERYTHING, Contender, EVERYTHING, FIVE_TUPLE_SWAP, IO, OFF, OVS,
};
use crate::bench::load::SMALL;
use crate::bench::plan::{self, BASE_OF_LIMIT, PLUGIN, Run, THROUGHPUT};

fn series(contender: Contender, rates_pps: &[f64]) -> Series {
    Series {
        run: Run {
            contender,
            load: SMALL,
        },
        rates_pps: Ok(rates_pps.to_vec()),
    }
}

/// The table of ratios without the spaces that align columns, and whether all limits are kept.
fn report(base: Option<&str>, all: &[Series]) -> (String, bool) {
    let (table, hold) = ratios(THROUGHPUT.claims, base, all);
    (squeezed(&table.markdown()), hold)
}

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
    let (text, hold) = report(None, &all);
    assert!(!hold);
    for part in [
        "| 1.10 | 1.10 to 1.10 | 1 | 1.15 | kept |",
        "| 0.35 | 0.35 to 0.35 | 0.37 | 0.45 | **missed** |",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // A claim about runs that were not selected is left out.
    assert!(!text.contains("1,000,000 flows"), "{text}");
    let rates = squeezed(&rates(&all).markdown());
    assert!(rates.contains("| testpmd io | 40.0 (25.0) |"), "{rates}");

    let mut kept = all;
    kept[2] = series(OFF, &[36e6]);
    kept[3] = series(EVERYTHING, &[20e6]);
    let (text, hold) = report(None, &kept);
    assert!(hold && text.contains("| 1.15 | aim reached |"), "{text}");
}

#[test]
fn a_limit_by_a_base_is_for_that_base() {
    let all = [
        series(IO, &[100e6]),
        series(EVERYTHING, &[40e6]),
        series(BASE_EVERYTHING, &[32e6]),
    ];
    let limited = "| 0.71 | 0.71 to 0.71 | 0.68 | 0.55 | **missed** |";
    let shown = "| 0.71 | 0.71 to 0.71 | - | - | |";
    for (commit, goal, kept) in [(BASE_OF_LIMIT, limited, false), ("0123abc", shown, true)] {
        let (text, hold) = report(Some(commit), &all);
        assert!(text.contains(goal), "{text}");
        assert_eq!(hold, kept);
    }
}

#[test]
fn fewer_nanoseconds_are_better() {
    let goal = plan::instructions(&OFF);
    let verdicts = [296.0, 280.0, 270.0].map(|figure| outcome(goal, Ok(figure))[2].clone());
    assert_eq!(verdicts, ["**missed**", "kept", "aim reached"]);
}

#[test]
fn who_is_not_here_is_skipped_and_who_fails_is_not() {
    let of = |absence: fn(String) -> Absence| {
        let ovs = Series {
            rates_pps: Err(absence("it is broken".to_owned())),
            ..series(OVS, &[])
        };
        report(None, &[series(EVERYTHING, &[14e6]), ovs])
    };
    let (text, hold) = of(Absence::Skipped);
    assert!(hold && text.contains("| skipped: it is broken |"), "{text}");
    let (text, hold) = of(Absence::Failed);
    assert!(
        !hold && text.contains("| **failed**: it is broken |"),
        "{text}"
    );
}

#[test]
fn results_of_other_machines_and_words_of_people_stay() {
    let folder = tempfile::tempdir().unwrap();
    let load = || Page::load(folder.path(), &THROUGHPUT);
    let mut page = load();
    let part = |heading: &str, text: &str| (heading.to_owned(), text.to_owned());
    let other = [part(RATIOS, "Others.\n")].into();
    page.sections.insert("A CPU".to_owned(), other);
    page.head = page.head.replace("# Throughput", "# Throughput\n\nA word.");
    let step = Step {
        label: "forwarding".to_owned(),
        ns: 25.0,
        added_ns: None,
        instructions: Ok(120.0),
        goal: plan::instructions(&OFF),
    };
    let table = format!("\n{}", steps(&[step]).markdown());
    page.section().extend([part(STEPS, &table)]);
    page.write().unwrap();

    let mut page = load();
    page.section().extend([part(RATIOS, "Rates.\n")]);
    page.write().unwrap();
    let text = squeezed(&fs::read_to_string(&page.file).unwrap());
    for part in [
        "# Throughput\n\nA word.\n\n<!-- ",
        "-->\n\n## A CPU\n\nOthers.\n\n## ",
        "\n\nRates.\n\n### What each step costs\n\n",
        "| forwarding | 25.0 | - | 120 | - | 295 | 270 | aim reached |",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(load(), page);
    // Another comparison has a page of its own.
    let text = Page::load(folder.path(), &PLUGIN).markdown();
    assert!(text.starts_with("# What the plugin costs\n"), "{text}");
    assert!(text.contains("`make bench-plugin`"), "{text}");
}

#[test]
fn committed_pages_are_read_as_they_are() {
    for comparison in [THROUGHPUT, PLUGIN] {
        let page = Page::load(reporting::RESULTS.as_ref(), &comparison);
        assert!(!page.sections.is_empty());
        assert_eq!(page.markdown(), fs::read_to_string(&page.file).unwrap());
    }
}
