//! The box by a clock turned by hand.

use proptest::prelude::*;
use testkit::frames::MARKER;

use super::*;
use crate::impairment::Only;

/// Packets of 100 bytes that carry their number, which is their hash, too.
fn packet(number: u64) -> Vec<u8> {
    let mut packet = vec![0; 100];
    packet[14..22].copy_from_slice(&number.to_le_bytes());
    packet
}

fn rule(text: &str) -> Impairment {
    text.parse().unwrap()
}

/// What came out, and what became of all.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    out: Vec<Vec<u8>>,
    transits: Vec<Transit>,
}

impl Outcome {
    /// Numbers of the packets that came out, in order.
    fn numbers(&self) -> Vec<u64> {
        let passed = self.transits.iter().filter(|p| p.fate == Fate::Passed);
        passed.map(|transit| transit.packet).collect()
    }

    fn share(&self, of: impl Fn(&Transit) -> bool) -> f64 {
        let count = self.transits.iter().filter(|transit| of(transit)).count();
        count as f64 / self.transits.len() as f64
    }

    fn delays(&self) -> impl Iterator<Item = u64> {
        self.transits.iter().filter_map(Transit::delay_ns)
    }
}

fn class_of(number: u64) -> Class {
    match number % 4 {
        3 => Class {
            kind: MARKER,
            copy: u8::try_from(number / 4 % 3).unwrap(),
        },
        _ => Class::DATA,
    }
}

fn here(pipeline: &Pipeline<Vec<u8>>) -> usize {
    pipeline.under_way.len() + pipeline.held
}

/// Lets packets arrive every `gap_ns`, looks for due ones as often, and waits for the rest.
fn run(rules: &[Impairment], seed: u64, packets: u64, gap_ns: u64, room: usize) -> Outcome {
    let mut pipeline = Pipeline::new(0, rules, seed, room);
    let mut outcome = Outcome::default();
    let mut now_ns = 0;
    let drain = |pipeline: &mut Pipeline<Vec<u8>>, now_ns, outcome: &mut Outcome| {
        while let Some((packet, transit)) = pipeline.next(now_ns) {
            outcome.transits.push(pipeline.leave(transit, now_ns));
            outcome.out.push(packet);
        }
    };
    for number in 0..packets {
        let arrival = Arrival {
            now_ns,
            packet: number,
            class: class_of(number),
            is_made_up: false,
        };
        pipeline.arrive(arrival, packet(number), |transit| {
            outcome.transits.push(transit);
        });
        assert!(here(&pipeline) <= room);
        drain(&mut pipeline, now_ns, &mut outcome);
        now_ns += gap_ns;
    }
    while let Some(next_ns) = pipeline.next_ns() {
        now_ns = now_ns.max(next_ns);
        drain(&mut pipeline, now_ns, &mut outcome);
    }
    assert_eq!(here(&pipeline), 0);
    outcome
}

#[test]
fn without_rules_it_is_a_cable() {
    let outcome = run(&[], 1, 1_000, 10, 1);
    assert_eq!(outcome.numbers(), (0..1_000).collect::<Vec<_>>());
    assert!(outcome.delays().all(|delay| delay == 0));
    assert!(
        outcome
            .out
            .iter()
            .zip(0..)
            .all(|(out, number)| *out == packet(number))
    );
    let places = |transit: &Transit| (transit.arrived, transit.left);
    assert!(
        (0..)
            .zip(&outcome.transits)
            .all(|(i, p)| places(p) == (i, i))
    );
}

#[test]
fn losses_are_as_many_and_as_bursty_as_asked_for() {
    let runs_of = |outcome: &Outcome| {
        let mut fates: Vec<_> = outcome.transits.iter().collect();
        fates.sort_by_key(|transit| transit.arrived);
        let runs = fates.chunk_by(|a, b| a.fate == b.fate);
        let lost = runs.filter(|run| run[0].fate == Fate::Lost).map(<[_]>::len);
        let (count, sum) = lost.fold((0.0, 0.0), |(n, sum), run| (n + 1.0, sum + run as f64));
        sum / count
    };
    let lost = |transit: &Transit| transit.fate == Fate::Lost;
    let uniform = run(&[rule("loss=0.05")], 1, 200_000, 10, 10);
    assert!((uniform.share(lost) - 0.05).abs() < 0.002);
    // A run of losses by themselves ends with probability .95.
    assert!((runs_of(&uniform) - 1.0 / 0.95).abs() < 0.02);
    let bursty = run(&[rule("loss=0.05,burst_packets=20")], 1, 400_000, 10, 10);
    assert!(
        (bursty.share(lost) - 0.05).abs() < 0.005,
        "{}",
        bursty.share(lost)
    );
    assert!(
        (runs_of(&bursty) - 20.0).abs() < 1.5,
        "{}",
        runs_of(&bursty)
    );
    let half = rule("loss=0.05,burst_packets=20,burst_loss=0.5");
    let half = run(&[half], 1, 400_000, 10, 10);
    assert!((half.share(lost) - 0.05).abs() < 0.005);
    assert!(runs_of(&half) < 3.0);
}

