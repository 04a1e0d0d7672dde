use std::task::{Context, Waker};

use prost::Message;
use report::msp::Segment;

use super::*;
use crate::simulated::Server;

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

/// Owns a partition until there is nothing to do; whether it did not fail.
fn work_off(server: &Server, partition: u16, work: &Work) -> bool {
    // Timers are set, and never fire.
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

/// Two switches of one partition.
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
    // The server was given a small `max_payload` since then.
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
        // Under its own subject in the name of the other.
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
