use std::sync::atomic::{AtomicU64, Ordering};

use measure::rli::Method;

use super::exchange::Exchange;
use super::*;
use crate::table::Row;
use crate::traffic::{Arrival, Kind, Traffic};
use crate::truth::Truth;

fn quick() -> Setting {
    Setting {
        source: Source::Generated,
        seeds: Some(1),
        scale: 0.02,
    }
}

#[test]
fn every_figure_is_one_and_comes_again() {
    let setting = quick();
    let taken = AtomicU64::new(0);
    let step = || {
        taken.fetch_add(1, Ordering::Relaxed);
    };
    let findings = run(&setting, &step).unwrap();
    assert_eq!(taken.into_inner(), steps(&setting));
    let rows: Vec<&Row> = findings
        .tables
        .iter()
        .flat_map(|table| &table.rows)
        .collect();
    for row in &rows {
        assert!(row.ours.is_finite(), "{row:?}");
        assert!(
            row.others.iter().all(|(_, figure)| figure.is_finite()),
            "{row:?}"
        );
        assert_eq!(row.limit, None, "no limit at this scale");
    }
    let ratios = rows
        .iter()
        .filter(|row| row.check.starts_with("RLI-AS / RLI, median"));
    assert!(ratios.clone().count() == 8 && ratios.clone().all(|row| row.ours < 1.0));
    assert!(
        findings
            .figures
            .iter()
            .all(|figure| !figure.curves.is_empty())
    );
    assert_eq!(run(&setting, &|| ()).unwrap().tables, findings.tables);
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
    let link = LinkConfig::fifo(CAPACITY_BPS, BUFFER_BYTES);
    let exchange = Exchange::send(&traffic, &link, one_in(10), 1).unwrap();
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
