use super::*;
use crate::queue::Crossing;

fn packet(flow: u32, sent_ns: u64, delay_ns: u64) -> Crossing {
    Crossing::of_ns(flow, sent_ns, Some(sent_ns + delay_ns))
}

fn reference(received_ns: f64, delay_ns: f64) -> Reference {
    Reference {
        received_ns,
        delay_ns,
    }
}

#[test]
fn packets_between_references_lie_between_their_delays() {
    let references = vec![
        reference(100.0, 10.0),
        reference(200.0, 30.0),
        reference(300.0, 10.0),
    ];
    // Flow 0 arrives at 150 and 225; flow 1 before all, flow 2 after all.
    let packets = [
        packet(0, 130, 20),
        packet(0, 200, 25),
        packet(1, 40, 10),
        packet(2, 390, 10),
    ];
    let trace = Trace::from_crossings(&packets, references, 1);
    let rli = Interpolated::of(&trace);
    assert_eq!(rli.mean_ns, [22.5, 10.0, 10.0]);
    // The middle one is predicted 10 instead of 30: e = 20 everywhere.
    let half = Method::Linear.bound_calibration(1.0) * 2.0 * (0.5_f64 * 400.0).sqrt();
    assert!((rli.bound_ns[0] - half).abs() < 1e-9, "{:?}", rli.bound_ns);
    assert!((rli.bound_ns[1] - half * 2.0_f64.sqrt()).abs() < 1e-9);
}

#[test]
fn without_references_nothing_is_known() {
    let trace = Trace::from_crossings(&[packet(0, 1, 1)], Vec::new(), 1);
    let rli = Interpolated::of(&trace);
    assert!(rli.mean_ns[0].is_nan());
    assert!(rli.bound_ns[0].is_nan());
}
