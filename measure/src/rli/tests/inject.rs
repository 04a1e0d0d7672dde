//! Injection policies against values computed by hand.

use std::num::{NonZeroU32, NonZeroU64};

use proptest::prelude::*;

use super::byte_a_ns;
use crate::rli::{Adaptive, Injector, Link, Policy};

fn packets(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

fn interval(ns: u64) -> NonZeroU64 {
    NonZeroU64::new(ns).unwrap()
}

/// Times at which a packet of 100 bytes brought a reference along.
fn injections(policy: Policy, times_ns: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut injector = Injector::new(policy, byte_a_ns()).unwrap();
    let mut injected = Vec::new();
    for now_ns in times_ns {
        if injector.packet(100, now_ns) {
            injector.injected(now_ns);
            injected.push(now_ns);
        }
    }
    injected
}

#[test]
fn policies_count_packets_look_at_the_clock_or_take_what_comes_first() {
    let (count, time) = (packets(4), interval(10));
    let either = Policy::Either {
        packets: packets(3),
        interval_ns: time,
    };
    let time = Policy::Time { interval_ns: time };
    let cases: [(Policy, &[u64], &[u64]); 5] = [
        (
            Policy::Count { packets: count },
            &[1, 2, 3, 4, 5, 6, 7, 8, 9],
            &[4, 8],
        ),
        (time, &[0, 5, 9, 10, 11, 25, 34, 35], &[10, 25, 35]),
        (either, &[0, 1, 2, 3, 12, 13, 14, 15], &[2, 12, 15]),
        // Times may wrap and step back: the interval starts again at 50.
        (time, &[u64::MAX - 4, 4, 5], &[5]),
        (time, &[100, 50, 59, 60], &[60]),
    ];
    for (policy, times_ns, expected) in cases {
        assert_eq!(injections(policy, times_ns.iter().copied()), expected);
    }
}

#[test]
fn a_quiet_link_keeps_its_references() {
    let policy = Policy::Either {
        packets: packets(3),
        interval_ns: interval(10),
    };
    let mut injector = Injector::new(policy, byte_a_ns()).unwrap();
    assert!(!injector.due(100));
    assert!(!injector.due(109));
    assert!(injector.due(110));
}

#[test]
fn what_was_not_sent_stays_due() {
    let policy = Policy::Count {
        packets: packets(2),
    };
    let mut injector = Injector::new(policy, byte_a_ns()).unwrap();
    let due: Vec<_> = (0..4).map(|now_ns| injector.packet(64, now_ns)).collect();
    assert_eq!(due, [false, true, true, true]);
    injector.injected(3);
    assert!(!injector.packet(64, 4));
}

#[test]
fn bursts_do_not_fill_a_link_that_is_measured_over_many_of_them() {
    let utilisation = |window_ns| {
        let policy = Policy::Adaptive(Adaptive {
            window_ns,
            ..Adaptive::default()
        });
        let mut injector = Injector::new(policy, byte_a_ns()).unwrap();
        // Every 100 us 32 packets of 100 bytes, 20 ns apart.
        for n in 0..32_000 {
            let now_ns = n / 32 * 100_000 + n % 32 * 20;
            if injector.packet(100, now_ns) {
                injector.injected(now_ns);
            }
        }
        injector.utilisation()
    };
    assert!(utilisation(0) > 0.3, "{}", utilisation(0));
    let (apart, occupied) = (100_000.0, 32.0 * 100.0);
    let share = utilisation(1_000_000) / (occupied / apart);
    assert!((share - 1.0).abs() < 0.1, "{share}");
}

#[test]
fn what_is_left_out_leaves_the_others_where_they_are() {
    for policy in [
        Policy::Count {
            packets: packets(4),
        },
        Policy::Adaptive(Adaptive::default()),
    ] {
        let mut injector = Injector::new(policy, byte_a_ns()).unwrap();
        let first = injector.packets_to_go(0);
        let due: Vec<u64> = (1..=5 * first)
            .filter(|&n| {
                let is_due = injector.packet(64, n);
                if is_due {
                    injector.left_out(n);
                }
                is_due
            })
            .collect();
        assert_eq!(due, [1, 2, 3, 4, 5].map(|n| n * first), "{policy:?}");
        assert_eq!(injector.packets_since(), 5 * first);
    }
}

#[test]
fn the_rate_is_a_quarter_of_an_ellipse() {
    let constants = Adaptive::default();
    let close = |utilisation, rate: f64| {
        assert!(
            (constants.rate(utilisation) - rate).abs() < 1e-12,
            "{utilisation}"
        );
    };
    close(0.0, 0.1);
    close(0.6, 0.1);
    close(0.85, 1.0 / 300.0);
    close(2.0, 1.0 / 300.0);
    // (.75 - .6) / .25 = .6, and sqrt(1 - .36) = .8.
    close(0.75, 0.8 * (0.1 - 1.0 / 300.0) + 1.0 / 300.0);
}

#[test]
fn algorithm_1_follows_the_utilisation() {
    let mut injector = Injector::new(Policy::Adaptive(Adaptive::default()), byte_a_ns()).unwrap();
    let mut now_ns = 0;
    // 75 bytes every 50 ns are a utilisation of 1.5. Ten packets in the first 450 ns: 1.6667; half
    // of that is .8333; then half of (.8333 + 1.5), and so on.
    let mut gaps = Vec::new();
    let mut averages = Vec::new();
    for _ in 0..3 {
        let mut gap = 0;
        loop {
            gap += 1;
            let due = injector.packet(75, now_ns);
            if due {
                injector.injected(now_ns);
            }
            now_ns += 50;
            if due {
                break;
            }
        }
        gaps.push(gap);
        averages.push(injector.utilisation());
    }
    // 0 -> 10 packets; .8333 -> sqrt(1 - (.2333/.25)^2) = .3590, rate .038038, 27 packets.
    assert_eq!(gaps, [10, 27, 300]);
    let expected = [0.833_333, 1.166_667, 1.333_333];
    for (average, expected) in averages.iter().zip(expected) {
        assert!(
            (average - expected).abs() < 1e-5,
            "{average} for {expected}"
        );
    }
    assert!((injector.rate().unwrap() - 1.0 / 300.0).abs() < 1e-12);
}

#[test]
fn utilisation_counts_preamble_and_gap() {
    let link = Link::new(8_000_000_000, Link::ETHERNET_OVERHEAD_BYTES).unwrap();
    let mut injector = Injector::new(Policy::Adaptive(Adaptive::default()), link).unwrap();
    injector.due(0);
    injector.packet(80, 500);
    injector.injected(1_000);
    assert!((injector.utilisation() - 0.05).abs() < 1e-12);
}

#[test]
fn constants_out_of_range_are_refused() {
    type Change = fn(&mut Adaptive);
    let cases: [(Change, &str); 6] = [
        (|c| c.utilisation_min = 0.85, "utilisations 0.85 to 0.85:"),
        (|c| c.utilisation_max = 1.01, "utilisations 0.6 to 1.01:"),
        (|c| c.utilisation_min = f64::NAN, "utilisations NaN"),
        (|c| c.rate_min = 0.0, "rates 0 to 0.1 "),
        (|c| c.rate_min = 0.2, "rates 0.2 to 0.1 "),
        (|c| c.smoothing = 0.0, "smoothing 0:"),
    ];
    for (change, wanted) in cases {
        let mut constants = Adaptive::default();
        change(&mut constants);
        let error = Injector::new(Policy::Adaptive(constants), byte_a_ns()).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let idle = Link::new(0, 0).unwrap_err().to_string();
    assert_eq!(idle, "a link of 0 bit/s; give it 1000 or more");
    assert!(Link::new(1_000, 1_025).is_err());
}

proptest! {
    #[test]
    fn adaptive_gaps_stay_within_their_rates(
        steps in proptest::collection::vec((1_u32..2_000, any::<u16>()), 1..2_000),
    ) {
        let policy = Policy::Adaptive(Adaptive::default());
        let mut injector = Injector::new(policy, byte_a_ns()).unwrap();
        let (mut now_ns, mut gap) = (0_u64, 0);
        for (bytes, step_ns) in steps {
            now_ns = now_ns.wrapping_add(u64::from(step_ns));
            gap += 1;
            if injector.packet(bytes, now_ns) {
                prop_assert!((10..=300).contains(&gap));
                injector.injected(now_ns);
                gap = 0;
            }
            prop_assert!(gap < 300 && injector.utilisation() >= 0.0);
        }
    }

    #[test]
    fn any_times_are_taken(
        steps in proptest::collection::vec((any::<u32>(), any::<u64>(), any::<bool>()), 1..50),
    ) {
        let policies = [
            Policy::Adaptive(Adaptive::default()),
            Policy::Either { packets: packets(1), interval_ns: interval(1) },
            Policy::Time { interval_ns: interval(u64::MAX) },
        ];
        for policy in policies {
            let mut injector = Injector::new(policy, byte_a_ns()).unwrap();
            for &(bytes, now_ns, sent) in &steps {
                injector.packet(bytes, now_ns);
                if sent {
                    injector.injected(now_ns);
                }
                prop_assert!(injector.utilisation().is_finite());
                prop_assert!(injector.rate().is_none_or(|rate| 0.0 < rate && rate <= 1.0));
            }
        }
    }
}
