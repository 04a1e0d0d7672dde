//! Faulty and hostile switches and probers: what the server permits them, and how their reports affect others.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_nats::jetstream::consumer::pull;
use contract::config::{Nats, Report as Settings};
use control::published::Published;
use futures_util::StreamExt;
use prost::Message;
use records::snapshot::Snapshot;
use report::connection::Connection;
use report::msp::{Kind, Report, Segment};
use report::sender::Sender;
use report::subject;
use serde_json::{Value, json};
use testkit::nats::NatsServer;
use testkit::process::{Background, wait_for};

use crate::support::{Station, runtime};
use crate::{Reporter, chained};

const USERS: [&str; 3] = ["station", "edge-1", "edge-2"];

/// Starts a server with the example's configuration, and a file with each user's password.
fn guarded(folder: &Path) -> NatsServer {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/nats.conf");
    let mut text = std::fs::read_to_string(example).unwrap();
    // The test's server has its own store.
    text = text.replace("jetstream: enabled\n", "");
    for user in USERS {
        let variable = format!("${}_PASSWORD", user.to_uppercase().replace('-', "_"));
        assert!(text.contains(&variable), "{variable}");
        text = text.replace(&variable, &format!("secret-of-{user}"));
        secret(folder, user);
    }
    NatsServer::start(folder, &text).unwrap()
}

fn secret(folder: &Path, user: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = folder.join(format!("{user}.password"));
    std::fs::write(&file, format!("secret-of-{user}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file
}

fn nats(server: &NatsServer, folder: &Path, user: &str) -> Nats {
    Nats {
        user: Some(user.to_owned()),
        password_file: Some(secret(folder, user)),
        ..Nats::to(server.url())
    }
}

fn station(server: &NatsServer, folder: &Path) -> Station {
    let more = json!({ "nats": nats(server, folder, "station") });
    Station::start(server, &more)
}

/// Repeats the audit's attack, as a user who may report as edge-2.
fn attack(nats: &Nats) {
    let evil = Connection::of(nats).unwrap();
    runtime().block_on(async {
        let evil = evil.connect("evil", |_| ()).await.unwrap();
        for n in 0..999 {
            evil.publish("vernier.station.alive", format!("{n:016x}").into())
                .await
                .unwrap();
        }
        let own = station::members::GONE;
        evil.publish(own, "0".into()).await.unwrap();
        let mut report = chained(1, 0);
        "edge-1".clone_into(&mut report.switch);
        evil.publish(subject::of_switch("edge-1"), report.encode_to_vec().into())
            .await
            .unwrap();
        evil.publish("$KV.vernier_switches.46.edge-1", "x".into())
            .await
            .unwrap();
        evil.publish("vernier.history.46.edge-1", "x".into())
            .await
            .unwrap();
        evil.publish("$JS.API.STREAM.DELETE.VERNIER_REPORTS", "".into())
            .await
            .unwrap();
        // The attacker's own subject with another's name.
        evil.publish(subject::of_switch("edge-2"), report.encode_to_vec().into())
            .await
            .unwrap();
        "edge-2".clone_into(&mut report.switch);
        // Wait until this report is stored: closing a connection with unread refusals discards messages that the server
        // has not read yet.
        let mut answers = evil.subscribe("_INBOX.edge-2.>").await.unwrap();
        let (of, report) = (subject::of_switch("edge-2"), report.encode_to_vec());
        evil.publish_with_reply(of, "_INBOX.edge-2.stored", report.into())
            .await
            .unwrap();
        let stored = answers.next().await.unwrap();
        let words = String::from_utf8_lossy(&stored.payload);
        assert!(words.contains("\"stream\":\"VERNIER_REPORTS\""), "{words}");
    });
}

#[test]
fn a_switch_reports_as_itself_and_can_do_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let server = guarded(folder.path());
    let station = station(&server, folder.path());
    wait_for("it owns all partitions", || {
        station.metric("vernier_station_partitions") == 64
    });

    // A real sender, with the example's user.
    let mut snapshot = Snapshot::example();
    "edge-1".clone_into(&mut snapshot.switch);
    let published = Arc::new(Published::new(snapshot));
    let settings = Settings {
        nats: nats(&server, folder.path(), "edge-1"),
        top_flows: 0,
        spool_kib: 64,
    };
    let sender = Sender::of(Some(&settings)).unwrap().unwrap();
    let sender = sender.start(Arc::clone(&published)).unwrap();
    wait_for("edge-1 is counted", || station.switch("edge-1").is_some());
    assert_eq!(published.complaints(), Vec::<String>::new());
    drop(sender);

    attack(&nats(&server, folder.path(), "edge-2"));
    wait_for("what it may do is counted", || {
        station.switch("edge-2").is_some()
    });
    let switch = |name: &str| station.switch(name).unwrap();
    assert_eq!(switch("edge-1")["reports"], 1);
    assert_eq!(switch("edge-1")["restarts"], 0);
    assert_eq!(switch("edge-2")["reports"], 1);
    assert_eq!(station.metric("vernier_station_refused_messages_total"), 1);
    assert_eq!(station.metric("vernier_station_stations"), 1);
    assert_eq!(station.metric("vernier_station_partitions"), 64);
}

/// The audit's flood: the reports of other switches stay.
#[test]
fn a_switch_that_sends_without_end_evicts_its_own_reports_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = guarded(folder.path());
    let more =
        json!({ "nats": nats(&server, folder.path(), "station"), "messages_per_switch": 100 });
    let station = Station::start(&server, &more);
    let runtime = runtime();
    let send = |user: &str, epochs: std::ops::Range<u64>| {
        let connection = Connection::of(&nats(&server, folder.path(), user)).unwrap();
        runtime.block_on(async {
            let client = connection.connect(user, |_| ()).await.unwrap();
            for epoch in epochs {
                let mut report = chained(1, epoch);
                user.clone_into(&mut report.switch);
                let bytes = report.encode_to_vec().into();
                client
                    .publish(subject::of_switch(user), bytes)
                    .await
                    .unwrap();
            }
            client.flush().await.unwrap();
        });
    };
    send("edge-1", 0..5);
    send("edge-2", 0..1_000);
    wait_for("both are counted", || {
        ["edge-1", "edge-2"]
            .iter()
            .all(|name| station.switch(name).is_some())
    });
    let connection = Connection::of(&nats(&server, folder.path(), "station")).unwrap();
    let counts = runtime.block_on(async {
        let client = connection.connect("test", |_| ()).await.unwrap();
        let stream = async_nats::jetstream::new(client)
            .get_stream("VERNIER_REPORTS")
            .await
            .unwrap();
        let mut counts = [0, 0];
        for (count, name) in counts.iter_mut().zip(["edge-1", "edge-2"]) {
            let config = pull::Config {
                filter_subject: subject::of_switch(name),
                ..pull::Config::default()
            };
            let mut consumer = stream.create_consumer(config).await.unwrap();
            *count = consumer.info().await.unwrap().num_pending;
        }
        counts
    });
    assert_eq!(counts, [5, 100]);
}

