use super::*;
use crate::experiment::{Findings, quick, rows, run};

fn found() -> Findings {
    run(&EXPERIMENT, &quick(1, 0.02))
}

#[test]
fn the_hybrid_is_no_worse_than_what_it_is_made_of() {
    let findings = found();
    for row in rows(&findings) {
        assert!(row.ours.is_finite(), "{row:?}");
        if row.check.contains("the better of") {
            assert!(row.ours < 1.5, "{row:?}");
        }
    }
    // In one queue references see what happens: both together beat either by far.
    let fifo = &findings.tables[0].rows[1];
    for other in &fifo.others {
        assert!(fifo.ours < 0.7 * other.figure, "{fifo:?}");
    }
}

#[test]
fn a_seed_gives_the_same_figures_again() {
    let [one, other] = [(); 2].map(|()| found());
    // In print: a group without flows has no median, and not a number is unlike itself.
    assert!(format!("{one:?}") == format!("{other:?}"), "figures differ");
}
