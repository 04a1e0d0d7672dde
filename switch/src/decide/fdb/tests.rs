use std::collections::HashMap;

use contract::fdb::{FdbMaster, FdbSettings, MasterEnd, fdb_rings};
use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn table(stations: usize) -> Fdb {
    Fdb::new(
        stations,
        Duration::from_secs(10),
        TickRate::from_hz(SECOND),
        0x9e37_79b9_7f4a_7c15,
    )
}

fn station(n: u64) -> StationKey {
    StationKey::new(0, 0x0200_0000_0000 + n)
}

impl Fdb {
    fn see(&mut self, station: StationKey, port: u8, now: u64) {
        let fresh = self.fresh(PortIndex(port), Ticks(now));
        self.learn(station, fresh, &mut None);
    }

    fn port_of(&self, station: StationKey, now: u64) -> Option<u8> {
        let found = self.look_up(station, self.fresh(PortIndex(0), Ticks(now)));
        found.map(|port| port.0)
    }
}

#[test]
fn a_station_is_forgotten_after_its_age() {
    let mut fdb = table(64);
    fdb.see(station(1), 3, 0);
    assert_eq!(fdb.port_of(station(1), 9 * SECOND), Some(3));
    assert_eq!(fdb.port_of(station(1), 11 * SECOND), None);
    fdb.see(station(1), 3, 9 * SECOND);
    assert_eq!(fdb.port_of(station(1), 18 * SECOND), Some(3));
    let elsewhere = StationKey::new(7, 0x0200_0000_0001);
    assert_eq!(fdb.port_of(elsewhere, 9 * SECOND), None, "another VLAN");
}

#[test]
fn what_is_static_neither_ages_nor_moves_nor_is_flushed() {
    let mut fdb = table(64);
    fdb.insert_static(station(1), PortIndex(3));
    fdb.see(station(1), 5, SECOND);
    fdb.insert_learnt(station(1), PortIndex(5), Ticks(SECOND));
    fdb.forget(station(1));
    fdb.flush(PortIndex(3));
    (0..1000).for_each(|_| fdb.tick(Ticks(0)));
    assert_eq!(fdb.port_of(station(1), 1_000_000 * SECOND), Some(3));
    fdb.see(station(1), 3, 2_000_000 * SECOND);
    assert_eq!(fdb.port_of(station(1), 3_000_000 * SECOND), Some(3));
}

#[test]
fn a_flood_of_stations_stays_bounded_and_is_counted() {
    let mut fdb = table(1024);
    for n in 1..=100_000 {
        fdb.see(station(n), 0, 0);
    }
    let live = fdb.live_stations(Ticks(0));
    assert!(live <= Fdb::size_bytes(1024) / 16);
    assert_eq!(fdb.counts().overflows + live as u64, 100_000);
    // Once they have aged the table learns again.
    fdb.see(station(1_000_000), 1, 20 * SECOND);
    assert_eq!(fdb.port_of(station(1_000_000), 20 * SECOND), Some(1));
}

#[test]
fn sequential_addresses_find_room_until_the_table_is_as_full_as_asked_for() {
    let mut fdb = table(65_536);
    for n in 0..65_536 {
        fdb.see(station(n), 0, 0);
    }
    assert!(
        fdb.live_stations(Ticks(0)) > 64_000,
        "{} of 65,536",
        fdb.live_stations(Ticks(0))
    );
}

#[test]
fn a_flush_holds_at_once_and_through_256_of_them() {
    let mut fdb = table(1024);
    for n in 0..500 {
        fdb.see(station(n), u8::from(n % 2 == 0), 0);
    }
    for flushes in 1..=600 {
        fdb.flush(PortIndex(1));
        assert_eq!(fdb.port_of(station(0), 0), None, "after {flushes} flushes");
        assert_eq!(fdb.port_of(station(1), 0), Some(0));
    }
    fdb.see(station(0), 1, 0);
    assert_eq!(fdb.port_of(station(0), 0), Some(1));
    (0..1000).for_each(|_| fdb.tick(Ticks(0)));
    assert_eq!(fdb.live_stations(Ticks(0)), 251);
}

fn reports(end: MasterEnd) -> Vec<(StationKey, PortIndex)> {
    let mut master = FdbMaster::new(FdbSettings::new(100, Duration::from_mins(5)), vec![end]);
    master.poll(Duration::ZERO);
    master
        .entries(Duration::ZERO)
        .map(|entry| (entry.station, entry.port))
        .collect()
}

