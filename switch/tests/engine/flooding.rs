//! Flooding ends: two workers of a bridge that each see one direction of a conversation only, learn both within the
//! time that the control core needs to distribute them; and a flood of random addresses is bounded in memory, in
//! frames, and in its effect on others.
use contract::counters::DropReason;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;
use simulate::rack::{GHZ, Rack, between, config, port};

const X: [u8; 6] = [2, 0, 0, 0, 0, 0xaa];
const Y: [u8; 6] = [2, 0, 0, 0, 0, 0xbb];

/// How often the control core receives and distributes.
const POLL: u64 = 5_000_000;

/// Most stations that the bridge remembers, most frames a second that it floods for a port, and the
/// seconds that it remembers for.
const STATIONS: usize = 500;
const FLOOD_LIMIT_PPS: u64 = 20_000;
const AGEING_S: u64 = 2;

fn bridge() -> Rack {
    let ports = ["x", "y", "other"].map(|name| port(name, "")).join(", ");
    let rest = format!(
        r#""forwarding": {{"mode": "bridge", "ageing_s": {AGEING_S}, "fdb_entries": {STATIONS},
            "flood_limit_pps": {FLOOD_LIMIT_PPS}}},
        "measurement": {{"enabled": false}}"#
    );
    Rack::new(&config(2, &ports, &rest))
}

/// Until `until`, every `every` ticks: worker 0 gets a frame from X to Y, worker 1 the answer, if
/// they speak. The times at which frames came out at the third port.
fn converse(rack: &mut Rack, until: u64, every: u64, speaks: [bool; 2]) -> Vec<u64> {
    let mut flooded = Vec::new();
    let mut number = 0;
    let (mut polled, mut forwarded, mut said) = (rack.now, [0, 0], [0, 0]);
    while rack.now < until {
        number += 1;
        if speaks[0] {
            rack.arrive_at(0, 0, between(Y, X, 1, number, 60));
            said[0] += 1;
        }
        if speaks[1] {
            rack.arrive_at(1, 1, between(X, Y, 2, number, 60));
            said[1] += 1;
        }
        rack.pass_at(rack.now + every);
        if rack.now - polled >= POLL {
            polled = rack.now;
            rack.poll_master();
        }
        flooded.extend(rack.departed(2).into_iter().map(|(at, _)| at));
        for port in 0..2 {
            forwarded[1 - port] += rack.departed(port).len();
        }
        rack.assert_conserved();
    }
    assert_eq!(forwarded, said, "flooded or not, every frame arrives");
    flooded
}

#[test]
fn flooding_after_asymmetric_learning_stops_when_the_workers_were_told() {
    let mut rack = bridge();
    let flooded = converse(&mut rack, 10 * POLL, 100_000, [true, true]);
    assert!(!flooded.is_empty(), "at first nobody knows");
    // One poll to hear and tell, and the pass after it.
    let last = *flooded.last().unwrap();
    assert!(last <= POLL + 100_000, "the last at {last}");

    // Many times the ageing time: a station seen by one worker is not removed by the other.
    let flooded = converse(&mut rack, 10 * AGEING_S * GHZ, 2_000_000, [true, true]);
    assert_eq!(flooded, [0u64; 0], "a conversation is never flooded again");
}

#[test]
fn a_station_that_falls_silent_is_forgotten_and_found_again() {
    let mut rack = bridge();
    converse(&mut rack, GHZ, 1_000_000, [true, true]);
    let silent_from = rack.now;
    let flooded = converse(&mut rack, 5 * AGEING_S * GHZ, 1_000_000, [true, false]);
    // It is refreshed elsewhere a quarter of the ageing time late at most, and half of that again by
    // the master.
    let age = *flooded.first().unwrap() - silent_from;
    let ageing = AGEING_S * GHZ;
    assert!(
        (ageing / 2..=2 * ageing).contains(&age),
        "forgotten after {age} ns"
    );
    let spoke = rack.now;
    let flooded = converse(&mut rack, spoke + ageing, 1_000_000, [true, true]);
    assert!(flooded.iter().all(|at| at - spoke <= POLL + 1_000_000));
}

#[test]
fn made_up_addresses_stay_bounded_and_do_not_stop_others() {
    // Long: the steps of one attack, in order.
    let mut rack = bridge();
    converse(&mut rack, GHZ / 10, 1_000_000, [true, true]);
    let mut rng = Pcg32::seed_from_u64(1);
    let mut made_up = || {
        let mut address = rng.random::<[u8; 6]>();
        address[0] = address[0] & !1 | 2;
        address
    };
    let began = rack.now;
    let mut attack_frames = 0;
    let (mut said, mut heard) = (0, 0);
    // 640,000 frames a second for a tenth of a second, by both workers' queues.
    for step in 0..1_000 {
        for n in 0..64 {
            attack_frames += 1;
            rack.arrive_at(
                n % 2,
                2,
                between(made_up(), made_up(), 3, attack_frames, 60),
            );
        }
        if step % 10 == 0 {
            said += 1;
            rack.arrive_at(0, 0, between(Y, X, 1, step, 60));
        }
        rack.pass_at(rack.now + 100_000);
        if step % 50 == 0 {
            rack.poll_master();
            assert!(rack.master.len() <= STATIONS);
        }
        let is_from_x = |(_, frame): &(u64, Vec<u8>)| frame[6..12] == X;
        heard += rack
            .departed(1)
            .iter()
            .filter(|frame| is_from_x(frame))
            .count();
        rack.departed(0);
        rack.departed(2);
        rack.assert_conserved();
    }
    assert_eq!(heard, said, "others go on");
    // All flooded frames are within the limit over that time, plus a reserve of a tenth of a second.
    let flooded = rack.sum(|port| port.copies.get());
    let limit = FLOOD_LIMIT_PPS * (rack.now - began + GHZ / 10) / GHZ;
    assert!(
        flooded <= 3 * limit,
        "{flooded} flooded, {limit} a port may be"
    );
    assert!(rack.dropped(2, DropReason::Storm) > u64::from(attack_frames) / 2);

    // Afterwards the made-up ones age, and there is room for others again.
    let over = rack.now;
    converse(
        &mut rack,
        over + 2 * AGEING_S * GHZ,
        1_000_000,
        [true, true],
    );
    assert!(rack.master.len() < 10, "{} still known", rack.master.len());
    let new = [2, 0, 0, 0, 1, 1];
    rack.arrive_at(1, 2, between(X, new, 4, 0, 60));
    for _ in 0..3 {
        rack.pass_at(rack.now + 100_000);
        rack.poll_master();
    }
    let before = rack.sum(|port| port.copies.get());
    rack.arrive_at(0, 0, between(new, X, 4, 1, 60));
    rack.pass_at(rack.now + 100_000);
    assert_eq!(rack.sum(|port| port.copies.get()), before, "it is known");
    assert_eq!(rack.departed(2).len(), 1);
}
