use super::*;
use crate::contain::inject;
use crate::estimate::tests::{layout, observations, rate};
use contract::config::Worker as WorkerConfig;
use contract::config::{Config, FlowSelection, Flows, Forwarding, HostConfig, Lds, WireKeys};
use contract::counters::DropReason;
use contract::handover::{NewFlow, SHARDS_PER_WORKER, WorkerEnd, handover};
use measure::flows::{FlowId, FlowObservation, Slot};
use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, FlowKey, Kind};
use measure::shard::{Prepared, ShardLayout, Tally};
use parking_lot::Mutex;
use records::snapshot::{Fdb, Labelled, Pool, PortFact, Totals};
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

mod changes;
mod faults;
mod host;

/// Length of an epoch in ticks.
const INTERVAL: u64 = 1_000_000;

type Wish = Box<dyn FnOnce(&mut CoreHandle<'_>) + Send>;

/// A data plane with a clock that is set by hand, and wishes that it passes on when it is tended.
#[derive(Clone, Default)]
struct ByHand {
    now: Arc<AtomicU64>,
    wishes: Arc<Mutex<Vec<Wish>>>,
    /// The n-th port that it is asked for from now on makes it panic, once.
    panics_at_port: Arc<AtomicU64>,
}

impl DataPlane for ByHand {
    fn now(&mut self) -> Ticks {
        Ticks(self.now.load(Ordering::Relaxed))
    }

    fn port(&mut self, index: usize) -> PortFact {
        let less = |left: u64| left.checked_sub(1);
        let left = &self.panics_at_port;
        let left = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if left == Ok(1) {
            inject::panic();
        }
        PortFact {
            driver: format!("net_null{index}"),
            is_up: true,
            ..PortFact::default()
        }
    }

    fn pools(&mut self) -> Vec<Pool> {
        vec![Pool {
            name: "node0".to_owned(),
            used: 3,
            size: 1024,
        }]
    }

    fn fdb(&mut self) -> Option<Fdb> {
        Some(Fdb {
            entries: 5,
            ..Fdb::default()
        })
    }

    fn tend(&mut self, core: &mut CoreHandle<'_>) {
        for wish in self.wishes.lock().drain(..) {
            wish(core);
        }
    }
}

struct Bench {
    core: ControlCore<'static>,
    data_plane: ByHand,
    config: Config,
    ends: Vec<WorkerEnd>,
    counters: Vec<Arc<WorkerCounters>>,
}

/// What the configuration says, with a small LDA.
fn shards(config: &Config) -> ShardLayout {
    let shards = config.shard_layout(rate()).unwrap();
    ShardLayout {
        lda: shards.lda.is_some().then(|| layout(1.0)),
        ..shards
    }
}

/// A generation of `config`, and its workers' ends.
fn change(config: &Config, number: u32, from: u64) -> (Change, Vec<WorkerEnd>) {
    let layout = shards(config);
    let workers = config.workers.iter().filter(|_| config.measurement.enabled);
    let ends = workers.map(|_| handover(GenerationId(number), &layout));
    let (worker_ends, ends) = ends
        .map(|(worker, control)| (worker, Some(control)))
        .unzip();
    let change = Change {
        number: GenerationId(number),
        from: Epoch(from),
        config: config.clone(),
        layout,
        ends,
        wires: Vec::new(),
        keys: WireKeys::default(),
    };
    (change, worker_ends)
}

fn hasher() -> Hasher {
    Hasher::new([7; 16])
}

impl Bench {
    fn new(workers: usize) -> Self {
        Self::with(workers, |_| ())
    }

    fn with(workers: usize, configure: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::demo().unwrap();
        config.workers = vec![
            WorkerConfig {
                core: None,
                idle: contract::config::Idle::Spin,
                queues: None,
            };
            workers
        ];
        config.measurement.interval_ms = 1_000;
        config.measurement.lds = None;
        config.measurement.flows = None;
        configure(&mut config);
        let (first, ends) = change(&config, 0, 0);
        let counters: Vec<_> = (0..workers)
            .map(|_| Arc::new(WorkerCounters::new(config.ports.len())))
            .collect();
        let setup = Setup {
            rate: rate(),
            schedule: EpochSchedule::new(Ticks(0), INTERVAL, INTERVAL / 10),
            hasher: hasher(),
            counters: counters.clone(),
            line: Arc::default(),
            first,
        };
        let data_plane = ByHand::default();
        Self {
            core: ControlCore::new(setup, data_plane.clone()).unwrap(),
            data_plane,
            config,
            ends,
            counters,
        }
    }

    /// A worker's shard of `epoch` with `packets` packets on segment 0, each with its number as
    /// its delay in ticks; the last `dropped` are dropped.
    fn shard(&mut self, worker: usize, epoch: u64, packets: u64, dropped: u64) {
        give(&mut self.ends[worker], worker, epoch, packets, dropped);
    }

    /// Sets the clock into an epoch.
    fn set_epoch(&self, epoch: u64) {
        let now = epoch * INTERVAL + INTERVAL / 2;
        self.data_plane.now.store(now, Ordering::Relaxed);
    }

    /// Lets the data plane ask for something at the next poll.
    fn wish(&self, wish: impl FnOnce(&mut CoreHandle<'_>) + Send + 'static) {
        self.data_plane.wishes.lock().push(Box::new(wish));
    }

    fn poll(&mut self) -> Arc<Snapshot> {
        self.core.poll();
        self.core.published().read()
    }
}

/// A worker's shard, handed over.
fn give(end: &mut WorkerEnd, worker: usize, epoch: u64, packets: u64, dropped: u64) {
    let mut shard = end.take_empty().unwrap();
    for n in 0..packets {
        let (sent, received) = observations(0, n + 1_000 * worker as u64, n + 1);
        if n < packets - dropped {
            shard.passed(Prepared::without_cells(&[received], &[]));
        } else {
            shard.lost(&sent, Slot::OTHER);
        }
    }
    end.give_sealed(shard.seal(Epoch(epoch)));
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
            bench.ends[0].give_sealed(shard.seal(Epoch(epoch)));
        }
        bench.poll();
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
    let snapshot = bench.poll();
    let west = &snapshot.ports[1];
    assert_eq!(
        (
            west.name.as_str(),
            west.counts.rx_packets,
            west.dropped_packets()
        ),
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
    assert_eq!((snapshot.pools[0].used, snapshot.pools[0].size), (3, 1024));
    assert_eq!(snapshot.fdb.unwrap().entries, 5);
    let class = &west.classes[0];
    assert_eq!(
        (
            class.class.as_str(),
            class.counts.tx_packets,
            class.counts.dropped_packets
        ),
        ("all", 10, 2)
    );
    let queue = &west.queues[0];
    assert_eq!((queue.queue.as_str(), queue.counts.packets), ("all", 18));
    assert_eq!(queue.drops.iter().map(|drop| drop.packets).sum::<u64>(), 6);
    let worker = &snapshot.workers[0];
    assert_eq!(
        (worker.counts.ring_packets, worker.references.injected),
        (4, 2)
    );
    let bursts = worker.bursts.iter().map(|bucket| bucket.le_packets);
    assert_eq!(
        bursts.collect::<Vec<_>>(),
        [
            Some(1),
            Some(2),
            Some(4),
            Some(8),
            Some(16),
            Some(32),
            Some(64),
            None
        ]
    );
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

/// A poll of an epoch that is over publishes; its end is on the system's clock.
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
        let seen = FlowObservation {
            slot: Slot(3),
            bytes: received.bytes,
            delay: received.delay,
        };
        if epoch == 0 {
            assert!(end.report_flow(NewFlow {
                id: FlowId::new(FlowHash(1), SegmentIndex(0)),
                slot: seen.slot,
                segment: SegmentIndex(0),
                key,
            }));
        }
        shard.passed(Prepared::without_cells(&[received], &[seen]));
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
    assert!((flow.total.mean_ns - 200.0).abs() < 1e-9 && flow.total.stddev_ns.abs() < 1e-6);
    assert_eq!(flow.rli_mean_ns, None);
}

#[test]
fn a_worker_that_stands_still_is_said_to() {
    let mut bench = Bench::new(1);
    bench.counters[0].passes.add(1);
    bench.poll();
    let now = Instant::now();
    for tenths in 1..12 {
        let later = now + Duration::from_millis(100 * tenths);
        let CoreState {
            watch, counters, ..
        } = &mut bench.core.state;
        watch.look(counters, later);
    }
    bench.core.publish();
    let snapshot = bench.core.published().read();
    assert!(snapshot.workers[0].is_stalled);
    assert!(
        snapshot
            .unready()
            .contains(&"worker 0 has stalled".to_owned())
    );
    bench.wish(|core| assert_eq!(core.stalled().collect::<Vec<_>>(), [0]));
    bench.poll();
}