#[test]
fn the_new_the_moved_and_now_and_then_the_known_are_reported() {
    let (end, master) = fdb_rings(16, 16);
    let mut end = Some(end);
    let mut fdb = table(64);
    let mut said = |port, now| {
        let before = end.as_ref().map_or(0, ReplicaEnd::unheard);
        let fresh = fdb.fresh(PortIndex(port), now);
        fdb.learn(station(1), fresh, &mut end);
        end.as_ref().map_or(0, ReplicaEnd::unheard) - before
    };
    assert_eq!(said(0, Ticks(0)), 1, "new");
    assert_eq!(said(0, Ticks(SECOND)), 0);
    assert_eq!(said(1, Ticks(SECOND)), 1, "moved");
    assert_eq!(said(1, Ticks(3 * SECOND)), 0);
    assert_eq!(said(1, Ticks(4 * SECOND)), 1, "a quarter of 10 s");
    assert_eq!(said(1, Ticks(5 * SECOND)), 0);
    assert_eq!(said(1, Ticks(60 * SECOND)), 1, "it had aged");
    assert_eq!(reports(master), [(station(1), PortIndex(1))]);
}

#[test]
fn a_report_that_found_no_room_is_said_again() {
    let (end, master) = fdb_rings(1, 1);
    let mut end = Some(end);
    let mut fdb = table(64);
    for n in 1..=2 {
        let fresh = fdb.fresh(PortIndex(0), Ticks(0));
        fdb.learn(station(n), fresh, &mut end);
    }
    let mut master = FdbMaster::new(FdbSettings::new(9, Duration::from_mins(5)), vec![master]);
    master.poll(Duration::ZERO);
    assert_eq!((master.len(), master.stats().reports_lost), (1, 1));
    let fresh = fdb.fresh(PortIndex(0), Ticks(SECOND));
    fdb.learn(station(2), fresh, &mut end);
    master.poll(Duration::from_secs(1));
    assert_eq!(master.len(), 2);
}