/// Missing permissions show in the parts that do not work, not in the connection.
#[test]
fn a_station_without_its_permissions_says_what_does_not_work() {
    let folder = tempfile::tempdir().unwrap();
    let server = guarded(folder.path());
    let config = json!({ "nats": nats(&server, folder.path(), "edge-1") });
    let station = Station::start_unready(&server, &config);
    let mut reasons = Value::Null;
    wait_for("it says why", || {
        let (status, text) = station.readiness();
        reasons = text.clone().into();
        status == 503 && text.contains("cannot make a stream")
    });
    // The connection is up.
    assert_eq!(station.metric("vernier_station_connected"), 1, "{reasons}");
}

/// Number of nodes that a prober reports; this many used to make a state of 1.5 MB.
const NODES: u32 = 3_600;

/// Returns a report of a prober that probes every node.
fn prober(name: &str, epoch: u64) -> Report {
    let mut names: Vec<String> = (0..=NODES).map(|n| format!("node-{n:04}")).collect();
    names.extend(["all".to_owned(), "stamp".to_owned()]);
    let segment = |kind: Kind, from, to| Segment {
        kind: kind.into(),
        from,
        to,
        class: NODES + 1,
        method: NODES + 2,
        packets: 10,
        samples: 10,
        mean_ns: 1_000.0 + to as f32,
        bound_ns: Some(5.0),
        stddev_ns: Some(7.0),
        ..Segment::default()
    };
    let segments = (1..=NODES).flat_map(|node| {
        [
            segment(Kind::Probe, 0, node),
            segment(Kind::Probe, node, 0),
            segment(Kind::RoundTrip, 0, node),
        ]
    });
    Report {
        segments: segments.collect(),
        names,
        node: Some("node-0000".to_owned()),
        switch: name.to_owned(),
        neighbours: Vec::new(),
        wire_switch: None,
        ..chained(1, epoch)
    }
}

fn named(name: &str, epoch: u64) -> Report {
    Report {
        switch: name.to_owned(),
        ..chained(1, epoch)
    }
}