#[test]
fn delays_are_those_asked_for() {
    let mean = |outcome: &Outcome| outcome.delays().sum::<u64>() as f64 / 1e5;
    let fixed = run(&[rule("delay_us=50")], 1, 100, 7, 100_000);
    assert!(
        fixed
            .delays()
            .all(|delay| (50_000..50_007).contains(&delay))
    );
    // Looked at every 100 ns, so that it is 50 ns late on average.
    let uniform = run(
        &[rule("delay_us=50,jitter_us=10,keep_order=false")],
        1,
        100_000,
        100,
        100_000,
    );
    assert!(
        uniform
            .delays()
            .all(|delay| (40_000..=60_100).contains(&delay))
    );
    assert!(
        (mean(&uniform) - 50_050.0).abs() < 100.0,
        "{}",
        mean(&uniform)
    );
    let squares: f64 = uniform
        .delays()
        .map(|d| (d as f64 - 50_050.0).powi(2))
        .sum();
    let deviation = (squares / 1e5).sqrt();
    assert!(
        (deviation - 10_000.0 / 3_f64.sqrt()).abs() < 50.0,
        "{deviation}"
    );
    let normal = rule("delay_us=50,jitter_us=10,jitter_shape=normal,keep_order=false");
    let normal = run(&[normal], 1, 100_000, 100, 100_000);
    let beyond = normal.delays().filter(|delay| *delay > 60_050).count();
    assert!(
        (beyond as f64 / 1e5 - 0.1587).abs() < 0.01,
        "a sixth lies beyond one deviation"
    );
    assert_ne!(uniform.numbers(), (0..100_000).collect::<Vec<_>>());
}

#[test]
fn jitter_keeps_the_order_where_it_is_told_to() {
    let outcome = run(&[rule("delay_us=50,jitter_us=50")], 1, 10_000, 100, 10_000);
    assert_eq!(outcome.numbers(), (0..10_000).collect::<Vec<_>>());
}

#[test]
fn held_back_packets_are_overtaken_by_as_many_as_asked_for() {
    let rules = [rule("reorder=0.05,reorder_packets=3")];
    let outcome = run(&rules, 1, 100_000, 100, 1_000);
    let held = |transit: &Transit| transit.done.is_held_back;
    assert!((outcome.share(held) - 0.05).abs() < 0.003);
    let numbers = outcome.numbers();
    let mut later = 0;
    for (at, number) in numbers.iter().enumerate() {
        let transit = outcome.transits[at];
        if !transit.done.is_held_back {
            continue;
        }
        // Three that were not held back came first, and those held back among them do not count.
        let near = &outcome.transits[at.saturating_sub(50)..at];
        let overtook = near
            .iter()
            .filter(|p| p.packet > *number && !p.done.is_held_back);
        let count = overtook.count();
        assert!(count == 3 || *number > 99_900, "{number}: {count}");
        later += usize::from(count == 3);
    }
    assert!(later > 4_000);
}

#[test]
fn nobody_is_held_back_for_ever() {
    let rules = [rule("reorder=1,reorder_packets=3,reorder_us=5")];
    let outcome = run(&rules, 1, 10, 100_000, 100);
    assert_eq!(outcome.numbers(), (0..10).collect::<Vec<_>>());
    // By time alone.
    let outcome = run(&[rule("reorder=0.5,reorder_us=5")], 1, 1_000, 1_000, 100);
    for transit in &outcome.transits {
        let expected = if transit.done.is_held_back { 5_000 } else { 0 };
        assert_eq!(transit.delay_ns(), Some(expected));
    }
}

#[test]
fn the_rate_and_the_queue_of_a_link_are_kept() {
    // 100 bytes take 8 us at 100 Mbit/s; ten packets fit.
    let rules = [rule("rate_mbps=100,queue_bytes=1000")];
    let outcome = run(&rules, 1, 10_000, 4_000, 100);
    let full = outcome.share(|transit| transit.fate == Fate::Queue);
    assert!((full - 0.5).abs() < 0.01, "half of twice the rate: {full}");
    assert!(
        outcome
            .delays()
            .all(|delay| (8_000..=84_000).contains(&delay))
    );
    let passed: Vec<_> = outcome
        .transits
        .iter()
        .filter(|p| p.fate == Fate::Passed)
        .collect();
    let gaps = passed
        .windows(2)
        .map(|pair| pair[1].departure_ns - pair[0].departure_ns);
    assert!(gaps.min() >= Some(8_000));
}

#[test]
fn duplicates_and_corruption_are_as_frequent_as_asked_for() {
    let outcome = run(&[rule("duplicate=0.1,corrupt=0.2")], 1, 50_000, 100, 100);
    let copies = outcome
        .transits
        .iter()
        .filter(|p| p.done.is_duplicate)
        .count();
    assert!((copies as f64 / 5e4 - 0.1).abs() < 0.006);
    assert!((outcome.share(|p| p.done.is_corrupted) - 0.2).abs() < 0.01);
    for (out, transit) in outcome.out.iter().zip(&outcome.transits) {
        let original = packet(transit.packet);
        let bits = out.iter().zip(&original).map(|(a, b)| (a ^ b).count_ones());
        assert_eq!(bits.sum::<u32>(), u32::from(transit.done.is_corrupted));
        assert_eq!(out[..14], original[..14]);
    }
}

