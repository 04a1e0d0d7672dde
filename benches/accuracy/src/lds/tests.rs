use super::*;
use crate::table::Row;
use std::sync::atomic::{AtomicU64, Ordering};

fn quick() -> Setting {
    Setting {
        source: Source::Generated,
        seeds: Some(1),
        scale: 0.02,
    }
}

fn row<'a>(findings: &'a Findings, check: &str) -> &'a Row {
    let mut rows = findings.tables.iter().flat_map(|table| &table.rows);
    rows.find(|row| row.check.starts_with(check))
        .unwrap_or_else(|| panic!("no row {check}"))
}

#[test]
fn every_figure_is_a_number_and_joint_decoding_is_the_better() {
    let counted = AtomicU64::new(0);
    let step = || {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let findings = run(&quick(), &step).unwrap();
    assert_eq!(counted.into_inner(), steps(&quick()));
    for row in findings.tables.iter().flat_map(|table| &table.rows) {
        assert!(row.ours.is_finite(), "{row:?}");
        assert_eq!(row.limit, None, "a quick look is not judged");
    }
    for figure in &findings.figures {
        assert!(!figure.curves.is_empty(), "{}", figure.name);
    }

    for check in [
        "joint K = 1, 17500 x 4: >= 100",
        "joint K = 2, 1750 x 4: >= 100",
        "10 % of flows missing",
        "k = 5, rows .01/.1/.5/1, K = 1, 1 % loss: >= 1000",
    ] {
        let row = row(&findings, check);
        let paper = row
            .others
            .iter()
            .find(|(name, _)| name == "paper's decoder");
        assert!(row.ours < paper.unwrap().1, "{row:?}");
    }
    let exact = row(&findings, "R = 3, flows / cells 0.75");
    assert!(exact.ours < 1e-3, "{exact:?}");
    let (sampled, full) = (
        row(
            &findings,
            "k = 5, rows .01/.1/.5/1, K = 1, 1 % loss: >= 1000",
        ),
        row(&findings, "one bank, p = 1, 1 % loss: >= 1000"),
    );
    assert!(
        full.ours > 3.0 * sampled.ours,
        "p = 1 must be seen to fail: {full:?}"
    );
}

#[test]
fn a_seed_gives_the_same_figures_again() {
    let setting = Setting {
        scale: 0.005,
        ..quick()
    };
    let [one, other] = [(); 2].map(|()| run(&setting, &|| ()).unwrap());
    // In print: a group without flows has no median, and not a number is unlike itself.
    let print = |findings: &Findings| format!("{:?}", (&findings.tables, &findings.figures));
    assert!(print(&one) == print(&other), "figures differ");
}
