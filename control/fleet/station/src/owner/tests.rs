use std::task::{Context, Waker};

use contract::config::Nats;
use parking_lot::Condvar;
use prost::Message;
use report::connection::Connection;
use report::msp::Segment;
use testkit::nats::NatsServer;
use tokio::sync::watch;

use super::*;
use crate::Station;
use crate::members::ALIVE;
use crate::settings::Settings;
use crate::simulated::Server;

/// Incarnations whose reports trigger faults that no known report triggers: a panic, and endless work.
const PANICS: u64 = 1;
const HOLDS: u64 = 2;

/// Whether a report is held, and whether it is released.
static HELD: (Mutex<[bool; 2]>, Condvar) = (Mutex::new([false; 2]), Condvar::new());

pub(super) fn befall(report: &Report) {
    assert!(report.incarnation != PANICS, "a fault of this program");
    if report.incarnation == HOLDS {
        let mut state = HELD.0.lock();
        state[0] = true;
        HELD.1.notify_all();
        HELD.1.wait_while(&mut state, |state| !state[1]);
    }
}

const BEGIN_NS: u64 = 1_700_000_000_000_000_000;

fn report(switch: &str, epoch: u64, segments: u32) -> Vec<u8> {
    let segment = |from| Segment {
        from,
        packets: 1,
        samples: 1,
        ..Segment::default()
    };
    let report = Report {
        switch: switch.to_owned(),
        epoch,
        epochs: 1,
        start_unix_ns: BEGIN_NS,
        names: (0..segments).map(|n| format!("port-{n}")).collect(),
        segments: (0..segments).map(segment).collect(),
        ..Report::default()
    };
    report.encode_to_vec()
}

/// Owns a partition until no work is left. Returns whether that succeeded.
fn work_off(server: &Server, partition: u16, work: &Work) -> bool {
    // Timers are set, but never fire.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let room = Arc::new(Room::new(1_000));
    let mut owned = std::pin::pin!(own(server, partition, work, &room));
    let mut context = Context::from_waker(Waker::noop());
    owned.as_mut().poll(&mut context).is_pending()
}

fn stored(server: &Server, partition: u16) -> BTreeMap<String, Entry> {
    let values =
        futures_util::FutureExt::now_or_never(server.last(STATES, format!("{KEY}{partition}.>")));
    values::entries(values.unwrap().unwrap())
}

/// Returns the names of two switches of one partition.
fn names() -> [String; 2] {
    let names = (0..).map(|n| format!("sw{n}"));
    let mut names = names.filter(|name| report::subject::partition(name) == 7);
    [(); 2].map(|()| names.next().unwrap())
}

#[test]
fn a_state_that_the_server_refuses_is_set_aside_and_the_others_go_on() {
    let server = Server::new(1 << 20, BEGIN_NS);
    let [honest, large] = names();
    let work = Work::default();
    let send = |switch: &str, epoch, segments| {
        let subject = report::subject::of_switch(switch);
        assert!(server.publish(subject, report(switch, epoch, segments)));
    };
    for epoch in 0..3 {
        send(&large, epoch, 8_000);
        send(&honest, epoch, 2);
    }
    // Since then the server's `max_payload` has been lowered.
    server.lock().bytes_max = 1 << 10;
    assert!(work_off(&server, 7, &work));
    assert_eq!(server.waiting(), 0, "nobody waits");
    let states = stored(&server, 7);
    assert_eq!(
        (
            states[&honest].state.reports,
            states[&honest].state.set_aside
        ),
        (3, 0)
    );
    assert!(work.set_aside.load(Ordering::Relaxed) > 0);

    server.lock().bytes_max = 1 << 20;
    send(&large, 3, 8_000);
    send(&honest, 3, 2);
    assert!(work_off(&server, 7, &work));
    let states = stored(&server, 7);
    assert_eq!(states[&honest].state.reports, 4);
    assert_eq!(states[&large].state.segments.len(), 8_000);
}

#[test]
fn messages_that_are_no_reports_cost_only_themselves() {
    let server = Server::new(1 << 20, BEGIN_NS);
    let [honest, liar] = names();
    let work = Work::default();
    let subject = report::subject::of_switch(&liar);
    for epoch in 0..5 {
        server.publish(subject.clone(), b"garbage".to_vec());
        server.publish(subject.clone(), vec![0; 900_000]);
        // A report under its own subject in the name of the other.
        server.publish(subject.clone(), report(&honest, 1_000 + epoch, 3));
        let own = report::subject::of_switch(&honest);
        server.publish(own, report(&honest, epoch, 2));
    }
    assert!(work_off(&server, 7, &work));
    assert_eq!(work.refused.load(Ordering::Relaxed), 15);
    let states = stored(&server, 7);
    let state = &states[&honest].state;
    assert_eq!(
        (states.len(), state.reports, state.missed_epochs),
        (1, 5, 0)
    );
    assert_eq!(state.segments.len(), 2);
}

