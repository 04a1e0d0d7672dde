use super::*;
use crate::table::Row;
use std::sync::atomic::{AtomicU64, Ordering};

fn quick() -> Setting {
    Setting {
        source: Source::Generated,
        seeds: Some(4),
        scale: 0.01,
    }
}

fn row<'a>(findings: &'a Findings, check: &str) -> &'a Row {
    let rows = findings.tables.iter().flat_map(|table| &table.rows);
    rows.clone()
        .find(|row| row.check.starts_with(check))
        .unwrap_or_else(|| panic!("no row {check}"))
}

#[test]
fn every_figure_is_a_number_and_comes_out_the_same_again() {
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
    let again = run(&quick(), &|| ()).unwrap();
    assert_eq!(again.tables, findings.tables);
    assert_eq!(again.figures, findings.figures);

    // More loss leaves fewer samples; the better deviation is better.
    let few = row(&findings, "error of the mean at 20 % loss");
    let many = row(&findings, "error of the mean at 0.1 % loss");
    assert!(few.ours > many.ours, "{few:?} {many:?}");
    let covered = row(&findings, "runs whose interval holds the mean");
    assert!(covered.ours >= 75.0, "{covered:?}");
    let width = row(&findings, "width of the interval");
    assert!(width.ours < 1.0, "{width:?}");
}
