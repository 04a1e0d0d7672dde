use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::config::{Config, Device};
use crate::fdb::{ReplicaEnd, fdb_rings};

const AGEING: Duration = Duration::from_mins(5);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn key(n: u64) -> StationKey {
    StationKey::new(1, 0x0200_0000_0000 + n)
}

fn master(stations_max: usize, workers: usize, ring: usize) -> (FdbMaster, Vec<ReplicaEnd>) {
    limited(stations_max, workers, ring, &[])
}

/// With a limit on stations behind these ports.
fn limited(
    stations_max: usize,
    workers: usize,
    ring: usize,
    limits: &[(usize, u32)],
) -> (FdbMaster, Vec<ReplicaEnd>) {
    let (replicas, ends) = (0..workers).map(|_| fdb_rings(ring, ring)).unzip();
    let mut replicas: Vec<ReplicaEnd> = replicas;
    let mut settings = FdbSettings::new(stations_max, AGEING);
    settings.statics = vec![(key(99), PortIndex(3))];
    for &(port, most) in limits {
        settings.limits[port] = most;
    }
    let mut master = FdbMaster::new(settings, ends);
    master.poll(at(0));
    for replica in &mut replicas {
        assert_eq!(deltas(replica), [FdbDelta::Restart]);
    }
    (master, replicas)
}

fn deltas(replica: &mut ReplicaEnd) -> Vec<FdbDelta> {
    std::iter::from_fn(|| replica.next_delta()).collect()
}

fn learn(n: u64, port: u8) -> FdbDelta {
    FdbDelta::Learn {
        station: key(n),
        port: PortIndex(port),
    }
}

fn report(replica: &mut ReplicaEnd, n: u64, port: u8) -> bool {
    replica.report(Learned {
        station: key(n),
        port: PortIndex(port),
    })
}

#[test]
fn others_are_told_of_the_new_and_all_of_moves() {
    let (mut master, mut replicas) = master(10, 3, 8);
    report(&mut replicas[0], 1, 0);
    master.poll(at(1));
    assert_eq!(deltas(&mut replicas[0]), []);
    assert_eq!(deltas(&mut replicas[1]), [learn(1, 0)]);
    assert_eq!(deltas(&mut replicas[2]), [learn(1, 0)]);
    report(&mut replicas[2], 1, 2);
    master.poll(at(2));
    for replica in &mut replicas {
        assert_eq!(deltas(replica), [learn(1, 2)]);
    }
    assert_eq!(master.stats().moves, 1);
    // Reported again immediately: nothing new.
    report(&mut replicas[1], 1, 2);
    master.poll(at(3));
    assert_eq!(deltas(&mut replicas[0]), []);
    // After a while others need a refresh, lest it ages there.
    report(&mut replicas[1], 1, 2);
    master.poll(at(60));
    assert_eq!(deltas(&mut replicas[0]), [learn(1, 2)]);
    assert_eq!(deltas(&mut replicas[1]), []);
    // Static stations neither move nor are sent.
    report(&mut replicas[1], 99, 0);
    master.poll(at(61));
    assert_eq!(deltas(&mut replicas[0]), []);
    let entry = master.entries(at(100)).find(|e| e.station == key(1));
    assert_eq!(
        entry,
        Some(FdbEntry {
            station: key(1),
            port: PortIndex(2),
            is_static: false,
            worker: WorkerIndex(1),
            unreported: at(40),
        })
    );
}

#[test]
fn a_lost_link_forgets_its_stations_and_late_reports_of_them() {
    let (mut master, mut replicas) = master(10, 2, 8);
    report(&mut replicas[0], 1, 0);
    report(&mut replicas[0], 2, 1);
    master.set_link(PortIndex(1), false);
    master.poll(at(1));
    let down = FdbDelta::Link {
        port: PortIndex(1),
        is_up: false,
    };
    assert_eq!(
        deltas(&mut replicas[1]),
        [down, FdbDelta::Flush(PortIndex(1)), learn(1, 0)]
    );
    assert_eq!(master.len(), 2, "the static one and station 1");
    master.set_link(PortIndex(1), true);
    report(&mut replicas[0], 2, 1);
    master.poll(at(2));
    let up = FdbDelta::Link {
        port: PortIndex(1),
        is_up: true,
    };
    assert_eq!(deltas(&mut replicas[1]), [up, learn(2, 1)]);
    assert!(master.forget(key(2), at(3)));
    assert!(!master.forget(key(99), at(3)), "static");
    master.poll(at(3));
    assert_eq!(deltas(&mut replicas[1]), [FdbDelta::Forget(key(2))]);
}

#[test]
fn stations_age_and_are_bounded() {
    let (mut master, mut replicas) = master(3, 1, 8);
    for n in 1..=5 {
        report(&mut replicas[0], n, 0);
    }
    master.poll(at(1));
    assert_eq!((master.len(), master.stats().overflows), (3, 3));
    master.poll(at(376));
    assert_eq!(master.len(), 3);
    master.poll(at(377));
    assert_eq!(master.len(), 1, "what is static stays");
}