#[test]
fn a_report_that_makes_the_owner_panic_is_set_aside_and_the_others_go_on() {
    let server = Server::new(1 << 20, BEGIN_NS);
    let [honest, broken] = names();
    let work = Work::default();
    let send = |switch: &str, epoch, incarnation| {
        let report = Report {
            incarnation,
            ..Report::decode(&*report(switch, epoch, 2)).unwrap()
        };
        let subject = report::subject::of_switch(switch);
        assert!(server.publish(subject, report.encode_to_vec()));
    };
    for epoch in 0..3 {
        send(&honest, epoch, 0);
        send(&broken, epoch, 0);
        if epoch == 1 {
            send(&broken, 0, PANICS);
        }
    }
    // The owner restarts, and skips the report.
    assert!(!work_off(&server, 7, &work));
    assert!(server.waiting() > 0);
    assert!(work_off(&server, 7, &work));
    assert_eq!(server.waiting(), 0, "nobody waits");
    let states = stored(&server, 7);
    for (switch, set_aside) in [(&honest, 0), (&broken, 1)] {
        let state = &states[switch].state;
        let counted = (state.reports, state.missed_epochs, state.set_aside);
        assert_eq!(counted, (3, 0, set_aside), "{switch}");
    }
    assert!(states[&broken].state.set_aside_why.contains("panicked"));
    assert_eq!(work.set_aside.load(Ordering::Relaxed), 1);
    // The next station adds the reports of the last hour to the histories, and skips this one, too.
    let next = Work::default();
    send(&broken, 3, 0);
    assert!(!work_off(&server, 7, &next));
    assert!(work_off(&server, 7, &next));
    let state = &stored(&server, 7)[&broken].state;
    assert_eq!((state.reports, state.set_aside), (4, 1));
    assert_eq!(server.waiting(), 0, "nobody waits");
}

#[test]
fn a_switch_that_was_evicted_is_not_counted_again_by_the_next_owner() {
    let server = Server::new(1 << 20, BEGIN_NS);
    let [kept, evicted] = names();
    let send = |switch: &str, epoch| {
        let subject = report::subject::of_switch(switch);
        assert!(server.publish(subject, report(switch, epoch, 2)));
    };
    for epoch in 0..3 {
        send(&kept, epoch);
        send(&evicted, epoch);
    }
    assert!(work_off(&server, 7, &Work::default()));
    server.evict(&values::key(&evicted));

    // There is no history yet, so that all reports are read again, by an owner that ends at once and by the next.
    let begin = Again::Since(UNIX_EPOCH);
    let ended = futures_util::FutureExt::now_or_never(server.take_over(7, begin));
    drop(ended.unwrap().unwrap());
    let next = Work::default();
    assert!(work_off(&server, 7, &next));
    let counted = [&next.reports, &next.read_again].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counted, [0, 6]);
    assert!(!stored(&server, 7).contains_key(&evicted));
    // The evicted switch is counted from its next report on.
    send(&evicted, 3);
    assert!(work_off(&server, 7, &next));
    assert_eq!(next.reports.load(Ordering::Relaxed), 1);
    assert_eq!(stored(&server, 7)[&evicted].state.reports, 1);
}

#[test]
fn heartbeats_go_on_while_a_report_takes_long() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let settings = Settings::of(Nats::to(server.url()));
    let (ending, stopped) = watch::channel(false);
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    // On one thread, as in the program.
    let station = std::thread::spawn({
        let settings = settings.clone();
        move || {
            let station = Station::new(&settings).unwrap();
            let connection = Connection::of(&settings.nats).unwrap();
            runtime().block_on(station.run(&connection, &settings, stopped));
        }
    });
    let held = Report {
        incarnation: HOLDS,
        ..Report::decode(&*report("busy", 0, 2)).unwrap()
    };
    runtime().block_on(async {
        let connection = Connection::of(&settings.nats).unwrap();
        let client = connection.connect("test", |_| ()).await.unwrap();
        let mut beats = client.subscribe(ALIVE).await.unwrap();
        beats.next().await.unwrap();
        let context = async_nats::jetstream::new(client);
        let subject = report::subject::of_switch("busy");
        let sent = context.publish(subject, held.encode_to_vec().into());
        sent.await.unwrap().await.unwrap();
        let patience = Duration::from_secs(40);
        let taken = tokio::task::spawn_blocking(move || {
            let mut state = HELD.0.lock();
            let waited = HELD
                .1
                .wait_while_for(&mut state, |state| !state[0], patience);
            !waited.timed_out()
        });
        assert!(taken.await.unwrap(), "nobody took the report up");
        while futures_util::FutureExt::now_or_never(beats.next()).is_some() {}
        for beat in 0..10 {
            let next = tokio::time::timeout(patience, beats.next()).await;
            assert!(next.is_ok(), "there was no beat after {beat}");
        }
    });
    HELD.0.lock()[1] = true;
    HELD.1.notify_all();
    ending.send_replace(true);
    station.join().unwrap();
}
