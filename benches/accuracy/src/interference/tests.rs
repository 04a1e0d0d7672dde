use super::*;
use crate::experiment::{quick, row, run};

#[test]
fn references_cost_the_bandwidth_that_they_take() {
    let setting = quick(2, 0.05);
    let findings = run(&EXPERIMENT, &setting);
    let row = |check: &str| row(&findings, check);
    let delay = row("delay added: 1-in-10, heavy, tail drop").ours;
    let less = row("delay added: 1-in-100, heavy, tail drop").ours;
    assert!(delay > less && less > 0.0, "{delay} {less}");
    // 80 % of the link, of that a third of the packets, a tenth of them; of 740.8 bytes each.
    let percent = 80.0 * 0.33 * 0.1 * f64::from(REFERENCE_BYTES) / 740.8;
    let others = &row("loss added: 1-in-10, heavy, tail drop").others;
    assert!(
        (others[1].figure / percent - 1.0).abs() < 0.05,
        "{others:?}"
    );
    assert_eq!(findings, run(&EXPERIMENT, &setting));
}
