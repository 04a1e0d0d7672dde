//! Stations and switches with Debian's `nats-server`, under faults.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use async_nats::jetstream;
use contract::config::Nats;
use prost::Message;
use report::connection::Connection;
use report::msp::{Kind, Neighbour, Report, Segment};
use report::subject;
use serde_json::{Value, json};
use testkit::nats::NatsServer;
use testkit::process::{free_ports, wait_for};
use testkit::skip;

mod blame;
mod clock;
mod demo;
mod hostile;
mod outage;
mod page;
mod paths;
mod store;
mod support;

use support::{Station, Switch, runtime};

/// Closes epochs of all switches concurrently, for `rounds` rounds.
fn run(switches: &mut [Switch], rounds: usize) {
    for _ in 0..rounds {
        for switch in switches.iter_mut() {
            switch.close();
        }
        switches.iter().for_each(Switch::settle);
    }
}

/// Asserts that all epochs of these switches are counted exactly once: by reports, and by the packets of every minute.
fn assert_counted_once(station: &Station, names: &[String], epochs: u64) {
    for name in names {
        station.wait_for_epoch(name, epochs - 1);
        let switch = station.switch(name).unwrap();
        assert_eq!(switch["reports"].as_u64(), Some(epochs), "{switch}");
        assert_eq!(
            (
                switch["missed_epochs"].as_u64(),
                switch["restarts"].as_u64()
            ),
            (Some(0), Some(0)),
            "{switch}"
        );
        let history = station.json(&format!("/api/v1/history?switch={name}"));
        let minutes = history["minutes"].as_array().unwrap();
        assert_eq!(minutes.len() as u64, (epochs - 1) / 6, "{history}");
        for minute in minutes {
            assert_eq!(
                (&minute["packets"], &minute["samples"]),
                (&json!(60), &json!(60)),
                "{name}: {minute}"
            );
        }
    }
}

/// NATS is killed for some time and restarts with its store, a station is killed, and a switch stops: no report is
/// counted twice, none is lost, and the silent switch is known.
#[test]
fn faults_lose_no_report_and_count_none_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = NatsServer::start(folder.path(), "").unwrap();
    let [first, second] = [(); 2].map(|()| Station::start(&server, &json!({})));
    // Six epochs make a minute.
    let names: Vec<String> = (0..8).map(|n| format!("switch.{n}")).collect();
    let mut switches: Vec<Switch> = names
        .iter()
        .map(|name| Switch::start(&server, name, 10_000))
        .collect();
    let mut ended = vec![Switch::start(&server, "ended", 100)];
    run(&mut ended, 3);
    drop(ended);
    wait_for("both own partitions", || {
        [&first, &second]
            .map(|station| station.metric("vernier_station_partitions"))
            .iter()
            .sum::<u64>()
            == 64
    });
    run(&mut switches, 10);
    drop(first);
    run(&mut switches, 10);
    server.kill();
    run(&mut switches, 10);
    server.run("").unwrap();
    run(&mut switches, 10);
    let third = Station::start(&server, &json!({}));
    run(&mut switches, 10);

    for station in [&second, &third] {
        assert_counted_once(station, &names, switches[0].epochs());
    }
    wait_for("the ended switch is silent", || {
        let missing = second.json("/api/v1/missing");
        let switches = missing["switches"].as_array().unwrap();
        switches
            .iter()
            .any(|switch| switch["switch"] == "ended" && !switch["silent_since_unix_s"].is_null())
    });
    assert_eq!(second.metric("vernier_station_stations"), 2);
    assert_families_are_documented(&second.text("/metrics").unwrap());
}

/// Sends reports made by the test.
struct Reporter {
    runtime: tokio::runtime::Runtime,
    context: jetstream::Context,
}

impl Reporter {
    fn new(server: &NatsServer) -> Self {
        let runtime = runtime();
        let connection = Connection::of(&Nats::to(server.url())).unwrap();
        let client = runtime
            .block_on(connection.connect("test", |_| ()))
            .unwrap();
        let context = {
            let _inside = runtime.enter();
            jetstream::new(client)
        };
        Self { runtime, context }
    }

