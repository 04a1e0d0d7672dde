//! Tables in a terminal of 80 columns, with names as long as they are in practice: no line is longer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv6Addr, TcpListener};
use std::path::Path;
use std::process::Stdio;

use measure::packet::{FiveTuple, FlowKey};
use records::history::Sample;
use records::snapshot::{FlowList, FlowName, FlowRecord, SegmentName};
use records::station::{
    Blame, BlameCause, BlamedHop, Failure, FlowHop, FlowPath, Hop, Level, MeasuringFault, Missing,
    PathAnswer, PathBlame, PathBlames, Paths, Risen, SegmentFigures, StationFlow, StationFlows,
    StationSegment, StationSegments, SwitchState, UncoveredHop,
};
use serde::Serialize;
use testkit::terminal::Terminal;

use super::*;

const COLUMNS: u16 = 80;
const PORTS: [&str; 2] = [
    "uplink-to-spine-switch-01:et-0/0/17",
    "downlink-to-rack-server-042:eth1",
];
const CLASS: &str = "storage-replication";

/// What the tool writes to a terminal.
fn on_terminal(arguments: &[&str]) -> String {
    let mut terminal = Terminal::open(COLUMNS).unwrap();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_vernier"));
    let mut child = tool
        .args(arguments)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdout(terminal.stream().unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Its terminal is open in the child alone then, and reading ends with it.
    drop(tool);
    let (mut written, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(1..) = terminal
        .controller
        .read(&mut buffer)
        .inspect(|&n| written.extend(&buffer[..n]))
    {}
    let mut error = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut error)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{arguments:?}: {error}");
    String::from_utf8(written).unwrap().replace('\r', "")
}

/// Checks that a command prints something, and no line of more than 80 columns; returns the text.
fn assert_fits(arguments: &[&str]) -> String {
    let text = on_terminal(&[arguments, &["--color", "never"]].concat());
    assert!(!text.is_empty(), "{arguments:?}");
    for line in text.lines() {
        let columns = line.chars().count();
        assert!(
            columns <= usize::from(COLUMNS),
            "{arguments:?}: {columns}\n{text}"
        );
        assert!(!line.contains('\u{1b}'), "{arguments:?}: {line:?}");
    }
    text
}

fn address(host: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0x1234, 0x5678, 0x9abc, 0xdef0, 0x1234, host).into()
}

/// A switch with long names and IPv6 flows.
fn busy() -> Snapshot {
    let mut snapshot = Snapshot::example();
    let example = snapshot.segments[0].clone();
    let segments = [(PORTS, CLASS), ([PORTS[1], PORTS[0]], "all")];
    snapshot.segments = segments
        .map(|([from, to], class)| {
            let mut segment = example.clone();
            (segment.ingress, segment.egress) = (from.to_owned(), to.to_owned());
            class.clone_into(&mut segment.class);
            segment.total.counts.dropped_packets = 1_234_567;
            for epoch in 0..400 {
                let sample = Sample {
                    packets: 123_456_789,
                    lost_packets: 1_234_567,
                    sum_ns: 1e14,
                    max_ns: 9e8,
                    p99_ns: 1e6,
                    estimate_ns: Some((8.1e5, 12.0)),
                    ..Sample::default()
                };
                segment.history.add(epoch, 250, &sample);
            }
            segment
        })
        .into();
    for (port, name) in snapshot.ports.iter_mut().zip(PORTS) {
        name.clone_into(&mut port.name);
        for drop in &mut port.drops {
            drop.packets = 12_345;
        }
    }
    for wire in &mut snapshot.wires {
        PORTS[0].clone_into(&mut wire.port);
        for segment in &mut wire.segments {
            (segment.from, segment.to) = (PORTS[0].to_owned(), PORTS[1].to_owned());
        }
    }
    let name = SegmentName {
        ingress: PORTS[0].to_owned(),
        egress: PORTS[1].to_owned(),
        class: CLASS.to_owned(),
    };
    let flows = (0..3).map(|n| FlowRecord {
        name: FlowName::Key(FlowKey::Ip(FiveTuple {
            source: address(0xffff),
            destination: address(n),
            source_port: 65_535,
            destination_port: 44_300 + n,
            protocol: 132,
        })),
        segment: 0,
        ..FlowRecord::example(0, 123_456)
    });
    if let Some(list) = &mut snapshot.flows {
        list.list = Arc::new(FlowList {
            segments: vec![Arc::new(name)],
            ..FlowList::example(flows.collect())
        });
    }
    snapshot
}

