use report::msp::{Neighbour, Report, Segment};

use super::*;

const END_NS: u64 = 1_700_000_001_000_000_000;

/// A switch with ports `p` and `q`, and wires from its ports to ports of other switches, given by number.
fn switch(number: u32, segments: Vec<Segment>, wires: &[(u32, u32, u32)]) -> State {
    let neighbour = |&(port, peer_switch, peer_port)| Neighbour {
        port,
        peer_switch,
        peer_port,
        session: "established".to_owned(),
        system: None,
    };
    let report = Report {
        version_major: 1,
        switch: format!("s{number}"),
        incarnation: 1,
        epochs: 1,
        start_unix_ns: END_NS - 1_000_000_000,
        length_ns: 1_000_000_000,
        names: [
            "p", "q", "p:q", "gold", "best", "lda", "in", "out", "fw:in", "fw:out",
        ]
        .map(str::to_owned)
        .to_vec(),
        segments,
        neighbours: wires.iter().map(neighbour).collect(),
        wire_switch: Some(number),
        ..Report::default()
    };
    let mut state = State::default();
    state.take(&report, END_NS);
    state
}

fn segment(
    kind: Kind,
    [from, to, class]: [u32; 3],
    packets: u64,
    mean_ns: f32,
    bound_ns: Option<f32>,
) -> Segment {
    Segment {
        kind: kind.into(),
        from,
        to,
        class,
        packets,
        samples: packets,
        mean_ns,
        bound_ns,
        stddev_ns: Some(3.0),
        method: 5,
        ..Segment::default()
    }
}

fn paths(states: &[State], from: &str, to: &str, class: Option<&str>) -> Result<Paths, PathError> {
    Network::new(states, None, END_NS + 500_000_000).paths(from, to, class)
}

/// Asserts that a hint of the path begins with `begin`.
fn assert_hint(path: &PathAnswer, begin: &str) {
    let mut hints = path.chain.iter().filter_map(|hop| hop.hint.as_ref());
    assert!(hints.any(|hint| hint.starts_with(begin)), "{path:?}");
}

#[test]
fn classes_and_unknown_ports_are_joined_by_packets_and_bounds_add() {
    let first = switch(
        1,
        vec![
            segment(Kind::Inside, [0, 1, 3], 30, 100.0, Some(0.0)),
            segment(Kind::Inside, [0, 1, 4], 10, 500.0, Some(0.0)),
        ],
        &[(1, 2, 0)],
    );
    let second = switch(
        2,
        vec![
            segment(Kind::Wire, [2, 0, 3], 40, 1_000.0, Some(40.0)),
            segment(Kind::Inside, [0, 1, 3], 40, 50.0, Some(2.0)),
        ],
        &[(0, 1, 1)],
    );
    let states = [first, second];
    let joined = paths(&states, "s1", "s2:q", None).unwrap();
    let path = &joined.paths[0];
    assert!(path.is_covered && joined.paths.len() == 1);
    let titles: Vec<&str> = path.chain.iter().map(|hop| hop.title.as_str()).collect();
    assert_eq!(titles, ["s1: *>q", "s1:q > s2:p", "s2: p>q"]);
    let mean = |hop: &Hop| hop.figures.as_ref().unwrap().mean_ns.unwrap();
    assert!((mean(&path.chain[0]) - 200.0).abs() < 1e-9);
    assert!((path.sum.mean_ns.unwrap() - 1_250.0).abs() < 1e-9);
    assert!((path.sum.bound_ns.unwrap() - 42.0).abs() < 1e-9);
    assert!((path.chain[0].age_s.unwrap() - 0.5).abs() < 1e-9);
    // The deviation of two joined classes is greater than that of each.
    assert!(path.chain[0].figures.as_ref().unwrap().stddev_ns.unwrap() > 100.0);
    let gold = paths(&states, "s1:p", "s2", Some("gold")).unwrap();
    assert!((mean(&gold.paths[0].chain[0]) - 100.0).abs() < 1e-9);
}

