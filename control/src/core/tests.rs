use super::*;
use crate::contain::contained_in;
use crate::contain::{Part, Point, inject};
use crate::estimate::tests::{layout, observations, rate};
use contract::config::Worker as WorkerConfig;
use contract::config::{Config, FlowSelection, Flows, Forwarding, HostConfig, Lds, WireKeys};
use contract::counters::DropReason;
use contract::handover::FlowCommand;
use contract::handover::{ControlEnd, NewFlow, SHARDS_PER_WORKER, WorkerEnd, handover};
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

/// Length of an epoch in ticks.
const INTERVAL: u64 = 1_000_000;

/// A data plane with a clock that is set by hand, and events that are given by hand.
#[derive(Clone, Default)]
struct ByHand {
    now: Arc<AtomicU64>,
    said: Arc<Mutex<Said>>,
    /// The n-th request for a port from now on makes it panic, once.
    panics_at_port: Arc<AtomicU64>,
}

/// Messages between the data plane and the core.
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

/// The configured measurement, with a small LDA.
fn shards(config: &Config) -> ShardLayout {
    let mut shards = config.shard_layout(rate()).unwrap();
    if let Some(lda) = &mut shards.segment.lda {
        *lda = layout(1.0);
    }
    shards
}

/// A generation of `config`, and its workers' ends.
fn change(config: &Config, number: u32, from: u64) -> (Change, Vec<WorkerEnd>) {
    let layout = shards(config);
    let workers = config.workers.iter().filter(|_| config.measurement.enabled);
    let ends = workers.map(|_| handover(&layout));
    let ends = ends.map(|(worker, control)| (worker, Some(control)));
    let (worker_ends, ends) = ends.unzip();
    let change = generation(number, from, config.clone(), layout, ends);
    (change, worker_ends)
}

fn generation(
    number: u32,
    from: u64,
    config: Config,
    layout: ShardLayout,
    ends: Vec<Option<ControlEnd>>,
) -> Change {
    Change {
        number: GenerationId(number),
        from: Epoch(from),
        config,
        layout,
        ends,
        wires: Vec::new(),
        keys: WireKeys::default(),
    }
}

/// A flow on a segment, in slot 3.
fn new_flow(segment: u16) -> NewFlow {
    NewFlow {
        id: FlowId::new(FlowHash(1), SegmentIndex(segment)),
        slot: Slot(3),
        segment: SegmentIndex(segment),
        key: FlowKey::parse(&[7; 14]),
    }
}

/// A worker with 16 slots for flows.
fn with_flows() -> Bench {
    Bench::with(1, |config| {
        config.measurement.flows = Some(Flows {
            slots: 16,
            select: FlowSelection::All,
            idle_s: 1,
        });
    })
}

impl Bench {
    fn new(workers: usize) -> Self {
        Self::with(workers, |_| ())
    }

    fn with(workers: usize, configure: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::demo().unwrap();
        let worker = WorkerConfig {
            core: None,
            idle: contract::config::Idle::Spin,
            queues: None,
        };
        config.workers = vec![worker; workers];
        config.measurement.interval_ms = 1_000;
        config.measurement.lds = None;
        config.measurement.flows = None;
        configure(&mut config);
        let (first, ends) = change(&config, 0, 0);
        let counters = (0..workers).map(|_| Arc::new(WorkerCounters::new(config.ports.len())));
        Self::beginning(first, ends, counters.collect())
    }

