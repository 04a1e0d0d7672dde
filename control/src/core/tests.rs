use super::*;
use crate::config::{Forwarding, Worker as WorkerConfig};
use crate::estimate::tests::{layout, rate, sights};
use crate::handover::{SHARDS_PER_WORKER, WorkerEnd, handover};
use measure::shard::ShardLayout;

struct NoFacts;

impl PortFacts for NoFacts {
    fn port(&mut self, index: usize) -> PortFact {
        PortFact {
            driver: format!("net_null{index}"),
            is_up: true,
            ..PortFact::default()
        }
    }

    fn pool(&mut self) -> Option<Pool> {
        Some(Pool {
            used: 3,
            size: 1024,
        })
    }
}

struct Bench {
    core: ControlCore<'static>,
    ends: Vec<WorkerEnd>,
    counters: Vec<Arc<WorkerCounters>>,
}

/// Shards of so many segments.
fn shards(segments: usize) -> ShardLayout {
    ShardLayout {
        lda: Some(layout(1.0)),
        ..ShardLayout::new(rate(), segments)
    }
}

impl Bench {
    fn new(workers: usize) -> Self {
        let mut config = Config::demo().unwrap();
        config.workers = vec![
            WorkerConfig {
                core: None,
                idle: crate::config::Idle::Spin,
                queues: None,
            };
            workers
        ];
        let layout = shards(config.segments().len());
        let (mut ends, mut counters, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..workers {
            let (worker_end, end) = handover(0, &layout);
            let own = Arc::new(WorkerCounters::new(config.ports.len()));
            ends.push(worker_end);
            counters.push(Arc::clone(&own));
            links.push(WorkerLink { end, counters: own });
        }
        let core = ControlCore::new(&config, rate(), Shard::new(&layout), links, NoFacts);
        Self {
            core,
            ends,
            counters,
        }
    }

    /// A worker's shard of `epoch` with `packets` packets on segment 0, each with its number as
    /// its delay in ticks; the last `dropped` are dropped.
    fn shard(&mut self, worker: usize, epoch: u64, packets: u64, dropped: u64) {
        let mut shard = self.ends[worker].take_empty().unwrap();
        for n in 0..packets {
            let (sent, received) = sights(0, n + 1_000 * worker as u64, n + 1);
            if n < packets - dropped {
                shard.passed(&[received], &[]);
            } else {
                shard.lost(&sent);
            }
        }
        self.ends[worker].give_sealed(shard.seal(Epoch(epoch)));
    }

    fn poll(&mut self) -> Arc<Snapshot> {
        self.core.poll();
        self.core.published.read()
    }
}

#[test]
fn shards_of_two_workers_make_one_epoch() {
    let mut bench = Bench::new(2);
    bench.shard(0, 0, 100, 0);
    assert_eq!(bench.poll().epoch, None, "one worker is still to come");
    bench.shard(1, 0, 300, 10);
    let snapshot = bench.poll();
    assert_eq!(snapshot.epoch, Some(0));
    let segment = &snapshot.segments[0];
    let last = segment.last.as_ref().unwrap();
    assert_eq!(last.counts.sent_packets, 400);
    assert_eq!(last.counts.received_packets, 390);
    let sum_ticks: u64 = (1..=100).sum::<u64>() + (1..=290).sum::<u64>();
    let mean_ns = sum_ticks as f64 / 390.0 / 2.0;
    assert!((last.stamped.unwrap().mean_ns - mean_ns).abs() < 1e-9);
    assert!((segment.total.delay_sum_s - sum_ticks as f64 / 2e9).abs() < 1e-15);
    assert_eq!(segment.total.estimated_epochs, 1);
    assert_eq!(
        segment
            .total
            .octaves
            .iter()
            .map(|octave| octave.packets)
            .sum::<u64>(),
        390
    );
    assert_eq!(snapshot.segments[1].last, None);
}

#[test]
fn shards_come_back_empty_at_once() {
    let mut bench = Bench::new(2);
    for epoch in 0..10 {
        // The second worker is silent, yet the first never wants for a shard.
        bench.shard(0, epoch, 5, 0);
        bench.poll();
        let shards: Vec<_> = (0..SHARDS_PER_WORKER)
            .map(|_| bench.ends[0].take_empty())
            .collect();
        for shard in shards {
            let shard = shard.unwrap();
            assert_eq!(shard.segments()[0].tally, Tally::default());
            bench.ends[0].give_sealed(shard.seal(Epoch(0)));
            let parcel = bench.core.workers[0].end.take_sealed().unwrap();
            bench.core.workers[0].end.give_back(parcel);
        }
    }
}

#[test]
fn an_epoch_without_a_worker_s_shard_is_counted_and_gives_no_numbers() {
    let mut bench = Bench::new(2);
    bench.shard(0, 0, 100, 0);
    bench.shard(0, 1, 100, 0);
    bench.shard(1, 1, 100, 0);
    let snapshot = bench.poll();
    let segment = &snapshot.segments[0];
    assert_eq!(snapshot.epoch, Some(1));
    assert_eq!(segment.total.unusable_epochs.missed_shard, 1);
    assert_eq!(segment.total.counts.sent_packets, 200);
    assert_eq!(segment.last.as_ref().unwrap().epoch, 1);
}

#[test]
fn a_late_shard_changes_nothing() {
    let mut bench = Bench::new(2);
    for epoch in 0..5 {
        bench.shard(0, epoch, 10, 0);
        bench.poll();
    }
    bench.shard(1, 0, 10, 0);
    bench.shard(1, 4, 10, 0);
    let total = &bench.poll().segments[0].total;
    assert_eq!(total.unusable_epochs.missed_shard, 4);
    assert_eq!(total.counts.sent_packets, 20);
}

#[test]
fn totals_only_rise_and_keep_count_of_every_packet() {
    let mut bench = Bench::new(1);
    let mut before = Totals::default();
    for epoch in 0..20 {
        bench.shard(0, epoch, 50 * (epoch % 3), epoch % 3 * 7);
        let snapshot = bench.poll();
        let total = &snapshot.segments[0].total;
        let counts = total.counts;
        let accounted = counts.received_packets + counts.dropped_packets + counts.late_packets;
        assert_eq!(counts.sent_packets, accounted);
        assert!(counts.sent_packets >= before.counts.sent_packets);
        assert!(total.delay_sum_s >= before.delay_sum_s);
        assert!(total.delay_squared_sum_s2 >= before.delay_squared_sum_s2);
        before = total.clone();
    }
    assert_eq!(before.counts.sent_packets, 50 * (7 + 2 * 6));
    assert_eq!(
        before.estimated_epochs, 13,
        "epochs without packets are not estimated"
    );
}

#[test]
fn an_epoch_in_which_every_cell_lost_a_packet_has_stamped_figures_only() {
    let mut bench = Bench::new(1);
    bench.shard(0, 0, 4_000, 2_000);
    let snapshot = bench.poll();
    let segment = &snapshot.segments[0];
    let last = segment.last.as_ref().unwrap();
    assert!(last.stamped.is_some() && last.lda.is_none());
    assert_eq!(segment.total.unusable_epochs.too_few_cells, 1);
    assert_eq!(segment.total.estimated_epochs, 0);
}

#[test]
fn ports_and_workers_are_counted_over_all_workers() {
    let mut bench = Bench::new(2);
    for counters in &bench.counters {
        counters.ports[1].rx_packets.add(7);
        counters.ports[1].kinds[0].add(4);
        counters.ports[1].dropped(DropReason::QueueFull, 3);
        counters.busy_ticks.add(4_000_000_000);
        counters.poll_gap_ticks_max.set(500);
    }
    bench.shard(0, 0, 0, 0);
    bench.shard(1, 0, 0, 0);
    let snapshot = bench.poll();
    let west = &snapshot.ports[1];
    assert_eq!(
        (west.name.as_str(), west.rx_packets, west.dropped_packets()),
        ("west", 14, 6)
    );
    assert_eq!(
        west.kinds[0],
        Labelled {
            label: Kind::ALL[0].label().to_owned(),
            packets: 8
        }
    );
    assert_eq!(
        (west.facts.driver.as_str(), west.facts.is_up),
        ("net_null1", true)
    );
    assert!((snapshot.workers[1].busy_s - 2.0).abs() < 1e-9);
    assert!((snapshot.workers[1].poll_gap_max_ns - 250.0).abs() < 1e-9);
    assert_eq!(
        snapshot.pool,
        Some(Pool {
            used: 3,
            size: 1024
        })
    );
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
    let mut config = Config::demo().unwrap();
    config.measurement.enabled = false;
    config.forwarding = Forwarding::Bridge {
        ageing_s: 300,
        fdb_entries: 16,
        stations: Vec::new(),
        flood_limit_pps: 1,
    };
    let layout = shards(0);
    let (_end, end) = handover(0, &layout);
    let counters = Arc::new(WorkerCounters::new(2));
    let links = vec![WorkerLink {
        end,
        counters: Arc::clone(&counters),
    }];
    let mut core = ControlCore::new(&config, rate(), Shard::new(&layout), links, NoFacts);
    counters.ports[0].tx_packets.add(5);
    core.poll();
    let snapshot = core.published().read();
    assert!(snapshot.segments.is_empty() && snapshot.unready().is_empty());
    assert_eq!(snapshot.ports[0].tx_packets, 5);
}

#[test]
fn rates_are_taken_over_a_second() {
    let mut draft = Snapshot {
        ports: vec![Port::default()],
        workers: vec![Worker::default()],
        ..Snapshot::default()
    };
    let mut rates = Rates::default();
    rates.renew(&mut draft);
    let Some((then, ..)) = &mut rates.base else {
        panic!("a base is kept")
    };
    *then = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
    draft.ports[0].rx_packets = 2_000;
    draft.workers[0].busy_s = 0.5;
    rates.renew(&mut draft);
    assert!((draft.ports[0].rx_pps - 1_000.0).abs() < 1.0);
    assert!((draft.workers[0].busy_ratio - 0.25).abs() < 0.001);
}
