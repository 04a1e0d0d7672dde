//! From counters, directory and data plane to the snapshot.

use std::sync::Arc;

use measure::packet::Kind;
use measure::time::TickRate;

use super::CoreState;
use crate::contain::contained;
use crate::data_plane::DataPlane;
use contract::config::Config;
use contract::counters::{BURST_BUCKETS, Counter, DropReason, PortCounters, WorkerCounters};
use contract::ids::GenerationId;
use records::snapshot::{
    Bursts, ClassCounts, Labelled, Port, PortFact, QueueCounts, Snapshot, Worker,
};

/// Enters into the snapshot what the configuration of a generation says.
pub(super) fn describe(config: &Config, number: GenerationId, draft: &mut Snapshot) {
    draft.switch.clone_from(&config.name);
    draft.measuring = config.measurement.enabled;
    draft.interval_ms = config.measurement.interval_ms;
    draft.generation = number.0;
    draft.config = Some(Arc::new(config.clone()));
    let old = std::mem::take(&mut draft.ports);
    let ports = config.ports.iter().enumerate();
    draft.ports = ports
        .map(|(place, port)| {
            let same = |old: &&Port| old.name == port.name;
            Port {
                name: port.name.clone(),
                classes: class_names(config),
                queues: queue_names(config, place),
                ..old.iter().find(same).cloned().unwrap_or_default()
            }
        })
        .collect();
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

impl CoreState {
    /// Makes the draft anew, which was left half read.
    pub(super) fn describe_again(&mut self) {
        if let Some(config) = self.draft.config.clone() {
            let number = GenerationId(self.draft.generation);
            describe(&config, number, &mut self.draft);
        }
    }

    /// Reads every counter and gauge, and what the data plane says.
    pub(super) fn read_data_plane(&mut self, data_plane: &mut dyn DataPlane) {
        for (index, port) in self.draft.ports.iter_mut().enumerate() {
            let blocks = self.counters.iter().filter_map(|c| c.ports.get(index));
            let facts = data_plane.port(index);
            *port = read_port(std::mem::take(port), facts, &blocks.collect::<Vec<_>>());
        }
        let exceptions = self.counters.iter().map(|worker| worker.exceptions.read());
        self.draft.exceptions = exceptions.sum();
        self.draft.pools = data_plane.pools();
        self.draft.fdb = data_plane.fdb();
        self.draft.reload = data_plane.reload();
        let mut missed_epochs = self.missed_epochs.clone();
        for generation in &self.generations {
            for (missed, epochs) in missed_epochs.iter_mut().zip(generation.missed_epochs()) {
                *missed += epochs;
            }
        }
        let before = std::mem::take(&mut self.draft.workers);
        // Those of a host never make a pass: it has cores of its own. A worker's place is its number.
        let has_begun = |counters: &Arc<WorkerCounters>| counters.passes.get() > 0;
        let last = self.counters.iter().rposition(has_begun);
        let shown = last.map_or(0, |last| last + 1);
        let workers = self.counters.iter().zip(missed_epochs).take(shown);
        let workers = workers.enumerate();
        self.draft.workers = workers
            .map(|(index, (counters, missed_epochs))| {
                let before = before.get(index);
                Worker {
                    busy_ratio: before.map_or(0.0, |worker| worker.busy_ratio),
                    cycles_per_packet: before.map_or(0.0, |worker| worker.cycles_per_packet),
                    missed_epochs,
                    is_stalled: self.watch.is_stalled(index),
                    ..read_worker(counters, self.rate)
                }
            })
            .collect();
        let now = self.monotonic();
        self.rates
            .renew(&mut self.draft, self.rate.hz() as f64, now);
    }

    /// Publishes the draft, with what is made for each snapshot anew.
    pub(super) fn publish(&mut self) {
        self.draft.uptime_s = self.since(self.began).as_secs_f64();
        self.draft.contained_panics = contained();
        let mut snapshot = self.draft.clone();
        let mut is_present = self.is_present.iter();
        // A port that went is shown for what it has counted, so that sums over ports still hold.
        snapshot.ports.retain_mut(|port| {
            port.is_absent = is_present.next() == Some(&false);
            !port.is_absent || port.has_counted()
        });
        snapshot.segments = self.segments.publish();
        snapshot.sketches = self.segments.sketches();
        snapshot.flows = self.published_flows(&snapshot);
        self.publish_wires(&mut snapshot);
        let sketches = self.flow_views.sketches.clone();
        self.published.publish(snapshot, sketches);
        self.published_at = self.monotonic();
    }
}

fn labelled(label: &str, packets: u64) -> Labelled {
    Labelled {
        label: label.to_owned(),
        packets,
    }
}

/// A port's counters, summed over the workers; names and rates stay.
fn read_port(port: Port, facts: PortFact, blocks: &[&PortCounters]) -> Port {
    let sum = |counter: &dyn Fn(&PortCounters) -> &Counter| -> u64 {
        blocks.iter().map(|block| counter(block).get()).sum()
    };
    let drops = DropReason::ALL
        .map(|reason| labelled(reason.label(), sum(&|block| &block.drops[reason as usize])));
    let kinds =
        Kind::ALL.map(|kind| labelled(kind.label(), sum(&|block| &block.kinds[kind as usize])));
    let classes = port.classes.into_iter().enumerate();
    let classes = classes.map(|(n, class)| ClassCounts {
        class: class.class,
        counts: blocks.iter().map(|block| block.classes[n].read()).sum(),
    });
    let queues = port.queues.into_iter().enumerate();
    let queues = queues.map(|(n, queue)| QueueCounts {
        queue: queue.queue,
        counts: blocks.iter().map(|block| block.queues[n].read()).sum(),
        drops: queue_drops(blocks, n),
    });
    Port {
        is_absent: port.is_absent,
        facts,
        counts: blocks.iter().map(|block| block.read()).sum(),
        drops: drops.to_vec(),
        kinds: kinds.to_vec(),
        classes: classes.collect(),
        queues: queues.collect(),
        name: port.name,
        rx_pps: port.rx_pps,
        tx_pps: port.tx_pps,
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

fn read_worker(counters: &WorkerCounters, rate: TickRate) -> Worker {
    let bursts = counters.bursts.iter().enumerate();
    Worker {
        counts: counters.read(),
        busy_s: counters.busy_ticks.get() as f64 / rate.hz() as f64,
        poll_gap_max_ns: rate.to_ns(counters.poll_gap_ticks_max.get() as f64),
        bursts: bursts
            .map(|(n, bursts)| Bursts {
                le_packets: (n + 1 < BURST_BUCKETS).then_some(1 << n),
                bursts: bursts.get(),
            })
            .collect(),
        references: counters.references.read(),
        ..Worker::default()
    }
}