#[test]
fn a_worker_that_does_not_listen_is_told_everything_anew() {
    let (mut master, mut replicas) = master(4, 2, 4);
    // Stations come and go while worker 1 is away: its queue stays bounded.
    for round in 0..100 {
        for n in 0..3 {
            report(&mut replicas[0], 1000 + 3 * round + n, 0);
        }
        master.poll(at(round));
        deltas(&mut replicas[0]);
        for n in 0..3 {
            assert!(master.forget(key(1000 + 3 * round + n), at(round)));
        }
        assert!(master.workers[1].queue.len() <= 8);
    }
    assert!(master.stats().restarts > 0);
    report(&mut replicas[0], 50, 2);
    let mut heard = Vec::new();
    for _ in 0..10 {
        master.poll(at(100));
        heard.extend(deltas(&mut replicas[1]));
    }
    assert!(heard.contains(&learn(50, 2)));
}

#[test]
fn another_configuration_keeps_what_was_learnt_behind_ports_that_stay() {
    let config = |stations: &str| {
        let text = format!(
            r#"{{ "ports": [{{ "name": "a", "device": "sink" }}, {{ "name": "b", "device": "sink" }}],
                 "forwarding": {{ "mode": "bridge", "fdb_entries": 3, "stations": [{stations}] }} }}"#
        );
        Config::parse(&text, "v.json").unwrap()
    };
    let (mut replica, end) = fdb_rings(8, 8);
    let fixed = r#"{ "address": "02:00:00:00:00:63", "port": "b" }"#;
    let mut master = FdbMaster::new(config(fixed).fdb_settings(), vec![end]);
    for (n, port) in [(1, 0), (2, 1)] {
        let station = StationKey::new(0, 0x0200_0000_0000 + n);
        replica.report(Learned {
            station,
            port: PortIndex(port),
        });
    }
    master.poll(at(1));
    let mut next = config(r#"{ "address": "02:00:00:00:00:01", "port": "a" }"#);
    next.ports[1].device = Device::Absent;
    master.reconfigure(next.fdb_settings());
    let entries: Vec<_> = master
        .entries(at(1))
        .map(|e| (e.station, e.is_static))
        .collect();
    assert_eq!(entries, [(StationKey::new(0, 0x0200_0000_0001), true)]);
}

/// The simplest replica: it learns stations, reports changes and earlier reports that found no room, and applies
/// updates.
struct Naive {
    end: ReplicaEnd,
    stations: HashMap<StationKey, PortIndex>,
    unsaid: HashSet<StationKey>,
}

impl Naive {
    fn see(&mut self, station: StationKey, port: PortIndex, is_refresh: bool) {
        let is_new = self.stations.insert(station, port) != Some(port);
        if is_new || is_refresh || self.unsaid.contains(&station) {
            if self.end.report(Learned { station, port }) {
                self.unsaid.remove(&station);
            } else {
                self.unsaid.insert(station);
            }
        }
    }

