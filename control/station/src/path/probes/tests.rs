use records::station::{PathAnswer, Paths};
use report::msp::{Neighbour, Report, Segment};

use super::*;

const NOW_NS: u64 = 1_700_000_100_000_000_000;

/// A segment of 10 packets, its ends and class by the names of [`report`].
fn segment(kind: Kind, from: u32, to: u32, mean_ns: f32) -> Segment {
    Segment {
        kind: kind.into(),
        from,
        to,
        class: 6,
        packets: 10,
        samples: 10,
        mean_ns,
        bound_ns: Some(2.0),
        stddev_ns: Some(3.0),
        method: 7,
        ..Segment::default()
    }
}

/// An epoch of a second that ended so long ago.
fn report(name: &str, node: Option<&str>, ago_s: u64, segments: Vec<Segment>) -> State {
    let mut state = State::default();
    take(&mut state, name, node, ago_s, segments);
    state
}

fn take(state: &mut State, name: &str, node: Option<&str>, ago_s: u64, segments: Vec<Segment>) {
    let end_unix_ns = NOW_NS - ago_s * 1_000_000_000;
    let report = Report {
        version_major: 1,
        switch: name.to_owned(),
        node: node.map(str::to_owned),
        incarnation: 1,
        epoch: 1_000 - ago_s,
        epochs: 1,
        start_unix_ns: end_unix_ns - 1_000_000_000,
        length_ns: 1_000_000_000,
        names: ["a", "r", "b", "c", "p", "p:q", "all", "lda", "x:p", "x:c"]
            .map(str::to_owned)
            .to_vec(),
        segments,
        ..Report::default()
    };
    state.take(&report, end_unix_ns);
}

fn wired(mut state: State, number: u32, peer_switch: u32) -> State {
    state.wire_switch = Some(number);
    let port = state.names.iter().position(|name| name == "p").unwrap();
    let port = u32::try_from(port).unwrap();
    state.neighbours = vec![Neighbour {
        port,
        peer_switch,
        peer_port: port,
        session: "established".to_owned(),
        system: None,
    }];
    state
}

fn paths(states: &[State], file: Option<&Topology>, from: &str, to: &str) -> Paths {
    let network = Network::new(states, file, NOW_NS);
    network.paths(from, to, None).unwrap()
}

fn hops(path: &PathAnswer) -> Vec<(&str, &str)> {
    let hops = path.chain.iter();
    hops.map(|hop| (hop.kind.as_str(), hop.title.as_str()))
        .collect()
}

fn mean(hop: &Hop) -> f64 {
    hop.figures.as_ref().unwrap().mean_ns.unwrap()
}

#[test]
fn probes_alone_are_a_network_and_cover_it_in_each_direction() {
    let states = [report(
        "a.probe",
        Some("a"),
        1,
        vec![
            segment(Kind::Probe, 0, 2, 100.0),
            segment(Kind::Probe, 2, 0, 300.0),
            segment(Kind::RoundTrip, 0, 2, 400.0),
        ],
    )];
    for (from, to, expected) in [("a", "b", 100.0), ("b", "a", 300.0)] {
        let answer = paths(&states, None, from, to);
        let path = &answer.paths[0];
        assert_eq!(hops(path), [("probe", &*format!("{from} > {to}"))]);
        assert!(path.is_covered);
        assert!((mean(&path.chain[0]) - expected).abs() < 1e-9);
        assert_eq!(path.end_to_end.len(), 1);
    }
}

#[test]
fn a_probe_covers_a_way_over_routers_that_measure_nothing() {
    let file = Topology::of_links([("a", "r"), ("r", "b"), ("b", "c")]);
    let of_a = |segments| report("a.probe", Some("a"), 1, segments);
    let over = segment(Kind::Probe, 0, 2, 900.0);
    let answer = |segments| paths(&[of_a(segments)], Some(&file), "a", "c");
    let whole = answer(vec![over.clone(), segment(Kind::Probe, 2, 3, 50.0)]);
    assert_eq!(
        hops(&whole.paths[0]),
        [("probe", "a > r > b"), ("probe", "b > c")]
    );
    // In parts, where probes end there: at `r` an m-server stands.
    let parts = [
        segment(Kind::Probe, 0, 1, 400.0),
        segment(Kind::Probe, 1, 2, 500.0),
    ];
    let finer = answer([&parts[..], std::slice::from_ref(&over)].concat());
    let titles = hops(&finer.paths[0]);
    assert_eq!(titles[..2], [("probe", "a > r"), ("probe", "r > b")]);
    // A part without the rest covers less than the whole.
    let whole = answer(vec![parts[0].clone(), over]);
    assert_eq!(hops(&whole.paths[0])[0], ("probe", "a > r > b"));
    let links = hops(&whole.paths[0])[1..].to_vec();
    assert_eq!(links[0], ("uncovered", "b > c"), "{links:?}");
}

