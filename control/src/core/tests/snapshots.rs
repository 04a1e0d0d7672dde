//! What is published: ports, workers, states, clocks, flows.

use super::*;

/// What two workers that count alike publish.
fn counted_twice() -> Arc<Snapshot> {
    let mut bench = Bench::new(2);
    for counters in &bench.counters {
        counters.ports[1].rx_packets.add(7);
        counters.ports[1].kinds[0].add(4);
        counters.ports[1].dropped(DropReason::QueueFull, 3);
        counters.busy_ticks.add(4_000_000_000);
        counters.poll_gap_ticks_max.set(500);
        counters.ports[1].classes[0].tx_packets.add(5);
        counters.ports[1].classes[0].dropped_packets.add(1);
        counters.ports[1].queues[0].packets.set(9);
        counters.ports[1].queues[0].full.add(1);
        counters.ports[1].queues[0].red.add(1);
        counters.ports[1].queues[0].expired.add(1);
        counters.ring_packets.set(4);
        counters.references.injected.add(2);
        counters.passes.add(1);
        counters.burst(20);
    }
    bench.shard(0, 0, 0, 0);
    bench.shard(1, 0, 0, 0);
    bench.poll()
}

#[test]
fn ports_are_counted_over_all_workers() {
    let snapshot = counted_twice();
    let west = &snapshot.ports[1];
    assert_eq!(west.name, "west");
    assert_eq!((west.counts.rx_packets, west.dropped_packets()), (14, 6));
    assert_eq!(west.kinds[0], labelled(Kind::ALL[0].label(), 8));
    let facts = &west.facts;
    assert_eq!((facts.driver.as_str(), facts.is_up), ("net_null1", true));
    let class = &west.classes[0];
    assert_eq!(class.class, "all");
    let counts = &class.counts;
    assert_eq!((counts.tx_packets, counts.dropped_packets), (10, 2));
    let queue = &west.queues[0];
    assert_eq!((queue.queue.as_str(), queue.counts.packets), ("all", 18));
    assert_eq!(queue.drops.iter().map(|drop| drop.packets).sum::<u64>(), 6);
    assert_eq!((snapshot.pools[0].used, snapshot.pools[0].size), (3, 1024));
    assert_eq!(snapshot.fdb.unwrap().entries, 5);
}

#[test]
fn each_worker_is_counted_for_itself() {
    let snapshot = counted_twice();
    assert!((snapshot.workers[1].busy_s - 2.0).abs() < 1e-9);
    assert!((snapshot.workers[1].poll_gap_max_ns - 250.0).abs() < 1e-9);
    let worker = &snapshot.workers[0];
    assert_eq!(worker.counts.ring_packets, 4);
    assert_eq!(worker.references.injected, 2);
    let bounds = worker.bursts.iter().map(|bucket| bucket.le_packets);
    let powers = (0..7).map(|power| Some(1 << power));
    assert!(bounds.eq(powers.chain([None])), "{:?}", worker.bursts);
    assert_eq!(worker.bursts[5].bursts, 1);
}

#[test]
fn the_state_follows_the_switch_s_life() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.core.published().read().state, State::Starting);
    assert_eq!(bench.poll().state, State::Running);
    bench.core.run(&AtomicBool::new(true));
    assert_eq!(bench.core.published().read().state, State::Draining);
    // What a worker seals while it stops still counts.
    bench.shard(0, 0, 10, 0);
    let last = bench.core.finish();
    assert_eq!(last.state, State::Draining);
    assert_eq!(last.segments[0].total.counts.sent_packets, 10);
}

#[test]
fn without_measurement_counters_are_published_and_nothing_else() {
    let mut bench = Bench::with(1, |config| {
        config.measurement.enabled = false;
        config.forwarding = Forwarding::Bridge {
            ageing_s: 300,
            fdb_entries: 16,
            stations: Vec::new(),
            flood_limit_pps: 1,
        };
    });
    assert!(bench.ends.is_empty());
    bench.counters[0].ports[0].tx_packets.add(5);
    bench.core.publish();
    let snapshot = bench.poll();
    assert!(snapshot.segments.is_empty() && snapshot.flows.is_none());
    assert!(snapshot.unready().is_empty());
    assert_eq!(snapshot.ports[0].counts.tx_packets, 5);
}

/// A poll of an epoch that is over publishes; its end is in the system clock's time.
#[test]
fn the_end_of_an_epoch_is_known_by_the_system_s_clock() {
    let mut bench = Bench::new(1);
    // 2.5 epochs after the end of epoch 0, which are 1.25 ms.
    bench.set_epoch(3);
    bench.shard(0, 0, 1, 0);
    let end_s = bench.poll().epoch_end_unix_s.unwrap();
    let now_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    assert!((0.00125..60.0).contains(&(now_s - end_s)));
}

#[test]
fn flows_are_known_by_their_keys_and_segments() {
    let mut bench = Bench::with(1, |config| {
        config.measurement.flows = Some(Flows {
            slots: 16,
            select: FlowSelection::All,
            idle_s: 1,
        });
    });
    let key = FlowKey::parse(&[7; 14]);
    for epoch in 0..3 {
        let end = &mut bench.ends[0];
        let mut shard = end.take_empty().unwrap();
        let (_, received) = observations(0, epoch, 400);
        if epoch == 0 {
            assert!(end.report_flow(NewFlow {
                id: FlowId::new(FlowHash(1), SegmentIndex(0)),
                slot: Slot(3),
                segment: SegmentIndex(0),
                key,
            }));
        }
        shard.passed_one(&received, Slot(3));
        end.give_sealed(shard.seal(Epoch(epoch)));
        bench.poll();
    }
    bench.counters[0].flows.free_slots.set(15);
    bench.counters[0].flows.unreported.set(2);
    bench.core.publish();
    let flows = bench.core.published().read().flows.clone().unwrap();
    let totals = &flows.totals;
    assert_eq!(
        (totals.tracked, totals.slots, totals.free_slots),
        (1, 16, 15)
    );
    assert_eq!(totals.untracked[2].packets, 2);
    assert_eq!(flows.list.epoch, Some(2));
    let snapshot = bench.core.published().read();
    let flow = snapshot.flow(&flows.list, &flows.list.flows[0]);
    assert_eq!(flow.flow, key.to_string());
    assert_eq!(
        (flow.ingress.as_str(), flow.egress.as_str()),
        ("east", "west")
    );
    assert_eq!((flow.total.packets, flow.total.bytes), (3, 300));
    assert_eq!(
        (flow.first_epoch, flow.last_epoch, flow.last.packets),
        (0, 2, 1)
    );
    assert!((flow.total.mean_ns.unwrap() - 200.0).abs() < 1e-9);
    assert!(flow.total.stddev_ns.unwrap().abs() < 1e-6);
    assert_eq!(flow.references, None);
}

#[test]
fn a_worker_that_stands_still_is_said_to() {
    let mut bench = Bench::new(1);
    bench.counters[0].passes.add(1);
    bench.poll();
    let now = Instant::now();
    for tenths in 1..12 {
        let later = now + Duration::from_millis(100 * tenths);
        bench.core.workers.look(later);
    }
    bench.core.publish();
    let snapshot = bench.core.published().read();
    assert!(snapshot.workers[0].is_stalled);
    assert!(
        snapshot
            .unready()
            .contains(&"worker 0 has stalled".to_owned())
    );
    assert_eq!(bench.status().stalled_workers, 1);
}
