//! The engine in a test tube: in-memory ports and a clock turned by hand, so that every count and
//! every delay is known exactly.
use contract::counters::DropReason;
use contract::ids::PortIndex;
use contract::lldp::FRAME_BYTES;
use measure::shard::Tally;
use proptest::prelude::*;
use simulate::rack::{self, Rack, config, port};
use simulate::tube::*;
use switch::packet_io::BURST;

#[test]
fn packets_cross_in_order_and_their_delay_is_exact() {
    let mut tube = TestTube::new(&Setup {
        capacity_bps: Some(GHZ),
        queue_packets: 128,
        ..TWO_PATCHED
    });
    for n in 0..80 {
        tube.arrive(EAST, udp(n));
    }
    // 84 bytes on the wire at 1 Gb/s: a frame each 672 ns, polled every 96 ns.
    let mut now = 1000;
    while now < 60_000 {
        tube.pass_at(now);
        now += 96;
    }
    let departed = tube.departed(WEST);
    assert_eq!(departed.len(), 80);
    for (n, (at, frame)) in (0u32..).zip(&departed) {
        assert_eq!(frame, &udp(n));
        // Those beyond the first receive burst were first seen 96 ns later.
        assert_eq!(*at, 1000 + 672 * u64::from(n));
    }
    tube.pass_at(INTERVAL + GRACE);
    tube.pass_at(INTERVAL + GRACE + 1);
    let shard = tube
        .control
        .take_sealed()
        .expect("epoch 0 is sealed by the clock alone");
    assert_eq!(shard.epoch().0, 0);
    let east_west = &shard.segments()[0];
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
    tube.assert_conserved();
}

#[test]
fn a_full_queue_drops_at_the_tail_and_the_loss_shows_in_the_segment() {
    let mut tube = TestTube::new(&Setup {
        queue_packets: 10,
        capacity_bps: Some(1000),
        ..TWO_PATCHED
    });
    for n in 0..30 {
        tube.arrive(EAST, udp(n));
    }
    tube.pass_at(10);
    assert_eq!(tube.dropped(WEST, DropReason::QueueFull), 20);
    tube.assert_conserved();
    tube.pass_at(INTERVAL + 1);
    tube.pass_at(INTERVAL + GRACE + 1);
    let (epoch, tally) = tube.sealed_tally(0).unwrap();
    assert_eq!(
        (epoch, tally.sent, tally.received, tally.dropped),
        (0, 21, 1, 20)
    );
}

#[test]
fn what_the_driver_refuses_is_held_in_order_and_stamped_when_it_leaves() {
    let mut tube = TestTube::new(&TWO_PATCHED);
    for n in 0..20 {
        tube.arrive(EAST, udp(n));
    }
    tube.worker.io_mut().set_room(WEST, Some(7));
    tube.pass_at(100);
    tube.worker.io_mut().set_room(WEST, Some(0));
    tube.pass_at(200);
    assert_eq!(tube.counters.ports[1].queued_packets.get(), 13);
    tube.worker.io_mut().set_room(WEST, None);
    tube.pass_at(300);
    let departed = tube.departed(WEST);
    let expected: Vec<_> = (0..20)
        .map(|n| (if n < 7 { 100 } else { 300 }, udp(n)))
        .collect();
    assert_eq!(departed, expected);
    tube.pass_at(INTERVAL + 1);
    tube.pass_at(INTERVAL + GRACE + 1);
    let shard = tube.control.take_sealed().unwrap();
    let segment = &shard.segments()[0];
    assert_eq!(segment.tally.received, 20);
    assert!((segment.moments.mean_ticks().unwrap() - 13.0 * 200.0 / 20.0).abs() < 1e-9);
    tube.assert_conserved();
}

