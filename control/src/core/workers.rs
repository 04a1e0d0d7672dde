//! The workers' counters and heartbeats: a worker whose passes do not rise has stalled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::counters::{BURST_BUCKETS, PortCounters, WorkerCounters};
use contract::ids::{PortIndex, WorkerIndex};
use measure::time::TickRate;
use records::snapshot::{Bursts, Worker as WorkerRecord};

use super::measurement::Generation;

/// Time without a pass after which a worker has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// Most that one check adds to a worker's silence: if the control core itself was held up, it does not know
/// what the workers did meanwhile.
const LOOK_MAX: Duration = Duration::from_millis(100);

/// All workers, by index.
#[derive(Debug)]
pub(super) struct Workers {
    looked_at: Instant,
    all: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    counters: Arc<WorkerCounters>,
    /// Epochs that it missed in past generations.
    missed_epochs: u64,
    passes: u64,
    silent: Duration,
}

impl Worker {
    fn new(counters: Arc<WorkerCounters>) -> Self {
        Self {
            counters,
            missed_epochs: 0,
            passes: 0,
            silent: Duration::ZERO,
        }
    }

    fn is_stalled(&self) -> bool {
        self.silent >= STALLED_AFTER
    }

    /// A worker before its first pass is not silent.
    fn look(&mut self, elapsed: Duration) {
        let passes = self.counters.passes.get();
        if passes != self.passes {
            self.passes = passes;
            self.silent = Duration::ZERO;
        } else if passes > 0 {
            self.silent += elapsed;
        }
    }
}

impl Workers {
    pub fn new(counters: Vec<Arc<WorkerCounters>>, now: Instant) -> Self {
        Self {
            looked_at: now,
            all: counters.into_iter().map(Worker::new).collect(),
        }
    }

    /// Adds a worker.
    pub fn add(&mut self, worker: WorkerIndex, counters: Arc<WorkerCounters>) {
        let number = self.all.len();
        assert_eq!(worker.index(), number, "workers are numbered as they come");
        self.all.push(Worker::new(counters));
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Checks the workers' passes, and logs stalls and recoveries.
    pub fn look(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.looked_at).min(LOOK_MAX);
        self.looked_at = now;
        for (index, worker) in self.all.iter_mut().enumerate() {
            let was_stalled = worker.is_stalled();
            worker.look(elapsed);
            match (was_stalled, worker.is_stalled()) {
                (false, true) => {
                    tracing::error!(worker = index, "worker has made no pass for a second");
                }
                (true, false) => tracing::warn!(worker = index, "worker makes passes again"),
                _ => (),
            }
        }
    }

    /// Number of stalled workers.
    pub fn stalled(&self) -> usize {
        self.all.iter().filter(|worker| worker.is_stalled()).count()
    }

    /// Ends a generation: its missed epochs stay counted.
    pub fn retire(&mut self, generation: &Generation) {
        for (index, worker) in (0..).map(WorkerIndex).zip(&mut self.all) {
            worker.missed_epochs += generation.missed_epochs(index);
        }
    }

    /// Counters of each worker.
    pub fn counters(&self) -> impl Iterator<Item = &WorkerCounters> {
        self.all.iter().map(|worker| &*worker.counters)
    }

    /// Counters of a port at each worker.
    pub fn of_port(&self, port: PortIndex) -> Vec<&PortCounters> {
        let workers = self.all.iter();
        workers
            .filter_map(|worker| worker.counters.ports.get(port.index()))
            .collect()
    }

    /// Reads every worker up to the last that has made a pass; those of a host never make one, because it
    /// has cores of its own. `missed_epochs` counts epochs missed in live generations; rates are kept from
    /// `before`.
    pub fn read(
        &self,
        before: &[WorkerRecord],
        missed_epochs: impl Fn(WorkerIndex) -> u64,
        rate: TickRate,
    ) -> Vec<WorkerRecord> {
        let has_begun = |worker: &Worker| worker.counters.passes.get() > 0;
        let last = self.all.iter().rposition(has_begun);
        let shown = last.map_or(0, |last| last + 1);
        let workers = self.all.iter().take(shown).enumerate();
        let records = workers.map(|(index, worker)| {
            let before = before.get(index);
            WorkerRecord {
                busy_ratio: before.map_or(0.0, |worker| worker.busy_ratio),
                cycles_per_packet: before.map_or(0.0, |worker| worker.cycles_per_packet),
                missed_epochs: worker.missed_epochs + missed_epochs(WorkerIndex::new(index)),
                is_stalled: worker.is_stalled(),
                ..record(&worker.counters, rate)
            }
        });
        records.collect()
    }
}

fn record(counters: &WorkerCounters, rate: TickRate) -> WorkerRecord {
    let bursts = counters.bursts.iter().enumerate();
    let bursts = bursts.map(|(n, bursts)| Bursts {
        le_packets: (n + 1 < BURST_BUCKETS).then_some(1 << n),
        bursts: bursts.get(),
    });
    WorkerRecord {
        counts: counters.read(),
        busy_s: counters.busy_ticks.get() as f64 / rate.hz() as f64,
        poll_gap_max_ns: rate.to_ns(counters.poll_gap_ticks_max.get() as f64),
        bursts: bursts.collect(),
        references: counters.references.read(),
        ..WorkerRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_stalled_after_a_second_without_a_pass_and_until_the_next() {
        let counters = [(); 2].map(|()| Arc::new(WorkerCounters::new(0)));
        let mut now = Instant::now();
        let mut workers = Workers::new(counters.to_vec(), now);
        let mut look = |times| {
            for _ in 0..times {
                now += Duration::from_millis(90);
                workers.look(now);
                counters[0].passes.add(1);
            }
            let are_stalled = workers.all.iter().map(Worker::is_stalled);
            are_stalled.collect::<Vec<_>>()
        };
        assert_eq!(
            look(20),
            [false; 2],
            "neither has begun, or both make passes"
        );
        counters[1].passes.add(1);
        assert_eq!(look(12), [false; 2]);
        assert_eq!(look(1), [false, true]);
        counters[1].passes.add(1);
        assert_eq!(look(1), [false; 2]);
    }

    #[test]
    fn after_a_pause_of_the_control_core_no_worker_counts_as_stalled() {
        let counters = Arc::new(WorkerCounters::new(0));
        counters.passes.add(1);
        let now = Instant::now();
        let mut workers = Workers::new(vec![counters], now);
        workers.look(now);
        workers.look(now + Duration::from_hours(1));
        assert_eq!(workers.stalled(), 0);
    }
}
