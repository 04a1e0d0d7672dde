//! The engine in a test rack: in-memory ports and a clock turned by hand, so that every count and
//! every delay is known exactly.
use contract::counters::DropReason;
use contract::ids::PortIndex;
use contract::lldp::FRAME_BYTES;
use measure::shard::SegmentSynopsis;
use proptest::prelude::*;
use simulate::rack::{GHZ, GRACE, INTERVAL, Rack, RackWorker, between, config, port, udp};
use switch::packet_io::BURST;

const PATCH: &str = r#""forwarding": {"mode": "patch", "pairs": [["a", "b"]]}"#;
const BRIDGE: &str = r#""forwarding": {"mode": "bridge"}"#;

const EAST: usize = 0;
const WEST: usize = 1;

/// A switch of one worker whose ports, by these names, have these keys of their egress.
fn switch(names: &[&str], egress: &str, forwarding: &str) -> Rack {
    let egress = format!(r#""egress": {{{egress}}},"#);
    let ports: Vec<_> = names.iter().map(|name| port(name, &egress)).collect();
    let measurement = r#""measurement": {"lda": {"banks": [{"rows": 64, "probability": 1.0}]}}"#;
    let rest = format!("{forwarding}, {measurement}");
    Rack::new(&config(1, &ports.join(", "), &rest))
}

fn patched(egress: &str) -> Rack {
    switch(&["a", "b"], egress, PATCH)
}

/// The first segment in each epoch that was sealed.
fn sealed(rack: &mut Rack) -> Vec<(u64, SegmentSynopsis)> {
    let mut sealed = Vec::new();
    rack.take_sealed(|_, shard| sealed.push((shard.epoch().0, shard.segments()[0].clone())));
    sealed
}

/// A datagram distinguished from others by `n`.
fn frame(n: u32) -> Vec<u8> {
    udp(12_345, n, 60)
}

#[test]
fn packets_cross_in_order_and_their_delay_is_exact() {
    let mut rack = patched(&format!(r#""capacity_bps": {GHZ}, "queue_packets": 128"#));
    for n in 0..80 {
        rack.arrive(EAST, frame(n));
    }
    // 84 bytes on the wire at 1 Gb/s: a frame each 672 ns, polled every 96 ns.
    let mut now = 1000;
    while now < 60_000 {
        rack.pass(now);
        now += 96;
    }
    let departed = rack.departed(WEST);
    assert_eq!(departed.len(), 80);
    for (n, (at, frame)) in (0u32..).zip(&departed) {
        assert_eq!(frame, &self::frame(n));
        // Those beyond the first receive burst were first seen 96 ns later.
        assert_eq!(*at, 1000 + 672 * u64::from(n));
    }
    rack.pass(INTERVAL + GRACE);
    rack.pass(INTERVAL + GRACE + 1);
    let sealed = sealed(&mut rack);
    let [(0, east_west)] = &sealed[..] else {
        panic!("epoch 0 is sealed by the clock alone");
    };
    assert_eq!((east_west.tally.sent, east_west.tally.received), (80, 80));
    let total: u64 = (0..80)
        .map(|n| 672 * n - if n < BURST as u64 { 0 } else { 96 })
        .sum();
    let mean = total as f64 / 80.0;
    assert!((east_west.moments.mean_ticks().unwrap() - mean).abs() < 1e-9);
    let estimate = east_west.lda.as_ref().unwrap().estimate(80);
    assert!(
        (estimate.mean_ticks.unwrap() - mean).abs() < 1e-9,
        "all cells usable: exact"
    );
    rack.assert_conserved();
}

#[test]
fn a_full_queue_drops_at_the_tail_and_the_loss_shows_in_the_segment() {
    let mut rack = patched(r#""capacity_bps": 1000, "queue_packets": 10"#);
    for n in 0..30 {
        rack.arrive(EAST, frame(n));
    }
    rack.pass(10);
    assert_eq!(rack.dropped(WEST, DropReason::QueueFull), 20);
    rack.assert_conserved();
    rack.pass(INTERVAL + 1);
    rack.pass(INTERVAL + GRACE + 1);
    let (epoch, tally) = rack.sealed_tallies(0)[0];
    assert_eq!(
        (epoch, tally.sent, tally.received, tally.dropped),
        (0, 21, 1, 20)
    );
}

#[test]
fn what_the_driver_refuses_is_held_in_order_and_stamped_when_it_leaves() {
    let mut rack = patched("");
    for n in 0..20 {
        rack.arrive(EAST, frame(n));
    }
    rack.set_room(WEST, Some(7));
    rack.pass(100);
    rack.set_room(WEST, Some(0));
    rack.pass(200);
    assert_eq!(rack.sum_at(WEST, |port| port.queued_packets.get()), 13);
    rack.set_room(WEST, None);
    rack.pass(300);
    let departed = rack.departed(WEST);
    let expected: Vec<_> = (0..20)
        .map(|n| (if n < 7 { 100 } else { 300 }, frame(n)))
        .collect();
    assert_eq!(departed, expected);
    rack.pass(INTERVAL + 1);
    rack.pass(INTERVAL + GRACE + 1);
    let (_, segment) = &sealed(&mut rack)[0];
    assert_eq!(segment.tally.received, 20);
    assert!((segment.moments.mean_ticks().unwrap() - 13.0 * 200.0 / 20.0).abs() < 1e-9);
    rack.assert_conserved();
}

#[test]
fn a_packet_later_than_its_grace_is_late_and_never_lost() {
    let mut rack = patched("");
    rack.set_room(WEST, Some(0));
    rack.arrive(EAST, frame(1));
    rack.pass(INTERVAL - 10);
    // Within the grace the packet still counts in its own epoch.
    rack.arrive(EAST, frame(2));
    rack.pass(INTERVAL + 10);
    rack.pass(INTERVAL + GRACE + 10);
    rack.set_room(WEST, None);
    rack.pass(INTERVAL + GRACE + 20);
    assert_eq!(rack.departed(WEST).len(), 2);
    let (epoch, first) = rack.sealed_tallies(0)[0];
    assert_eq!(
        (epoch, first.sent, first.received, first.dropped, first.late),
        (0, 0, 0, 0, 0)
    );
    rack.pass(2 * INTERVAL);
    rack.pass(2 * INTERVAL + GRACE);
    let (epoch, second) = rack.sealed_tallies(0)[0];
    assert_eq!(
        (epoch, second.sent, second.received, second.late),
        (1, 2, 1, 1)
    );
}

#[test]
fn a_stalled_control_core_costs_epochs_and_never_packets() {
    let mut rack = patched("");
    for epoch in 0..6u32 {
        rack.arrive(EAST, frame(epoch));
        rack.pass(u64::from(epoch) * INTERVAL + 10);
        rack.pass(u64::from(epoch) * INTERVAL + GRACE + 10);
    }
    assert_eq!(rack.departed(WEST).len(), 6);
    assert_eq!(
        rack.missed_epochs(),
        3,
        "three shards circulate, none came back"
    );
    let sealed = rack.sealed_tallies(0);
    assert_eq!(
        sealed.iter().map(|(epoch, _)| *epoch).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert!(
        sealed
            .iter()
            .all(|(_, tally)| (tally.sent, tally.received) == (1, 1))
    );
    // With the shards back the next epoch is measured again.
    rack.pass(6 * INTERVAL + 10);
    rack.arrive(EAST, frame(9));
    rack.pass(6 * INTERVAL + 20);
    rack.pass(7 * INTERVAL + 10);
    rack.pass(7 * INTERVAL + GRACE + 10);
    let (epoch, tally) = rack.sealed_tallies(0)[0];
    assert_eq!((epoch, tally.sent, tally.received), (6, 1, 1));
}

#[test]
fn a_worker_that_slept_through_epochs_seals_what_it_had() {
    let mut rack = patched("");
    rack.arrive(EAST, frame(1));
    rack.pass(10);
    rack.arrive(EAST, frame(2));
    rack.pass(INTERVAL + 10);
    rack.pass(9 * INTERVAL + 500_000);
    let sent = |rack: &mut Rack| -> Vec<_> {
        let sealed = rack.sealed_tallies(0).into_iter();
        sealed.map(|(epoch, tally)| (epoch, tally.sent)).collect()
    };
    assert_eq!(sent(&mut rack), [(0, 1), (1, 1)]);
    rack.arrive(EAST, frame(3));
    rack.pass(9 * INTERVAL + 500_010);
    rack.pass(10 * INTERVAL + GRACE);
    assert_eq!(sent(&mut rack), [(9, 1)]);
}

#[test]
fn flooding_copies_for_every_port_and_counts_copies_it_could_not_make() {
    let mut rack = switch(&["a", "b", "c", "d"], "", BRIDGE);
    let (a, b) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    rack.arrive(EAST, between(b, a, 7, 1, 60));
    rack.pass(10);
    for port in 1..4 {
        assert_eq!(rack.departed(port).len(), 1);
    }
    assert_eq!(rack.sum_at(EAST, |port| port.copies.get()), 2);
    // Learnt: the answer goes to one port only.
    rack.arrive(2, between(a, b, 7, 2, 60));
    rack.pass(20);
    assert_eq!(rack.departed(EAST).len(), 1);
    assert!((1..4).all(|port| rack.departed(port).is_empty()));
    rack.workers[0].worker.io_mut().set_copies_left(1);
    rack.arrive(EAST, between([0xff; 6], a, 7, 3, 60));
    rack.pass(30);
    assert_eq!(rack.dropped(EAST, DropReason::NoMbuf), 1);
    rack.assert_conserved();
    assert_eq!(
        rack.live_packets(),
        2,
        "the two that were not taken from ports"
    );
}

#[test]
fn the_end_sends_what_waits_or_drops_it_counted() {
    let mut rack = patched("");
    rack.set_room(WEST, Some(3));
    for n in 0..10 {
        rack.arrive(EAST, frame(n));
    }
    rack.pass(10);
    let RackWorker {
        worker, counters, ..
    } = rack.workers.remove(0);
    let mut io = worker.finish(0);
    assert_eq!(io.departed(PortIndex::new(WEST)).len(), 3);
    let west = &counters.ports[WEST];
    assert_eq!(west.drops[DropReason::Shutdown as usize].get(), 7);
    assert_eq!(west.queued_packets.get(), 0);
    assert_eq!(io.live_packets(), 0);
    // The last epoch is handed over as far as it got.
    let (_, tally) = rack.sealed_tallies(0)[0];
    assert_eq!((tally.sent, tally.received, tally.dropped), (10, 3, 7));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes in, whatever the drivers refuse: no packet is lost uncounted, and over all
    /// epochs sent = received + dropped + late + queued.
    #[test]
    fn nothing_is_ever_lost_uncounted(
        bridge in any::<bool>(),
        capacity in prop::option::of(1_000_000u64..10_000_000_000),
        steps in prop::collection::vec(
            (0usize..3, prop::collection::vec(any::<u8>(), 0..1600), 0usize..40, 1u64..400_000), 1..150
        )
    ) {
        let capacity = capacity.map(|bps| format!(r#", "capacity_bps": {bps}"#));
        let egress = format!(r#""queue_packets": 8{}"#, capacity.unwrap_or_default());
        let forwarding = if bridge { BRIDGE } else { PATCH };
        let mut rack = switch(&["a", "b", "c"], &egress, forwarding);
        for (port, bytes, room, pause) in steps {
            rack.arrive(port, bytes);
            rack.set_room((port + 1) % 3, Some(room));
            rack.pass_at(rack.now + pause);
            rack.assert_conserved();
        }
        let RackWorker { worker, counters, .. } = rack.workers.remove(0);
        let mut io = worker.finish(0);
        rack.collect();
        let sent: u64 = (0..3).map(|port| io.departed(PortIndex(port)).len() as u64).sum();
        let totals = rack.ledger();
        prop_assert_eq!(totals.sent, totals.received + totals.dropped + totals.late);
        prop_assert_eq!(sent, totals.received + totals.late);
        prop_assert_eq!(sent, counters.ports.iter().map(|port| port.tx_packets.get()).sum::<u64>());
        prop_assert_eq!(io.live_packets(), 0);
    }
}

/// Of what a port hears by LLDP, frames that pass and frames that are dropped are shown to the control core, by every way
/// through a worker.
#[test]
fn what_a_neighbour_says_is_heard_whether_it_passes_or_not() {
    let frame = |last, ethertype: u16| {
        let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, last, 2, 0, 0, 0, 0, 9];
        frame.extend(ethertype.to_be_bytes());
        frame.extend([b'x'; 600]);
        frame
    };
    let lldp = frame(0x0e, 0x88cc);
    // Two classes: packets are tagged.
    let classes = r#", "classes": [{"name": "gold"}, {"name": "silver"}]"#;
    for (forwarding, passes) in [(PATCH, true), (BRIDGE, false)] {
        for classes in ["", classes] {
            let mut rack = switch(&["a", "b"], "", &format!("{forwarding}{classes}"));
            rack.arrive(0, frame(3, 0x888e));
            rack.arrive(0, udp(1, 1, 64));
            rack.pass_at(10);
            let heard = |rack: &Rack, port: usize| rack.workers[0].counters.ports[port].lldp.take();
            assert_eq!(heard(&rack, 0), None, "nobody said anything");

            rack.arrive(0, udp(1, 2, 64));
            rack.arrive(0, lldp.clone());
            rack.arrive(0, udp(1, 3, 64));
            rack.pass_at(20);
            assert_eq!(heard(&rack, 0).as_deref(), Some(&lldp[..FRAME_BYTES]));
            assert_eq!(heard(&rack, 0), None, "it is taken once");
            assert_eq!(heard(&rack, 1), None, "it came in by the other port");
            rack.pass_at(1_000_000);
            let out = rack.departed(1);
            assert_eq!(
                out.iter().any(|(_, out)| *out == lldp),
                passes,
                "{forwarding}"
            );
            rack.assert_conserved();
        }
    }
}