#[test]
fn parallel_links_are_paths_and_what_is_not_measured_is_named() {
    let inside = || vec![segment(Kind::Inside, [0, 1, 3], 30, 100.0, None)];
    let states = [
        switch(1, inside(), &[(0, 2, 0), (1, 2, 1)]),
        switch(2, Vec::new(), &[(0, 1, 0), (1, 1, 1)]),
        switch(3, inside(), &[]),
    ];
    let both = paths(&states, "s1", "s2", None).unwrap();
    assert_eq!(both.paths.len(), 2);
    let path = &both.paths[1];
    assert!(!path.is_covered);
    let kinds: Vec<&str> = path.chain.iter().map(|hop| hop.kind.as_str()).collect();
    assert_eq!(kinds, ["inside", "uncovered", "uncovered"]);
    assert_hint(path, "the wire has no figures yet");
    // If one segment has no bound, the sum has none.
    assert_eq!(path.sum.bound_ns, None);
    assert_eq!(
        paths(&states, "s1", "s3", None),
        Err(PathError::Apart("s1".to_owned(), "s3".to_owned()))
    );
    assert_eq!(
        paths(&states, "s1", "s4", None),
        Err(PathError::Unknown("s4".to_owned()))
    );
}

#[test]
fn a_topology_of_a_file_has_routers_that_do_not_report_and_equal_paths() {
    let states = [switch(1, Vec::new(), &[]), switch(4, Vec::new(), &[])];
    let file = Topology::of_links([("s1", "r2"), ("s1", "r3"), ("r2", "s4"), ("r3", "s4")]);
    let network = Network::new(&states, Some(&file), END_NS);
    let map = network.map();
    let nodes = map.routers.iter();
    let nodes: Vec<_> = nodes
        .map(|router| (&*router.name, router.reports))
        .collect();
    let [no, yes] = [false, true];
    assert_eq!(nodes, [("r2", no), ("r3", no), ("s1", yes), ("s4", yes)]);
    let links = map.links.iter();
    let links: Vec<_> = links.map(|link| (&*link.from, &*link.to)).collect();
    assert_eq!(
        links,
        [("r2", "s1"), ("r2", "s4"), ("r3", "s1"), ("r3", "s4")]
    );
    let paths = network.paths("s1", "s4", None).unwrap();
    let routes: Vec<_> = paths
        .paths
        .iter()
        .map(|path| path.switches.join(" "))
        .collect();
    assert_eq!(routes, ["s1 r2 s4", "s1 r3 s4"]);
    assert_hint(&paths.paths[0], "r2 does not report");
    assert_hint(&paths.paths[0], "no wire is known between s1 and r2");
}

#[test]
fn neighbours_by_lldp_are_links_without_a_wire() {
    let by_lldp = |port, system: &str| Neighbour {
        port,
        peer_port: 2,
        system: Some(system.to_owned()),
        ..Neighbour::default()
    };
    // The number 0 is also a wire's; an LLDP neighbour is not that switch.
    let mut states = [
        switch(0, Vec::new(), &[]),
        switch(1, Vec::new(), &[]),
        switch(2, Vec::new(), &[]),
    ];
    states[1].neighbours = vec![by_lldp(1, "leaf")];
    states[2].neighbours = vec![by_lldp(0, "leaf")];
    let found = paths(&states, "s1", "s2", None).unwrap();
    assert_eq!(found.paths.len(), 1);
    assert_eq!(found.paths[0].switches, ["s1", "leaf", "s2"]);
    assert_hint(&found.paths[0], "no wire is known between leaf and s2");
    let apart = paths(&states, "s0", "s1", None).unwrap_err();
    assert_eq!(apart, PathError::Apart("s0".to_owned(), "s1".to_owned()));
    // The switch measures its own delay between its ports, up to the port to the neighbour.
    states[1] = switch(
        1,
        vec![segment(Kind::Inside, [0, 1, 3], 30, 100.0, None)],
        &[],
    );
    states[1].neighbours = vec![by_lldp(1, "leaf")];
    let found = paths(&states, "s1:p", "leaf", None).unwrap();
    assert_eq!(found.paths[0].chain[0].title, "s1: p>q");
}