    fn beginning(first: Change, ends: Vec<WorkerEnd>, counters: Vec<Arc<WorkerCounters>>) -> Self {
        let config = first.config.clone();
        let setup = Setup {
            rate: rate(),
            schedule: EpochSchedule::new(Ticks(0), INTERVAL, INTERVAL / 10),
            hasher: Hasher::new([7; 16]),
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

    /// An event in the data plane, reported at the next poll.
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
    let buckets = segment.total.buckets.iter();
    assert_eq!(buckets.map(|bucket| bucket.packets).sum::<u64>(), 390);
    assert_eq!(snapshot.segments[1].last, None);
}

#[test]
fn shards_come_back_empty_at_once() {
    let mut bench = Bench::new(2);
    for epoch in 0..10 {
        // The second worker is silent, but the first never lacks a shard.
        bench.shard(0, epoch, 5, 0);
        bench.poll();
        let shards = (0..SHARDS_PER_WORKER).map(|_| bench.ends[0].take_empty());
        let shards: Vec<_> = shards.collect();
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
    let estimated = before.estimated_epochs;
    assert_eq!(estimated, 13, "epochs without packets are not estimated");
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
fn a_change_of_sizes_keeps_totals_and_loses_no_epoch() {
    let mut bench = Bench::new(2);
    bench.set_epoch(4);
    for worker in 0..2 {
        bench.shard(worker, 4, 10, 0);
    }
    assert_eq!(bench.poll().generation, 0);
    let mut config = bench.config.clone();
    config.measurement.lds = Some(Lds::default());
    let (change, mut ends) = change(&config, 1, 6);
    let status = bench.status();
    assert_eq!((status.epoch.0, status.generation.0), (4, 0));
    assert_eq!(bench.change(change).generation, 1);
    assert!(bench.status().is_busy);
    bench.set_epoch(7);
    for (worker, end) in ends.iter_mut().enumerate() {
        bench.shard(worker, 5, 10, 0);
        give(end, worker, 6, 10, 0);
    }
    bench.ends.clear();
    let snapshot = bench.poll();
    let total = &snapshot.segments[0].total;
    assert_eq!(total.counts.sent_packets, 60);
    let unusable = total.unusable_epochs.by_reason();
    assert!(unusable.iter().all(|(_, epochs)| *epochs == 0));
    assert_eq!(snapshot.segments[0].last.as_ref().unwrap().epoch, 6);
    let sketches: Vec<_> = snapshot.sketches.iter().map(|s| s.port.as_str()).collect();
    assert_eq!(sketches, ["east", "west"]);
    let sketch = &snapshot.sketches[1];
    assert_eq!((sketch.epoch, snapshot.sketches[0].filled_cells), (6, 0));
    assert!(sketch.filled_cells > 0 && sketch.filled_cells == sketch.usable_cells);
    let error = sketch.error_ratio.unwrap();
    assert!(error.abs() < 1e-12, "nothing was lost");
    assert!(!bench.status().is_busy, "the first generation is over");
}

#[test]
fn an_epoch_that_workers_measured_in_two_generations_is_marked() {
    let mut bench = Bench::new(2);
    let (change, mut ends) = change(&bench.config, 1, 1);
    bench.change(change);
    bench.shard(0, 0, 10, 0);
    bench.shard(1, 0, 10, 0);
    // The second worker comes an epoch late.
    give(&mut ends[0], 0, 1, 10, 0);
    bench.shard(1, 1, 10, 0);
    give(&mut ends[0], 0, 2, 10, 0);
    give(&mut ends[1], 1, 2, 10, 0);
    let snapshot = bench.poll();
    let segment = &snapshot.segments[0];
    assert_eq!(segment.total.unusable_epochs.generation, 1);
    assert_eq!(segment.total.counts.sent_packets, 40);
    assert_eq!(segment.last.as_ref().unwrap().epoch, 2);
}

#[test]
fn measurement_goes_off_and_on_and_no_epoch_between_is_missed() {
    let mut bench = Bench::new(1);
    bench.shard(0, 0, 10, 0);
    bench.poll();
    let mut off = bench.config.clone();
    off.measurement.enabled = false;
    let (change_off, _) = change(&off, 1, 2);
    bench.shard(0, 1, 10, 0);
    bench.change(change_off);
    bench.ends.clear();
    let snapshot = bench.poll();
    bench.core.publish();
    assert!(snapshot.measuring == off.measurement.enabled);
    let (change_on, mut ends) = change(&bench.config, 2, 50);
    bench.change(change_on);
    give(&mut ends[0], 0, 51, 10, 0);
    let total = &bench.poll().segments[0].total;
    assert_eq!(total.unusable_epochs.missed_shard, 1, "epoch 50 alone");
    let sent = total.counts.sent_packets;
    assert_eq!(sent, 10, "without measurement no segments are kept");
}

#[test]
fn segments_that_come_and_go_are_told_apart_by_name() {
    let mut bench = Bench::new(1);
    bench.shard(0, 0, 10, 0);
    bench.poll();
    let mut one_way = bench.config.clone();
    let (east, west) = (one_way.ports[0].name.clone(), one_way.ports[1].name.clone());
    one_way.measurement.segments = Some(vec![contract::config::SegmentPorts {
        from: west.clone(),
        to: east.clone(),
    }]);
    let (change, mut ends) = change(&one_way, 1, 1);
    bench.change(change);
    bench.ends.clear();
    give(&mut ends[0], 0, 1, 7, 0);
    let snapshot = bench.poll();
    assert_eq!(snapshot.segments.len(), 1);
    let segment = &snapshot.segments[0];
    assert_eq!((&segment.ingress, &segment.egress), (&west, &east));
    let sent = segment.total.counts.sent_packets;
    assert_eq!(sent, 7, "not those of the other way");
}

#[test]
fn a_link_that_flaps_makes_epochs_unusable_and_loses_no_count() {
    let mut bench = Bench::new(1);
    bench.set_epoch(5);
    bench.event(Event::Disturbed { port: PortIndex(1) });
    bench.poll();
    for epoch in 3..8 {
        bench.shard(0, epoch, 100, 0);
        bench.poll();
    }
    let snapshot = bench.poll();
    let segment = &snapshot.segments[0];
    assert_eq!(segment.total.unusable_epochs.link, 2, "epochs 4 and 5");
    assert_eq!(segment.total.counts.sent_packets, 500);
    assert_eq!(segment.total.estimated_epochs, 3);
    assert_eq!(segment.last.as_ref().unwrap().epoch, 7);
    let port = PortIndex(99);
    bench.event(Event::Disturbed { port });
    bench.poll();
}

#[test]
fn changes_that_do_not_fit_are_refused_and_change_nothing() {
    let mut bench = Bench::new(2);
    let mut other = bench.config.clone();
    other.measurement.enabled = false;
    let (stale, _) = change(&bench.config, 0, 2);
    let (mut many, _) = change(&bench.config, 1, 2);
    many.ends.push(None);
    let (mut mixed, _) = change(&bench.config, 1, 2);
    mixed.config = other;
    let (good, _ends) = change(&bench.config, 3, 2);
    let (early, _) = change(&bench.config, 4, 2);
    for change in [stale, many, mixed] {
        bench.event(Event::Change(Box::new(change)));
    }
    assert_eq!(bench.poll().generation, 0);
    let refused = [
        ChangeError::Stale {
            number: GenerationId(0),
            present: GenerationId(0),
        },
        ChangeError::Ends {
            ends: 3,
            workers: 2,
        },
        ChangeError::Segments {
            configured: 0,
            laid_out: 2,
        },
    ];
    assert_eq!(bench.answers(), refused.map(Err));
    for change in [good, early] {
        bench.event(Event::Change(Box::new(change)));
    }
    assert_eq!(bench.poll().generation, 3);
    let busy = ChangeError::Busy {
        number: GenerationId(0),
    };
    assert_eq!(bench.answers(), [Ok(()), Err(busy)]);
}

#[test]
fn a_port_that_is_taken_away_is_not_shown_and_has_its_counts_when_it_comes_back() {
    let mut bench = Bench::with(1, |config| config.measurement.enabled = false);
    bench.counters[0].ports[1].rx_packets.add(7);
    let shown = |bench: &mut Bench, number, config: &Config| {
        let (change, _) = change(config, number, 2);
        bench.change(change);
        let snapshot = bench.poll();
        let ports = snapshot.ports.iter();
        let ports = ports.map(|port| (port.name.clone(), port.counts.rx_packets));
        ports.collect::<Vec<_>>()
    };
    let (whole, mut less) = (bench.config.clone(), bench.config.clone());
    less.ports[0].device = contract::config::Device::Absent;
    assert_eq!(shown(&mut bench, 1, &less), [("west".to_owned(), 7)]);
    let both = [("east".to_owned(), 0), ("west".to_owned(), 7)];
    assert_eq!(shown(&mut bench, 2, &whole), both);
}

/// Two epochs of one worker; the second shows that it is still measured.
fn measure_two(bench: &mut Bench, epoch: u64) -> Arc<Snapshot> {
    for epoch in [epoch, epoch + 1] {
        bench.set_epoch(epoch + 1);
        bench.shard(0, epoch, 100, 0);
        bench.poll();
    }
    let snapshot = bench.core.published().read();
    assert_eq!(snapshot.epoch, Some(epoch + 1));
    let last = snapshot.segments[0].last.as_ref().unwrap();
    assert_eq!((last.epoch, last.counts.sent_packets), (epoch + 1, 100));
    snapshot
}

#[test]
fn upkeep_that_panics_is_tried_again_and_the_rest_is_done() {
    let mut bench = Bench::new(1);
    for n in 1..=3 {
        bench.data_plane.said.lock().panics = true;
        bench.poll();
        assert_eq!(contained_in(Part::Upkeep), n);
    }
    let snapshot = measure_two(&mut bench, 0);
    assert_eq!(snapshot.contained_panics, 3);
}

#[test]
fn a_change_that_panics_is_refused() {
    let mut bench = Bench::new(1);
    bench.poll();
    let (change, _ends) = change(&bench.config, 1, 2);
    bench.event(Event::Change(Box::new(change)));
    bench.data_plane.said.lock().arms_upkeep = true;
    bench.poll();
    assert_eq!(bench.answers(), [Err(ChangeError::Fault)]);
}

#[test]
fn a_snapshot_that_panics_half_way_leaves_names_and_the_next_is_whole() {
    let mut bench = Bench::new(1);
    let before = bench.poll();
    bench.data_plane.panics_at_port.store(2, Ordering::Relaxed);
    bench.shard(0, 0, 100, 0);
    let after = bench.poll();
    assert_eq!(contained_in(Part::Publish), 1);
    let epoch = after.epoch;
    assert_eq!(epoch, None, "the last whole snapshot is still shown");
    let snapshot = measure_two(&mut bench, 1);
    let names =
        |of: &Snapshot| -> Vec<String> { of.ports.iter().map(|p| p.name.clone()).collect() };
    assert_eq!(names(&snapshot), names(&before));
    assert_eq!(snapshot.ports[1].classes, before.ports[1].classes);
    assert_eq!(snapshot.segments[0].total.counts.sent_packets, 300);
}

#[test]
fn an_estimate_that_panics_costs_its_segment_the_epoch() {
    let mut bench = Bench::new(1);
    inject::arm(Point::In(Part::Estimate), 1);
    bench.shard(0, 0, 100, 0);
    let snapshot = bench.poll();
    let internal = |of: &Snapshot, n: usize| of.segments[n].total.unusable_epochs.internal;
    assert_eq!(snapshot.epoch, Some(0));
    assert_eq!((internal(&snapshot, 0), internal(&snapshot, 1)), (1, 0));
    let snapshot = measure_two(&mut bench, 1);
    assert_eq!((internal(&snapshot, 0), internal(&snapshot, 1)), (1, 0));
}

#[test]
fn an_epoch_whose_shard_panics_is_unusable_and_the_worker_keeps_its_shards() {
    let mut bench = Bench::new(1);
    measure_two(&mut bench, 0);
    for epoch in 2..2 + 2 * SHARDS_PER_WORKER as u64 {
        inject::arm(Point::In(Part::Epoch), 1);
        bench.shard(0, epoch, 100, 0);
        bench.poll();
    }
    let snapshot = measure_two(&mut bench, 20);
    let unusable = snapshot.segments[0].total.unusable_epochs;
    assert_eq!(unusable.internal, 2 * SHARDS_PER_WORKER as u64);
    assert_eq!(snapshot.segments[0].total.counts.sent_packets, 400);
}

#[test]
fn flows_begin_anew_after_a_panic_and_workers_get_their_slots_back() {
    let (mut bench, new) = (with_flows(), new_flow(0));
    let tracked = |bench: &Bench| {
        let snapshot = bench.core.published().read();
        snapshot.flows.as_ref().unwrap().totals.tracked
    };
    assert!(bench.ends[0].report_flow(new));
    measure_two(&mut bench, 0);
    assert_eq!(tracked(&bench), 1);

    inject::arm(Point::In(Part::Flows), 1);
    bench.shard(0, 2, 100, 0);
    bench.poll();
    assert_eq!(contained_in(Part::Flows), 1);
    let end = &mut bench.ends[0];
    assert_eq!(end.next_command(), Some(FlowCommand::Forget(new.id)));
    measure_two(&mut bench, 3);
    assert_eq!(tracked(&bench), 0);
    let end = &mut bench.ends[0];
    assert_eq!(end.next_command(), Some(FlowCommand::Give(new.slot)));
    assert_eq!(end.next_command(), None);

    assert!(end.report_flow(new));
    let snapshot = measure_two(&mut bench, 5);
    assert_eq!(tracked(&bench), 1);
    // The epoch whose shard was not read to its end gives no numbers.
    let unusable = snapshot.segments[0].total.unusable_epochs;
    assert_eq!(unusable.missed_shard, 1);
}

#[test]
fn no_panic_of_any_part_ends_the_control_core() {
    let mut bench = Bench::new(1);
    for part in Part::ALL {
        inject::arm(Point::In(part), 3);
    }
    for epoch in 0..20 {
        bench.set_epoch(epoch + 1);
        if let Some(shard) = bench.ends[0].take_empty() {
            bench.ends[0].give_sealed(shard.seal(Epoch(epoch)));
        }
        bench.poll();
    }
    for part in [
        Part::Core,
        Part::Upkeep,
        Part::Epoch,
        Part::Estimate,
        Part::Flows,
        Part::Publish,
    ] {
        assert_eq!(contained_in(part), 3, "{part:?}");
    }
    measure_two(&mut bench, 20);
}

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
    (generation(number, from, config, whole, ends), worker_ends)
}

/// A transmit queue's shard, with this number of packets on each segment.
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
    Bench::beginning(first, Vec::new(), Vec::new())
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
        // Packets that leave through another port do not belong to the queue.
        give_host(&mut ends[0], epoch, [1, 10, 7, 7]);
        give_host(&mut ends[1], epoch, [7, 7, 100, 1_000]);
    }
    assert!(ends[1].report_flow(new_flow(2)));
    let snapshot = bench.poll();
    assert_eq!(snapshot.epoch, Some(3));
    let names = ["a>a", "b>a", "a>b", "b>b"].map(str::to_owned);
    let expected = |counts: [u64; 4]| names.iter().cloned().zip(counts).collect::<Vec<_>>();
    assert_eq!(received(&snapshot), expected([2, 20, 200, 2_000]));
    let filled = snapshot.sketches.iter().map(|s| s.filled_cells > 0);
    assert!(filled.eq([true, true]));
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
    let list = &snapshot.flows.as_ref().unwrap().list;
    let flow = snapshot.flow(list, &list.flows[0]);
    assert_eq!((flow.ingress.as_str(), flow.egress.as_str()), ("a", "b"));
    give_host(&mut next[1], 5, [0, 0, 0, 10]);
    give_host(&mut next[0], 7, [0; 4]);
    give_host(&mut next[1], 7, [0; 4]);
    let snapshot = bench.poll();
    assert_eq!(received(&snapshot), expected([3, 20, 211, 2_010]));
    let unusable = snapshot.segments[0].total.unusable_epochs;
    let unusable = (unusable.missed_shard, unusable.generation);
    assert_eq!(unusable, (1, 0), "epoch 6 alone");
    assert_eq!(snapshot.generation, 2);
    assert!(!bench.status().is_busy);
}

/// The published figures of two workers with equal counts.
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
    // Shards that a worker seals while it stops still count.
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
    // 29.5 epochs after the end of epoch 0, which are 14.75 ms.
    bench.set_epoch(30);
    bench.shard(0, 0, 1, 0);
    let end_s = bench.poll().epoch_end_unix_s.unwrap();
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now_s.unwrap().as_secs_f64();
    assert!((0.014_75..60.0).contains(&(now_s - end_s)));
}

