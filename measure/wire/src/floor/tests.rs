use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const LEAST_NS: f64 = 1_000.0;

/// Feeds floors, one a second; gives the verdicts.
fn verdicts(watch: &mut FloorWatch, from: u64, floors: &[(f64, bool)]) -> Vec<FloorVerdict> {
    #[expect(clippy::cast_possible_truncation, reason = "small")]
    let sample = |(epoch, &(floor, is_calm)): (u64, &(f64, bool))| FloorSample {
        epoch: Epoch(epoch),
        at_ns: epoch * 1_000_000_000,
        floor_ns: floor as i64,
        is_calm,
        scatter_ns: 500.0,
    };
    (from..)
        .zip(floors)
        .map(|floor| watch.see(&sample(floor), LEAST_NS))
        .collect()
}

/// Floors that scatter by 200 ns around a level.
fn level(seed: u64, level_ns: f64, epochs: usize) -> Vec<(f64, bool)> {
    let mut random = Pcg64::seed_from_u64(seed);
    (0..epochs)
        .map(|_| (level_ns + random.random_range(-100.0..100.0), true))
        .collect()
}

fn steps(verdicts: &[FloorVerdict]) -> Vec<Step> {
    let step = |verdict: &FloorVerdict| match verdict {
        FloorVerdict::Stepped(step) | FloorVerdict::Sank(step) => Some(*step),
        FloorVerdict::Steady => None,
    };
    verdicts.iter().filter_map(step).collect()
}

#[test]
fn noise_is_steady() {
    for seed in 0..20 {
        let mut watch = FloorWatch::default();
        let all = verdicts(&mut watch, 0, &level(seed, 50_000.0, 300));
        assert!(all.iter().all(|one| *one == FloorVerdict::Steady), "{seed}");
    }
}

#[test]
fn a_fall_is_a_step_at_once() {
    let mut watch = FloorWatch::default();
    let floors = [level(1, 50_000.0, 20), level(2, -30_000.0, 20)].concat();
    let all = verdicts(&mut watch, 0, &floors);
    let found = steps(&all);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].since, Epoch(20));
    assert!((found[0].by_ns + 80_000.0).abs() < 300.0);
    assert!(matches!(all[20], FloorVerdict::Sank(_)));
    assert_eq!(
        all.iter()
            .filter(|one| **one != FloorVerdict::Steady)
            .count(),
        1
    );
}

#[test]
fn a_rise_is_a_step_once_it_has_stayed() {
    let mut watch = FloorWatch::default();
    let floors = [level(1, 50_000.0, 20), level(2, 130_000.0, 20)].concat();
    let all = verdicts(&mut watch, 0, &floors);
    assert_eq!(all[20..22], [FloorVerdict::Steady; 2]);
    let found = steps(&all);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].since, Epoch(20));
    assert!((found[0].by_ns - 80_000.0).abs() < 300.0);
    assert!(matches!(all[22], FloorVerdict::Stepped(_)));
    assert!(all[23..].iter().all(|one| *one == FloorVerdict::Steady));
}

#[test]
fn steps_there_and_back_are_two() {
    let mut watch = FloorWatch::default();
    let floors = [
        level(1, 50_000.0, 20),
        level(2, 130_000.0, 20),
        level(3, 50_000.0, 20),
    ];
    let all = verdicts(&mut watch, 0, &floors.concat());
    assert_eq!(steps(&all).len(), 2);
    // A queue that stood, or a detour: it was as low before.
    assert!(!all.iter().any(|one| matches!(one, FloorVerdict::Sank(_))));
}

