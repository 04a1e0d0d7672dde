use proptest::prelude::*;

use std::net::IpAddr;

use super::*;
use crate::estimate::tests::rate;
use measure::packet::FiveTuple;
use measure::rli::Prefix;

fn key(n: u8) -> FlowKey {
    FlowKey::Ip(FiveTuple {
        source: [10, 0, 0, n].into(),
        destination: [10, 0, 1, 1].into(),
        source_port: 7,
        destination_port: 80,
        protocol: 17,
    })
}

fn settings(flows_max: usize, hold_epochs: u64) -> TopSettings {
    TopSettings {
        flows_max,
        hold_epochs,
        pinned: Vec::new(),
    }
}

/// `packets` packets that took `delay` ticks each.
fn sums(packets: u64, delay: u64) -> FlowSums {
    FlowSums {
        packets,
        bytes: 100 * packets,
        lost: packets / 10,
        sum_ticks: (packets * delay).into(),
        sum_of_squares_ticks2: (packets * delay * delay).into(),
    }
}

/// A directory, fed without workers.
struct Bench {
    directory: Directory,
    numbers: Vec<FlowNumber>,
}

impl Bench {
    /// With flows 0 to `flows`, on segment 0 or 1 by their parity.
    fn new(flows: u8, settings: TopSettings) -> Self {
        let mut directory = Directory::default();
        directory.set_top(settings);
        let numbers = (0..flows).map(|n| directory.link(key(n), u32::from(n % 2), Epoch(0)));
        Self {
            numbers: numbers.collect(),
            directory,
        }
    }

    /// An epoch in which each flow has so many packets of such a delay, and others without slots.
    fn epoch(&mut self, epoch: u64, flows: &[(u64, u64)], untracked: u64) {
        let Self { directory, numbers } = self;
        for segment in 0..2 {
            let mut all = sums(untracked, 3);
            for (n, &(packets, delay)) in flows.iter().enumerate() {
                if n % 2 == segment {
                    all.add(&sums(packets, delay));
                }
            }
            directory
                .top
                .credit_segment(u32::try_from(segment).unwrap(), &all);
        }
        for (&number, &(packets, delay)) in numbers.iter().zip(flows) {
            let flow = &mut directory.flows[number.0 as usize];
            let sums = sums(packets, delay);
            flow.add(Epoch(epoch), &sums, None);
            let mut delays = SmallHistogram::default();
            delays.add(delay, packets.try_into().unwrap());
            let is_kept = directory.top.is_named(number);
            let delays = is_kept.then_some(&delays);
            let of = (flow.key, flow.segment);
            directory.top.credit(of, Epoch(epoch), &sums, delays);
        }
        directory.close(Epoch(epoch), rate(), 1_000);
    }

    fn held(&self) -> Vec<(FlowKey, Reason)> {
        let mut held: Vec<_> = self
            .directory
            .top
            .iter()
            .map(|held| (held.key, held.reason))
            .collect();
        held.sort_unstable_by_key(|(key, _)| *key);
        held
    }
}

#[test]
fn the_largest_and_the_slowest_share_the_series() {
    let mut bench = Bench::new(5, settings(3, 10));
    // Flow 4 is slowest, but of too few packets to say so.
    let flows = [(50, 5), (900, 5), (20, 70), (800, 6), (2, 900)];
    bench.epoch(0, &flows, 0);
    let expected = [
        (key(1), Reason::Packets),
        (key(2), Reason::Delay),
        (key(3), Reason::Packets),
    ];
    assert_eq!(bench.held(), expected);
    assert_eq!(bench.directory.top.folded(), 5, "no flow had series before");
    bench.epoch(1, &flows, 0);
    assert_eq!(bench.directory.top.folded(), 5 + 2);
}

#[test]
fn pinned_flows_come_first() {
    let mut pinned = settings(2, 10);
    pinned.pinned.push(FlowRule {
        source: Some(Prefix::new([10, 0, 0, 4].into(), 31).unwrap()),
        ..FlowRule::default()
    });
    let mut bench = Bench::new(6, pinned);
    bench.epoch(
        0,
        &[(1_000, 1), (900, 1), (800, 1), (700, 1), (1, 1), (0, 0)],
        0,
    );
    let expected = [(key(0), Reason::Packets), (key(4), Reason::Pinned)];
    assert_eq!(bench.held(), expected, "flow 5 had no packets");
}

#[test]
fn series_are_kept_for_a_while_and_given_up_when_others_are_greater() {
    let mut bench = Bench::new(2, settings(1, 3));
    bench.epoch(0, &[(10, 1), (5, 1)], 0);
    for epoch in 1..4 {
        bench.epoch(epoch, &[(1, 1), (500, 1)], 0);
        assert_eq!(bench.held(), [(key(0), Reason::Packets)], "epoch {epoch}");
    }
    bench.epoch(4, &[(1, 1), (500, 1)], 0);
    assert_eq!(bench.held(), [(key(1), Reason::Packets)]);
    // Greater flows keep their series for as long as they are.
    for epoch in 5..20 {
        bench.epoch(epoch, &[(1, 1), (500, 1)], 0);
        assert_eq!(bench.held().len(), 1);
    }
    let held = bench.directory.top.iter().next().unwrap();
    assert_eq!((held.since, held.credited.packets), (Epoch(5), 15 * 500));
    let course = &held.history.courses(0.0)[0];
    assert_eq!(course.buckets.last().unwrap().packets, 500);
}

