//! Delays that no clock with the claimed error can show.

use std::collections::BTreeSet;

use super::*;

/// Switches whose clocks claim an error of 100 ns each, with traffic in both directions: 20 us and up to 60 us more.
fn both_ways() -> Bench {
    let mut bench = Bench::alike();
    bench.traffic.packets_back = 2_000;
    bench.establish();
    bench
}

/// The settings of both ends of a path that is known to take 20 us.
fn at_least_20_us() -> [Settings; 2] {
    [1, 2].map(|switch| Settings {
        delay_min_ns: 20_000,
        ..settings(switch)
    })
}

/// Sixteen epochs; during the four from the ninth on, a clock is a millisecond off.
fn set_back_for_four_epochs(bench: &mut Bench) {
    (0..8).for_each(|_| bench.epoch());
    bench.traffic.offset_ns = -1_000_000;
    (0..4).for_each(|_| bench.epoch());
    bench.traffic.offset_ns = 0;
    (0..4).for_each(|_| bench.epoch());
    bench.steps(120);
}

/// Epochs of both directions by fate, at their receivers: there, then back.
fn marked(bench: &Bench) -> [u64; 2] {
    let clock = |switch: usize| fates(&bench.switches[switch].status(), EpochFate::Clock);
    [clock(1), clock(0)]
}

#[test]
fn every_impossible_epoch_is_marked_in_both_directions_and_no_other() {
    let mut bench = both_ways();
    set_back_for_four_epochs(&mut bench);
    assert_eq!(marked(&bench), [4, 4]);
    for switch in &bench.switches {
        let status = switch.status();
        assert_eq!(
            fates(&status, EpochFate::Usable),
            11,
            "{:?}",
            status.receiving[0].fates
        );
        // The other end reports the same for packets of this end.
        assert_eq!(status.sending[0].fates[EpochFate::Clock as usize], 4);
        let outcome = status.receiving[0].usable.unwrap().outcome.unwrap();
        assert!(outcome.chosen.unwrap().mean_ns > 20_000.0);
    }
}

#[test]
fn delays_below_zero_need_no_other_direction() {
    let mut bench = Bench::alike();
    bench.establish();
    set_back_for_four_epochs(&mut bench);
    assert_eq!(marked(&bench), [4, 0]);
}

#[test]
fn delays_shorter_than_the_path_is_known_to_take_are_marked() {
    let mut bench = Bench::new(at_least_20_us());
    bench.establish();
    (0..4).for_each(|_| bench.epoch());
    assert_eq!(marked(&bench), [0, 0]);
    // Far above zero, and as small as a queue's delay: only detectable if the path's least delay is known.
    bench.traffic.offset_ns = -5_000;
    (0..3).for_each(|_| bench.epoch());
    bench.steps(120);
    assert_eq!(marked(&bench), [3, 0]);
}

#[test]
fn what_contradicts_the_claims_is_shown_and_no_value_is_clamped() {
    let mut bench = both_ways();
    (0..4).for_each(|_| bench.epoch());
    bench.steps(30);
    let offset = bench.switches[1].status().offset;
    let (least, most) = (
        offset.bounds.at_least_ns.unwrap(),
        offset.bounds.at_most_ns.unwrap(),
    );
    assert!(
        least < -20_000.0 && most > 20_000.0 && !offset.is_contradicted(),
        "{offset:?}"
    );

    bench.traffic.offset_ns = -1_000_000;
    (0..3).for_each(|_| bench.epoch());
    bench.steps(120);
    let [there, here] = bench
        .switches
        .each_ref()
        .map(|switch| switch.status().offset);
    for (offset, peer_is_ahead_ns) in [(there, -1e6), (here, 1e6)] {
        assert!(offset.is_contradicted(), "{offset:?}");
        assert!((offset.error_ns - 200.0).abs() < 1e-9);
        let bounds = offset.bounds;
        assert!(bounds.at_least_ns.unwrap() < peer_is_ahead_ns, "{bounds:?}");
        assert!(bounds.at_most_ns.unwrap() > peer_is_ahead_ns, "{bounds:?}");
    }
    let status = bench.switches[1].status();
    assert_eq!(status.counters.clock_contradictions, 3);
    assert!(status.floor.floor_ns.unwrap() < -900_000);
    let latest = status.receiving[0].latest.unwrap();
    assert_eq!(latest.fate, EpochFate::Clock);
    assert!(latest.outcome.unwrap().chosen.unwrap().mean_ns < -900_000.0);
    // Packets are counted by no clock. One epoch is partial, and the end of the last is not known.
    assert_eq!(status.receiving[0].received, 2_000 * 5);

    bench.traffic.offset_ns = 0;
    (0..3).for_each(|_| bench.epoch());
    bench.steps(30);
    for switch in &bench.switches {
        assert!(!switch.status().offset.is_contradicted());
    }
}

#[test]
fn the_other_direction_is_judged_although_every_least_delay_is_lost_once() {
    let mut bench = both_ways();
    let mut seen = BTreeSet::new();
    bench.fault = Box::new(move |_, kind, frame| {
        // Each is sent twice, and the first is lost: by switch and epoch.
        let which = (frame[12..16].to_vec(), frame[34..42].to_vec());
        let is_lost = kind == Kind::Floor && seen.insert(which);
        if is_lost { vec![] } else { vec![(0, false)] }
    });
    (0..4).for_each(|_| bench.epoch());
    bench.traffic.offset_ns = 1_000_000;
    (0..6).for_each(|_| bench.epoch());
    bench.steps(120);
    assert_eq!(marked(&bench), [6, 6]);
}

/// Jitter, losses, packets that overtake the rollover, frames that are lost, directions of different length, an offset that
/// drifts within the claims.
#[test]
fn no_honest_epoch_is_marked() {
    for (claimed_ns, base_ns, wait_ns) in [
        (100, [20_000.0, 60_000.0], 5_000.0),
        (100, [60_000.0, 20_000.0], 40_000.0),
        (10_000, [20_000.0, 20_000.0], 500.0),
    ] {
        let mut bench = Bench::new(at_least_20_us());
        for switch in &mut bench.switches {
            switch.clock.error_ns = claimed_ns;
        }
        bench.traffic = super::bench::Traffic {
            packets: 300,
            packets_back: 300,
            loss: 0.05,
            misplaced: 2,
            base_ns,
            wait_ns,
            ..super::bench::Traffic::default()
        };
        bench.fault = Box::new(|random, _, _| {
            if random.chance(0.02) {
                return vec![];
            }
            vec![(random.bits() % 3, false)]
        });
        bench.establish();
        let most = 2.0 * f64::from(claimed_ns);
        for _ in 0..150 {
            let drift = (bench.random.share() - 0.5) * f64::from(claimed_ns);
            let offset = (bench.traffic.offset_ns as f64 + drift).clamp(-most, most);
            bench.traffic.offset_ns = super::bench::whole(offset);
            bench.epoch();
        }
        assert_eq!(
            marked(&bench),
            [0, 0],
            "of clocks that claim {claimed_ns} ns"
        );
        assert!(fates(&bench.switches[1].status(), EpochFate::Usable) > 100);
    }
}
