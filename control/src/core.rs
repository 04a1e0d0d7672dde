//! The control core: takes sealed shards from the workers, puts epochs together, estimates and
//! publishes.
//!
//! ```text
//!  worker 0 --sealed shards--> +-----------+         +----------+        +-----------+ --> HTTP
//!  worker 1 --sealed shards--> | Assembly  | --sum-> | estimate | -----> | Published | --> table
//!           <--empty shards--- +-----------+         +----------+        +-----------+
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use measure::histogram::Histogram;
use measure::moments::Moments;
use measure::packet::{HASH_VERSION, Kind};
use measure::shard::{SegmentSynopsis, Shard, Tally};
use measure::synopsis::{ShapeMismatch, Synopsis};
use measure::time::{Epoch, TickRate};

use crate::config::Config;
use crate::counters::{Counter, DropReason, PortCounters, WorkerCounters};
use crate::estimate;
use crate::export::process::PUBLISH_SECONDS;
use crate::handover::ControlEnd;
use crate::merge::{Assembly, Closed};
use crate::snapshot::{
    EpochFigures, Labelled, Pool, Port, PortFact, Published, Segment, Snapshot, State, Totals,
    UnusableEpochs, Worker,
};

/// How long the core sleeps when there is nothing to take.
const REST: Duration = Duration::from_millis(5);

/// Counters are published at least so often, and rates are taken over so long.
const REFRESH: Duration = Duration::from_secs(1);

/// What is known of ports and buffers besides the workers' counters.
pub trait PortFacts: Send {
    /// The port at `index` of the configuration.
    fn port(&mut self, index: usize) -> PortFact;

    /// The pool of packet buffers.
    fn pool(&mut self) -> Option<Pool>;
}

/// A worker as the control core sees it.
#[derive(Debug)]
pub struct WorkerLink {
    /// Where its shards come from.
    pub end: ControlEnd,
    /// What it counts.
    pub counters: Arc<WorkerCounters>,
}

/// The control core; `'f` is the life of what [`PortFacts`] asks.
pub struct ControlCore<'f> {
    workers: Vec<WorkerLink>,
    facts: Box<dyn PortFacts + 'f>,
    assembly: Assembly<Shard>,
    segments: Vec<SegmentState>,
    rate: TickRate,
    grace: Duration,
    began: Instant,
    rates: Rates,
    /// The snapshot in the making; segments and ports are filled in when it is published.
    draft: Snapshot,
    published: Arc<Published>,
    published_at: Instant,
}

impl<'f> ControlCore<'f> {
    /// A control core for `config`, whose workers' shards are shaped like `blank` and count ticks
    /// of `rate`. Publishes a first snapshot.
    pub fn new(
        config: &Config,
        rate: TickRate,
        blank: Shard,
        workers: Vec<WorkerLink>,
        facts: impl PortFacts + 'f,
    ) -> Self {
        let name = |port: usize| {
            config
                .ports
                .get(port)
                .map_or("", |port| &port.name)
                .to_owned()
        };
        let segments = config.segments().into_iter();
        let segments = segments
            .map(|segment| {
                let class = config.class_name(segment.class).to_owned();
                SegmentState::new(name(segment.ingress), name(segment.egress), class, rate)
            })
            .collect();
        let ports = config.ports.iter().map(|port| Port {
            name: port.name.clone(),
            ..Port::default()
        });
        let draft = Snapshot {
            switch: config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hash_version: HASH_VERSION,
            measuring: config.measurement.enabled,
            interval_ms: config.measurement.interval_ms,
            ports: ports.collect(),
            ..Snapshot::default()
        };
        let mut core = Self {
            assembly: Assembly::new(workers.len(), blank),
            workers,
            facts: Box::new(facts),
            segments,
            rate,
            grace: config.measurement.grace(),
            began: Instant::now(),
            rates: Rates::default(),
            published: Arc::new(Published::new(draft.clone())),
            published_at: Instant::now(),
            draft,
        };
        core.publish();
        core
    }

