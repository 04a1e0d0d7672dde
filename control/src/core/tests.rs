use super::*;
use crate::contain::{Part, Point, inject};
use crate::estimate::tests::{layout, observations, rate};
use contract::config::Worker as WorkerConfig;
use contract::config::{Config, FlowSelection, Flows, Forwarding, HostConfig, Lds, WireKeys};
use contract::counters::DropReason;
use contract::handover::{NewFlow, SHARDS_PER_WORKER, WorkerEnd, handover};
use contract::ids::{GenerationId, PortIndex, WorkerIndex};
use measure::flows::{FlowId, Slot};
use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, FlowKey, Kind};
use measure::shard::{ShardLayout, Tally};
use measure::time::{Epoch, Ticks};
use parking_lot::Mutex;
use records::snapshot::{Fdb, Pool, PortFact, Totals};
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

mod changes;
mod faults;
mod host;
mod snapshots;

/// Length of an epoch in ticks.
const INTERVAL: u64 = 1_000_000;

/// A data plane with a clock that is set by hand, and events that are given by hand.
#[derive(Clone, Default)]
struct ByHand {
    now: Arc<AtomicU64>,
    said: Arc<Mutex<Said>>,
    /// The n-th port that it is asked for from now on makes it panic, once.
    panics_at_port: Arc<AtomicU64>,
}

/// What the data plane and the core have to say to each other.
#[derive(Default)]
struct Said {
    events: Vec<Event>,
    panics: bool,
    /// The next part of upkeep, which applies the first change, panics.
    arms_upkeep: bool,
    status: Option<CoreStatus>,
    answers: Vec<Result<(), ChangeError>>,
}

impl DataPlane for ByHand {
    fn now(&mut self) -> Ticks {
        Ticks(self.now.load(Ordering::Relaxed))
    }

    fn port(&mut self, PortIndex(index): PortIndex) -> PortFact {
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

    fn poll(&mut self, core: CoreStatus) -> Vec<Event> {
        let mut said = self.said.lock();
        said.status = Some(core);
        if std::mem::take(&mut said.panics) {
            inject::panic();
        }
        if std::mem::take(&mut said.arms_upkeep) {
            inject::arm(Point::In(Part::Upkeep), 1);
        }
        std::mem::take(&mut said.events)
    }

    fn answer(&mut self, answer: Result<(), ChangeError>) {
        self.said.lock().answers.push(answer);
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
    let ends = workers.map(|_| handover(&layout));
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

    /// Something happens in the data plane, which says so at the next poll.
    fn event(&self, event: Event) {
        self.data_plane.said.lock().events.push(event);
    }

    /// Polls with a change, which is taken.
    fn change(&mut self, change: Change) -> Arc<Snapshot> {
        self.event(Event::Change(Box::new(change)));
        let snapshot = self.poll();
        assert_eq!(self.answers(), [Ok(())]);
        snapshot
    }

    /// Answers to changes since the last call.
    fn answers(&self) -> Vec<Result<(), ChangeError>> {
        std::mem::take(&mut self.data_plane.said.lock().answers)
    }

    /// Polls; the status that the data plane was given.
    fn status(&mut self) -> CoreStatus {
        self.poll();
        self.data_plane.said.lock().status.unwrap()
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
            shard.passed_one(&received, Slot::OTHER);
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
            .buckets
            .iter()
            .map(|bucket| bucket.packets)
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