#[test]
fn a_probe_fills_in_where_a_wire_has_no_packets() {
    let of_probe = |ago_s| {
        report(
            "a.probe",
            Some("a"),
            ago_s,
            vec![segment(Kind::Probe, 0, 2, 100.0)],
        )
    };
    let of_wire = |ago_s| {
        let a = report("a", None, 1, vec![segment(Kind::Inside, 4, 4, 1.0)]);
        let mut b = report(
            "b",
            None,
            ago_s,
            vec![
                segment(Kind::Wire, 5, 4, 200.0),
                segment(Kind::Inside, 4, 4, 2.0),
            ],
        );
        if ago_s > 1 {
            take(&mut b, "b", None, 1, Vec::new());
        }
        [wired(a, 1, 2), wired(b, 2, 1)]
    };
    for (wire_s, probe_s, expected) in [
        (1, 1, ("wire", "a:p > b:p")),
        (60, 1, ("probe", "a > b")),
        (60, 90, ("wire", "a:p > b:p")),
    ] {
        let [a, b] = of_wire(wire_s);
        let answer = paths(&[a, b, of_probe(probe_s)], None, "a", "b");
        // Switches that stand there are measured for themselves.
        let found = hops(&answer.paths[0]);
        assert_eq!((found.len(), found[1]), (3, expected));
    }
}

#[test]
fn without_synchronised_clocks_it_is_half_of_the_round_trip_to_within_that_half() {
    let counted = Segment {
        samples: 0,
        ..segment(Kind::Probe, 0, 2, 0.0)
    };
    let states = [report(
        "a.probe",
        Some("a"),
        1,
        vec![counted, segment(Kind::RoundTrip, 0, 2, 400.0)],
    )];
    for (from, to) in [("a", "b"), ("b", "a")] {
        let answer = paths(&states, None, from, to);
        let hop = &answer.paths[0].chain[0];
        let figures = hop.figures.as_ref().unwrap();
        assert_eq!(hop.kind, "round_trip");
        assert_eq!(
            (figures.mean_ns, figures.bound_ns, figures.stddev_ns),
            (Some(200.0), Some(201.0), None)
        );
        assert!(
            hop.hint
                .as_ref()
                .unwrap()
                .starts_with("half of the round trip;")
        );
    }
    // Clocks that were synchronised once: the present round trip, not the delay of then.
    let mut state = report(
        "a.probe",
        Some("a"),
        70,
        vec![segment(Kind::Probe, 0, 2, 100.0)],
    );
    let round_trip = segment(Kind::RoundTrip, 0, 2, 400.0);
    take(&mut state, "a.probe", Some("a"), 1, vec![round_trip]);
    let answer = paths(&[state], None, "a", "b");
    assert_eq!(hops(&answer.paths[0]), [("round_trip", "a > b")]);
}

#[test]
fn between_probes_ports_with_the_names_of_neighbours_say_how_a_switch_is_passed() {
    let file = Topology::of_links([("a", "r"), ("r", "b")]);
    let states = [
        report(
            "a.probe",
            Some("a"),
            1,
            vec![segment(Kind::Probe, 0, 1, 100.0)],
        ),
        // `a` and `b` lead to them, `p` and `c` to the router that the switch stands around.
        report(
            "r",
            None,
            1,
            vec![
                segment(Kind::Inside, 0, 4, 10.0),
                segment(Kind::Around, 8, 9, 500.0),
                segment(Kind::Inside, 3, 2, 20.0),
            ],
        ),
        report(
            "b.probe",
            Some("b"),
            1,
            vec![segment(Kind::Probe, 1, 2, 200.0)],
        ),
    ];
    let there = paths(&states, Some(&file), "a", "b");
    let expected = [
        ("probe", "a > r"),
        ("inside", "r: a>p"),
        ("around", "r: x:p>x:c"),
        ("inside", "r: c>b"),
        ("probe", "r > b"),
    ];
    assert_eq!(hops(&there.paths[0]), expected);
    assert!(there.paths[0].is_covered);
}

/// A chain of so many nodes, a probe from each to the next.
fn chain(nodes: u32) -> State {
    let mut state = State::default();
    let report = Report {
        switch: "prober".to_owned(),
        node: Some("n0000".to_owned()),
        names: (0..nodes).map(|n| format!("n{n:04}")).collect(),
        segments: (1..nodes)
            .map(|n| Segment {
                class: 0,
                ..segment(Kind::Probe, n - 1, n, 1.0)
            })
            .map(|segment| Segment {
                method: 0,
                ..segment
            })
            .collect(),
        length_ns: 1,
        start_unix_ns: NOW_NS - 2,
        ..Report::default()
    };
    state.take(&report, NOW_NS);
    state
}

/// Whatever reports say, a network has no more routers than one of a file, and every switch is among them.
#[test]
fn networks_of_reports_have_limits_and_long_paths_are_found() {
    let states = [chain(8_000), report("z", None, 1, Vec::new())];
    let network = Network::new(&states, None, NOW_NS);
    let map = network.map();
    assert_eq!(map.routers.len(), topology::ROUTERS_MAX);
    assert!(map.left_out > 5_000);
    assert!(map.routers.iter().any(|router| router.name == "z"));
    let found = network.paths("n0000", "n2000", None).unwrap();
    let path = &found.paths[0];
    assert_eq!(path.switches.len(), 2_001);
    let probes = path.chain.iter().filter(|hop| hop.kind == "probe");
    assert_eq!(probes.count(), 2_000);
    assert!((path.sum.mean_ns.unwrap() - 2_000.0).abs() < 1e-6);
    let unknown = network.paths("n0000", "n7999", None).unwrap_err();
    assert!(unknown.to_string().contains("n7999"), "{unknown}");
}