#[derive(Debug, Clone)]
enum Step {
    See(u64, u8),
    Place(u64, u8),
    Forget(u64),
    Flush(u8),
    FlushAll,
    Tick,
    Pause(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let station = 1u64..40;
    let step = prop_oneof![
        8 => (station.clone(), 0u8..4).prop_map(|(n, port)| Step::See(n, port)),
        2 => (station.clone(), 0u8..4).prop_map(|(n, port)| Step::Place(n, port)),
        1 => station.prop_map(Step::Forget),
        1 => (0u8..4).prop_map(Step::Flush),
        1 => Just(Step::FlushAll),
        2 => Just(Step::Tick),
        4 => (0u64..3 * SECOND).prop_map(Step::Pause),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #[test]
    fn it_agrees_with_a_plain_map(steps in steps()) {
        // Forty stations in a table of 4096 places never overflow with this seed.
        let (mut fdb, mut model, mut now) = (table(4096), HashMap::new(), 0u64);
        for step in steps {
            match step {
                Step::See(n, port) => {
                    fdb.see(station(n), port, now);
                    model.insert(n, (port, now));
                }
                Step::Place(n, port) => {
                    fdb.insert_learnt(station(n), PortIndex(port), Ticks(now));
                    model.insert(n, (port, now));
                }
                Step::Forget(n) => {
                    fdb.forget(station(n));
                    model.remove(&n);
                }
                Step::Flush(port) => {
                    fdb.flush(PortIndex(port));
                    model.retain(|_, known| known.0 != port);
                }
                Step::FlushAll => {
                    fdb.flush_all();
                    model.clear();
                }
                Step::Tick => fdb.tick(Ticks(0)),
                Step::Pause(ticks) => now += ticks,
            }
            let limit = (10 * SECOND) >> AGE_SHIFT;
            model.retain(|_, known| (now >> AGE_SHIFT) - (known.1 >> AGE_SHIFT) <= limit);
            for n in 1..40 {
                let expected = model.get(&n).map(|&(port, _)| port);
                prop_assert_eq!(fdb.port_of(station(n), now), expected);
            }
            prop_assert_eq!(fdb.live_stations(Ticks(now)), model.len());
        }
    }
}

#[test]
fn the_port_that_has_most_makes_room_for_one_that_has_fewer() {
    let mut fdb = table(64);
    fdb.insert_static(station(0), PortIndex(9));
    for n in 1..10_000 {
        fdb.see(station(n), 0, 0);
    }
    let full = fdb.live_stations(Ticks(0));
    for n in 0..20 {
        fdb.see(station(20_000 + n), 1, 0);
        assert_eq!(fdb.port_of(station(20_000 + n), 0), Some(1));
    }
    assert_eq!(
        (fdb.live_stations(Ticks(0)), fdb.counts().evictions),
        (full, 20)
    );
    // More from the first port change nothing.
    for n in 1..10_000 {
        fdb.see(station(30_000 + n), 0, 0);
    }
    for n in 0..20 {
        assert_eq!(fdb.port_of(station(20_000 + n), 0), Some(1));
    }
    assert_eq!(fdb.port_of(station(0), 0), Some(9), "static");
    assert_eq!(fdb.counts().evictions, 20);
}

#[test]
fn what_has_aged_counts_for_its_port_until_it_is_swept() {
    let mut fdb = table(64);
    for n in 1..1_000 {
        fdb.see(station(n), 0, 0);
    }
    let (aged, now) = (fdb.learnt[0], 20 * SECOND);
    fdb.tick(Ticks(now));
    for n in 0..1_000 {
        fdb.see(station(5_000 + n), 1, now);
    }
    (0..100).for_each(|_| fdb.tick(Ticks(now)));
    assert!(
        aged > 64 && fdb.learnt[0] == 0,
        "{} of {aged}",
        fdb.learnt[0]
    );
    assert_eq!(fdb.counts().evictions, 0);
}

#[test]
fn a_counter_that_goes_back_by_a_tick_makes_no_station_old() {
    let mut fdb = table(64);
    let unit = 5 << AGE_SHIFT;
    fdb.see(station(1), 3, unit);
    assert_eq!(fdb.port_of(station(1), unit - 1), Some(3));
}

/// What may happen to a table of few buckets.
#[derive(Debug, Clone)]
enum Event {
    See { n: u64, port: u8 },
    Heard { n: u64, port: u8 },
    Forget(u64),
    Flush(u8),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        12 => (0..60u64, 0..4u8).prop_map(|(n, port)| Event::See { n, port }),
        4 => (0..60u64, 0..4u8).prop_map(|(n, port)| Event::Heard { n, port }),
        2 => (0..60u64).prop_map(Event::Forget),
        1 => (0..4u8).prop_map(Event::Flush),
        3 => (0..3 * SECOND).prop_map(Event::Pass),
    ];
    proptest::collection::vec(event, 1..300)
}

proptest! {
    /// Counts by port equal those of the entries; a port gets room from ports with more entries, up to its limit.
    #[test]
    fn room_is_shared_out_by_true_counts(events in events()) {
        let mut limits = [u32::MAX; PORTS];
        limits[3] = 3;
        let mut fdb = table(4).with_limits(limits);
        fdb.insert_static(station(0), PortIndex(2));
        let mut now = 0;
        for event in events {
            match event {
                Event::See { n, port } => {
                    let before = fdb.learnt;
                    let was_known = fdb.port_of(station(n), now);
                    fdb.see(station(n), port, now);
                    let found = fdb.port_of(station(n), now);
                    if n == 0 {
                        prop_assert_eq!(found, Some(2));
                    } else if port == 3 && was_known != Some(3) && before[3] >= 3 {
                        prop_assert!(fdb.learnt[3] <= before[3]);
                    } else if found.is_none() {
                        let entries = fdb.buckets[fdb.bucket_of(station(n))].marks;
                        let own = before[usize::from(port)];
                        for mark in entries {
                            let held = before[usize::from(mark.port().0)];
                            prop_assert!(mark.is_static() || held <= own + 1);
                        }
                    } else {
                        prop_assert_eq!(found, Some(port));
                    }
                }
                Event::Heard { n, port } => fdb.insert_learnt(station(n), PortIndex(port), Ticks(now)),
                Event::Forget(n) => fdb.forget(station(n)),
                Event::Flush(port) => fdb.flush(PortIndex(port)),
                Event::Pass(ticks) => {
                    now += ticks;
                    fdb.tick(Ticks(now));
                }
            }
            let mut learnt = [0; PORTS];
            for bucket in &fdb.buckets {
                for (&key, mark) in bucket.keys.iter().zip(bucket.marks) {
                    let is_current = mark.era() == fdb.era_of(mark.port());
                    let counts = key != FREE && !mark.is_static() && is_current;
                    learnt[usize::from(mark.port().0)] += u32::from(counts);
                }
            }
            prop_assert_eq!(fdb.learnt, learnt);
        }
    }
}
