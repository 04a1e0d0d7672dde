//! JetStream that is lost, deleted or full, and histories that pass from one owner to the next.

use std::sync::Arc;

use async_nats::Client;
use contract::config::Nats;
use report::connection::Connection;
use report::msp::{Report, Segment};
use serde_json::json;
use station::histories::{Histories, Room, delete, load, store};
use station::settings::Settings;
use station::state::State;
use station::store::Store;
use testkit::nats::NatsServer;
use testkit::process::wait_for;

use crate::support::{Station, Switch, runtime};
use crate::{Reporter, chained};

/// Asserts that everything works as after a first start: new reports are counted, from zero. Epochs continue meanwhile,
/// so that a switch is not silent when its first report is counted, however late that is.
fn assert_all_works(stations: &[&Station], switches: &mut [Switch], names: &[&str]) {
    for station in stations {
        wait_for("the station is ready", || station.readiness().0 == 200);
    }
    let next = switches[0].epochs();
    for station in stations {
        wait_for("what is reported is counted", || {
            switches.iter_mut().for_each(Switch::close);
            names.iter().all(|name| {
                station.switch(name).is_some_and(|switch| {
                    switch["epoch"].as_u64() >= Some(next)
                        && switch["silent_since_unix_s"].is_null()
                })
            })
        });
    }
}

#[test]
fn a_store_that_is_lost_is_made_again_by_running_stations() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = NatsServer::start(folder.path(), "").unwrap();
    let [first, second] = [(); 2].map(|()| Station::start(&server, &json!({})));
    let names = ["a", "b", "c"];
    let mut switches = names.map(|name| Switch::start(&server, name, 100));
    for _ in 0..5 {
        switches.iter_mut().for_each(Switch::close);
        switches.iter().for_each(Switch::settle);
    }
    let mut gone = vec![Switch::start(&server, "gone", 100)];
    gone[0].close();
    let all = ["a", "b", "c", "gone"];
    wait_for("all are counted", || {
        all.iter()
            .all(|name| first.reports(name) > 0 && second.reports(name) > 0)
    });
    drop(gone);

    server.kill();
    for station in [&first, &second] {
        wait_for("it says that it is not connected", || {
            let (status, words) = station.readiness();
            status == 503 && words.contains("the connection to NATS is lost")
        });
    }
    std::fs::remove_dir_all(folder.path().join("store")).unwrap();
    server.run("").unwrap();
    assert_all_works(&[&first, &second], &mut switches, &names);
    for station in [&first, &second] {
        // Every station gives the same answer, including one that starts now: the contents of the lost store are
        // unknown.
        assert_eq!(station.reports("gone"), 0);
    }
    // The same again.
    server.kill();
    std::fs::remove_dir_all(folder.path().join("store")).unwrap();
    server.run("").unwrap();
    assert_all_works(&[&first, &second], &mut switches, &names);
}

#[test]
fn streams_and_consumers_that_somebody_deletes_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let station = Station::start(&server, &json!({}));
    let mut switches = [Switch::start(&server, "a", 100)];
    switches[0].close();
    wait_for("it is counted", || station.reports("a") == 1);
    let reporter = Reporter::new(&server);
    for stream in [
        "VERNIER_REPORTS",
        "KV_vernier_switches",
        "VERNIER_HISTORY",
        "KV_vernier_located",
    ] {
        let deleted = reporter.context.delete_stream(stream);
        reporter.runtime.block_on(deleted).unwrap();
        wait_for("the stream is there again", || {
            let found = reporter.context.get_stream(stream);
            reporter.runtime.block_on(found).is_ok()
        });
        assert_all_works(&[&station], &mut switches, &["a"]);
    }
    let partition = report::subject::partition("a");
    let before = station.metric("vernier_station_takeovers_total");
    reporter.runtime.block_on(async {
        let stream = reporter
            .context
            .get_stream("VERNIER_REPORTS")
            .await
            .unwrap();
        let name = format!("partition-{partition}");
        stream.delete_consumer(&name).await.unwrap();
    });
    switches[0].close();
    station.wait_for_epoch("a", switches[0].epochs() - 1);
    assert!(station.metric("vernier_station_takeovers_total") > before);
}

