//! Queues of a program that is not ours.

use super::*;

/// A generation of a host's two ports, in which these workers have the egress ports that are named.
fn host_change(number: u32, from: u64, ports: &[Option<usize>]) -> (Change, Vec<WorkerEnd>) {
    let mut host = HostConfig::default();
    host.measurement.lds = Some(Lds::default());
    let config = host.config(&["a", "b"].map(|name| (name.to_owned(), true)));
    let whole = shards(&config);
    let (mut ends, mut worker_ends) = (Vec::new(), Vec::new());
    for port in ports {
        ends.push(port.map(|port| {
            let part = whole.part(config.resolve().segments_of_egress(port));
            let (worker, control) = handover(&part);
            worker_ends.push(worker);
            control
        }));
    }
    let change = Change {
        number: GenerationId(number),
        from: Epoch(from),
        config,
        layout: whole,
        ends,
        wires: Vec::new(),
        keys: WireKeys::default(),
    };
    (change, worker_ends)
}

/// A transmit queue's shard, with so many packets on each segment.
fn give_host(end: &mut WorkerEnd, epoch: u64, packets: [u64; 4]) {
    let mut shard = end.take_empty().unwrap();
    for (segment, packets) in (0..).zip(packets) {
        for n in 0..packets {
            let (_, received) = observations(segment, n, 200);
            shard.passed_one(&received, Slot::OTHER);
        }
    }
    end.give_sealed(shard.seal(Epoch(epoch)));
}

/// A core in a host, without any queue yet.
fn host_bench() -> Bench {
    let (first, _) = host_change(0, 0, &[]);
    let config = first.config.clone();
    let data_plane = ByHand::default();
    let setup = Setup {
        rate: rate(),
        schedule: EpochSchedule::new(Ticks(0), INTERVAL, INTERVAL / 10),
        hasher: hasher(),
        counters: Vec::new(),
        line: Arc::default(),
        first,
    };
    Bench {
        core: ControlCore::new(setup, data_plane.clone()).unwrap(),
        data_plane,
        config,
        ends: Vec::new(),
        counters: Vec::new(),
    }
}

#[test]
fn transmit_queues_of_a_host_come_and_go() {
    let mut bench = host_bench();
    let received = |snapshot: &Snapshot| {
        let segments = snapshot.segments.iter();
        let count = |s: &records::snapshot::Segment| (s.name(), s.total.counts.received_packets);
        segments.map(count).collect::<Vec<_>>()
    };
    // A queue of either port.
    let (change, mut ends) = host_change(1, 2, &[Some(0), Some(1)]);
    let added = |worker| Event::WorkerAdded {
        worker: WorkerIndex(worker),
        counters: Arc::new(WorkerCounters::new(2)),
    };
    bench.event(added(0));
    bench.event(added(1));
    bench.change(change);
    for epoch in 2..4 {
        // What leaves by another port is not the queue's own.
        give_host(&mut ends[0], epoch, [1, 10, 7, 7]);
        give_host(&mut ends[1], epoch, [7, 7, 100, 1_000]);
    }
    let key = FlowKey::parse(&[7; 14]);
    assert!(ends[1].report_flow(NewFlow {
        id: FlowId::new(FlowHash(1), SegmentIndex(2)),
        slot: Slot(3),
        segment: SegmentIndex(2),
        key,
    }));
    let snapshot = bench.poll();
    assert_eq!(snapshot.epoch, Some(3));
    let names = ["a>a", "b>a", "a>b", "b>b"].map(str::to_owned);
    let expected = |counts: [u64; 4]| names.iter().cloned().zip(counts).collect::<Vec<_>>();
    assert_eq!(received(&snapshot), expected([2, 20, 200, 2_000]));
    let filled: Vec<_> = snapshot
        .sketches
        .iter()
        .map(|s| s.filled_cells > 0)
        .collect();
    assert_eq!(filled, [true, true]);
    assert!(snapshot.workers.is_empty(), "its cores are not ours");
    // The first queue goes, and another of the second port comes.
    let (change, mut next) = host_change(2, 5, &[None, Some(1), Some(1)]);
    bench.event(added(2));
    bench.change(change);
    give_host(&mut ends[0], 4, [1, 0, 0, 0]);
    give_host(&mut ends[1], 4, [0, 0, 1, 0]);
    drop(ends);
    give_host(&mut next[0], 5, [0, 0, 10, 0]);
    let snapshot = bench.poll();
    assert_eq!(snapshot.epoch, Some(4), "the newcomer is waited for");
    let flow = &snapshot.flows.as_ref().unwrap().list.flows[0];
    let flow = snapshot.flow(&snapshot.flows.as_ref().unwrap().list, flow);
    assert_eq!((flow.ingress.as_str(), flow.egress.as_str()), ("a", "b"));
    give_host(&mut next[1], 5, [0, 0, 0, 10]);
    give_host(&mut next[0], 7, [0; 4]);
    give_host(&mut next[1], 7, [0; 4]);
    let snapshot = bench.poll();
    assert_eq!(received(&snapshot), expected([3, 20, 211, 2_010]));
    let unusable = snapshot.segments[0].total.unusable_epochs;
    assert_eq!(
        (unusable.missed_shard, unusable.generation),
        (1, 0),
        "epoch 6 alone"
    );
    assert_eq!(snapshot.generation, 2);
    assert!(!bench.status().is_busy);
}
