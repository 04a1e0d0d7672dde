use std::collections::HashSet;

use super::*;
use crate::traffic::{PS_PER_S, Profile};
use proptest::prelude::*;

const RATE: u64 = CAPACITY_BPS;

fn fifo(buffer_bytes: u64) -> LinkConfig {
    LinkConfig {
        buffer_bytes,
        ..LinkConfig::ACCEPTANCE
    }
}

fn arrival(sent_ps: u64, bytes: u32, class: u8) -> Crossing {
    Crossing {
        sent_ps,
        received_ps: None,
        flow: 0,
        bytes,
        kind: Kind::Regular,
        class,
    }
}

fn traffic(arrivals: Vec<Crossing>) -> Traffic {
    let duration_ps = arrivals.last().map_or(1, |last| last.sent_ps + 1);
    Traffic {
        arrivals,
        flows: 1,
        duration_ps,
    }
}

fn departures(arrivals: &[Crossing], link: &LinkConfig) -> Vec<Option<u64>> {
    cross(&traffic(arrivals.to_vec()), link, 1, |_| None)
        .iter()
        .map(|crossing| crossing.received_ps)
        .collect()
}

/// Quadratic: the time is walked from one decision to the next, and each looks at all packets.
fn naive_departures(arrivals: &[Crossing], buffer_bytes: u64, classes: u8) -> Vec<Option<u64>> {
    let mut start: Vec<Option<u64>> = vec![None; arrivals.len()];
    let mut admitted = vec![false; arrivals.len()];
    let mut free_ps = 0;
    let time = |a: &Crossing| serialisation_ps(a.bytes, RATE);
    for next in 0..=arrivals.len() {
        let now = arrivals.get(next).map_or(u64::MAX, |a| a.sent_ps);
        // Everything that starts before this arrival.
        loop {
            let waiting = |i: &usize| admitted[*i] && start[*i].is_none();
            let Some(first) = (0..next)
                .filter(waiting)
                .min_by_key(|&i| arrivals[i].sent_ps)
            else {
                break;
            };
            let at = free_ps.max(arrivals[first].sent_ps);
            if at > now {
                break;
            }
            let ready = |i: &usize| waiting(i) && arrivals[*i].sent_ps <= at;
            // The idle link takes the first; after that the classes count.
            let chosen = if free_ps < arrivals[first].sent_ps {
                first
            } else {
                (0..next)
                    .filter(ready)
                    .min_by_key(|&i| (arrivals[i].class, i))
                    .unwrap()
            };
            start[chosen] = Some(at);
            free_ps = at + time(&arrivals[chosen]);
        }
        let Some(new) = arrivals.get(next) else { break };
        let held: u64 = (0..next)
            .filter(|&i| admitted[i] && arrivals[i].class == new.class)
            .filter(|&i| start[i].is_none_or(|s| s + time(&arrivals[i]) > now))
            .map(|i| u64::from(arrivals[i].bytes))
            .sum();
        assert!(new.class < classes);
        admitted[next] = held + u64::from(new.bytes) <= buffer_bytes;
    }
    (0..arrivals.len())
        .map(|i| start[i].map(|s| s + time(&arrivals[i])))
        .collect()
}