    /// Where the snapshots appear.
    pub fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    /// Polls until `stop` is set, then says that the switch is draining.
    pub fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.poll();
            std::thread::sleep(REST);
        }
        self.draft.state = State::Draining;
        self.publish();
    }

    /// Takes what the workers have sealed, never waits, and publishes when an epoch has closed.
    pub fn poll(&mut self) {
        if self.draft.state == State::Starting {
            self.draft.state = State::Running;
            self.publish();
        }
        if self.take_shards() || self.published_at.elapsed() >= REFRESH {
            self.publish();
        }
    }

    /// Takes the last shards of workers that have ended and publishes the final totals.
    pub fn finish(mut self) -> Arc<Snapshot> {
        self.draft.state = State::Draining;
        self.take_shards();
        self.publish();
        self.published.read()
    }

    /// Whether an epoch has closed.
    fn take_shards(&mut self) -> bool {
        let Self {
            workers,
            assembly,
            segments,
            rate,
            ..
        } = self;
        let mut newest = None;
        for (index, worker) in workers.iter_mut().enumerate() {
            while let Some(shard) = worker.end.take_sealed() {
                assembly.add(index, &shard, |closed| {
                    newest = Some(close(segments, &closed, *rate));
                });
                worker.end.give_back(shard);
            }
        }
        let Some(Epoch(epoch)) = newest else {
            return false;
        };
        self.draft.epoch = Some(epoch);
        // Its end is one grace ago: read from the system's clock, which counter and schedule know
        // nothing of.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.draft.epoch_end_unix_s = Some(now.saturating_sub(self.grace).as_secs_f64());
        true
    }

    fn publish(&mut self) {
        let began = Instant::now();
        self.count();
        self.draft.uptime_s = self.began.elapsed().as_secs_f64();
        let mut snapshot = self.draft.clone();
        snapshot.segments = self
            .segments
            .iter()
            .map(|state| state.segment(self.rate))
            .collect();
        self.published.publish(snapshot);
        self.published_at = Instant::now();
        metrics::histogram!(PUBLISH_SECONDS).record(began.elapsed());
    }

    /// Reads every counter and gauge.
    fn count(&mut self) {
        for (index, port) in self.draft.ports.iter_mut().enumerate() {
            let blocks = self
                .workers
                .iter()
                .filter_map(|w| w.counters.ports.get(index));
            let facts = self.facts.port(index);
            *port = read_port(std::mem::take(port), facts, &blocks.collect::<Vec<_>>());
        }
        self.draft.pool = self.facts.pool();
        let (rate, before) = (self.rate, &self.draft.workers);
        let workers = self.workers.iter().enumerate().map(|(index, link)| {
            let busy_ratio = before.get(index).map_or(0.0, |worker| worker.busy_ratio);
            Worker {
                busy_ratio,
                ..read_worker(link, rate)
            }
        });
        self.draft.workers = workers.collect();
        self.rates.renew(&mut self.draft);
    }
}

/// Takes a closed epoch into the segments' state; returns its number.
fn close(segments: &mut [SegmentState], closed: &Closed<'_, Shard>, rate: TickRate) -> Epoch {
    match *closed {
        Closed::Whole(epoch, shard) => {
            for (state, synopsis) in segments.iter_mut().zip(shard.segments()) {
                if let Err(error) = state.add(epoch, synopsis, rate) {
                    tracing::error!(epoch = epoch.0, "totals not added to: {error}");
                }
            }
            epoch
        }
        Closed::Missed(epoch, epochs) => {
            tracing::debug!(epoch = epoch.0, epochs, "epochs went unmeasured");
            for state in segments {
                state.unusable.missed_shard += epochs;
            }
            epoch
        }
    }
}

/// What is kept of a segment from epoch to epoch.
struct SegmentState {
    ingress: String,
    egress: String,
    class: String,
    last: Option<EpochFigures>,
    tally: Tally,
    moments: Moments,
    histogram: Histogram,
    unusable: UnusableEpochs,
    estimated_epochs: u64,
    within_bound_epochs: u64,
}

impl SegmentState {
    fn new(ingress: String, egress: String, class: String, rate: TickRate) -> Self {
        Self {
            ingress,
            egress,
            class,
            last: None,
            tally: Tally::default(),
            moments: Moments::default(),
            histogram: Histogram::new(rate),
            unusable: UnusableEpochs::default(),
            estimated_epochs: 0,
            within_bound_epochs: 0,
        }
    }

