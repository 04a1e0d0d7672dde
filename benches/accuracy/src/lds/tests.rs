use super::*;
use crate::experiment::{Findings, quick, row, rows, run};

fn found(scale: f64) -> Findings {
    run(&EXPERIMENT, &quick(1, scale))
}

#[test]
fn every_figure_is_a_number_and_joint_decoding_is_the_better() {
    let findings = found(0.02);
    for row in rows(&findings) {
        assert!(row.ours.is_finite(), "{row:?}");
    }

    let of_multibank = "k = 5, rows .01/.1/.5/1, K = 1, 1 % loss: >= 1000";
    for check in [
        "joint K = 1, 17500 x 4: >= 100",
        "joint K = 2, 1750 x 4: >= 100",
        "10 % of flows missing",
        of_multibank,
    ] {
        let row = row(&findings, check);
        let paper = row.others.iter().find(|other| other.method == PAPER);
        assert!(row.ours < paper.unwrap().figure, "{row:?}");
    }
    let beside = row(&findings, "joint / the better of RLI and MPE");
    assert!(beside.ours < 0.5, "{beside:?}");
    let exact = row(&findings, "R = 3, flows / cells 0.75");
    assert!(exact.ours < 1e-3, "{exact:?}");
    let sampled = row(&findings, of_multibank);
    let full = row(&findings, "one bank, p = 1, 1 % loss: >= 1000");
    assert!(
        full.ours > 3.0 * sampled.ours,
        "p = 1 must be seen to fail: {full:?}"
    );
}

#[test]
fn a_seed_gives_the_same_figures_again() {
    let [one, other] = [(); 2].map(|()| found(0.005));
    // In print: a group without flows has no median, and not a number is unlike itself.
    assert!(format!("{one:?}") == format!("{other:?}"), "figures differ");
}
