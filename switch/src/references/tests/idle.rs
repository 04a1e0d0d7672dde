//! Idle times of the queue, which anchor the curve of delays.

use super::*;

/// Mean error of the mean delays of flows behind a bursty queue, relative to the mean delay.
fn error_of(method: Method) -> f64 {
    let mut tube = Tube::new(&layout(one_in(100), method));
    let (mut free_at, mut random, mut burst) = (0, 1_u64, 0);
    let mut departures = VecDeque::new();
    for _ in 0..20_000 {
        // Bursts of 1 to 64 packets of 124 ns each, and about as much idle time.
        if burst == 0 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            burst = 1 + (random >> 58);
            tube.now += burst * 124 * ((random >> 40) % 40) / 10;
        }
        burst -= 1;
        tube.now += 20;
        let arrived = tube.now;
        while let Some(departs) = departures.pop_front_if(|at| *at <= arrived) {
            tube.now = departs;
            tube.depart(1);
        }
        tube.now = arrived;
        tube.arrive([0]);
        let begins = arrived.max(free_at);
        free_at = begins + 124;
        departures.push_back(begins);
    }
    for departs in departures {
        tube.now = departs;
        tube.depart(1);
    }
    tube.finish();
    assert_eq!(tube.estimated().0, 20_000);
    let (mut error, mut sum) = (0.0, 0.0);
    for (slot, truth) in (0..).map(Slot).zip(&tube.flows) {
        let shards = tube.shards.open.values();
        let estimated = shards.map(|shard| shard.flows().unwrap().estimates(slot).unwrap());
        let estimated: f64 = estimated.map(|of| of.delay().sum_ns()).sum();
        error += (estimated - truth.sum as f64).abs();
        sum += truth.sum as f64;
    }
    error / sum
}

#[test]
fn idle_times_anchor_the_curve() {
    let methods = [Method::AnchoredSums, Method::Sums, Method::Linear];
    let [anchored, sums, line] = methods.map(error_of);
    println!("anchored {anchored}, sums {sums}, line {line}");
    assert!(
        anchored < 0.85 * sums && sums < 0.6 * line,
        "{anchored} {sums} {line}"
    );
}
