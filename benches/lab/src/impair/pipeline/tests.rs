//! The box with a simulated clock.

use proptest::prelude::*;

use super::*;

/// Packets of 100 bytes that carry their number, which is their hash, too.
fn packet(number: u64) -> Vec<u8> {
    let mut packet = vec![0; 100];
    packet[14..22].copy_from_slice(&number.to_le_bytes());
    packet
}

fn rule(text: &str) -> Rule {
    text.parse().unwrap()
}

/// The packets that came out, and the fates of all.
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

fn here(pipeline: &Pipeline<Vec<u8>>) -> usize {
    pipeline.under_way.len() + pipeline.held.len()
}

fn arrival(number: u64, now_ns: u64) -> Transit {
    Transit {
        packet: number,
        arrival_ns: now_ns,
        bytes: 100,
        ..Transit::default()
    }
}

/// Lets packets arrive every `gap_ns`, and takes each out when it is due.
fn run(rule: &Rule, seed: u64, packets: u64, gap_ns: u64, room: usize) -> Outcome {
    let mut pipeline = Pipeline::new(0, rule, seed, room);
    let mut outcome = Outcome::default();
    let mut now_ns = 0;
    let drain = |pipeline: &mut Pipeline<Vec<u8>>, now_ns, outcome: &mut Outcome| {
        while let Some((packet, transit)) = pipeline.next(now_ns) {
            outcome.transits.push(pipeline.leave(transit, now_ns));
            outcome.out.push(packet);
        }
    };
    for number in 0..packets {
        while let Some(next_ns) = pipeline.next_ns().filter(|&next_ns| next_ns < now_ns) {
            drain(&mut pipeline, next_ns, &mut outcome);
        }
        pipeline.arrive(arrival(number, now_ns), packet(number), |transit| {
            outcome.transits.push(transit);
        });
        assert!(here(&pipeline) <= room);
        drain(&mut pipeline, now_ns, &mut outcome);
        now_ns += gap_ns;
    }
    while let Some(next_ns) = pipeline.next_ns() {
        drain(&mut pipeline, next_ns, &mut outcome);
    }
    assert_eq!(here(&pipeline), 0);
    outcome
}