fn arrivals(classes: u8) -> impl Strategy<Value = Vec<Crossing>> {
    let packet = (0_u64..1_500, 64_u32..1_500, 0..classes);
    proptest::collection::vec(packet, 1..60).prop_map(|packets| {
        let mut at_ps = 0;
        packets
            .into_iter()
            .map(|(gap_ns, bytes, class)| {
                at_ps += gap_ns * 1_000;
                arrival(at_ps, bytes, class)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn a_fifo_queue_is_the_naive_model(arrivals in arrivals(1), buffer in 1_500_u64..20_000) {
        let got = departures(&arrivals, &fifo(buffer));
        prop_assert_eq!(&got, &naive_departures(&arrivals, buffer, 1));
        let left: Vec<u64> = got.iter().copied().flatten().collect();
        prop_assert!(left.is_sorted(), "first in, first out");
        for (arrival, left) in arrivals.iter().zip(got) {
            let shortest = arrival.sent_ps + serialisation_ps(arrival.bytes, RATE);
            prop_assert!(left.is_none_or(|at| at >= shortest));
        }
    }

    #[test]
    fn priorities_are_the_naive_model(arrivals in arrivals(3), buffer in 1_500_u64..20_000) {
        let mut link = fifo(buffer);
        link.queues = 3;
        prop_assert_eq!(departures(&arrivals, &link), naive_departures(&arrivals, buffer, 3));
    }
}

#[test]
fn delay_is_wait_and_serialisation() {
    let link = LinkConfig::ACCEPTANCE;
    // 1500 bytes last 1.2 us, 64 bytes 51.2 ns.
    let packets = [
        arrival(0, 1500, 0),
        arrival(200_000, 64, 0),
        arrival(5_000_000, 64, 0),
    ];
    let left = departures(&packets, &link);
    assert_eq!(left, [Some(1_200_000), Some(1_251_200), Some(5_051_200)]);
    let crossing = cross(&traffic(packets.to_vec()), &link, 1, |_| None)[1];
    assert_eq!(crossing.delay_ns(), Some(1_051.2));
    assert_eq!(
        (crossing.sent_ns(), crossing.received_ns()),
        (200, Some(1_251))
    );
}

#[test]
fn packets_and_references_are_conserved() {
    let profile = Profile {
        utilisation: 1.3,
        modulation: 0.25,
        duration_s: 0.02,
    };
    let traffic = profile.draw(3);
    let link = LinkConfig {
        dropping: Dropping::Red,
        ..fifo(100_000)
    };
    let mut seen = 0_u32;
    let mut injected = 0;
    let crossings = cross(&traffic, &link, 5, |_| {
        seen += 1;
        let due = seen.is_multiple_of(100);
        injected += usize::from(due);
        due.then_some(100)
    });
    assert_eq!(crossings.len(), traffic.arrivals.len() + injected);
    assert!(injected > 50, "{injected}");
    let references = |c: &&Crossing| c.kind == Kind::Reference;
    assert_eq!(crossings.iter().filter(references).count(), injected);
    assert_eq!(
        seen as usize,
        traffic
            .arrivals
            .iter()
            .filter(|a| a.kind == Kind::Regular)
            .count()
    );
    // What the link let through fits its rate, and it idled little.
    let sent: u64 = crossings
        .iter()
        .filter(|c| c.received_ps.is_some())
        .map(|c| u64::from(c.bytes))
        .sum();
    let last = crossings
        .iter()
        .filter_map(|c| c.received_ps)
        .max()
        .unwrap();
    let share = sent as f64 * 8.0 / (last as f64 / PS_PER_S as f64) / RATE as f64;
    assert!((0.97..=1.0).contains(&share), "{share}");
}

#[test]
fn red_drops_between_its_thresholds() {
    let buffer = 100_000;
    let share = |backlog: u64| {
        let mut state = Red::new(buffer);
        let mut rng = Pcg64::seed_from_u64(1);
        // Long enough for the average to be there.
        let dropped = |state: &mut Red, rng: &mut Pcg64| {
            (0..20_000)
                .filter(|_| state.drops(backlog, 0, RATE, rng))
                .count()
        };
        dropped(&mut state, &mut rng);
        dropped(&mut state, &mut rng) as f64 / 20_000.0
    };
    assert!(share(24_000) < 1e-9);
    assert!((share(76_000) - 1.0).abs() < 1e-9);
    // Evenly spread drops come twice as often as the base probability: their gaps are uniform on
    // 1 to 1/p, with mean 1/2p.
    let half = share(50_000);
    assert!((half / 0.1 - 1.0).abs() < 0.1, "{half}");
    assert!(share(35_000) < half);
}

#[test]
fn red_forgets_while_idle() {
    let mut state = Red::new(100_000);
    let mut rng = Pcg64::seed_from_u64(1);
    for _ in 0..10_000 {
        state.drops(80_000, 0, RATE, &mut rng);
    }
    assert!(state.drops(80_000, 0, RATE, &mut rng));
    state.idle_from_ps = Some(0);
    assert!(!state.drops(0, PS_PER_S / 100, RATE, &mut rng));
}

fn light(duration_s: f64, seed: u64) -> Traffic {
    let profile = Profile {
        utilisation: 0.6,
        modulation: 0.05,
        duration_s,
    };
    profile.draw(seed)
}

fn sample() -> Vec<Crossing> {
    cross(&light(0.05, 1), &LinkConfig::ACCEPTANCE, 1, |_| None)
}

#[test]
fn losses_have_the_share_asked_for() {
    let mut crossings = sample();
    let lost = |crossings: &[Crossing]| {
        let lost = crossings.iter().filter(|c| c.received_ps.is_none());
        lost.count() as f64 / crossings.len() as f64
    };
    assert!(lost(&crossings) < 1e-12);
    lose(&mut crossings, 0.1, 7);
    assert!(
        (lost(&crossings) - 0.1).abs() < 0.01,
        "{}",
        lost(&crossings)
    );
}

#[test]
fn jitter_adds_its_distribution() {
    let exact = sample();
    let mut late = exact.clone();
    jitter(&mut late, &Weibull::new(1_000.0, 0.6).unwrap(), 11);
    let added = late.iter().zip(&exact);
    let added = added.map(|(late, exact)| late.delay_ns().unwrap() - exact.delay_ns().unwrap());
    let mean = added.sum::<f64>() / exact.len() as f64;
    // Gamma(1 + 1/0.6) = 1.50458.
    assert!((mean / 1_504.6 - 1.0).abs() < 0.05, "{mean}");
    let received: Vec<u64> = late.iter().filter_map(|c| c.received_ps).collect();
    assert!(!received.is_sorted(), "some overtake others");
}

#[test]
fn flows_keep_to_their_path() {
    let traffic = light(0.01, 2);
    let link = LinkConfig {
        capacity_bps: RATE / 2,
        ..LinkConfig::ACCEPTANCE
    };
    let far = 50_000_000_000;
    let crossings = cross_paths(&traffic, &link, &[0, far], 9);
    assert_eq!(crossings.len(), traffic.arrivals.len());
    assert!(crossings.is_sorted_by_key(|c| c.sent_ps));
    let mut taken = HashSet::new();
    for crossing in &crossings {
        let number = path_of(crossing.flow, 2, 9);
        let delay_ps = crossing.received_ps.unwrap() - crossing.sent_ps;
        assert_eq!(delay_ps >= far, number == 1);
        taken.insert(number);
    }
    assert_eq!(taken.len(), 2);
}
