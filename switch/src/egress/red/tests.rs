use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn settings(weight_log2: u8) -> config::Red {
    config::Red {
        min_packets: 20,
        max_packets: 220,
        probability: 0.2,
        weight_log2,
    }
}

#[test]
fn under_the_minimum_nothing_is_dropped_and_from_the_maximum_on_all() {
    let mut red = Red::new(&settings(0), 100, 1);
    assert!((0..10_000).all(|now| !red.drops(19, Ticks(now))));
    assert!((0..10_000).all(|now| red.drops(220, Ticks(now))));
}

#[test]
fn at_a_constant_average_drops_are_spaced_evenly() {
    // Half way: p = 0.1, so that 0 to 9 packets lie between two drops, each number as likely.
    let mut red = Red::new(&settings(0), 100, 42);
    let mut gaps = [0u32; 10];
    let mut gap = 0;
    let arrivals = 200_000;
    for now in 0..arrivals {
        if red.drops(120, Ticks(now)) {
            gaps[gap] += 1;
            gap = 0;
        } else {
            gap += 1;
        }
    }
    let drops: u32 = gaps.iter().sum();
    let share = f64::from(drops) / arrivals as f64;
    // The mean gap is 4.5; its deviation over n drops is sqrt(8.25 / n): 4 deviations.
    let theory = 2.0 * 0.1 / 1.1;
    let bound = 4.0 * theory * theory * (8.25 / f64::from(drops)).sqrt();
    assert!(
        (share - theory).abs() < bound,
        "{share} for {theory}, {bound}"
    );
    let expected = f64::from(drops) / 10.0;
    let chi_square: f64 = gaps
        .iter()
        .map(|&n| (f64::from(n) - expected).powi(2) / expected)
        .sum();
    assert!(
        chi_square < 33.7,
        "9 degrees of freedom, 1 in 10,000: {gaps:?}"
    );
}

#[test]
fn randomness_is_that_of_the_seed() {
    let drops = |seed| -> Vec<bool> {
        let mut red = Red::new(&settings(0), 100, seed);
        (0..1_000).map(|now| red.drops(120, Ticks(now))).collect()
    };
    assert_eq!(drops(7), drops(7));
    assert_ne!(drops(7), drops(8));
}

#[test]
fn an_idle_time_counts_as_so_many_packets() {
    let mut red = Red::new(&settings(2), 100, 1);
    for now in 0..1_000 {
        red.drops(19, Ticks(now));
    }
    let before = red.average_packets();
    red.emptied(Ticks(5_000));
    red.drops(0, Ticks(5_300));
    let after = red.average_packets();
    assert!(
        (after - before * 0.75f64.powi(3)).abs() < 1e-9,
        "{after} of {before}"
    );
    red.drops(0, Ticks(5_300));
    assert!(
        (red.average_packets() - after).abs() < 1e-12,
        "no time has passed"
    );
    red.drops(0, Ticks(1_000_000));
    assert!(red.average_packets() <= 0.0);
}

#[test]
fn a_weight_of_one_follows_the_queue_at_once() {
    let mut red = Red::new(&settings(0), 100, 1);
    for (queue, now) in [(300, 0), (0, 0), (0, 1), (5, 2), (0, 9)] {
        red.drops(queue, Ticks(now));
        assert!(red.average_packets().is_finite());
    }
    assert!(red.average_packets() <= 0.0);
}

proptest! {
    /// The paper's average, written down plainly.
    #[test]
    fn the_average_is_that_of_the_paper(
        weight_log2 in 0..10u8,
        arrivals in vec((0..500u64, prop_oneof![Just(0usize), 1..300usize]), 1..300),
    ) {
        let mut red = Red::new(&settings(weight_log2), 100, 1);
        let weight = 0.5f64.powi(i32::from(weight_log2));
        let (mut average, mut now, mut idle_since) = (0.0f64, 0, 0);
        for (step, queue) in arrivals {
            now += step;
            if queue == 0 {
                let packets = (now - idle_since) as f64 / 100.0;
                average *= (1.0 - weight).powf(packets);
                idle_since = now;
            } else {
                average = (1.0 - weight) * average + weight * queue as f64;
                idle_since = now;
                red.emptied(Ticks(now));
            }
            red.drops(queue, Ticks(now));
            prop_assert!((red.average_packets() - average).abs() < 1e-5, "{average}");
        }
    }
}