#[test]
fn the_tables_of_a_switch_fit_into_80_columns() {
    let (_server, url) = serve(busy());
    for command in [
        "segments", "history", "ports", "classes", "wires", "flows", "status",
    ] {
        assert_fits(&[command, "--url", &url]);
    }
    let both = "2001:db8:1234:5678:9abc:def0:1234:ffff";
    let part = assert_fits(&["flow", both, "--url", &url]);
    assert!(part.contains("1 to 3 of 3 flows"), "{part}");
    let one = assert_fits(&["flow", "2001:db8:1234:5678:9abc:def0:1234:1", "--url", &url]);
    assert!(one.contains(": tracked, "), "{one}");
    // Names keep their begin and their end.
    let segments = assert_fits(&["segments", "--url", &url]);
    assert!(
        segments.contains("uplink-to-") && segments.contains("replication "),
        "{segments}"
    );
    // All columns, and a pipe, are not cut.
    let wide = on_terminal(&["segments", "-o", "wide", "--url", &url]);
    let title = format!("{}>{} {CLASS}", PORTS[0], PORTS[1]);
    assert!(wide.contains(&title) && wide.contains("LDA mean"), "{wide}");
    let (_, piped, _) = run(&["segments", "--url", &url]);
    assert!(
        piped.contains(&title) && !piped.contains("LDA mean"),
        "{piped}"
    );
}

#[test]
fn losses_are_coloured_on_a_terminal() {
    let (_server, url) = serve(busy());
    let ports = ["ports", "--url", &url];
    let red = "\u{1b}[31m12.3 k";
    let text = on_terminal(&ports);
    assert!(text.contains(red), "{text:?}");
    let (_, plain, _) = run(&ports);
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let (_, forced, _) = run(&[&ports[..], &["--color", "always"]].concat());
    assert!(forced.contains(red), "{forced:?}");
}

/// A station that gives to each path, up to the question mark or with the parameter, this answer.
fn station(answers: Vec<(&'static str, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
            let request = lines.next().unwrap();
            lines.find(String::is_empty).unwrap();
            let answer = answers.iter().find(|(path, _)| request.contains(path));
            let (_, body) = answer.unwrap();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    url
}

fn json_of(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).unwrap()
}

/// A path of two hops; nobody measures the second.
fn path() -> PathAnswer {
    let figures = SegmentFigures {
        packets: 123_456_789,
        lost: 1_234_567,
        samples: 999,
        mean_ns: Some(412_300.0),
        bound_ns: Some(7_400.0),
        stddev_ns: Some(310_500.0),
        p99_ns: Some(1_400_000.0),
        max_ns: None,
    };
    let hop = |figures: Option<SegmentFigures>| Hop {
        title: format!("{} > {}", PORTS[0], PORTS[1]),
        kind: "virtual".to_owned(),
        hint: figures
            .is_none()
            .then(|| format!("probe {} from {}", PORTS[0], PORTS[1])),
        age_s: Some(12.4),
        figures,
        ..Hop::default()
    };
    PathAnswer {
        chain: vec![hop(Some(figures.clone())), hop(None)],
        sum: figures,
        loss_ratio: 0.001,
        ..PathAnswer::default()
    }
}

fn blamed() -> PathBlame {
    let level = Level {
        mean_ns: 900_000.0,
        bound_ns: 2_000.0,
        usual_ns: 100_000.0,
        loss: 0.123,
        usual_loss: 0.001,
        ..Level::default()
    };
    let hop = BlamedHop {
        title: format!("{} > {}", PORTS[0], PORTS[1]),
        level: Some(level),
        stddev_ns: Some(1e5),
        p99_ns: Some(1e6),
        is_ready: true,
        age_s: Some(0.4),
        ..BlamedHop::default()
    };
    PathBlame {
        causes: vec![BlameCause {
            title: hop.title.clone(),
            signal: "loss".to_owned(),
            share_percent: 97.0,
            rise: 0.02,
            ..BlameCause::default()
        }],
        chain: vec![hop.clone()],
        sum: Some(level),
        end_to_end: Some(hop),
        uncovered: vec![UncoveredHop {
            title: PORTS.join(" > "),
            cover: "probe this link".to_owned(),
            is_suspect: true,
        }],
        ..PathBlame::default()
    }
}

fn fleet() -> Blame {
    Blame {
        segments: 1_200,
        learning: 3,
        matching: 2,
        risen: vec![Risen {
            title: PORTS.join(" > "),
            signal: "delay".to_owned(),
            now: 900_000.0,
            usual: 100_000.0,
            rise: 800_000.0,
            confidence: 0.999,
            ..Risen::default()
        }],
        faults: vec![MeasuringFault {
            place: PORTS[0].to_owned(),
            words: "it sends no reports, and nobody else measures the link to it".to_owned(),
            ..MeasuringFault::default()
        }],
        failed: vec![Failure {
            place: PORTS[1].to_owned(),
            words: "its reports stopped, while 12 other switches still report".to_owned(),
            ..Failure::default()
        }],
    }
}

/// Two of nine flows.
fn flows_named(flow: &str) -> StationFlows {
    let listed = StationFlow {
        flow: flow.to_owned(),
        segments: 3,
        packets: 12_345_678,
        lost: 1_234,
        mean_ns: Some(12_345_678.0),
    };
    StationFlows {
        matching: 9,
        flows: vec![listed.clone(), listed],
    }
}