#[test]
fn a_path_through_a_switch_leads_around_its_devices() {
    let hop = |kind, from, to, mean_ns| segment(kind, [from, to, 3], 40, mean_ns, Some(1.0));
    let only = switch(
        1,
        vec![
            hop(Kind::Inside, 0, 6, 100.0),
            hop(Kind::Around, 8, 9, 5_000.0),
            hop(Kind::Around, 9, 8, 7_000.0),
            hop(Kind::Inside, 7, 1, 200.0),
            hop(Kind::Inside, 1, 7, 300.0),
        ],
        &[],
    );
    let states = [only];
    let there = paths(&states, "s1:p", "s1:q", None).unwrap();
    let path = &there.paths[0];
    let expected = [
        ("inside", "s1: p>in"),
        ("around", "s1: fw:in>fw:out"),
        ("inside", "s1: out>q"),
    ];
    assert_eq!(hops(path), expected);
    assert!((path.sum.mean_ns.unwrap() - 5_300.0).abs() < 1e-9);
    // In the other direction, no segment leads from `in` to `p`.
    let back = paths(&states, "s1:q", "s1:p", None).unwrap();
    assert!(!back.paths[0].is_covered && back.paths[0].chain.len() == 1);
}

/// A switch that claims the number of another gives no evidence of that switch's wires, either.
#[test]
fn accomplices_with_the_numbers_of_others_make_no_short_cut() {
    let mut states = vec![
        switch(1, Vec::new(), &[(1, 2, 0)]),
        switch(2, Vec::new(), &[(0, 1, 1), (1, 3, 0)]),
        switch(3, Vec::new(), &[(0, 2, 1)]),
        switch(9, Vec::new(), &[(0, 1, 0), (1, 3, 1)]),
    ];
    for number in [1, 3] {
        let mut accomplice = switch(number, Vec::new(), &[(0, 9, 0)]);
        accomplice.switch = format!("accomplice-of-{number}");
        accomplice.wire_since_unix_ns += 1;
        states.push(accomplice);
    }
    let found = paths(&states, "s1", "s3", None).unwrap();
    assert_eq!(found.paths.len(), 1);
    assert_eq!(found.paths[0].switches, ["s1", "s2", "s3"]);
}

const NOW_NS: u64 = 1_700_000_100_000_000_000;