#[test]
fn a_packet_later_than_its_grace_is_late_and_never_lost() {
    let mut tube = TestTube::new(&TWO_PATCHED);
    tube.worker.io_mut().set_room(WEST, Some(0));
    tube.arrive(EAST, udp(1));
    tube.pass_at(INTERVAL - 10);
    // Within the grace the packet still counts in its own epoch.
    tube.arrive(EAST, udp(2));
    tube.pass_at(INTERVAL + 10);
    tube.pass_at(INTERVAL + GRACE + 10);
    tube.worker.io_mut().set_room(WEST, None);
    tube.pass_at(INTERVAL + GRACE + 20);
    assert_eq!(tube.departed(WEST).len(), 2);
    let (epoch, first) = tube.sealed_tally(0).unwrap();
    assert_eq!(
        (epoch, first.sent, first.received, first.dropped, first.late),
        (0, 0, 0, 0, 0)
    );
    tube.pass_at(2 * INTERVAL);
    tube.pass_at(2 * INTERVAL + GRACE);
    let (epoch, second) = tube.sealed_tally(0).unwrap();
    assert_eq!(
        (epoch, second.sent, second.received, second.late),
        (1, 2, 1, 1)
    );
}

#[test]
fn a_stalled_control_core_costs_epochs_and_never_packets() {
    let mut tube = TestTube::new(&TWO_PATCHED);
    for epoch in 0..6u32 {
        tube.arrive(EAST, udp(epoch));
        tube.pass_at(u64::from(epoch) * INTERVAL + 10);
        tube.pass_at(u64::from(epoch) * INTERVAL + GRACE + 10);
    }
    assert_eq!(tube.departed(WEST).len(), 6);
    assert_eq!(
        tube.control.missed_epochs(),
        3,
        "three shards circulate, none came back"
    );
    let sealed: Vec<_> = std::iter::from_fn(|| tube.sealed_tally(0)).collect();
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
    tube.pass_at(6 * INTERVAL + 10);
    tube.arrive(EAST, udp(9));
    tube.pass_at(6 * INTERVAL + 20);
    tube.pass_at(7 * INTERVAL + 10);
    tube.pass_at(7 * INTERVAL + GRACE + 10);
    let (epoch, tally) = tube.sealed_tally(0).unwrap();
    assert_eq!((epoch, tally.sent, tally.received), (6, 1, 1));
}

#[test]
fn a_worker_that_slept_through_epochs_seals_what_it_had() {
    let mut tube = TestTube::new(&TWO_PATCHED);
    tube.arrive(EAST, udp(1));
    tube.pass_at(10);
    tube.arrive(EAST, udp(2));
    tube.pass_at(INTERVAL + 10);
    tube.pass_at(9 * INTERVAL + 500_000);
    let epochs: Vec<_> = std::iter::from_fn(|| tube.sealed_tally(0)).collect();
    assert_eq!(
        epochs
            .iter()
            .map(|(epoch, tally)| (*epoch, tally.sent))
            .collect::<Vec<_>>(),
        [(0, 1), (1, 1)]
    );
    tube.arrive(EAST, udp(3));
    tube.pass_at(9 * INTERVAL + 500_010);
    tube.pass_at(10 * INTERVAL + GRACE);
    assert_eq!(
        tube.sealed_tally(0)
            .map(|(epoch, tally)| (epoch, tally.sent)),
        Some((9, 1))
    );
}

#[test]
fn flooding_copies_for_every_port_and_counts_copies_it_could_not_make() {
    let mut tube = TestTube::new(&Setup {
        ports: 4,
        bridge: true,
        ..TWO_PATCHED
    });
    let (a, b) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    tube.arrive(EAST, frame_between(b, a, 1));
    tube.pass_at(10);
    for port in 1..4 {
        assert_eq!(tube.departed(PortIndex(port)).len(), 1);
    }
    assert_eq!(tube.counters.ports[0].copies.get(), 2);
    // Learnt: the answer goes to one port only.
    tube.arrive(PortIndex(2), frame_between(a, b, 2));
    tube.pass_at(20);
    assert_eq!(tube.departed(EAST).len(), 1);
    assert!((1..4).all(|port| tube.departed(PortIndex(port)).is_empty()));
    tube.worker.io_mut().set_copies_left(1);
    tube.arrive(EAST, frame_between([0xff; 6], a, 3));
    tube.pass_at(30);
    assert_eq!(tube.dropped(EAST, DropReason::NoMbuf), 1);
    tube.assert_conserved();
    assert_eq!(
        tube.worker.io_mut().live_packets(),
        2,
        "the two that were not taken from ports"
    );
}

