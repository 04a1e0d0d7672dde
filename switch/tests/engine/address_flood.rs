//! A port from which more addresses come than the filtering database holds: the stations of others stay known.
use contract::fdb::FdbStats;
use contract::ids::PortIndex;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use simulate::rack::{Rack, between, config, port};

const ATTACKER: usize = 0;
const VICTIM: usize = 1;
const OBSERVER: usize = 2;

/// Addresses that the database is made for, and stations behind the victim's port.
const ENTRIES: u32 = 1_024;
const STATIONS: u16 = 300;

fn rack(attacker: &str) -> Rack {
    let ports = [port("a", attacker), port("b", ""), port("c", "")].join(", ");
    let rest = format!(
        r#""forwarding": {{"mode": "bridge", "fdb_entries": {ENTRIES}, "flood_limit_pps": 1000000000}}"#
    );
    Rack::new(&config(2, &ports, &rest))
}

fn station(n: u16) -> [u8; 6] {
    let [high, low] = n.to_be_bytes();
    [2, 0xbb, 0, 0, high, low]
}

/// A pass of the workers and one of the control core, a microsecond later.
fn pass(rack: &mut Rack) {
    rack.pass_at(rack.now + 1_000);
    rack.poll_master();
    rack.departed(ATTACKER);
    rack.departed(VICTIM);
}

/// This number of frames from new addresses, at the attacker's port.
fn attack(rack: &mut Rack, frames: usize, rng: &mut Pcg64) {
    for n in 0..frames {
        let mut source: [u8; 6] = rng.random();
        source[0] = 2;
        let frame = between([2, 0xcc, 0, 0, 0, 1], source, 7, 0, 60);
        rack.arrive(ATTACKER, frame);
        if n % 32 == 31 {
            pass(rack);
        }
    }
    pass(rack);
}

/// Each of the victim's stations sends a frame.
fn speak(rack: &mut Rack) {
    for n in 0..STATIONS {
        rack.arrive(VICTIM, between([0xff; 6], station(n), 7, 0, 60));
        pass(rack);
    }
}

/// Percentage of frames to the victim's stations, one by each worker, that reach the attacker.
fn flooded_percent(rack: &mut Rack) -> usize {
    let mut flooded = 0;
    for n in 0..STATIONS {
        for worker in 0..2 {
            let frame = between(station(n), [2, 0xdd, 0, 0, 0, 1], 7, 0, 60);
            rack.arrive_at(worker, OBSERVER, frame);
            rack.pass_at(rack.now + 1_000);
            rack.poll_master();
            flooded += rack.departed(ATTACKER).len();
        }
    }
    flooded * 100 / (2 * usize::from(STATIONS))
}

#[test]
fn stations_of_others_are_learnt_in_a_full_database_and_stay() {
    let mut rack = rack("");
    let mut rng = Pcg64::seed_from_u64(1);
    attack(&mut rack, 10_000, &mut rng);
    speak(&mut rack);
    let before = flooded_percent(&mut rack);
    assert!(
        before <= 2,
        "{before} % are flooded as soon as they have spoken"
    );
    attack(&mut rack, 10_000, &mut rng);
    let after = flooded_percent(&mut rack);
    assert!(after <= 2, "{after} % are flooded after more of the flood");
    let FdbStats {
        evictions,
        overflows,
        replica_overflows,
        ..
    } = rack.master.stats();
    assert!(evictions > 0 && overflows > 0 && replica_overflows > 0);
    rack.assert_conserved();
}

#[test]
fn a_port_has_as_many_stations_as_it_may() {
    let mut rack = rack(r#""max_stations": 10,"#);
    let mut rng = Pcg64::seed_from_u64(2);
    attack(&mut rack, 1_000, &mut rng);
    for _ in 0..100 {
        pass(&mut rack);
    }
    let now = std::time::Duration::from_nanos(rack.now);
    let of_attacker = rack
        .master
        .entries(now)
        .filter(|entry| entry.port == PortIndex(0))
        .count();
    assert_eq!(of_attacker, 10);
    assert!(
        rack.master.stats().limited >= 900,
        "{:?}",
        rack.master.stats()
    );
    speak(&mut rack);
    assert_eq!(flooded_percent(&mut rack), 0);
    assert_eq!(rack.master.stats().evictions, 0);
}
