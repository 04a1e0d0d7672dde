//! What an owner has learnt is in JetStream for the next one.

use std::sync::Arc;

use async_nats::Client;
use contract::config::Nats;
use report::connection::Connection;
use report::msp::{Report, Segment};
use station::histories::{Histories, Room, delete, load, store};
use station::settings::Settings;
use station::state::State;
use station::store::Store;
use testkit::nats::NatsServer;

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

/// Runs something with a connection to the server, and settings that name it.
fn connected(server: &NatsServer, run: impl AsyncFnOnce(Client, Settings)) {
    let nats = Nats::to(server.url());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let connection = Connection::of(&nats).unwrap();
        let client = connection.connect("test", |_| ()).await.unwrap();
        run(client, Settings::of(nats)).await;
    });
}

#[test]
fn the_next_owner_knows_what_the_last_one_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    // Of one partition.
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
    // A later block replaces the first, its folder too.
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
