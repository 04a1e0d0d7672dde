use super::*;
use crate::experiment::{quick, run};

#[test]
fn a_window_of_nothing_is_the_packet_itself_and_one_of_everything_the_mean() {
    let packet = |flow, sent_ps, delay_ps| Crossing {
        sent_ps,
        received_ps: Some(sent_ps + delay_ps),
        ..Crossing::of_ns(flow, 0, None)
    };
    // Means 2 and 4 us; the local mean over everything is 3 us for either.
    let crossings = [
        packet(0, 0, 1_000_000),
        packet(1, 10, 4_000_000),
        packet(0, 20, 3_000_000),
        packet(1, 30, 4_000_000),
    ];
    assert!(rmsre(&crossings, 2, 0, 2) < 1e-12);
    let expected = (f64::midpoint(0.25, 0.0625)).sqrt();
    assert!((rmsre(&crossings, 2, 1_000, 2) - expected).abs() < 1e-12);
}

#[test]
fn a_queue_is_local_and_independent_delays_are_not() {
    let setting = quick(1, 0.05);
    let findings = run(&EXPERIMENT, &setting);
    let rows = &findings.tables[0].rows;
    assert_eq!(rows.len(), 4 + 3);
    for row in rows {
        let long = row.others[1].figure;
        assert!(row.ours.is_finite() && long.is_finite(), "{row:?}");
        let local = row.ours < 0.5 * long;
        let expected = row.check.starts_with("one FIFO");
        assert!(local == expected || row.check.contains("two"), "{row:?}");
    }
}
