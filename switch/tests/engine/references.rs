//! References among packets of a whole engine: what they say of a segment is what stamps say.

use std::num::NonZeroU32;

use contract::ids::{GenerationId, PortIndex};
use measure::observation::SegmentIndex;
use measure::rli::{Link, Method, Policy};
use simulate::tube::{EAST, GHZ, INTERVAL, Setup, TWO_PATCHED, TestTube, WEST, rate, udp};
use switch::packet_io::ClassIndex;
use switch::references::{References, ReferencesLayout, StreamLayout};

fn references(method: Method) -> References {
    let stream = |segment: u16, port: PortIndex| StreamLayout {
        segment: SegmentIndex(segment),
        port,
        class: ClassIndex(0),
        link: Link::new(GHZ, 24).unwrap(),
        method,
    };
    let layout = ReferencesLayout {
        generation: GenerationId(0),
        rate: rate(),
        policy: Policy::Count {
            packets: NonZeroU32::new(10).unwrap(),
        },
        buffer_packets: 100,
        segments: 2,
        keeps_flows: false,
        streams: vec![stream(0, WEST), stream(1, EAST)],
    };
    References::new(&layout).unwrap()
}

/// Packets of both ways through three epochs and a queue; then the means of what was sealed.
fn means(setup: &Setup) -> Vec<(u64, u64, u128, u64, f64)> {
    let mut tube = TestTube::with_references(setup, Some(references(Method::Sums)));
    let mut now = 100;
    for n in 0..300 {
        for packet in 0..n % 7 {
            tube.arrive(EAST, udp(10 * n + packet));
        }
        if n % 3 == 0 {
            tube.arrive(WEST, udp(n));
        }
        // Bursts, a queue, and now and then the time for it to empty.
        for _ in 0..4 {
            now += u64::from(n % 5) * 900 + 130;
            tube.pass_at(now);
        }
    }
    let end = 5 * INTERVAL;
    while now < end {
        now += 10_000;
        tube.pass_at(now);
    }
    tube.assert_conserved();
    let mut means = Vec::new();
    while let Some(shard) = tube.control.take_sealed() {
        for segment in shard.segments() {
            means.push((
                segment.tally.received,
                segment.rli.packets(),
                segment.moments.sum_ticks(),
                segment.rli.exact_packets(),
                segment.rli.sum_ns(),
            ));
        }
        tube.control.give_back(shard, []);
    }
    means
}

#[test]
fn references_agree_with_stamps_in_every_epoch() {
    for capacity_bps in [None, Some(GHZ)] {
        let setup = Setup {
            capacity_bps,
            queue_packets: 32,
            ..TWO_PATCHED
        };
        let means = means(&setup);
        let received: u64 = means.iter().map(|mean| mean.0).sum();
        assert!(means.len() >= 6 && received > 900, "{means:?}");
        // Without a queue, packets leave in the pass that they come in, in no time by this clock.
        let waited = means.iter().any(|mean| mean.2 > 0);
        assert_eq!(waited, capacity_bps.is_some());
        for (received, packets, sum, exact, estimated) in means {
            // Whatever the queue refused, and the first packet of an epoch included.
            assert_eq!((packets, exact), (received, received));
            assert!(
                (estimated - sum as f64).abs() < 1e-3,
                "{estimated} for {sum}"
            );
        }
    }
}
