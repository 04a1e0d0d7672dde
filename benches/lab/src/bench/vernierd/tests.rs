use records::snapshot::{Counts, Port, Segment};

use super::*;
use crate::bench::load::COUNTED;

#[test]
fn configurations_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::for_tests(folder.path());
    let extents = [Extent::Off, Extent::Stamps, Extent::Lda, Extent::Lds];
    let extents = extents
        .into_iter()
        .chain([Extent::Flows, Extent::Everything, Extent::Around]);
    for extent in extents {
        for (mode, workers) in [("patch", 1), ("bridge", 2)] {
            let vernierd = Vernierd {
                is_base: false,
                mode,
                extent,
            };
            let config = vernierd.config(&bench, COUNTED, workers).unwrap();
            let parsed = contract::config::Config::parse(&config.to_string(), "bench").unwrap();
            let measurement = &parsed.measurement;
            assert_eq!(measurement.enabled, extent > Extent::Off);
            assert_eq!(measurement.lda.is_some(), extent >= Extent::Lda);
            assert_eq!(measurement.lds.is_some(), extent >= Extent::Lds);
            let slots = measurement.flows.as_ref().map(|flows| flows.slots);
            assert_eq!(slots, (extent >= Extent::Flows).then_some(8_192));
            assert_eq!(measurement.rli.is_some(), extent >= Extent::Everything);
            assert_eq!(
                measurement.around.len(),
                usize::from(extent == Extent::Around)
            );
            assert_eq!(parsed.workers.len(), workers);
        }
    }
}

/// A segment with packets that were received in time, and late.
pub fn segment(received_packets: u64, late_packets: u64) -> Segment {
    let mut segment = Segment::default();
    segment.total.counts = Counts {
        received_packets,
        late_packets,
        ..Counts::default()
    };
    segment
}

fn snapshot(tx_packets: u64, measured: Option<u64>) -> Snapshot {
    let segment = |measured| segment(measured, 0);
    Snapshot {
        ports: vec![Port {
            counts: PortReading {
                rx_packets: 1_000,
                copies: 50,
                tx_packets,
                queued_packets: 50,
                ..PortReading::default()
            },
            ..Port::default()
        }],
        segments: measured.map(segment).into_iter().collect(),
        ..Snapshot::default()
    }
}

#[test]
fn a_rate_counts_only_if_the_packets_were_counted_and_measured() {
    check(&snapshot(1_000, None), Extent::Off).unwrap();
    check(&snapshot(1_000, Some(990)), Extent::Lda).unwrap();
    for (packets, measured, extent) in [
        (999, None, Extent::Off),
        (1_000, Some(1_000), Extent::Off),
        (1_000, None, Extent::Lda),
        (1_000, Some(800), Extent::Everything),
    ] {
        assert!(check(&snapshot(packets, measured), extent).is_err());
    }
}