#[test]
fn without_a_rule_it_is_a_cable() {
    let outcome = run(&rule(""), 1, 1_000, 10, 1);
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
fn losses_are_as_many_as_asked_for_each_by_itself() {
    let outcome = run(&rule("loss=0.05"), 1, 200_000, 10, 10);
    let lost = |transit: &Transit| transit.fate == Fate::Lost;
    assert!((outcome.share(lost) - 0.05).abs() < 0.002);
    let runs = outcome.transits.chunk_by(|a, b| a.fate == b.fate);
    let runs = runs.filter(|run| lost(&run[0])).map(<[_]>::len);
    let (count, sum) = runs.fold((0.0, 0.0), |(n, sum), run| (n + 1.0, sum + run as f64));
    // A run of such losses ends with probability .95.
    assert!((sum / count - 1.0_f64 / 0.95).abs() < 0.02);
}

#[test]
fn delays_are_those_asked_for() {
    let fixed = run(&rule("delay_us=50"), 1, 100, 7, 100_000);
    assert!(fixed.delays().all(|delay| delay == 50_000));
    // Packets are too far apart to meet.
    let outcome = run(&rule("delay_us=50,jitter_us=10"), 1, 100_000, 100_000, 10);
    let is_right = |delay: u64| (40_000..=60_000).contains(&delay);
    assert!(outcome.delays().all(is_right));
    let mean = outcome.delays().sum::<u64>() as f64 / 1e5;
    assert!((mean - 50_000.0).abs() < 100.0, "{mean}");
    let squares = outcome.delays().map(|d| (d as f64 - 50_000.0).powi(2));
    let deviation = (squares.sum::<f64>() / 1e5).sqrt();
    assert!(
        (deviation - 10_000.0 / 3_f64.sqrt()).abs() < 50.0,
        "{deviation}"
    );
}

#[test]
fn jitter_keeps_the_order() {
    let outcome = run(&rule("delay_us=50,jitter_us=50"), 1, 10_000, 100, 10_000);
    assert_eq!(outcome.numbers(), (0..10_000).collect::<Vec<_>>());
}

#[test]
fn held_back_packets_are_overtaken_by_as_many_as_asked_for() {
    let rule = rule("reorder=0.05,reorder_packets=3");
    let outcome = run(&rule, 1, 100_000, 100, 1_000);
    let held = |transit: &Transit| transit.is_held_back;
    assert!((outcome.share(held) - 0.05).abs() < 0.003);
    let numbers = outcome.numbers();
    let mut later = 0;
    for (at, number) in numbers.iter().enumerate() {
        let transit = outcome.transits[at];
        if !transit.is_held_back {
            continue;
        }
        // Three packets that were not held back came first; others among them that were held back do not count.
        let near = &outcome.transits[at.saturating_sub(50)..at];
        let overtook = near
            .iter()
            .filter(|p| p.packet > *number && !p.is_held_back);
        let count = overtook.count();
        assert!(count == 3 || *number > 99_900, "{number}: {count}");
        later += usize::from(count == 3);
    }
    assert!(later > 4_000);
}

#[test]
fn nobody_is_held_back_for_ever() {
    let rule = rule("reorder=1,reorder_packets=3");
    let outcome = run(&rule, 1, 10, 100_000, 100);
    assert_eq!(outcome.numbers(), (0..10).collect::<Vec<_>>());
    assert!(outcome.delays().all(|delay| delay == HELD_NS_MAX));
}

#[test]
fn the_rate_and_the_queue_of_a_link_are_kept() {
    // 100 bytes take 8 us at 100 Mbit/s; 15,000 packets fit, so that half are dropped from the 30,000th on.
    let outcome = run(&rule("rate_mbps=100"), 1, 100_000, 4_000, 20_000);
    let full = outcome.share(|transit| transit.fate == Fate::Queue);
    assert!((full - 0.35).abs() < 0.01, "{full}");
    let longest_ns = 15_000 * 8_000 + 4_000;
    let is_right = |delay: u64| (8_000..=longest_ns).contains(&delay);
    assert!(outcome.delays().all(is_right));
    let passed = outcome.transits.iter().filter(|p| p.fate == Fate::Passed);
    let passed: Vec<_> = passed.collect();
    let gaps = passed
        .windows(2)
        .map(|pair| pair[1].departure_ns - pair[0].departure_ns);
    assert!(gaps.min() >= Some(8_000));
}

#[test]
fn one_impairment_does_not_throw_anothers_dice() {
    let lost = |text: &str| {
        let outcome = run(&rule(text), 7, 5_000, 100, 10_000);
        let lost = outcome.transits.iter().filter(|p| p.fate == Fate::Lost);
        let mut lost: Vec<_> = lost.map(|transit| transit.packet).collect();
        lost.sort_unstable();
        lost
    };
    let alone = lost("loss=0.1");
    let beside = lost("loss=0.1,delay_us=9,jitter_us=5,reorder=0.1,reorder_packets=2");
    assert_eq!(beside, alone);
    let of_seed = |seed| run(&rule("loss=0.1"), seed, 5_000, 100, 10_000).transits;
    assert_ne!(of_seed(8), of_seed(7));
}

#[test]
fn what_is_left_at_the_end_is_accounted_for() {
    let mut pipeline = Pipeline::new(1, &rule("delay_us=1000"), 1, 2);
    let mut fates = Vec::new();
    for number in 0..3 {
        pipeline.arrive(arrival(number, 0), packet(number), |transit| {
            fates.push(transit);
        });
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

fn rules() -> impl Strategy<Value = Rule> {
    let shares = (0.0..0.5_f64, 0.0..0.5_f64);
    let times = (0.0..50.0_f64, 0.0..50.0_f64);
    let further = (1..4_u32, prop::option::of(1.0..1e4_f64));
    (shares, times, further).prop_map(|(shares, times, further)| Rule {
        loss: shares.0,
        reorder: shares.1,
        delay_us: times.0,
        jitter_us: times.1,
        reorder_packets: further.0,
        rate_mbps: further.1,
        ..Rule::default()
    })
}

proptest! {
    /// With any rule, every packet has one fate, leaves no earlier than it came, in the given order, and a second run
    /// is identical.
    #[test]
    fn every_packet_has_one_fate(
        rule in rules(),
        seed: u64,
        packets in 0..300_u64,
        gap_ns in 0..20_000_u64,
        room in 1..300_usize,
    ) {
        let outcome = run(&rule, seed, packets, gap_ns, room);
        let mut arrived: Vec<u32> = outcome.transits.iter().map(|p| p.arrived).collect();
        arrived.sort_unstable();
        prop_assert_eq!(arrived, (0..u32::try_from(packets).unwrap()).collect::<Vec<_>>());
        let passed: Vec<_> = outcome.transits.iter().filter(|p| p.fate == Fate::Passed).collect();
        prop_assert_eq!(passed.len(), outcome.out.len());
        for (place, transit) in (0..).zip(&passed) {
            prop_assert_eq!(transit.left, place);
            prop_assert!(transit.departure_ns >= transit.arrival_ns);
        }
        let ended = outcome.transits.iter().filter(|p| p.fate != Fate::Passed);
        prop_assert!(ended.clone().all(|p| p.left == NEVER && p.departure_ns == 0));
        prop_assert_eq!(run(&rule, seed, packets, gap_ns, room), outcome);
    }
}