    /// Sends a report without an id, as if it were sent again much later.
    fn send(&self, report: &Report) {
        let subject = subject::of_switch(&report.switch);
        self.bytes(subject, report.encode_to_vec());
    }

    /// Sends many reports without waiting for each.
    fn send_all(&self, reports: impl Iterator<Item = Report>) {
        self.runtime.block_on(async {
            let mut sent = Vec::new();
            for report in reports {
                let subject = subject::of_switch(&report.switch);
                let bytes = report.encode_to_vec().into();
                sent.push(self.context.publish(subject, bytes).await.unwrap());
            }
            for acknowledged in sent {
                acknowledged.await.unwrap();
            }
        });
    }

    /// Publishes a message that no stream keeps.
    fn say(&self, subject: &'static str, words: &str) {
        let client = self.context.client();
        let words = words.to_owned();
        self.runtime.block_on(async {
            client.publish(subject, words.into()).await.unwrap();
            client.flush().await.unwrap();
        });
    }

    fn bytes(&self, subject: String, bytes: Vec<u8>) {
        self.runtime.block_on(async {
            let sent = self.context.publish(subject, bytes.into()).await.unwrap();
            sent.await.unwrap();
        });
    }
}

/// A report of a switch with a wire to the previous and one to the next switch.
fn chained(number: u32, epoch: u64) -> Report {
    let segment = |kind: Kind, from, to, mean_ns, bound_ns| Segment {
        kind: kind.into(),
        from,
        to,
        class: 4,
        packets: 100,
        lost: i64::from(kind == Kind::Wire),
        samples: 100,
        mean_ns,
        bound_ns: Some(bound_ns),
        stddev_ns: Some(3.0),
        method: 5,
        ..Segment::default()
    };
    let mut segments = vec![
        segment(Kind::Inside, 0, 1, 1_000.0, 0.0),
        segment(Kind::Inside, 1, 0, 2_000.0, 0.0),
    ];
    let mut neighbours = vec![Neighbour {
        port: 1,
        peer_switch: number + 1,
        peer_port: 0,
        session: "established".to_owned(),
        system: None,
    }];
    if number > 1 {
        segments.push(segment(Kind::Wire, 2, 0, 5_000.0, 40.0));
        neighbours.push(Neighbour {
            port: 0,
            peer_switch: number - 1,
            peer_port: 1,
            session: "established".to_owned(),
            system: None,
        });
    }
    Report {
        version_major: 1,
        switch: format!("s{number}"),
        incarnation: 9,
        epoch,
        epochs: 1,
        start_unix_ns: station::now_unix_ns() - 1_000_000_000,
        length_ns: 1_000_000_000,
        names: ["west", "east", "west:east", "east:west", "all", "stamped"]
            .map(str::to_owned)
            .to_vec(),
        segments,
        neighbours,
        wire_switch: Some(number),
        ..Report::default()
    }
}

/// Asserts the chain of three switches, and its sum.
fn assert_path(station: &Station) {
    let path = station.json("/api/v1/path?from=s1:west&to=s3:east");
    let titles: Vec<&Value> = path["paths"][0]["chain"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hop| &hop["title"])
        .collect();
    assert_eq!(
        titles,
        [
            "s1: west>east",
            "s1:east > s2:west",
            "s2: west>east",
            "s2:east > s3:west",
            "s3: west>east"
        ]
    );
    let sum = &path["paths"][0]["sum"];
    assert_eq!(
        (&sum["mean_ns"], &sum["bound_ns"]),
        (&json!(13_000.0), &json!(80.0)),
        "{sum}"
    );
    let loss = path["paths"][0]["loss_ratio"].as_f64().unwrap();
    assert!((loss - (1.0 - 0.99 * 0.99)).abs() < 1e-9, "{loss}");
}