/// A segment of 10 packets, with its ends and class given by the names of [`report`].
fn probe_segment(kind: Kind, from: u32, to: u32, mean_ns: f32) -> Segment {
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

/// A report of an epoch of a second that ended `ago_s` ago.
fn report(name: &str, node: Option<&str>, ago_s: u64, segments: Vec<Segment>) -> State {
    let mut state = State::default();
    take(&mut state, name, node, ago_s, segments);
    state
}

/// A report, a second ago, of a prober at `a`.
fn prober(segments: Vec<Segment>) -> State {
    report("a.probe", Some("a"), 1, segments)
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

fn paths_of(states: &[State], file: Option<&Topology>, from: &str, to: &str) -> Paths {
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
    let states = [prober(vec![
        probe_segment(Kind::Probe, 0, 2, 100.0),
        probe_segment(Kind::Probe, 2, 0, 300.0),
        probe_segment(Kind::RoundTrip, 0, 2, 400.0),
    ])];
    for (from, to, expected) in [("a", "b", 100.0), ("b", "a", 300.0)] {
        let answer = paths_of(&states, None, from, to);
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
    let over = probe_segment(Kind::Probe, 0, 2, 900.0);
    let answer = |segments| paths_of(&[prober(segments)], Some(&file), "a", "c");
    let whole = answer(vec![over.clone(), probe_segment(Kind::Probe, 2, 3, 50.0)]);
    assert_eq!(
        hops(&whole.paths[0]),
        [("probe", "a > r > b"), ("probe", "b > c")]
    );
    // In parts where probes end: `r` has an m-server.
    let parts = [
        probe_segment(Kind::Probe, 0, 1, 400.0),
        probe_segment(Kind::Probe, 1, 2, 500.0),
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
            vec![probe_segment(Kind::Probe, 0, 2, 100.0)],
        )
    };
    let of_wire = |ago_s| {
        let a = report("a", None, 1, vec![probe_segment(Kind::Inside, 4, 4, 1.0)]);
        let mut b = report(
            "b",
            None,
            ago_s,
            vec![
                probe_segment(Kind::Wire, 5, 4, 200.0),
                probe_segment(Kind::Inside, 4, 4, 2.0),
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
        let answer = paths_of(&[a, b, of_probe(probe_s)], None, "a", "b");
        // Switches on the way are measured separately.
        let found = hops(&answer.paths[0]);
        assert_eq!((found.len(), found[1]), (3, expected));
    }
}

#[test]
fn without_synchronised_clocks_it_is_half_of_the_round_trip_to_within_that_half() {
    let counted = Segment {
        samples: 0,
        ..probe_segment(Kind::Probe, 0, 2, 0.0)
    };
    let round_trip = probe_segment(Kind::RoundTrip, 0, 2, 400.0);
    let states = [prober(vec![counted, round_trip.clone()])];
    for (from, to) in [("a", "b"), ("b", "a")] {
        let answer = paths_of(&states, None, from, to);
        let hop = &answer.paths[0].chain[0];
        let figures = hop.figures.as_ref().unwrap();
        assert_eq!(hop.kind, "round_trip");
        assert_eq!(
            (figures.mean_ns, figures.bound_ns, figures.stddev_ns),
            (Some(200.0), Some(201.0), None)
        );
        assert_hint(&answer.paths[0], "half of the round trip;");
    }
    // After the clocks are no longer synchronised, the present round trip counts, not the old delay.
    let mut state = report(
        "a.probe",
        Some("a"),
        70,
        vec![probe_segment(Kind::Probe, 0, 2, 100.0)],
    );
    take(&mut state, "a.probe", Some("a"), 1, vec![round_trip]);
    let answer = paths_of(&[state], None, "a", "b");
    assert_eq!(hops(&answer.paths[0]), [("round_trip", "a > b")]);
}

#[test]
fn between_probes_ports_with_the_names_of_neighbours_say_how_a_switch_is_passed() {
    let file = Topology::of_links([("a", "r"), ("r", "b")]);
    let states = [
        prober(vec![probe_segment(Kind::Probe, 0, 1, 100.0)]),
        // `a` and `b` lead to these neighbours, `p` and `c` to the router that the switch stands around.
        report(
            "r",
            None,
            1,
            vec![
                probe_segment(Kind::Inside, 0, 4, 10.0),
                probe_segment(Kind::Around, 8, 9, 500.0),
                probe_segment(Kind::Inside, 3, 2, 20.0),
            ],
        ),
        report(
            "b.probe",
            Some("b"),
            1,
            vec![probe_segment(Kind::Probe, 1, 2, 200.0)],
        ),
    ];
    let there = paths_of(&states, Some(&file), "a", "b");
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

/// A chain of `nodes` nodes, with a probe from each to the next.
fn chain(nodes: u32) -> State {
    let mut state = State::default();
    let report = Report {
        switch: "prober".to_owned(),
        node: Some("n0000".to_owned()),
        names: (0..nodes).map(|n| format!("n{n:04}")).collect(),
        segments: (1..nodes)
            .map(|n| Segment {
                class: 0,
                ..probe_segment(Kind::Probe, n - 1, n, 1.0)
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

/// A network made from reports has no more routers than one from a file, and includes every switch.
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