#[test]
fn flows_are_known_by_their_keys_and_segments() {
    let (mut bench, new) = (with_flows(), new_flow(0));
    for epoch in 0..3 {
        let end = &mut bench.ends[0];
        let mut shard = end.take_empty().unwrap();
        let (_, received) = observations(0, epoch, 400);
        assert!(epoch > 0 || end.report_flow(new));
        shard.passed_one(&received, new.slot);
        end.give_sealed(shard.seal(Epoch(epoch)));
        bench.poll();
    }
    bench.counters[0].flows.free_slots.set(15);
    bench.counters[0].flows.unreported.set(2);
    bench.core.publish();
    let flows = bench.core.published().read().flows.clone().unwrap();
    let totals = &flows.totals;
    let slots = (totals.tracked, totals.slots, totals.free_slots);
    assert_eq!(slots, (1, 16, 15));
    assert_eq!(totals.untracked[2].packets, 2);
    assert_eq!(flows.list.epoch, Some(2));
    let snapshot = bench.core.published().read();
    let flow = snapshot.flow(&flows.list, &flows.list.flows[0]);
    assert_eq!(flow.flow, new.key.to_string());
    assert_eq!([flow.ingress, flow.egress], ["east", "west"]);
    assert_eq!((flow.total.packets, flow.total.bytes), (3, 300));
    let last = (flow.first_epoch, flow.last_epoch, flow.last.packets);
    assert_eq!(last, (0, 2, 1));
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
    let stalled = "worker 0 has stalled".to_owned();
    assert!(snapshot.unready().contains(&stalled));
    assert_eq!(bench.status().stalled_workers, 1);
}
