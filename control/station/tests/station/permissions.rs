//! The permissions of examples/nats.conf: a switch can do nothing but report, and only as itself.

use std::path::{Path, PathBuf};

use async_nats::jetstream::consumer::pull;
use contract::config::{Nats, Report as Settings};
use control::published::Published;
use futures_util::StreamExt;
use prost::Message;
use records::snapshot::Snapshot;
use report::connection::Connection;
use report::sender::Sender;
use report::subject;
use serde_json::{Value, json};
use testkit::nats::NatsServer;

use crate::support::{Station, wait_for};
use crate::{chained, metric};

const USERS: [&str; 3] = ["station", "edge-1", "edge-2"];

/// A server with the example's configuration, and a file with each user's password.
fn guarded(folder: &Path) -> NatsServer {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/nats.conf");
    let mut text = std::fs::read_to_string(example).unwrap();
    // The test's server says itself where its store is.
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

/// What the audit did, as a user who may report as edge-2.
fn attack(nats: &Nats) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let evil = Connection::of(nats).unwrap();
    runtime.block_on(async {
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
        // Its own subject, another's name.
        evil.publish(subject::of_switch("edge-2"), report.encode_to_vec().into())
            .await
            .unwrap();
        "edge-2".clone_into(&mut report.switch);
        // It stays until this is stored: a connection that is closed with refusals unread takes along what the server has not
        // read yet.
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
        metric(&station, "vernier_station_partitions") == 64
    });

    // A real sender, with the example's user.
    let mut snapshot = Snapshot::example();
    "edge-1".clone_into(&mut snapshot.switch);
    let published = std::sync::Arc::new(Published::new(snapshot));
    let settings = Settings {
        nats: nats(&server, folder.path(), "edge-1"),
        top_flows: 0,
        spool_kib: 64,
    };
    let sender = Sender::of(Some(&settings)).unwrap().unwrap();
    let sender = sender.start(std::sync::Arc::clone(&published)).unwrap();
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
    assert_eq!(
        metric(&station, "vernier_station_refused_messages_total"),
        1
    );
    assert_eq!(metric(&station, "vernier_station_stations"), 1);
    assert_eq!(metric(&station, "vernier_station_partitions"), 64);
}

/// The audit's flood: the others' reports stay.
#[test]
fn a_switch_that_sends_without_end_evicts_its_own_reports_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = guarded(folder.path());
    let more =
        json!({ "nats": nats(&server, folder.path(), "station"), "messages_per_switch": 100 });
    let station = Station::start(&server, &more);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
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

/// What it may not do is known by what does not work, not by the connection.
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
    // The connection stands.
    assert_eq!(
        metric(&station, "vernier_station_connected"),
        1,
        "{reasons}"
    );
}
