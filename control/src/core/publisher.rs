//! Builds the published snapshot from counters and the data plane.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::config::{self, Config};
use contract::counters::{Counter, DropReason, PortCounters};
use contract::ids::{GenerationId, PortIndex};
use measure::packet::{HASH_VERSION, Kind};
use records::snapshot::{
    AroundCounts, ClassCounts, Labelled, Port, QueueCounts, Snapshot, Status, Worker,
};

use super::clocks::Clocks;
use super::measurement::Measurement;
use super::workers::Workers;
use super::{REFRESH, labelled, neighbours};
use crate::contain::contained;
use crate::data_plane::DataPlane;
use crate::published::{Lookup, Published};

#[derive(Debug)]
pub(super) struct Publisher {
    /// Every port by index, including absent ones. Segments, sketches, flows and wires are filled in on
    /// publication.
    pub draft: Snapshot,
    is_present: Vec<bool>,
    rates: Rates,
    published: Arc<Published>,
    published_at: Instant,
    /// Whether something has happened that should be shown before the next refresh is due.
    pub has_news: bool,
}

impl Publisher {
    /// Publishes an empty snapshot.
    pub fn new(now: Instant) -> Self {
        let draft = Snapshot::from(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hash_version: HASH_VERSION,
            ..Status::default()
        });
        Self {
            published: Arc::new(Published::new(draft.clone())),
            draft,
            is_present: Vec::new(),
            rates: Rates::default(),
            published_at: now,
            has_news: false,
        }
    }

    /// Where the snapshots appear.
    pub fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// Whether a snapshot is due; returns true once for each.
    pub fn take_due(&mut self, clocks: &Clocks) -> bool {
        std::mem::take(&mut self.has_news) || clocks.since(self.published_at) >= REFRESH
    }

    /// Begins a generation with this configuration.
    pub fn begin(&mut self, config: &Config, number: GenerationId) {
        self.is_present = config.ports.iter().map(config::Port::is_present).collect();
        self.describe(config, number);
        self.has_news = true;
    }

    /// Fills in what the configuration of a generation determines.
    fn describe(&mut self, config: &Config, number: GenerationId) {
        let draft = &mut self.draft;
        draft.switch.clone_from(&config.name);
        draft.measuring = config.measurement.enabled;
        draft.interval_ms = config.measurement.interval_ms;
        draft.generation = number.0;
        draft.config = Some(Arc::new(config.clone()));
        let old = std::mem::take(&mut draft.ports);
        let ports = config.ports.iter().enumerate();
        draft.ports = ports
            .map(|(index, port)| {
                let same = |old: &&Port| old.name == port.name;
                Port {
                    name: port.name.clone(),
                    classes: class_names(config),
                    queues: queue_names(config, index),
                    around: device_name(config, index),
                    ..old.iter().find(same).cloned().unwrap_or_default()
                }
            })
            .collect();
    }

    /// Rebuilds the draft, which a panic left half read.
    pub fn describe_again(&mut self) {
        if let Some(config) = self.draft.config.clone() {
            self.describe(&config, GenerationId(self.draft.generation));
        }
    }

    /// Reads every counter and gauge, and the state of the data plane.
    pub fn read(
        &mut self,
        data_plane: &mut dyn DataPlane,
        workers: &Workers,
        measurement: &Measurement,
        clocks: &Clocks,
    ) {
        let draft = &mut self.draft;
        for (index, port) in (0..).map(PortIndex).zip(&mut draft.ports) {
            port.facts = data_plane.port(index);
            let blocks = workers.of_port(index);
            read_port(port, &blocks);
            let frames = blocks.iter().filter_map(|block| block.lldp.take());
            neighbours::renew(&mut port.neighbours, frames, clocks.unix_s());
        }
        let exceptions = workers.counters().map(|worker| worker.exceptions.read());
        draft.exceptions = exceptions.sum();
        draft.pools = data_plane.pools();
        draft.fdb = data_plane.fdb();
        draft.reload = data_plane.reload();
        let missed_epochs = |worker| measurement.missed_epochs(worker);
        draft.workers = workers.read(&draft.workers, missed_epochs, clocks.rate);
        self.rates
            .renew(draft, clocks.rate.hz() as f64, clocks.monotonic());
    }

    /// The draft to publish, without the parts made separately for each snapshot.
    pub fn snapshot(&mut self, uptime: Duration) -> Snapshot {
        self.draft.uptime_s = uptime.as_secs_f64();
        self.draft.contained_panics = contained();
        self.draft.reports = self.published.reports.get().map(|counters| counters.read());
        self.draft.ipfix = self.published.ipfix.get().map(|counters| counters.read());
        let mut snapshot = self.draft.clone();
        let mut is_present = self.is_present.iter();
        // A removed port stays if it has counts, so that sums over ports remain correct.
        snapshot.ports.retain_mut(|port| {
            port.is_absent = is_present.next() == Some(&false);
            !port.is_absent || port.has_counted()
        });
        snapshot
    }

    pub fn publish(&mut self, snapshot: Snapshot, lookup: Lookup, now: Instant) {
        self.published.publish(snapshot, lookup);
        self.published_at = now;
    }
}

