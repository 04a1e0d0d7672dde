use super::*;
use crate::experiment::{Row, quick, row, rows, run};

#[test]
fn every_figure_is_a_number_and_comes_out_the_same_again() {
    let quick = quick(4, 0.01);
    let findings = run(&EXPERIMENT, &quick);
    for row in rows(&findings) {
        assert!(row.ours.is_finite(), "{row:?}");
    }
    assert_eq!(run(&EXPERIMENT, &quick), findings);

    // More loss leaves fewer samples; the better deviation is better.
    let few = row(&findings, "error of the mean at 20 % loss");
    let many = row(&findings, "error of the mean at 0.1 % loss");
    assert!(few.ours > many.ours, "{few:?} {many:?}");
    let covered = row(&findings, "runs whose interval holds the mean");
    assert!(covered.ours >= 75.0, "{covered:?}");
    let width = row(&findings, "width of the interval");
    assert!(width.ours < 1.0, "{width:?}");

    // Lists mend what they reach, and nothing is gained without.
    let near = row(
        &findings,
        "usable cells: 100 % overtaken by up to 100, 0 % loss",
    );
    let alone = |row: &Row| {
        row.others
            .iter()
            .find(|o| o.method == "LDA alone")
            .unwrap()
            .figure
    };
    assert!(
        (near.ours - 100.0).abs() < 1e-9 && alone(near) < 95.0,
        "{near:?}"
    );
    let error = row(
        &findings,
        "error of the mean: 100 % overtaken by up to 100, 0 % loss",
    );
    assert!(error.ours < 1e-6 && alone(error) > 1e-3, "{error:?}");
    let far = row(
        &findings,
        "usable cells: 100 % overtaken by up to 1000, 0 % loss",
    );
    assert!(far.ours < near.ours && far.ours >= alone(far), "{far:?}");
}
