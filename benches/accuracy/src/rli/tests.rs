use super::*;
use crate::experiment::{quick, row, rows, run};
use crate::traffic::{Arrival, Traffic};

#[test]
fn every_figure_is_one_and_comes_again() {
    let setting = quick(1, 0.02);
    let findings = run(&EXPERIMENT, &setting);
    let rows = || rows(&findings);
    for row in rows() {
        let others = row.others.iter().map(|other| other.figure);
        let mut figures = others.chain([row.ours]);
        assert!(figures.all(f64::is_finite), "{row:?}");
    }
    let ratios = rows().filter(|row| row.check.starts_with("RLI-AS / RLI, median"));
    let ratios: Vec<f64> = ratios.map(|row| row.ours).collect();
    assert!(
        ratios.len() == 8 && ratios.iter().all(|ratio| *ratio < 1.0),
        "{ratios:?}"
    );
    // Algorithm 1 leaves most packets to long gaps; with a steady rate it comes near to a fixed one.
    let adaptive = row(&findings, "RLI, adaptive: 93 %, heavy");
    let steady = row(&findings, "RLI, adaptive, smoothing 0.02: 93 %, heavy");
    assert!(adaptive.ours > 1.5, "{adaptive:?}");
    assert!(steady.ours < adaptive.ours, "{steady:?}");
    let figure = |name| {
        adaptive
            .others
            .iter()
            .find(|o| o.method == name)
            .unwrap()
            .figure
    };
    let (sent, seen) = (figure("packets a reference"), figure("as packets see it"));
    assert!(seen > 3.0 * sent, "{adaptive:?}");
    assert_eq!(run(&EXPERIMENT, &setting), findings);
}

#[test]
fn a_constant_delay_is_recovered_by_every_method() {
    // One packet a microsecond, all alike: none waits, but for the one behind each reference.
    let arrival = |number: u64| Arrival {
        at_ps: number * 1_000_000,
        flow: u32::try_from(number % 7).unwrap(),
        bytes: 64,
        kind: Kind::Regular,
        class: 0,
    };
    let traffic = Traffic {
        arrivals: (0..10_000).map(arrival).collect(),
        flows: 7,
        duration_ps: 10_000_000_000,
    };
    let exchange = Exchange::send(&traffic, &LinkConfig::ACCEPTANCE, one_in(10), 1).unwrap();
    assert_eq!(exchange.references(), 1_000);
    let truth = Truth::of(&exchange.crossings, traffic.flows);
    assert!((truth.segment.mean_ns() - 51.2).abs() < 1e-9);
    assert!(truth.lost_percent().abs() < 1e-9);
    // A reference that waits for the packet before it: 51.2 ns more than the packets have.
    for method in [Method::Left, Method::Linear] {
        let received = exchange.receive(method).unwrap();
        for mean_ns in received.means_ns() {
            assert!((mean_ns - 102.4).abs() < 2.0, "{method:?}: {mean_ns}");
        }
    }
    // The sums know better.
    for method in [Method::Sums, Method::AnchoredSums] {
        let received = exchange.receive(method).unwrap();
        for mean_ns in received.means_ns() {
            assert!((mean_ns - 51.2).abs() < 15.0, "{method:?}: {mean_ns}");
        }
        let segment_ns = received.segment.mean_ns().unwrap();
        assert!((segment_ns - 51.2).abs() < 1.0, "{segment_ns}");
    }
}
