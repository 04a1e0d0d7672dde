use prost::Message;
use records::snapshot::{LldpNeighbour, Segment, Snapshot};

use super::*;

fn sum(report: &Report) -> (u64, i64) {
    let inside = report
        .segments
        .iter()
        .filter(|segment| segment.kind() == Kind::Inside);
    inside.fold((0, 0), |sum, segment| {
        (sum.0 + segment.packets, sum.1 + segment.lost)
    })
}

#[test]
fn an_epoch_is_reported_once_and_only_what_is_new() {
    let mut snapshot = Snapshot::example();
    let mut composer = Composer::new(1, 10);
    let first = composer.report(&snapshot, 0).unwrap();
    assert_eq!((first.epoch, first.epochs), (81, 82));
    assert_eq!(first.start_unix_ns, 1_700_000_000_000_000_000);
    assert_eq!(first.end_unix_ns(), 1_700_000_000_250_000_000);
    let total = snapshot.segments[0].total.counts;
    assert_eq!(
        sum(&first),
        (total.sent_packets, signed(total.dropped_packets))
    );
    assert_eq!(composer.report(&snapshot, 0), None);

    // If no packet passed, the segment is left out. If a link failed, the reason is given once.
    snapshot.epoch = Some(82);
    snapshot.segments[0].total.unusable_epochs.link += 1;
    let second = composer.report(&snapshot, 0).unwrap();
    assert_eq!((second.epochs, second.segments.len()), (1, 0));
    assert_eq!(second.health.unwrap().unusable, ["link"]);

    // Counts of an epoch that no snapshot showed by itself are in the next report.
    snapshot.epoch = Some(85);
    snapshot.segments[0].total.counts.sent_packets += 30;
    snapshot.segments[0].last.as_mut().unwrap().epoch = 84;
    let third = composer.report(&snapshot, 3).unwrap();
    assert_eq!(
        (third.epochs, sum(&third), third.dropped_reports),
        (3, (30, 0), 3)
    );
    assert_eq!(third.segments[0].epoch, Some(84));
    assert!(third.health.unwrap().unusable.is_empty());
}

#[test]
fn figures_are_those_of_the_snapshot() {
    let snapshot = Snapshot::example();
    let report = Composer::new(1, 1).report(&snapshot, 0).unwrap();
    let segment = &report.segments[0];
    let last = snapshot.segments[0].last.as_ref().unwrap();
    let stamped = last.stamped.unwrap();
    assert_eq!(report.name(segment.from), "east");
    assert_eq!(report.name(segment.method), "stamped");
    assert_eq!(segment.samples, last.counts.received_packets);
    assert!((f64::from(segment.mean_ns) - stamped.mean_ns).abs() < 0.1);
    assert!((f64::from(segment.quantiles.unwrap().p99_ns) - stamped.p99_ns).abs() < 0.1);
    let wire = report
        .segments
        .iter()
        .find(|segment| segment.kind() == Kind::Wire)
        .unwrap();
    let figures = snapshot.wires[0]
        .segments
        .iter()
        .find_map(|segment| segment.last.as_ref());
    let chosen = figures.unwrap().chosen.as_ref().unwrap();
    assert!((f64::from(wire.mean_ns) - chosen.mean_ns).abs() < 0.1);
    assert_eq!(wire.bound_ns, chosen.bound_ns.map(float));
    let systems = report
        .neighbours
        .iter()
        .map(|other| other.system.as_deref());
    assert!(systems.eq([None, Some("leaf-3")]));
    assert_eq!(report.flows.len(), 1);
    assert_eq!(Report::read(&report.encode_to_vec()).unwrap(), report);
}

/// The report that 78f1034 made of its example, kept as it was sent.
#[test]
fn a_report_that_an_earlier_switch_sent_is_read() {
    let made = || {
        let report = Composer::new(7, 10).report(&Snapshot::example(), 2);
        report.unwrap().encode_to_vec()
    };
    let bytes = testkit::golden::kept("78f1034", "switch.bin", made).unwrap();
    let report = Report::read(&bytes).unwrap();
    assert_eq!(report.encode_to_vec(), bytes);
    let [inside, wire] = [Kind::Inside, Kind::Wire].map(|kind| {
        let mut segments = report.segments.iter();
        segments.find(|segment| segment.kind() == kind).unwrap()
    });
    assert_eq!(
        (report.incarnation, report.epoch, report.dropped_reports),
        (7, 81, 2)
    );
    assert_eq!(
        (report.name(inside.from), report.name(inside.method)),
        ("east", "stamped")
    );
    assert!(inside.quantiles.is_some() && wire.bound_ns.is_some());
    assert!(report.health.is_some());
    assert_eq!((report.flows.len(), report.neighbours.len()), (1, 2));
}

#[test]
fn neighbours_are_told_by_lldp_where_no_wire_is() {
    let mut snapshot = Snapshot::example();
    let with_wire = snapshot.wires[0].port.clone();
    for port in &mut snapshot.ports {
        port.neighbours = vec![LldpNeighbour {
            system: "leaf".to_owned(),
            port: "Ethernet7".to_owned(),
            ..LldpNeighbour::default()
        }];
    }
    let without_wire = snapshot.ports.iter().filter(|port| port.name != with_wire);
    let expected: Vec<_> = without_wire.map(|port| port.name.clone()).collect();
    let report = Composer::new(1, 1).report(&snapshot, 0).unwrap();
    let by_lldp = report.neighbours.iter();
    let by_lldp: Vec<_> = by_lldp.filter(|other| other.system.is_some()).collect();
    let ports: Vec<_> = by_lldp
        .iter()
        .map(|other| report.name(other.port))
        .collect();
    assert_eq!(ports, expected);
    assert!(!expected.is_empty());
    for other in by_lldp {
        assert_eq!(other.system.as_deref(), Some("leaf"));
        assert_eq!(report.name(other.peer_port), "Ethernet7");
        assert_eq!(other.wire_switch(), None);
    }
}

/// A typical report of a switch of 16 patched ports, and the size of a segment.
#[test]
fn a_report_of_16_ports_is_smaller_than_4_kb() {
    let example = Snapshot::example();
    let size = |segments: usize| {
        let segment = |n: usize| Segment {
            ingress: format!("port{:02}", n % 16),
            egress: format!("port{:02}", (n + 1 + n / 16) % 16),
            ..example.segments[0].clone()
        };
        let snapshot = Snapshot {
            segments: (0..segments).map(segment).collect(),
            ..example.clone()
        };
        Composer::new(u64::MAX, 10)
            .report(&snapshot, 0)
            .unwrap()
            .encoded_len()
    };
    let (patched, all) = (size(16), size(240));
    let of_segment = (all - patched) / 224;
    println!("16 segments {patched} B, 240 segments {all} B, {of_segment} B a segment");
    assert!(
        patched < 4_096 && of_segment <= 80,
        "{patched} B, {of_segment} B"
    );
}
