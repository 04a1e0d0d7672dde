use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use measure::packet::Hasher;
use measure::time::{Epoch, EpochSchedule, Ticks};
use parking_lot::Mutex;
use serde_json::json;
use wire::frame::Kind;

use super::*;
use crate::core::{ControlCore, Setup};
use crate::data_plane::Event;
use contract::change::{Change, CoreStatus};
use contract::counters::{Rejection, WireCounters, WorkerCounters};
use contract::handover::{WorkerEnd, handover};
use contract::ids::{GenerationId, PortIndex};
use contract::wire::clock::SharedLine;
use contract::wire::handover::{WireWorkerEnd, wire_handover};
use records::snapshot::{Snapshot, WireSegment};

/// A counter of nanoseconds, changes that it gives, and the core's answers.
#[derive(Clone)]
struct RealTime {
    began: Instant,
    changes: Arc<Mutex<Vec<Change>>>,
    answers: Arc<Mutex<Vec<Result<(), ChangeError>>>>,
}

impl DataPlane for RealTime {
    fn now(&mut self) -> Ticks {
        Ticks(u64::try_from(self.began.elapsed().as_nanos()).unwrap() + 1_000_000_000)
    }

    fn poll(&mut self, _: CoreStatus) -> Vec<Event> {
        let changes = std::mem::take(&mut *self.changes.lock());
        changes
            .into_iter()
            .map(|one| Event::Change(Box::new(one)))
            .collect()
    }

    fn answer(&mut self, answer: Result<(), ChangeError>) {
        self.answers.lock().push(answer);
    }
}

/// A switch with a wire at port 0, whose worker the test plays.
struct Switch {
    core: ControlCore<'static>,
    data_plane: RealTime,
    config: Config,
    line: Arc<SharedLine>,
    counters: Arc<WireCounters>,
    wire: WireWorkerEnd,
    ends: Vec<WorkerEnd>,
}

fn config(switch: u32, key: &std::path::Path) -> Config {
    let text = json!({
        "ports": [
            { "name": "trunk", "device": "net_ring0", "wire": { "capacity_bps": 100_000_000 } },
            { "name": "lan", "device": "net_ring1" },
        ],
        "forwarding": { "mode": "bridge" },
        "measurement": { "hash_seed": "000102030405060708090a0b0c0d0e0f", "interval_ms": 1_000 },
        "wire": {
            "switch": switch,
            "keys": [{ "id": 1, "file": key }],
            "clock": { "error_ns": 500 },
        },
        "workers": [{}],
    });
    Config::parse(&text.to_string(), "v.json").unwrap()
}

fn rate() -> TickRate {
    TickRate::from_hz(1_000_000_000)
}

/// A generation, with a wire if `wire` has its counters.
fn change(
    config: &Config,
    number: u32,
    line: &Arc<SharedLine>,
    wire: Option<&Arc<WireCounters>>,
) -> (Change, Option<WireWorkerEnd>, Vec<WorkerEnd>) {
    let layout = config.shard_layout(rate()).unwrap();
    let (worker, end) = handover(&layout);
    let (wire, wires) = match wire {
        Some(counters) => {
            let layout = config.wire_layout(0).unwrap();
            let (worker, end) = wire_handover(&layout, Arc::clone(line), Arc::clone(counters));
            (Some(worker), vec![(PortIndex(0), end)])
        }
        None => (None, Vec::new()),
    };
    let change = Change {
        number: GenerationId(number),
        from: Epoch(0),
        config: config.clone(),
        layout,
        ends: vec![Some(end)],
        wires,
        keys: config.read_wire_keys().unwrap_or_default(),
    };
    (change, wire, vec![worker])
}

impl Switch {
    fn new(number: u32, key: &std::path::Path) -> Self {
        Self::of(config(number, key))
    }

    fn of(config: Config) -> Self {
        let (line, counters) = (Arc::<SharedLine>::default(), Arc::default());
        let (first, wire, ends) = change(&config, 0, &line, Some(&counters));
        let setup = Setup {
            rate: rate(),
            schedule: EpochSchedule::new(Ticks(0), 1_000_000_000, 100_000_000),
            hasher: Hasher::new([7; 16]),
            counters: vec![Arc::new(WorkerCounters::new(2))],
            line: Arc::clone(&line),
            first,
        };
        let data_plane = RealTime {
            began: Instant::now(),
            changes: Arc::default(),
            answers: Arc::default(),
        };
        Self {
            core: ControlCore::new(setup, data_plane.clone()).unwrap(),
            data_plane,
            config,
            line,
            counters,
            wire: wire.unwrap(),
            ends,
        }
    }