#[test]
fn the_first_rule_that_takes_a_packet_is_applied() {
    let rules = [rule("only=marker:0,loss=1"), rule("only=data,delay_us=1")];
    let outcome = run(&rules, 1, 1_000, 100, 1_000);
    for transit in &outcome.transits {
        let expected = match transit.class {
            Class::DATA => Some(1_000),
            Class { copy: 0, .. } => None,
            _ => Some(0),
        };
        assert_eq!(transit.delay_ns(), expected, "{transit:?}");
    }
}

#[test]
fn one_impairment_does_not_throw_anothers_dice() {
    let lost = |rules: &str| {
        let outcome = run(&[rule(rules)], 7, 5_000, 100, 10_000);
        let lost = outcome.transits.iter().filter(|p| p.fate == Fate::Lost);
        let mut lost: Vec<_> = lost.map(|transit| transit.packet).collect();
        lost.sort_unstable();
        lost
    };
    let alone = lost("loss=0.1");
    assert_eq!(
        lost("loss=0.1,duplicate=0.1,delay_us=9,jitter_us=5,reorder=0.1"),
        alone
    );
    let other = run(&[rule("loss=0.1")], 8, 5_000, 100, 10_000);
    assert_ne!(
        other.transits,
        run(&[rule("loss=0.1")], 7, 5_000, 100, 10_000).transits
    );
}

#[test]
fn what_is_left_at_the_end_is_accounted_for() {
    let mut pipeline = Pipeline::new(1, &[rule("delay_us=1000")], 1, 2);
    let mut fates = Vec::new();
    for number in 0..3 {
        let arrival = Arrival {
            now_ns: 0,
            packet: number,
            class: Class::DATA,
            is_made_up: false,
        };
        pipeline.arrive(arrival, packet(number), |transit| fates.push(transit));
    }
    assert_eq!(fates.len(), 1, "room for two");
    pipeline.end(|transit| fates.push(transit));
    assert!(
        fates
            .iter()
            .all(|p| p.fate == Fate::Overrun && p.direction == 1)
    );
    assert_eq!((fates.len(), here(&pipeline)), (3, 0));
}

fn rules() -> impl Strategy<Value = Impairment> {
    let shares = (0.0..0.5_f64, 0.0..0.5_f64, 0.0..0.5_f64, 0.0..0.5_f64);
    let times = (0.0..50.0_f64, 0.0..50.0_f64, 0.0..50.0_f64);
    let further = (
        0..4_u32,
        any::<bool>(),
        prop::option::of(1.0..1e4_f64),
        any::<bool>(),
    );
    (shares, times, further).prop_map(|(shares, times, further)| Impairment {
        loss: shares.0,
        duplicate: shares.1,
        reorder: shares.2,
        corrupt: shares.3,
        delay_us: times.0,
        jitter_us: times.1,
        reorder_us: times.2,
        reorder_packets: further.0,
        keep_order: further.1,
        rate_mbps: further.2,
        burst_packets: if further.3 { 5.0 } else { 0.0 },
        queue_bytes: 2_000,
        only: if further.3 { Only::Data } else { Only::All },
        ..Impairment::default()
    })
}

proptest! {
    /// Whatever is done: every packet and every copy has one fate, leaves no earlier than it came,
    /// in the order given, and all of it is the same once more.
    #[test]
    fn every_packet_has_one_fate(
        rules in prop::collection::vec(rules(), 0..3),
        seed: u64,
        packets in 0..300_u64,
        gap_ns in 0..20_000_u64,
        room in 1..300_usize,
    ) {
        let outcome = run(&rules, seed, packets, gap_ns, room);
        let copies = outcome.transits.iter().filter(|p| p.done.is_duplicate).count();
        prop_assert_eq!(outcome.transits.len(), usize::try_from(packets).unwrap() + copies);
        for number in 0..u32::try_from(packets).unwrap() {
            let of_it = outcome.transits.iter().filter(|p| p.arrived == number && !p.done.is_duplicate);
            prop_assert_eq!(of_it.count(), 1);
        }
        let passed: Vec<_> = outcome.transits.iter().filter(|p| p.fate == Fate::Passed).collect();
        prop_assert_eq!(passed.len(), outcome.out.len());
        for (place, transit) in (0..).zip(&passed) {
            prop_assert_eq!(transit.left, place);
            prop_assert!(transit.departure_ns >= transit.arrival_ns);
        }
        let ended = outcome.transits.iter().filter(|p| p.fate != Fate::Passed);
        prop_assert!(ended.clone().all(|p| p.left == NEVER && p.departure_ns == 0));
        prop_assert_eq!(run(&rules, seed, packets, gap_ns, room), outcome);
    }
}
