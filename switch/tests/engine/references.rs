//! References among packets of a complete engine: their figures for a segment equal those of stamps.

use simulate::rack::{GHZ, INTERVAL, Rack, config, port, udp};

const REST: &str = r#"
    "forwarding": {"mode": "patch", "pairs": [["a", "b"]]},
    "measurement": {"rli": {"policy": {"kind": "count", "packets": 10}}}"#;

/// Packets of both ways through three epochs and a queue, whose links have these keys; then the means of what was sealed.
fn means(egress: &str) -> Vec<(u64, u64, u128, u64, f64)> {
    let egress = format!(r#""egress": {{"queue_packets": 32{egress}}},"#);
    let ports = [port("a", &egress), port("b", &egress)].join(", ");
    let mut rack = Rack::new(&config(1, &ports, REST));
    let mut now = 100;
    for n in 0..300 {
        for packet in 0..n % 7 {
            rack.arrive(0, udp(7, 10 * n + packet, 60));
        }
        if n % 3 == 0 {
            rack.arrive(1, udp(7, n, 60));
        }
        // Bursts, a queue, and now and then the time for it to empty.
        for _ in 0..4 {
            now += u64::from(n % 5) * 900 + 130;
            rack.pass(now);
        }
    }
    let end = 5 * INTERVAL;
    while now < end {
        now += 10_000;
        rack.pass(now);
    }
    rack.assert_conserved();
    let mut means = Vec::new();
    rack.take_sealed(|_, shard| {
        means.extend(shard.segments().iter().map(|segment| {
            let (tally, moments, rli) = (segment.tally, &segment.moments, &segment.rli);
            let (packets, exact) = (rli.packets(), rli.exact_packets());
            (
                tally.received,
                packets,
                moments.sum_ticks(),
                exact,
                rli.sum_ns(),
            )
        }));
    });
    means
}

#[test]
fn references_agree_with_stamps_in_every_epoch() {
    for (egress, has_queue) in [("", false), (&*format!(r#", "capacity_bps": {GHZ}"#), true)] {
        let means = means(egress);
        let received: u64 = means.iter().map(|mean| mean.0).sum();
        assert!(means.len() >= 6 && received > 900, "{means:?}");
        // Without a queue, packets leave in the pass that they come in, in no time by this clock.
        let waited = means.iter().any(|mean| mean.2 > 0);
        assert_eq!(waited, has_queue);
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