#[test]
fn fewer_series_are_kept_once_they_need_not_be_held() {
    let mut bench = Bench::new(4, settings(4, 2));
    let flows = [(40, 1), (30, 1), (20, 1), (10, 1)];
    bench.epoch(0, &flows, 0);
    assert_eq!(bench.held().len(), 4);
    bench.directory.set_top(settings(1, 2));
    bench.epoch(1, &flows, 0);
    bench.epoch(2, &flows, 0);
    bench.epoch(3, &flows, 0);
    assert_eq!(bench.held(), [(key(0), Reason::Packets)]);
    bench.directory.set_top(settings(0, 2));
    bench.epoch(6, &flows, 0);
    assert_eq!(bench.held(), []);
}

#[test]
fn percentiles_are_those_of_epochs_whose_packets_are_all_in_histograms() {
    let mut bench = Bench::new(2, settings(1, 10));
    let quantiles = |bench: &Bench| {
        let held = bench.directory.top.iter().next().unwrap();
        held.quantiles
            .map(|quantiles| (quantiles.p99_ns, quantiles.max_ns))
    };
    bench.epoch(0, &[(900, 64), (2, 64)], 0);
    assert_eq!(quantiles(&bench), None, "chosen at the end of the epoch");
    bench.epoch(1, &[(900, 64), (2, 64)], 0);
    // The middle of a bucket, and the exact maximum.
    assert_eq!(quantiles(&bench), Some((60.0, Some(64.0))));
    // One of two workers has no histogram yet.
    let held = bench.directory.top.iter().next().unwrap();
    let of = (held.key, held.segment);
    bench.directory.top.credit(of, Epoch(2), &sums(5, 64), None);
    assert!(quantiles(&bench).is_some(), "until that epoch closes");
    bench.epoch(2, &[(900, 64), (2, 64)], 0);
    let number = bench.numbers[0];
    bench.directory.flows[number.0 as usize].recent.packets += 5;
    bench.directory.close(Epoch(2), rate(), 1_000);
    assert_eq!(quantiles(&bench), None);
    // None in this epoch: those of its last one are still none.
    bench.epoch(3, &[(0, 64), (2, 64)], 0);
    assert_eq!(quantiles(&bench), None);
    assert_eq!(bench.directory.top.quantiles(of.0, of.1), None);
}

proptest! {
    #[test]
    fn every_packet_is_credited_once_and_sums_only_rise(
        flows_max in 0_usize..4,
        hold in 1_u64..4,
        epochs in prop::collection::vec(
            (prop::collection::vec((0_u64..50, 1_u64..9), 6), 0_u64..20), 1..12),
    ) {
        let mut bench = Bench::new(6, settings(flows_max, hold));
        let mut all = FlowSums::default();
        // By flow: what it was credited with in series that it has lost since.
        let mut before: HashMap<(FlowKey, u32), FlowSums> = HashMap::new();
        let mut given_up = FlowSums::default();
        let mut other_before: HashMap<u32, FlowSums> = HashMap::new();
        for (epoch, (flows, untracked)) in (0..).zip(&epochs) {
            for &(packets, delay) in flows {
                all.add(&sums(packets, delay));
            }
            all.add(&sums(*untracked, 3));
            all.add(&sums(*untracked, 3));
            let credits: HashMap<_, _> = bench.directory.top.iter()
                .map(|held| ((held.key, held.segment), held.credited)).collect();
            bench.epoch(epoch, flows, *untracked);
            let now: HashMap<_, _> = bench.directory.top.iter()
                .map(|held| ((held.key, held.segment), held.credited)).collect();
            for (flow, credited) in &credits {
                if let Some(now) = now.get(flow) {
                    prop_assert!(now.packets >= credited.packets);
                    continue;
                }
                // Credited with this epoch before it lost its series.
                let number = usize::from(match flow.0 {
                    FlowKey::Ip(FiveTuple {
                        source: IpAddr::V4(source),
                        ..
                    }) => source.octets()[3],
                    _ => 0,
                });
                let (packets, delay) = flows[number];
                given_up.add(credited);
                given_up.add(&sums(packets, delay));
            }
            before.clone_from(&now);
            let mut credited = given_up;
            for sums in before.values() {
                credited.add(sums);
            }
            for (segment, sums) in bench.directory.top.other() {
                let other = other_before.insert(segment, sums).unwrap_or_default();
                prop_assert!(sums.packets >= other.packets && sums.lost >= other.lost);
                prop_assert!(sums.sum_ticks >= other.sum_ticks);
                credited.add(&sums);
            }
            prop_assert_eq!(credited, all);
            prop_assert!(bench.directory.top.iter().count() <= flows_max);
        }
    }
}