#[test]
fn the_end_sends_what_waits_or_drops_it_counted() {
    let mut tube = TestTube::new(&TWO_PATCHED);
    tube.worker.io_mut().set_room(WEST, Some(3));
    for n in 0..10 {
        tube.arrive(EAST, udp(n));
    }
    tube.pass_at(10);
    let TestTube {
        worker,
        counters,
        mut control,
        ..
    } = tube;
    let mut io = worker.finish(0);
    assert_eq!(io.departed(WEST).len(), 3);
    assert_eq!(
        counters.ports[1].drops[DropReason::Shutdown as usize].get(),
        7
    );
    assert_eq!(counters.ports[1].queued_packets.get(), 0);
    assert_eq!(io.live_packets(), 0);
    let last = control
        .take_sealed()
        .expect("the last epoch is handed over as far as it got");
    let tally = last.segments()[0].tally;
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
            (0u8..3, prop::collection::vec(any::<u8>(), 0..1600), 0usize..40, 1u64..400_000), 1..150
        )
    ) {
        let setup = Setup { ports: 3, queue_packets: 8, capacity_bps: capacity, bridge };
        let mut tube = TestTube::new(&setup);
        let (mut now, mut totals) = (0, Tally::default());
        let mut collect = |tube: &mut TestTube| {
            while let Some(shard) = tube.control.take_sealed() {
                for segment in shard.segments() {
                    totals.sent += segment.tally.sent;
                    totals.received += segment.tally.received;
                    totals.dropped += segment.tally.dropped;
                    totals.late += segment.tally.late;
                }
                tube.control.give_back(shard, []);
            }
        };
        for (port, bytes, room, pause) in steps {
            now += pause;
            tube.arrive(PortIndex(port), bytes);
            tube.worker.io_mut().set_room(PortIndex((port + 1) % 3), Some(room));
            tube.pass_at(now);
            collect(&mut tube);
            tube.assert_conserved();
        }
        let TestTube { worker, counters, mut control, .. } = tube;
        let mut io = worker.finish(0);
        let sent: u64 = (0..3).map(|port| io.departed(PortIndex(port)).len() as u64).sum();
        while let Some(shard) = control.take_sealed() {
            for segment in shard.segments() {
                totals.sent += segment.tally.sent;
                totals.received += segment.tally.received;
                totals.dropped += segment.tally.dropped;
                totals.late += segment.tally.late;
            }
        }
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
    let patch = r#""forwarding": {"mode": "patch", "pairs": [["a", "b"]]}"#;
    let bridge = r#""forwarding": {"mode": "bridge"}"#;
    // Two classes: packets are tagged.
    let classes = r#", "classes": [{"name": "gold"}, {"name": "silver"}]"#;
    for (forwarding, passes) in [(patch, true), (bridge, false)] {
        for classes in ["", classes] {
            let ports = [port("a", ""), port("b", "")].join(", ");
            let mut rack = Rack::new(config(1, &ports, &format!("{forwarding}{classes}")));
            rack.arrive(0, frame(3, 0x888e));
            rack.arrive(0, rack::udp(1, 1, 64));
            rack.pass_at(10);
            let heard = |rack: &Rack, port: usize| rack.workers[0].counters.ports[port].lldp.take();
            assert_eq!(heard(&rack, 0), None, "nobody said anything");

            rack.arrive(0, rack::udp(1, 2, 64));
            rack.arrive(0, lldp.clone());
            rack.arrive(0, rack::udp(1, 3, 64));
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