    fn change(&mut self, config: &Config, number: u32, counters: Option<&Arc<WireCounters>>) {
        let (change, wire, ends) = change(config, number, &self.line, counters);
        self.data_plane.changes.lock().push(change);
        self.core.poll();
        assert_eq!(self.answers(), [Ok(())]);
        if let Some(wire) = wire {
            self.wire = wire;
        }
        // The worker has left the old generation.
        self.ends = ends;
        self.core.poll();
    }

    fn answers(&self) -> Vec<Result<(), ChangeError>> {
        std::mem::take(&mut *self.data_plane.answers.lock())
    }

    /// Takes the next frame to send.
    fn sent(&mut self) -> Option<Vec<u8>> {
        let frame = self.wire.to_send()?.frame().to_vec();
        self.wire.sent();
        let kind = Kind::Hello;
        self.counters.sent[kind as usize].add(1);
        self.counters.sent_bytes.add(frame.len() as u64);
        Some(frame)
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        self.core.publish();
        self.core.published().read()
    }

    /// Polls until these words about the session are in the log.
    fn poll_until_said(&mut self, words: &str) {
        let began = Instant::now();
        loop {
            self.core.poll();
            self.snapshot();
            let logged = &self.core.wires.ports[0].session.logged;
            if logged.contains(words) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{logged:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn key() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "00112233445566778899aabbccddeeff\n").unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
    file
}

/// Polls both, and carries frames between them, until `is_done`.
fn run(one: &mut Switch, other: &mut Switch, is_done: impl Fn(&Snapshot, &Snapshot) -> bool) {
    let began = Instant::now();
    loop {
        one.core.poll();
        other.core.poll();
        for _ in 0..64 {
            let (a, b) = (one.sent(), other.sent());
            if let Some(frame) = a.as_ref() {
                assert!(other.wire.hear(frame, Kind::Report, 0));
            }
            if let Some(frame) = b.as_ref() {
                assert!(one.wire.hear(frame, Kind::Report, 0));
            }
            if a.is_none() && b.is_none() {
                break;
            }
        }
        let (a, b) = (one.snapshot(), other.snapshot());
        if is_done(&a, &b) {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{:#?} {:#?}",
            a.wires,
            b.wires
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn session(snapshot: &Snapshot) -> &str {
    &snapshot.wires[0].session
}

#[test]
fn two_switches_find_each_other_and_say_so() {
    let key = key();
    let (mut one, mut other) = (Switch::new(1, key.path()), Switch::new(2, key.path()));
    let first = one.snapshot();
    assert_eq!(first.wires[0].port, "trunk");
    assert_eq!(session(&first), "waiting");
    let names: Vec<String> = first.wires[0]
        .segments
        .iter()
        .map(WireSegment::name)
        .collect();
    assert_eq!(names, ["trunk>trunk:peer", "trunk:peer>trunk"]);
    run(&mut one, &mut other, |a, b| {
        [a, b].map(session) == ["established"; 2]
    });
    let (a, b) = (one.snapshot(), other.snapshot());
    assert_eq!(a.wires[0].peer.as_ref().unwrap().switch, 2);
    assert_eq!(b.wires[0].peer.as_ref().unwrap().switch, 1);
    let clock = a.wire_clock.as_ref().unwrap();
    assert_eq!(clock.state, "locked");
    assert!(clock.error_ns >= 500.0);
    one.poll_until_said("the wire measures to port trunk of switch 2");
    let share_bps = a.wires[0].share_bps;
    assert!((share_bps - 500_000.0).abs() < 1.0, "{share_bps}");
}

#[test]
fn the_log_says_what_a_wire_waits_for() {
    let key = key();
    let mut one = Switch::new(1, key.path());
    one.snapshot();
    assert_eq!(
        one.core.wires.ports[0].session.logged, "",
        "it may be over in a second"
    );
    one.poll_until_said("no control frame has arrived yet");
    one.counters.rejected[Rejection::Tag as usize].add(1);
    one.poll_until_said("control frames arrive, but are rejected");
    let mut config = config(1, key.path());
    config.wire.as_mut().unwrap().clock.error_ns = None;
    Switch::of(config).poll_until_said("until this clock is synchronised");
}

#[test]
fn a_peer_of_another_protocol_is_refused_by_a_sentence_with_both_versions() {
    let key = key();
    let (mut one, mut other) = (Switch::new(1, key.path()), Switch::new(2, key.path()));
    let hear = |switch: &Switch| {
        switch.counters.rejected[Rejection::Version as usize].add(1);
        switch.counters.other_version.set(3);
    };
    let mismatch = |snapshot: &Snapshot| snapshot.wires[0].mismatch.clone();
    one.core.poll();
    assert_eq!(mismatch(&one.snapshot()), None);
    hear(&one);
    let shown = one.snapshot();
    assert_eq!(session(&shown), "waiting");
    let words = mismatch(&shown).unwrap();
    assert_eq!(
        words,
        "the other end sends control frames of version 3, this switch has version 2: update the older one"
    );
    // With a peer of this version, such frames are only counted.
    run(&mut one, &mut other, |a, b| {
        [a, b].map(session) == ["established"; 2]
    });
    hear(&one);
    let shown = one.snapshot();
    assert_eq!(mismatch(&shown), None);
    assert_eq!(shown.wires[0].peer.as_ref().unwrap().protocol, "2.1");
    let rejected = &shown.wires[0].total.disbelieved_frames;
    let of_version = rejected.iter().find(|one| one.label == "version");
    assert_eq!(of_version.unwrap().packets, 2);
}

#[test]
fn counts_go_on_when_a_wire_changes_and_when_it_comes_back() {
    let key = key();
    let (mut one, mut other) = (Switch::new(1, key.path()), Switch::new(2, key.path()));
    run(&mut one, &mut other, |a, b| {
        [a, b].map(session) == ["established"; 2]
    });
    let count = |snapshot: &Snapshot, label: &str| {
        let total = &snapshot.wires[0].total;
        let mut all = total.events.iter().chain(&total.sent_frames);
        all.find(|one| one.label == label).unwrap().packets
    };
    let before = one.snapshot();
    assert_eq!(count(&before, "session_begun"), 1);
    let hellos = count(&before, "hello");
    assert!(hellos > 0);

    // Other sizes, with separate counters.
    let mut config = one.config.clone();
    config.ports[0].wire.as_mut().unwrap().share = 0.01;
    one.change(&config, 1, Some(&Arc::default()));
    let changed = one.snapshot();
    assert_eq!(count(&changed, "hello"), hellos);
    assert_eq!(count(&changed, "session_begun"), 1);

    // Gone, and back.
    let mut without = config.clone();
    without.ports[0].wire = None;
    one.change(&without, 2, None);
    let gone = one.snapshot();
    assert!(gone.wires.is_empty() && gone.wire_clock.is_none());
    one.change(&config, 3, Some(&Arc::default()));
    let back = one.snapshot();
    assert_eq!(count(&back, "hello"), hellos);
    assert_eq!(count(&back, "session_begun"), 1);
}

#[test]
fn a_change_whose_keys_were_not_read_is_refused_and_changes_nothing() {
    let key = key();
    let mut one = Switch::new(1, key.path());
    fs::set_permissions(key.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let (change, _, _) = change(&one.config, 1, &one.line, Some(&one.counters));
    one.data_plane.changes.lock().push(change);
    one.core.poll();
    let answers = one.answers();
    let [Err(error)] = &answers[..] else {
        panic!("{answers:?}");
    };
    let error = error.to_string();
    assert!(
        error.starts_with("the wire of port 0: wire.keys[0].file"),
        "{error}"
    );
    assert_eq!(one.snapshot().generation, 0);
    assert_eq!(one.snapshot().wires.len(), 1);
}

fn words(at_least_ns: Option<f64>, at_most_ns: Option<f64>) -> Option<String> {
    contradiction(&OffsetView {
        bounds: wire::OffsetBounds {
            at_least_ns,
            at_most_ns,
        },
        error_ns: 200.0,
    })
}

#[test]
fn a_contradiction_says_by_how_much_and_that_it_is_not_known_whose_clock_is_wrong() {
    assert_eq!(words(None, None), None);
    assert_eq!(words(Some(-20_000.0), Some(25_000.0)), None);
    assert_eq!(words(Some(200.0), Some(-200.0)), None);
    let ahead = words(Some(950_000.0), Some(1_040_000.0)).unwrap();
    assert_eq!(
        ahead,
        "by the least delays the other end's clock is ahead by 950 us to 1.04 ms, but both clocks together claim an error \
         of 200 ns: at least one of them is wrong, and the delays of both directions with it. Two switches cannot tell \
         which of their clocks is wrong: compare each with a third one (`chronyc tracking`, `pmc`)"
    );
    let behind = words(Some(-1_040_000.0), Some(-950_000.0)).unwrap();
    assert!(behind.contains("behind by 950 us to 1.04 ms"), "{behind}");
    let one_way = words(Some(950_000.0), None).unwrap();
    assert!(one_way.contains("ahead by 950 us or more"), "{one_way}");
    let other_way = words(None, Some(-950_000.0)).unwrap();
    assert!(
        other_way.contains("behind by 950 us or more"),
        "{other_way}"
    );
}