    fn apply_commands(&mut self) {
        while let Some(delta) = self.end.next_delta() {
            match delta {
                FdbDelta::Learn { station, port } => {
                    self.unsaid.remove(&station);
                    self.stations.insert(station, port);
                }
                FdbDelta::Forget(station) => {
                    self.stations.remove(&station);
                }
                FdbDelta::Flush(port) => self.stations.retain(|_, p| *p != port),
                FdbDelta::Restart => self.stations.clear(),
                FdbDelta::Link { .. } => {}
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Event {
    Frame {
        worker: usize,
        station: u64,
        port: PortIndex,
    },
    Apply(usize),
    Poll,
    Flush(PortIndex),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => (0..3usize, 0..6u64, 0..4u8).prop_map(|(worker, station, port)| Event::Frame {
            worker,
            station,
            port: PortIndex(port),
        }),
        3 => (0..3usize).prop_map(Event::Apply),
        2 => Just(Event::Poll),
        1 => (0..4u8).prop_map(|port| Event::Flush(PortIndex(port))),
    ];
    prop::collection::vec(event, 1..200)
}

proptest! {
    /// Whatever the order of frames, polls and deltas, and however few find room in the rings: once
    /// stations stay where they are, all replicas agree with the master and with the truth.
    #[test]
    fn replicas_agree_once_it_is_quiet(events in events(), ring in 1usize..6) {
        let (mut master, ends) = master(8, 3, ring);
        let naive = |end| Naive {
            end,
            stations: HashMap::new(),
            unsaid: HashSet::new(),
        };
        let mut replicas: Vec<Naive> = ends.into_iter().map(naive).collect();
        let mut last = HashMap::new();
        for event in events {
            match event {
                Event::Frame { worker, station, port } => {
                    replicas[worker].see(key(station), port, false);
                    last.insert(key(station), (worker, port));
                }
                Event::Apply(worker) => replicas[worker].apply_commands(),
                Event::Poll => master.poll(at(1)),
                Event::Flush(port) => master.flush(port),
            }
            let queued = master.workers.iter().map(|line| line.queue.len()).max();
            prop_assert!(queued <= Some(16));
        }
        // Stations continue to send, each from its last port; replicas report this a few times per ageing time.
        for round in 1..20 {
            for (&station, &(worker, port)) in &last {
                replicas[worker].see(station, port, true);
                master.poll(at(40 * round));
                replicas.iter_mut().for_each(Naive::apply_commands);
            }
        }
        for _ in 0..50 {
            master.poll(at(800));
            replicas.iter_mut().for_each(Naive::apply_commands);
        }
        let known: HashMap<_, _> = master
            .entries(at(800))
            .filter(|entry| !entry.is_static)
            .map(|entry| (entry.station, entry.port))
            .collect();
        prop_assert_eq!(known.len(), last.len().min(7), "as many as there is room for");
        for (station, port) in &known {
            prop_assert_eq!(*port, last[station].1, "where it was seen last");
            for replica in &replicas {
                prop_assert_eq!(replica.stations.get(station), Some(port));
            }
        }
    }
}

#[test]
fn the_port_that_has_most_makes_room_for_one_that_has_fewer() {
    let (mut master, mut replicas) = master(4, 2, 64);
    for n in 1..=9 {
        report(&mut replicas[0], n, 0);
    }
    master.poll(at(1));
    assert_eq!(
        (master.len(), master.stats().overflows),
        (4, 6),
        "one is static"
    );
    deltas(&mut replicas[1]);
    report(&mut replicas[1], 20, 1);
    master.poll(at(2));
    assert_eq!(
        deltas(&mut replicas[0]),
        [FdbDelta::Forget(key(1)), learn(20, 1)]
    );
    assert_eq!(deltas(&mut replicas[1]), [FdbDelta::Forget(key(1))]);
    // Two against one is as fair as it gets.
    report(&mut replicas[1], 21, 1);
    master.poll(at(3));
    assert_eq!((master.len(), master.stats().evictions), (4, 1));
}

#[test]
fn a_port_has_no_more_stations_than_it_may() {
    let (mut master, mut replicas) = limited(10, 2, 64, &[(0, 2)]);
    for n in 1..=3 {
        report(&mut replicas[0], n, 0);
    }
    report(&mut replicas[1], 4, 1);
    report(&mut replicas[1], 4, 0);
    master.poll(at(1));
    let forget = |n| FdbDelta::Forget(key(n));
    assert_eq!(deltas(&mut replicas[0]), [forget(3), forget(4)]);
    assert_eq!(
        deltas(&mut replicas[1]),
        [learn(1, 0), learn(2, 0), forget(4)]
    );
    assert_eq!(
        (master.len(), master.stats().limited),
        (3, 2),
        "one is static"
    );
}

/// Stations by port, in the order in which they appeared there.
#[derive(Debug, Default)]
struct Model(Vec<(u64, u8)>);

impl Model {
    const ROOM: usize = 9;
    const LIMITED: (u8, usize) = (3, 2);

    fn behind(&self, port: u8) -> usize {
        self.0.iter().filter(|entry| entry.1 == port).count()
    }

    fn hear(&mut self, n: u64, port: u8) {
        let known = self.0.iter().position(|entry| entry.0 == n);
        if known.is_some_and(|place| self.0[place].1 == port) {
            return;
        }
        if let Some(place) = known {
            self.0.remove(place);
        }
        if port == Self::LIMITED.0 && self.behind(port) >= Self::LIMITED.1 {
            return;
        }
        if self.0.len() >= Self::ROOM {
            let most = (0..4).map(|port| self.behind(port)).max().unwrap();
            let busiest = (0..4)
                .rev()
                .find(|&port| self.behind(port) == most)
                .unwrap();
            if most <= self.behind(port) + 1 {
                return;
            }
            let oldest = self.0.iter().position(|entry| entry.1 == busiest).unwrap();
            self.0.remove(oldest);
        }
        self.0.push((n, port));
    }
}

proptest! {
    #[test]
    fn room_is_shared_out_as_a_naive_model_does(
        events in proptest::collection::vec((0..30u64, 0..4u8, 0..20u8), 1..400),
    ) {
        let limits = [(Model::LIMITED.0.into(), 2)];
        let (mut master, mut replicas) = limited(Model::ROOM + 1, 2, 64, &limits);
        let mut naive = Model::default();
        for (n, port, what) in events {
            match what {
                0 => {
                    master.flush(PortIndex(port));
                    naive.0.retain(|entry| entry.1 != port);
                }
                1 => {
                    master.forget(key(n), at(1));
                    naive.0.retain(|entry| entry.0 != n);
                }
                _ => {
                    report(&mut replicas[usize::from(what) % 2], n, port);
                    naive.hear(n, port);
                }
            }
            master.poll(at(1));
            for replica in &mut replicas {
                deltas(replica);
            }
            let learnt = master.entries(at(1)).filter(|entry| !entry.is_static);
            let learnt: HashSet<_> = learnt.map(|entry| (entry.station, entry.port.0)).collect();
            let expected: HashSet<_> = naive.0.iter().map(|&(n, port)| (key(n), port)).collect();
            prop_assert_eq!(learnt, expected);
        }
    }
}