/// The answers of a station, by parts of their requests.
fn answers() -> Vec<(&'static str, String)> {
    let segment = StationSegment {
        switch: "edge-switch-in-frankfurt-3".to_owned(),
        from: PORTS[0].to_owned(),
        to: PORTS[1].to_owned(),
        class: CLASS.to_owned(),
        kind: "internal".to_owned(),
        figures: path().sum,
        ..StationSegment::default()
    };
    let switch = SwitchState {
        switch: "edge-switch-in-frankfurt-3".to_owned(),
        epoch: 123_456_789,
        silent_since_unix_s: Some(1.0),
        problems: vec!["missed_shard".to_owned(), "worker 3 has stalled".to_owned()],
        ..SwitchState::default()
    };
    let hop = FlowHop {
        title: format!("edge-switch-in-frankfurt-3: {}>{}", PORTS[0], PORTS[1]),
        packets: 123_456,
        mean_ns: Some(1e6),
        stddev_ns: Some(1e5),
        p99_ns: Some(1e7),
        ..FlowHop::default()
    };
    let flow = FlowPath {
        flow: "[2001:db8:1234:5678:9abc:def0:1234:ffff]:65535>[2001:db8:1234:5678:9abc:def0:1234:1]:44300/sctp".to_owned(),
        hops: vec![hop.clone(), hop],
        slowest: Some(1),
        slowest_percent: Some(90.0),
        ..FlowPath::default()
    };
    vec![
        (
            "/path?",
            json_of(&Paths {
                paths: vec![path(), path()],
                is_cut: true,
                ..Paths::default()
            }),
        ),
        (
            "/segments?",
            json_of(&StationSegments {
                matching: 2,
                segments: vec![segment],
            }),
        ),
        (
            "/missing",
            json_of(&Missing {
                known: 9,
                switches: vec![switch],
                ..Missing::default()
            }),
        ),
        (
            "/blame?from",
            json_of(&PathBlames {
                paths: vec![blamed()],
                ..PathBlames::default()
            }),
        ),
        ("/blame?", json_of(&fleet())),
        ("/flows?", json_of(&flows_named(&flow.flow))),
        ("/flow?", json_of(&flow)),
    ]
}

#[test]
fn the_tables_of_a_station_fit_into_80_columns() {
    let url = station(answers());
    for command in [
        &["path", "a", "b"][..],
        &["segments"],
        &["missing"],
        &["blame"],
        &["blame", "a", "b"],
        &["blame", "--flow", "2001:db8::1"],
        &["blame", "--flow", "10.0.0.1:80>10.0.0.2:9/udp"],
    ] {
        assert_fits(&[command, &["--station", &url]].concat());
    }
}

#[test]
fn a_part_of_a_flow_is_looked_up_and_several_matches_are_listed() {
    let listed = |flow: &str| StationFlow {
        flow: flow.to_owned(),
        ..StationFlow::default()
    };
    let [first, second] = ["10.0.0.7:80>10.0.0.2:9/udp", "10.0.0.2:9>10.0.0.7:80/udp"];
    let found = |flows: &[&str]| {
        let matching = flows.len() as u64;
        let flows = flows.iter().copied().map(listed).collect();
        json_of(&StationFlows { matching, flows })
    };
    let hops = json_of(&FlowPath {
        flow: first.to_owned(),
        ..FlowPath::default()
    });
    let blame = |flows: &[&str]| {
        let url = station(vec![
            ("/flows?contains=10.0.0.7&", found(flows)),
            ("/flow?flow=10.0.0.7%3A80", hops.clone()),
        ]);
        let (code, text, error) = run(&["blame", "--flow", "10.0.0.7", "--station", &url]);
        assert_eq!(code, 0, "{error}");
        text
    };
    assert!(blame(&[first]).starts_with(&format!("{first}\n")));
    let both = blame(&[first, second]);
    assert!(both.starts_with("flow ") && both.contains(second), "{both}");
    assert!(blame(&[]).starts_with("No flow matches."));
}

#[test]
fn the_tables_of_a_plan_fit_into_80_columns() {
    let folder = tempfile::tempdir().unwrap();
    let file: &Path = &folder.path().join("ring.intra");
    let name = |n: usize| format!("router-{:02}-of-the-backbone-in-frankfurt", n % 12);
    let links = (0..12).map(|n| format!("{0} {1} 1\n{1} {0} 1\n", name(n), name(n + 1)));
    std::fs::write(file, links.collect::<String>()).unwrap();
    let topology = ["--topology", file.to_str().unwrap()];
    let routers = format!("{},{}", name(2), name(8));
    for command in [
        &["plan", "--upgrade", "3"][..],
        &["plan", "--upgrade", "3", "--method", "greedy"],
        &["mset", "--routers", &routers],
        &["paths", &name(0), &name(6), "--routers", &routers],
        &["check", DEMO, "--offline", "--static"],
    ] {
        let network = if command[0] == "check" {
            &[][..]
        } else {
            &topology
        };
        assert_fits(&[command, network].concat());
    }
}