#[test]
// Long: one story, seen from both stations.
fn what_is_too_large_or_unreadable_costs_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let station = Station::start(&server, &json!({}));
    let reporter = Reporter::new(&server);
    // All switches are in one partition.
    let mut names = (0..).map(|n| format!("sw{n}"));
    let mut names = names.by_ref().filter(|name| subject::partition(name) == 7);
    let [honest, large, broken] = [(); 3].map(|()| names.next().unwrap());

    for epoch in 0..3 {
        reporter.send(&prober(&large, epoch));
        reporter.send(&named(&honest, epoch));
        reporter.send(&named(&broken, epoch));
    }
    for name in [&honest, &large, &broken] {
        wait_for("all are counted", || station.reports(name) == 3);
    }
    // Someone overwrites a state, and writes keys that belong to no switch.
    reporter.bytes(station::values::key(&broken), b"no state".to_vec());
    for key in ["x", "7.nobody", "99.a.b.c"] {
        reporter.bytes(format!("$KV.vernier_switches.{key}"), vec![0xff; 100]);
    }
    wait_for("the station sees it", || {
        let missing = station.json("/api/v1/missing");
        let unreadable = missing["unreadable"].as_array().unwrap();
        unreadable.iter().any(|one| one["switch"] == *broken)
    });
    for epoch in 3..6 {
        for name in [&broken, &honest] {
            reporter.send(&named(name, epoch));
        }
        reporter.send(&prober(&large, epoch));
    }
    let second = Station::start(&server, &json!({}));
    for station in [&station, &second] {
        for name in [&honest, &large] {
            wait_for("nobody waits for it", || station.reports(name) == 6);
            let switch = station.switch(name).unwrap();
            assert_eq!(
                [&switch["missed_epochs"], &switch["set_aside"]],
                [0, 0],
                "{switch}"
            );
        }
        let segments = station.json(&format!("/api/v1/segments?switch={large}&limit=1"));
        assert_eq!(segments["matching"], 3 * NODES);
        station.wait_for_epoch(&broken, 5);
        let missing = station.json("/api/v1/missing");
        let switches = missing["switches"].as_array().unwrap();
        let of_broken = switches
            .iter()
            .find(|switch| switch["switch"] == *broken)
            .unwrap();
        let problem = of_broken["problems"][0].as_str().unwrap();
        assert!(
            problem.contains("set aside 1 times") && problem.contains("is not a state"),
            "{problem}"
        );
        // A fault of a partition is listed until the partition has worked for a while.
        wait_for("it is ready", || station.text("/readyz").is_some());
    }
    let page = second.text("/metrics").unwrap();
    let series = format!("vernier_station_switch_set_aside_total{{switch=\"{broken}\"}} 1");
    assert!(page.contains(&series), "{page}");
    let set_aside =
        [&station, &second].map(|station| station.metric("vernier_station_set_aside_total"));
    assert!(set_aside.iter().sum::<u64>() > 0);
    assert!(second.metric("vernier_station_states_bytes") > 1 << 20);
}

/// Runs stations that claim partitions but read none, until dropped. They send heartbeats on a separate thread,
/// whatever the test waits for.
fn haunt(server: &NatsServer) -> Background {
    let reporter = Reporter::new(server);
    Background::start(move |stopped| {
        while !stopped.load(Ordering::Relaxed) {
            for ghost in 0..20 {
                reporter.say(station::members::ALIVE, &format!("ghost-{ghost}"));
            }
            std::thread::sleep(station::members::BEAT / 2);
        }
    })
}

/// Stations that do no work claim partitions: reports wait there, and every station reports it.
#[test]
fn a_partition_that_stands_still_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let station = Station::start(&server, &json!({}));
    let reporter = Reporter::new(&server);
    let haunted = haunt(&server);
    // With so many ghosts the station keeps hardly any partition of its own.
    let names: Vec<String> = (0..8).map(|n| format!("edge-{n}")).collect();
    let mut epoch = 0;
    wait_for("it is said which partition stands still", || {
        for name in &names {
            reporter.send(&named(name, epoch));
        }
        epoch += 1;
        let (status, text) = station.readiness();
        status == 503 && text.contains("stands still for")
    });
    assert!(station.metric("vernier_station_still_partitions") > 0);
    assert!(station.text("/healthz").is_some());
    drop(haunted);
    wait_for("the ghosts are forgotten, and all go on", || {
        station.text("/readyz").is_some()
    });
    for name in &names {
        wait_for("all are counted", || station.reports(name) == epoch);
    }
}

/// Number of switches that a station keeps, and number of made-up names.
const KEPT: u64 = 1_000;
const NAMES: u64 = 30_000;

/// Largest growth of memory in KiB after the limit of switches is reached. All names together used to take 327 MiB.
const GROWTH_KIB_MAX: u64 = 32 * 1_024;

#[test]
fn names_that_somebody_makes_up_take_no_more_memory_than_those_that_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let few = json!({ "switches_max": KEPT, "located_segments": 3 * KEPT });
    let station = Station::start(&server, &few);
    let reporter = Reporter::new(&server);
    // Until names are forgotten, the page may be larger than this client's limit.
    let shows = |series: &str, value: u64| {
        let line = format!("vernier_station_{series} {value}");
        let page = station.text("/metrics");
        page.is_some_and(|page| page.lines().any(|of_page| of_page == line))
    };
    let mut names_sent = 0;
    let mut send = |until: u64| {
        while names_sent < until {
            let names = (names_sent..names_sent + KEPT).map(|n| named(&format!("made-up-{n}"), 0));
            reporter.send_all(names.map(|report| Report {
                wire_switch: None,
                ..report
            }));
            names_sent += KEPT;
            wait_for("they are counted", || shows("reports_total", names_sent));
        }
        wait_for("most are forgotten", || shows("switches", KEPT));
        station.resident_kib()
    };
    let before_kib = station.resident_kib();
    let (few_kib, many_kib) = (send(NAMES / 2), send(NAMES));
    println!("{before_kib} KiB, {few_kib} with half of the names, {many_kib} with {NAMES}");
    assert!(
        many_kib <= few_kib + GROWTH_KIB_MAX,
        "{few_kib} KiB grew to {many_kib}"
    );
}