fn class_names(config: &Config) -> Vec<ClassCounts> {
    let classes = 0..config.class_count();
    let named = classes.map(|class| ClassCounts {
        class: config.class_name(class).to_owned(),
        ..ClassCounts::default()
    });
    named.collect()
}

fn queue_names(config: &Config, port: usize) -> Vec<QueueCounts> {
    let queues = config.ports.get(port).map(|port| &port.egress.queues);
    let empty = |queue: String| QueueCounts {
        queue,
        ..QueueCounts::default()
    };
    match queues {
        Some(queues) if !queues.is_empty() => {
            let names = queues.iter().map(|queue| queue.classes.join("+"));
            names.map(empty).collect()
        }
        _ => vec![empty("all".to_owned())],
    }
}

/// The device that a port leads to.
fn device_name(config: &Config, port: usize) -> Option<AroundCounts> {
    let (device, _) = config.around(port)?;
    Some(AroundCounts {
        device: config.measurement.around.get(device)?.name.clone(),
        ..AroundCounts::default()
    })
}

/// Reads a port's counters, summed over the workers; names and rates are kept.
fn read_port(port: &mut Port, blocks: &[&PortCounters]) {
    let sum = |counter: &dyn Fn(&PortCounters) -> &Counter| -> u64 {
        blocks.iter().map(|block| counter(block).get()).sum()
    };
    port.counts = blocks.iter().map(|block| block.read()).sum();
    port.drops = DropReason::ALL
        .map(|reason| labelled(reason.label(), sum(&|block| &block.drops[reason as usize])))
        .to_vec();
    port.kinds = Kind::ALL
        .map(|kind| labelled(kind.label(), sum(&|block| &block.kinds[kind as usize])))
        .to_vec();
    for (n, class) in port.classes.iter_mut().enumerate() {
        class.counts = blocks.iter().map(|block| block.classes[n].read()).sum();
    }
    for (n, queue) in port.queues.iter_mut().enumerate() {
        queue.counts = blocks.iter().map(|block| block.queues[n].read()).sum();
        queue.drops = queue_drops(blocks, n);
    }
    if let Some(around) = &mut port.around {
        around.counts = blocks.iter().map(|block| block.around.read()).sum();
    }
}

/// A queue's drops by reason, summed over the workers.
fn queue_drops(blocks: &[&PortCounters], queue: usize) -> Vec<Labelled> {
    let mut drops: Vec<Labelled> = Vec::new();
    for block in blocks {
        for (n, (reason, counter)) in block.queues[queue].drops().into_iter().enumerate() {
            match drops.get_mut(n) {
                Some(drop) => drop.packets += counter.get(),
                None => drops.push(labelled(reason.label(), counter.get())),
            }
        }
    }
    drops
}

/// Counters of about a second ago, to compute rates.
#[derive(Debug, Default)]
pub(super) struct Rates {
    base: Option<(Instant, Vec<Port>, Vec<Worker>)>,
}

impl Rates {
    /// Updates the rates in a snapshot whose counters were read at `now`; does nothing until a second has
    /// passed.
    pub fn renew(&mut self, draft: &mut Snapshot, hz: f64, now: Instant) {
        if let Some((then, ports, workers)) = &self.base {
            let elapsed = now.duration_since(*then);
            if elapsed < REFRESH {
                return;
            }
            let seconds = elapsed.as_secs_f64();
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
            for port in &mut draft.ports {
                let before = ports.iter().find(|before| before.name == port.name);
                let (rx, tx) =
                    before.map_or((0, 0), |p| (p.counts.rx_packets, p.counts.tx_packets));
                port.rx_pps = rate(port.counts.rx_packets, rx);
                port.tx_pps = rate(port.counts.tx_packets, tx);
            }
            for (worker, before) in draft.workers.iter_mut().zip(workers) {
                let busy_s = worker.busy_s - before.busy_s;
                let packets = worker.counts.busy_packets;
                let packets = packets.saturating_sub(before.counts.busy_packets);
                worker.busy_ratio = (busy_s / seconds).clamp(0.0, 1.0);
                let cycles = busy_s * hz / packets.max(1) as f64;
                worker.cycles_per_packet = if packets > 0 { cycles } else { 0.0 };
            }
        }
        self.base = Some((now, draft.ports.clone(), draft.workers.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rates_are_taken_over_a_second() {
        let mut draft = Snapshot {
            ports: vec![Port::default()],
            ..Snapshot::default()
        };
        draft.workers = vec![Worker::default()];
        let (mut rates, then) = (Rates::default(), Instant::now());
        rates.renew(&mut draft, 2e9, then);
        draft.ports[0].counts.rx_packets = 2_000;
        draft.workers[0].busy_s = 0.5;
        draft.workers[0].counts.busy_packets = 10_000_000;
        rates.renew(&mut draft, 2e9, then + Duration::from_millis(900));
        assert!(draft.ports[0].rx_pps < 1.0, "not yet");
        rates.renew(&mut draft, 2e9, then + Duration::from_secs(2));
        assert!((draft.ports[0].rx_pps - 1_000.0).abs() < 1e-9);
        assert!((draft.workers[0].busy_ratio - 0.25).abs() < 1e-9);
        assert!((draft.workers[0].cycles_per_packet - 100.0).abs() < 1e-9);
    }
}