/// Which of two switches has the number is decided by the station, the same way everywhere; both are named.
#[test]
fn a_number_on_wires_that_another_switch_has_is_refused_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let station = Station::start(&server, &json!({}));
    let reporter = Reporter::new(&server);
    for number in 1..=3 {
        reporter.send(&chained(number, 0));
    }
    wait_for("all are counted", || {
        ["s1", "s2", "s3"]
            .iter()
            .all(|name| station.reports(name) == 1)
    });
    let before = station.json("/api/v1/path?from=s1:west&to=s3:east");
    let mut liar = chained(9, 0);
    liar.switch = "a-liar".to_owned();
    liar.wire_switch = Some(2);
    reporter.send(&liar);
    wait_for("the liar is counted", || station.reports("a-liar") == 1);
    let chain = |path: &serde_json::Value| {
        let hops = path["paths"][0]["chain"].as_array().unwrap().iter();
        hops.map(|hop| hop["title"].clone()).collect::<Vec<_>>()
    };
    let after = station.json("/api/v1/path?from=s1:west&to=s3:east");
    assert_eq!(chain(&after), chain(&before));
    let missing = station.json("/api/v1/missing");
    let named = missing["switches"].as_array().unwrap();
    let liar = named
        .iter()
        .find(|switch| switch["switch"] == "a-liar")
        .unwrap();
    let problem = liar["problems"][0].as_str().unwrap();
    assert!(problem.contains("wire number 2 is that of s2"), "{problem}");
}

const SEGMENTS: u32 = 200;
const EPOCHS: u64 = 70;

fn report(switch: &str, epoch: u64) -> Report {
    let mut names: Vec<String> = (0..SEGMENTS).map(|port| format!("port-{port}")).collect();
    names.extend(["wan".to_owned(), "all".to_owned()]);
    let segments = (0..SEGMENTS).map(|from| Segment {
        from,
        to: SEGMENTS,
        class: SEGMENTS + 1,
        packets: 100,
        samples: 100,
        mean_ns: (1_000 + from * 7 + u32::try_from(epoch * 31 % 17).unwrap()) as f32,
        ..Segment::default()
    });
    Report {
        switch: switch.to_owned(),
        epoch,
        epochs: 1,
        start_unix_ns: 1_700_000_000_000_000_000 + epoch * 1_000_000_000,
        length_ns: 1_000_000_000,
        segments: segments.collect(),
        names,
        ..Report::default()
    }
}

/// Runs a closure with a connection to the server, and settings that name it.
fn connected(server: &NatsServer, run: impl AsyncFnOnce(Client, Settings)) {
    let nats = Nats::to(server.url());
    runtime().block_on(async {
        let connection = Connection::of(&nats).unwrap();
        let client = connection.connect("test", |_| ()).await.unwrap();
        run(client, Settings::of(nats)).await;
    });
}

#[test]
fn the_next_owner_knows_what_the_last_one_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    // All switches are in one partition.
    let switches: Vec<String> = (0..200)
        .map(|n| format!("sw{n}"))
        .filter(|name| report::subject::partition(name) == 5)
        .take(2)
        .collect();
    let room = || Arc::new(Room::new(1_000));
    let mut histories = Histories::new(room());
    let mut states = Vec::new();
    for switch in &switches {
        let mut state = State::default();
        for epoch in 0..EPOCHS {
            let report = report(switch, epoch);
            state.take(&report, report.end_unix_ns());
            histories.feed(&report, epoch + 1, report.end_unix_ns());
        }
        histories.note(&mut state);
        states.push(state);
    }
    let bytes = histories.encoded().map(|(_, _, bytes)| bytes.len()).max();
    assert!(bytes > Some(512 << 10), "more than one value: {bytes:?}");

    connected(&server, async |client, settings| {
        let bucket = Store::new(client, &settings, Arc::default());
        bucket.ensure().await.unwrap();
        let mut next = Histories::new(room());
        assert_eq!(load(&bucket, 5, &mut next).await.unwrap(), None);
        store(&bucket, &histories, 1).await.unwrap();
        store(&bucket, &histories, EPOCHS).await.unwrap();
        assert_eq!(load(&bucket, 6, &mut next).await.unwrap(), None);
        assert_eq!(load(&bucket, 5, &mut next).await.unwrap(), Some(EPOCHS));
        for mut state in states.clone() {
            let found = state.segments[7].found;
            assert!(found.is_some_and(|found| found.usual_ns.is_some()));
            for known in &mut state.segments {
                known.found = None;
            }
            next.note(&mut state);
            assert!(states.contains(&state), "{:?}", state.segments[7].found);
        }
        for switch in &switches {
            delete(&bucket, switch).await.unwrap();
        }
        let mut after = Histories::new(room());
        assert_eq!(load(&bucket, 5, &mut after).await.unwrap(), None);
    });
}

#[test]
fn where_jetstream_has_no_room_the_key_to_lower_is_named() {
    let folder = tempfile::tempdir().unwrap();
    // A later block replaces the first, including its folder.
    let store = folder.path().join("small");
    let small = format!("jetstream {{ store_dir: {store:?}, max_file_store: 4G }}");
    let server = NatsServer::start(folder.path(), &small).unwrap();
    connected(&server, async |client, mut settings| {
        let ensured = |settings: &Settings| {
            let store = Store::new(client.clone(), settings, Arc::default());
            async move { store.ensure().await }
        };
        let refused = ensured(&settings).await.unwrap_err().to_string();
        assert!(refused.contains("lower `history.mib`"), "{refused}");
        settings.history.mib = 512;
        ensured(&settings).await.unwrap();
    });
}