    fn add(
        &mut self,
        epoch: Epoch,
        synopsis: &SegmentSynopsis,
        rate: TickRate,
    ) -> Result<(), ShapeMismatch> {
        self.tally.merge(&synopsis.tally)?;
        self.moments.merge(&synopsis.moments)?;
        self.histogram.merge(&synopsis.histogram)?;
        let Some(figures) = estimate::figures(epoch, synopsis, rate) else {
            return Ok(());
        };
        match &figures.lda {
            Some(lda) => {
                self.estimated_epochs += 1;
                self.within_bound_epochs += u64::from(lda.is_within_bound);
            }
            None => self.unusable.too_few_cells += u64::from(synopsis.lda.is_some()),
        }
        self.last = Some(figures);
        Ok(())
    }

    fn segment(&self, rate: TickRate) -> Segment {
        let seconds_per_tick = 1.0 / rate.hz() as f64;
        Segment {
            ingress: self.ingress.clone(),
            egress: self.egress.clone(),
            class: self.class.clone(),
            last: self.last.clone(),
            total: Totals {
                counts: estimate::counts(&self.tally),
                delay_sum_s: self.moments.sum_ticks() as f64 * seconds_per_tick,
                delay_squared_sum_s2: self.moments.sum_of_squares_ticks2() as f64
                    * seconds_per_tick.powi(2),
                octaves: estimate::octaves(self.histogram.octaves()),
                unusable_epochs: self.unusable,
                estimated_epochs: self.estimated_epochs,
                within_bound_epochs: self.within_bound_epochs,
            },
        }
    }
}

/// A port's counters, summed over the workers; its name and rates stay.
fn read_port(port: Port, facts: PortFact, blocks: &[&PortCounters]) -> Port {
    let sum = |counter: fn(&PortCounters) -> &Counter| {
        blocks.iter().map(|block| counter(block).get()).sum()
    };
    let labelled = |label: &str, packets: u64| Labelled {
        label: label.to_owned(),
        packets,
    };
    let drops = DropReason::ALL.map(|reason| {
        let packets = blocks
            .iter()
            .map(|block| block.drops[reason as usize].get());
        labelled(reason.label(), packets.sum())
    });
    let kinds = Kind::ALL.map(|kind| {
        let packets = blocks.iter().map(|block| block.kinds[kind as usize].get());
        labelled(kind.label(), packets.sum())
    });
    Port {
        facts,
        rx_packets: sum(|block| &block.rx_packets),
        rx_bytes: sum(|block| &block.rx_bytes),
        tx_packets: sum(|block| &block.tx_packets),
        tx_bytes: sum(|block| &block.tx_bytes),
        copies: sum(|block| &block.copies),
        queued_packets: sum(|block| &block.queued_packets),
        drops: drops.to_vec(),
        kinds: kinds.to_vec(),
        ..port
    }
}

fn read_worker(link: &WorkerLink, rate: TickRate) -> Worker {
    let counters = &link.counters;
    Worker {
        passes: counters.passes.get(),
        idle_passes: counters.idle_passes.get(),
        busy_ratio: 0.0,
        busy_s: counters.busy_ticks.get() as f64 / rate.hz() as f64,
        poll_gap_max_ns: rate.to_ns(counters.poll_gap_ticks_max.get() as f64),
        missed_epochs: link.end.missed_epochs(),
    }
}

/// Counters as they were a second or so ago, to take rates from.
#[derive(Default)]
struct Rates {
    base: Option<(Instant, Vec<Port>, Vec<Worker>)>,
}

impl Rates {
    fn renew(&mut self, draft: &mut Snapshot) {
        let now = Instant::now();
        if let Some((then, ports, workers)) = &self.base {
            let elapsed = now.duration_since(*then);
            if elapsed < REFRESH {
                return;
            }
            let seconds = elapsed.as_secs_f64();
            for (port, before) in draft.ports.iter_mut().zip(ports) {
                port.rx_pps = port.rx_packets.saturating_sub(before.rx_packets) as f64 / seconds;
                port.tx_pps = port.tx_packets.saturating_sub(before.tx_packets) as f64 / seconds;
            }
            for (worker, before) in draft.workers.iter_mut().zip(workers) {
                worker.busy_ratio = ((worker.busy_s - before.busy_s) / seconds).clamp(0.0, 1.0);
            }
        }
        self.base = Some((now, draft.ports.clone(), draft.workers.clone()));
    }
}

#[cfg(test)]
mod tests;