#[test]
fn a_queue_that_builds_up_and_empties_is_no_step() {
    let mut watch = FloorWatch::default();
    // It loses packets, or makes delays scatter: not calm.
    let mut congested = level(2, 900_000.0, 30);
    for (floor, is_calm) in &mut congested {
        *is_calm = false;
        *floor += 50_000.0;
    }
    let floors = [level(1, 50_000.0, 20), congested, level(3, 50_000.0, 20)];
    let all = verdicts(&mut watch, 0, &floors.concat());
    assert!(all.iter().all(|one| *one == FloorVerdict::Steady));
    // A quiet path, but not for long.
    let floors = [level(4, 300_000.0, 2), level(5, 50_000.0, 20)];
    let all = verdicts(&mut watch, 100, &floors.concat());
    assert!(all.iter().all(|one| *one == FloorVerdict::Steady));
    // A quiet path that wanders is never reported as a step.
    let wandering: Vec<(f64, bool)> = (0..12)
        .map(|epoch| (300_000.0 + 90_000.0 * f64::from(epoch % 3), true))
        .collect();
    let floors = [wandering, level(6, 50_000.0, 20)];
    assert_eq!(steps(&verdicts(&mut watch, 200, &floors.concat())), []);
}

#[test]
fn a_drift_is_told_with_its_slope_and_noise_is_not() {
    for ns_per_s in [-400.0, 400.0, 5_000.0] {
        let mut watch = FloorWatch::default();
        let mut floors = level(1, 50_000.0, 40);
        for (epoch, (floor, _)) in floors.iter_mut().enumerate() {
            *floor += ns_per_s * epoch as f64;
        }
        assert_eq!(steps(&verdicts(&mut watch, 0, &floors)), []);
        let drift = watch.drift_ns_per_s().unwrap();
        assert!((drift - ns_per_s).abs() < 10.0, "{drift:?}");
    }
    let reported = (0..50).filter(|seed| {
        let mut watch = FloorWatch::default();
        verdicts(&mut watch, 0, &level(*seed, 50_000.0, 40));
        watch.drift_ns_per_s().is_some()
    });
    assert_eq!(reported.count(), 0);
}

#[test]
fn a_step_leaves_the_drift_known() {
    let mut watch = FloorWatch::default();
    let mut floors = [level(1, 50_000.0, 20), level(2, -30_000.0, 4)].concat();
    for (epoch, (floor, _)) in floors.iter_mut().enumerate() {
        *floor += 500.0 * epoch as f64;
    }
    assert_eq!(steps(&verdicts(&mut watch, 0, &floors)).len(), 1);
    assert!((watch.drift_ns_per_s().unwrap() - 500.0).abs() < 150.0);
}

#[test]
fn the_greatest_delays_do_no_harm() {
    let mut watch = FloorWatch::default();
    for epoch in 0..100_u64 {
        let floor_ns = match epoch % 3 {
            0 => i64::MIN,
            1 => i64::MAX,
            _ => 0,
        };
        let sample = FloorSample {
            epoch: Epoch(epoch),
            at_ns: u64::MAX - epoch,
            floor_ns,
            is_calm: epoch % 2 == 0,
            scatter_ns: 0.0,
        };
        watch.see(&sample, LEAST_NS);
        watch.drift_ns_per_s();
    }
    assert!(watch.usual.len() <= WINDOW && watch.risen.len() <= UNSETTLED_MAX);
}

#[test]
fn a_rise_of_less_than_delays_scatter_by_is_no_step() {
    let mut watch = FloorWatch::default();
    let floors = [level(5, 50_000.0, 20), level(6, 80_000.0, 20)].concat();
    let mut all = Vec::new();
    for (epoch, (floor, is_calm)) in (0..).zip(floors) {
        let sample = FloorSample {
            epoch: Epoch(epoch),
            at_ns: epoch * 1_000_000_000,
            #[expect(clippy::cast_possible_truncation, reason = "small")]
            floor_ns: floor as i64,
            is_calm,
            scatter_ns: 40_000.0,
        };
        all.push(watch.see(&sample, LEAST_NS));
    }
    assert!(all.iter().all(|one| *one == FloorVerdict::Steady));
}
