use super::*;
use crate::config::Worker as WorkerConfig;
use crate::config::{Config, FlowSelection, Flows, Forwarding, HostConfig, Lds};
use crate::counters::DropReason;
use crate::estimate::tests::{layout, rate, sights};
use crate::handover::{NewFlow, SHARDS_PER_WORKER, WorkerEnd, handover};
use crate::snapshot::{Fdb, Labelled, Pool, PortFact, Totals};
use measure::flows::{FlowId, FlowSight, Slot};
use measure::packet::{FlowHash, FlowKey, Kind};
use measure::shard::{Places, ShardLayout, Tally};
use measure::sight::SegmentIndex;
use measure::synopsis::Synopsis;
use parking_lot::Mutex;
use std::sync::atomic::AtomicU64;

/// Length of an epoch in ticks.
const INTERVAL: u64 = 1_000_000;

type Wish = Box<dyn FnOnce(&mut Desk<'_>) + Send>;

/// A plant with a clock that is set by hand, and wishes that it passes on when it is tended.
#[derive(Clone, Default)]
struct ByHand {
    now: Arc<AtomicU64>,
    wishes: Arc<Mutex<Vec<Wish>>>,
}

impl Plant for ByHand {
    fn now(&mut self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn port(&mut self, index: usize) -> PortFact {
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

    fn tend(&mut self, desk: &mut Desk<'_>) {
        for wish in self.wishes.lock().drain(..) {
            wish(desk);
        }
    }
}

struct Bench {
    core: ControlCore<'static>,
    plant: ByHand,
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
    let ends = workers.map(|_| handover(number, &layout));
    let (worker_ends, ends) = ends
        .map(|(worker, control)| (worker, Some(control)))
        .unzip();
    let change = Change {
        number,
        from: Epoch(from),
        config: config.clone(),
        layout,
        ends,
        wires: Vec::new(),
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
                idle: crate::config::Idle::Spin,
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
            schedule: EpochSchedule::new(0, INTERVAL, INTERVAL / 10),
            hasher: hasher(),
            counters: counters.clone(),
            line: Arc::default(),
            first,
        };
        let plant = ByHand::default();
        Self {
            core: ControlCore::new(setup, plant.clone()).unwrap(),
            plant,
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
        self.plant.now.store(now, Ordering::Relaxed);
    }

    /// Lets the plant ask for something at the next poll.
    fn wish(&self, wish: impl FnOnce(&mut Desk<'_>) + Send + 'static) {
        self.plant.wishes.lock().push(Box::new(wish));
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
        let (sent, received) = sights(0, n + 1_000 * worker as u64, n + 1);
        if n < packets - dropped {
            shard.passed(&[received], &[], &Places::new());
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
        counters.ports[1].classes[0].dropped.add(1);
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
    assert_eq!((snapshot.pools[0].used, snapshot.pools[0].size), (3, 1024));
    assert_eq!(snapshot.fdb.unwrap().entries, 5);
    let class = &west.classes[0];
    assert_eq!(
        (
            class.class.as_str(),
            class.tx_packets,
            class.dropped_packets
        ),
        ("all", 10, 2)
    );
    let queue = &west.queues[0];
    assert_eq!((queue.queue.as_str(), queue.packets), ("all", 18));
    assert_eq!(queue.drops.iter().map(|drop| drop.packets).sum::<u64>(), 6);
    let worker = &snapshot.workers[0];
    assert_eq!((worker.ring_packets, worker.references.injected), (4, 2));
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
    assert_eq!(snapshot.ports[0].tx_packets, 5);
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
    bench.wish(move |desk| {
        assert_eq!((desk.epoch(), desk.generation()), (Epoch(4), 0));
        desk.change(change).unwrap();
        assert!(desk.is_busy());
    });
    assert_eq!(bench.poll().generation, 1);
    bench.set_epoch(7);
    for (worker, end) in ends.iter_mut().enumerate() {
        bench.shard(worker, 5, 10, 0);
        give(end, worker, 6, 10, 0);
    }
    bench.ends.clear();
    let snapshot = bench.poll();
    let total = &snapshot.segments[0].total;
    assert_eq!(total.counts.sent_packets, 60);
    assert_eq!(
        total.unusable_epochs,
        crate::snapshot::UnusableEpochs::default()
    );
    assert_eq!(snapshot.segments[0].last.as_ref().unwrap().epoch, 6);
    let sketches: Vec<_> = snapshot.sketches.iter().map(|s| s.port.as_str()).collect();
    assert_eq!(sketches, ["east", "west"]);
    let sketch = &snapshot.sketches[1];
    assert_eq!((sketch.epoch, snapshot.sketches[0].filled_cells), (6, 0));
    assert!(sketch.filled_cells > 0 && sketch.filled_cells == sketch.usable_cells);
    assert!(
        sketch.error_ratio.unwrap().abs() < 1e-12,
        "nothing was lost"
    );
    bench.wish(|desk| assert!(!desk.is_busy(), "the first generation is over"));
    bench.poll();
}

#[test]
fn an_epoch_that_workers_measured_in_two_generations_is_marked() {
    let mut bench = Bench::new(2);
    let (change, mut ends) = change(&bench.config, 1, 1);
    bench.wish(move |desk| desk.change(change).unwrap());
    bench.poll();
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
    bench.wish(move |desk| desk.change(change_off).unwrap());
    bench.shard(0, 1, 10, 0);
    bench.poll();
    bench.ends.clear();
    let snapshot = bench.poll();
    bench.core.publish();
    assert!(snapshot.measuring == off.measurement.enabled);
    let (change_on, mut ends) = change(&bench.config, 2, 50);
    bench.wish(move |desk| desk.change(change_on).unwrap());
    bench.poll();
    give(&mut ends[0], 0, 51, 10, 0);
    let total = &bench.poll().segments[0].total;
    assert_eq!(total.unusable_epochs.missed_shard, 1, "epoch 50 alone");
    assert_eq!(
        total.counts.sent_packets, 10,
        "without measurement there are no segments to be kept"
    );
}

#[test]
fn segments_that_come_and_go_are_told_apart_by_name() {
    let mut bench = Bench::new(1);
    bench.shard(0, 0, 10, 0);
    bench.poll();
    let mut one_way = bench.config.clone();
    let (east, west) = (one_way.ports[0].name.clone(), one_way.ports[1].name.clone());
    one_way.measurement.segments = Some(vec![crate::config::SegmentPorts {
        from: west.clone(),
        to: east.clone(),
    }]);
    let (change, mut ends) = change(&one_way, 1, 1);
    bench.wish(move |desk| desk.change(change).unwrap());
    bench.poll();
    bench.ends.clear();
    give(&mut ends[0], 0, 1, 7, 0);
    let snapshot = bench.poll();
    assert_eq!(snapshot.segments.len(), 1);
    let segment = &snapshot.segments[0];
    assert_eq!((&segment.ingress, &segment.egress), (&west, &east));
    assert_eq!(
        segment.total.counts.sent_packets, 7,
        "not those of the other way"
    );
}

#[test]
fn a_link_that_flaps_makes_epochs_unusable_and_loses_no_count() {
    let mut bench = Bench::new(1);
    bench.set_epoch(5);
    bench.wish(|desk| desk.disturb(1));
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
    bench.wish(|desk| desk.disturb(99));
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
    bench.wish(move |desk| {
        let mut refused = |change| desk.change(change).unwrap_err();
        let (number, present) = (0, 0);
        assert_eq!(refused(stale), ChangeError::Stale { number, present });
        let (ends, workers) = (3, 2);
        assert_eq!(refused(many), ChangeError::Ends { ends, workers });
        let (configured, laid_out) = (0, 2);
        assert_eq!(
            refused(mixed),
            ChangeError::Segments {
                configured,
                laid_out
            }
        );
        assert_eq!(desk.generation(), 0);
        desk.change(good).unwrap();
        let busy = desk.change(early).unwrap_err();
        assert_eq!(busy, ChangeError::Busy { number: 0 });
    });
    assert_eq!(bench.poll().generation, 3);
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
        let (_, received) = sights(0, epoch, 400);
        let seen = FlowSight {
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
        shard.passed(&[received], &[seen], &Places::new());
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
fn a_port_that_is_taken_away_is_not_shown_and_has_its_counts_when_it_comes_back() {
    let mut bench = Bench::with(1, |config| config.measurement.enabled = false);
    bench.counters[0].ports[1].rx_packets.add(7);
    let shown = |bench: &mut Bench, number, config: &Config| {
        let (change, _) = change(config, number, 2);
        bench.wish(move |desk| desk.change(change).unwrap());
        bench.poll();
        let snapshot = bench.poll();
        let ports = snapshot.ports.iter();
        ports
            .map(|port| (port.name.clone(), port.rx_packets))
            .collect::<Vec<_>>()
    };
    let (whole, mut less) = (bench.config.clone(), bench.config.clone());
    less.ports[0].device = crate::config::Device::Absent;
    assert_eq!(shown(&mut bench, 1, &less), [("west".to_owned(), 7)]);
    let both = [("east".to_owned(), 0), ("west".to_owned(), 7)];
    assert_eq!(shown(&mut bench, 2, &whole), both);
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
            let part = whole.part(config.segments_of_egress(port));
            let (worker, control) = handover(number, &part);
            worker_ends.push(worker);
            control
        }));
    }
    let change = Change {
        number,
        from: Epoch(from),
        config,
        layout: whole,
        ends,
        wires: Vec::new(),
    };
    (change, worker_ends)
}

/// A transmit queue's shard, with so many packets on each segment.
fn give_host(end: &mut WorkerEnd, epoch: u64, packets: [u64; 4]) {
    let mut shard = end.take_empty().unwrap();
    for (segment, packets) in (0..).zip(packets) {
        for n in 0..packets {
            let (_, received) = sights(segment, n, 200);
            shard.passed(&[received], &[], &Places::new());
        }
    }
    end.give_sealed(shard.seal(Epoch(epoch)));
}

#[test]
fn transmit_queues_of_a_host_come_and_go() {
    let (first, _) = host_change(0, 0, &[]);
    let config = first.config.clone();
    let plant = ByHand::default();
    let setup = Setup {
        rate: rate(),
        schedule: EpochSchedule::new(0, INTERVAL, INTERVAL / 10),
        hasher: hasher(),
        counters: Vec::new(),
        line: Arc::default(),
        first,
    };
    let core = ControlCore::new(setup, plant.clone()).unwrap();
    let mut bench = Bench {
        core,
        plant,
        config,
        ends: Vec::new(),
        counters: Vec::new(),
    };
    let received = |snapshot: &Snapshot| {
        let segments = snapshot.segments.iter();
        let count = |s: &crate::snapshot::Segment| (s.name(), s.total.counts.received_packets);
        segments.map(count).collect::<Vec<_>>()
    };
    // A queue of either port.
    let (change, mut ends) = host_change(1, 2, &[Some(0), Some(1)]);
    bench.wish(move |desk| {
        let hired = [(); 2].map(|()| desk.hire(Arc::new(WorkerCounters::new(2))));
        assert_eq!(hired, [0, 1]);
        desk.change(change).unwrap();
    });
    bench.poll();
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
    bench.wish(move |desk| {
        assert_eq!(desk.hire(Arc::new(WorkerCounters::new(2))), 2);
        desk.change(change).unwrap();
    });
    bench.poll();
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
    bench.wish(|desk| assert!(!desk.is_busy()));
    bench.poll();
}

#[test]
fn a_worker_that_stands_still_is_said_to() {
    let mut bench = Bench::new(1);
    bench.counters[0].passes.add(1);
    bench.poll();
    let now = Instant::now();
    for tenths in 1..12 {
        let later = now + Duration::from_millis(100 * tenths);
        let Ledger {
            watch, counters, ..
        } = &mut bench.core.ledger;
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
    bench.wish(|desk| assert_eq!(desk.stalled().collect::<Vec<_>>(), [0]));
    bench.poll();
}