#[test]
fn gaps_and_copies_are_told_apart_and_every_station_answers_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let watched = json!({ "paths": [{ "from": "s1:west", "to": "s3:east" }, { "from": "s1", "to": "a \"b" }] });
    let stations = [(); 2].map(|()| Station::start(&server, &watched));
    let reporter = Reporter::new(&server);
    for number in 1..=3 {
        for epoch in [0, 1, 2, 2, 1, 5] {
            reporter.send(&chained(number, epoch));
        }
    }
    let newer = Report {
        version_major: 2,
        ..chained(1, 6)
    };
    reporter.send(&newer);
    reporter.bytes(subject::of_switch("s1"), b"no report".to_vec());
    reporter.bytes(subject::of_switch("s2"), chained(1, 7).encode_to_vec());
    for station in &stations {
        for name in ["s1", "s2", "s3"] {
            station.wait_for_epoch(name, 5);
            let switch = station.switch(name).unwrap();
            assert_eq!(
                [
                    &switch["reports"],
                    &switch["duplicates"],
                    &switch["missed_epochs"]
                ],
                [4, 2, 2],
                "{switch}"
            );
            assert_eq!(switch["gaps"][0]["first_epoch"], 3);
        }
        assert_path(station);
        let page = station.text("/metrics").unwrap();
        let ends = r#"from="s1:west",to="s3:east",class="""#;
        let path = format!(r#"{{{ends},path="s1 > s2 > s3",link="0"}}"#);
        for series in [
            format!("vernier_station_path_delay_mean_seconds{path} 0.000013"),
            format!("vernier_station_path_delay_bound_seconds{path} 0.00000008"),
            format!("vernier_station_path_loss_ratio{path} 0.0199"),
            format!("vernier_station_path_uncovered_segments{path} 0"),
            format!("vernier_station_paths{{{ends}}} 1"),
            r#"vernier_station_paths{from="s1",to="a \"b",class=""} 0"#.to_owned(),
        ] {
            assert!(page.contains(&series), "no {series} in {page}");
        }
    }
    wait_for("what is no report is counted", || {
        stations
            .iter()
            .map(|station| station.metric("vernier_station_refused_messages_total"))
            .sum::<u64>()
            >= 3
    });
    // Everything except ages is the same.
    let answers = stations.each_ref().map(|station| {
        let mut answer = station.json("/api/v1/segments");
        for segment in answer["segments"].as_array_mut().unwrap() {
            segment["age_s"] = Value::Null;
        }
        answer
    });
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0]["matching"], 8);
}

#[test]
fn the_demo_shows_the_path_and_leaves_nothing() {
    let programs = Path::new(env!("CARGO_BIN_EXE_vernier-station"))
        .parent()
        .unwrap();
    if !["vernierd", "vernier"]
        .iter()
        .all(|program| programs.join(program).exists())
    {
        return skip("vernierd and vernier were not built (cargo build -p daemon -p console)");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/station.sh");
    let tools = script.with_file_name("../.tools/usr/sbin");
    let path = format!(
        "{}:/usr/sbin:{}",
        tools.display(),
        std::env::var("PATH").unwrap()
    );
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports(4).unwrap();
    let output = Command::new(script)
        .arg("1")
        .env("PATH", path)
        .env("PROGRAMS", programs)
        .env("STATION_PORT", port.to_string())
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let (shown, errors) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{shown}{errors}");
    for words in [
        "edge-1: lan>trunk",
        "edge-1:trunk > edge-2:trunk",
        "edge-2: trunk>lan",
        "sum ",
        " +-",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(
        std::fs::read_dir(folder.path()).unwrap().next().is_none(),
        "files are left"
    );
    for port in port..port + 4 {
        assert!(
            TcpStream::connect(("127.0.0.1", port)).is_err(),
            "port {port} still answers"
        );
    }
}

/// Asserts that the table in docs/station.md lists exactly the page's families.
fn assert_families_are_documented(page: &str) {
    let documented = include_str!("../../../../../docs/station.md").lines();
    let documented = documented.filter_map(|line| line.strip_prefix("| `vernier_station_"));
    let documented = documented.filter_map(|line| Some(line.split_once('`')?.0));
    let families = page
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP vernier_station_"));
    let families = families.filter_map(|line| Some(line.split_once(' ')?.0));
    assert!(families.eq(documented), "docs/station.md: {page}");
}
