use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp};
use rand_pcg::Pcg64;

use super::*;

const EPOCH_NS: u64 = 1_000_000_000;

fn span(number: u64, phase_ns: u64) -> Span {
    Span::until((number + 1) * EPOCH_NS + phase_ns, EPOCH_NS)
}

#[test]
fn the_offset_is_between_the_least_delays_of_both_directions() {
    let mut watch = OffsetWatch::new(0.0);
    watch.depart(Epoch(7), span(3, 0));
    assert_eq!(watch.latest(), OffsetBounds::default());
    let bounds = watch.arrive(span(3, 0), Some(20_000.0));
    assert_eq!(
        (bounds.at_least_ns, bounds.at_most_ns),
        (Some(-20_000.0), None)
    );
    assert!(!bounds.contradicts(0.0));
    // The other end reports it later, first by a mean.
    watch.hear(Epoch(7), 35_000.0);
    watch.hear(Epoch(7), 30_000.0);
    watch.hear(Epoch(7), 36_000.0);
    assert_eq!(watch.latest().at_most_ns, Some(30_000.0));
    // A clock that is ahead there makes what arrives early.
    let bounds = watch.arrive(span(3, 0), Some(-1e6));
    assert_eq!(bounds.at_least_ns, Some(1e6));
    assert!(bounds.contradicts(999_999.0) && !bounds.contradicts(1e6));

    // With a path that is known to take 15 us the interval is smaller by as much at both ends.
    let mut watch = OffsetWatch::new(15_000.0);
    watch.depart(Epoch(7), span(3, 0));
    watch.hear(Epoch(7), 14_000.0);
    let bounds = watch.arrive(span(3, 0), Some(14_950.0));
    assert_eq!(
        (bounds.at_least_ns, bounds.at_most_ns),
        (Some(50.0), Some(-1_000.0))
    );
    assert!(bounds.contradicts(100.0) && !bounds.contradicts(1_000.0));
}

#[test]
fn only_epochs_of_the_same_time_belong_together() {
    for (phase_ns, belongs) in [
        (0, true),
        (EPOCH_NS / 2, true),
        (EPOCH_NS * 7 / 8, true),
        (EPOCH_NS * 7 / 8 + 1, false),
        (EPOCH_NS, false),
        (3 * EPOCH_NS, false),
    ] {
        let mut watch = OffsetWatch::new(0.0);
        watch.depart(Epoch(0), span(5, 0));
        watch.hear(Epoch(0), 1.0);
        let bounds = watch.arrive(span(5, phase_ns), Some(1.0));
        assert_eq!(bounds.at_most_ns.is_some(), belongs, "{phase_ns}");
    }
    let mut watch = OffsetWatch::new(0.0);
    for epoch in 0..100 {
        watch.depart(Epoch(epoch), span(epoch, 0));
        watch.hear(Epoch(epoch), epoch as f64);
    }
    assert_eq!(watch.arrive(span(99, 0), None).at_most_ns, Some(99.0));
    assert_eq!(watch.arrive(span(92, 0), None).at_most_ns, Some(92.0));
    assert_eq!(
        watch.arrive(span(91, 0), None).at_most_ns,
        None,
        "forgotten"
    );
    watch.reset();
    assert_eq!(watch.latest(), OffsetBounds::default());
}

/// The least of this number of delays with losses; `None` if all packets are lost.
fn least_of(
    random: &mut Pcg64,
    packets: u32,
    (base_ns, wait_ns, loss): (f64, f64, f64),
) -> Option<f64> {
    let wait = Exp::new(1.0 / wait_ns).unwrap();
    let arrived = (0..packets).filter_map(|_| {
        let delay_ns = base_ns + wait.sample(random);
        (!random.random_bool(loss)).then_some(delay_ns)
    });
    let arrived: Vec<f64> = arrived.collect();
    arrived.into_iter().reduce(f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// 100 times 100 epochs of clocks that keep within their claims, with any drift, over paths with any delays,
    /// jitter, losses and missing reports: there is never a contradiction, and the offset is in the interval.
    #[test]
    fn no_honest_epoch_contradicts(
        seed: u64,
        base_ns in [50.0..1e6, 50.0..1e6],
        wait_ns in [1.0..1e5, 1.0..1e5],
        loss in 0.0..0.9,
        error_ns in 0.0..1e6_f64,
        // The configured floor, as a share of the delay of the shorter direction.
        known in 0.0..=1.0,
        phase_ns in 0..EPOCH_NS,
    ) {
        let mut random = Pcg64::seed_from_u64(seed);
        let delay_min_ns = known * f64::min(base_ns[0], base_ns[1]);
        let mut watch = OffsetWatch::new(delay_min_ns);
        let mut offset_ns: f64 = random.random_range(-error_ns..=error_ns);
        for epoch in 0..100 {
            // It also changes during an epoch; the measured value is in between.
            let before_ns = offset_ns;
            let drift_ns = random.random_range(-0.2..=0.2_f64) * error_ns;
            offset_ns = (offset_ns + drift_ns).clamp(-error_ns, error_ns);
            let of_time = |random: &mut Pcg64| before_ns + random.random_range(0.0..=1.0) * (offset_ns - before_ns);
            let packets = random.random_range(1..30);
            let there = least_of(&mut random, packets, (base_ns[0], wait_ns[0], loss));
            let here = least_of(&mut random, packets, (base_ns[1], wait_ns[1], loss));
            watch.depart(Epoch(epoch), span(epoch, phase_ns));
            let there = there.map(|ns| ns + of_time(&mut random));
            if let Some(there) = there.filter(|_| random.random_bool(0.8)) {
                watch.hear(Epoch(epoch), there);
            }
            let here = here.map(|ns| ns - of_time(&mut random));
            let bounds = watch.arrive(span(epoch, 0), here);
            prop_assert!(!bounds.contradicts(error_ns), "{bounds:?} of {error_ns}");
            if drift_ns == 0.0 {
                prop_assert!(bounds.at_least_ns.is_none_or(|ns| ns <= offset_ns));
                prop_assert!(bounds.at_most_ns.is_none_or(|ns| ns >= offset_ns));
            }
        }
    }

    /// An offset beyond the claim by more than the least delay of its direction contradicts, seen from either end.
    #[test]
    fn an_impossible_offset_contradicts_at_both_ends(
        delays_ns in [20_000.0..60_000.0, 20_000.0..60_000.0],
        error_ns in 0.0..1e4,
        beyond_ns in 1.0..1e9,
        is_ahead: bool,
    ) {
        let least_ns = if is_ahead { delays_ns[0] } else { delays_ns[1] };
        let offset_ns = (least_ns + error_ns + beyond_ns) * if is_ahead { 1.0 } else { -1.0 };
        // Of the clock at the second end; the first delay is that of what arrives at the first.
        let shown = [delays_ns[0] - offset_ns, delays_ns[1] + offset_ns];
        for (here, there) in [(shown[0], shown[1]), (shown[1], shown[0])] {
            let mut watch = OffsetWatch::new(0.0);
            watch.depart(Epoch(1), span(1, 0));
            watch.hear(Epoch(1), there);
            prop_assert!(watch.arrive(span(1, 0), Some(here)).contradicts(error_ns));
        }
    }
}
