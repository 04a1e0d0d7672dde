//! Where workers and control core meet: bounded lock-free queues through which whole shards
//! change owner. Nothing is shared and nobody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::queue::ArrayQueue;
use measure::shard::Shard;
use measure::synopsis::Sealed;

/// Shards in circulation for each worker: two open (the present epoch and the one in its grace),
/// one under way.
pub const SHARDS_PER_WORKER: usize = 3;

#[derive(Debug)]
struct Rings {
    sealed: ArrayQueue<Sealed<Shard>>,
    empty: ArrayQueue<Box<Shard>>,
    missed_epochs: AtomicU64,
}

/// The worker's end.
#[derive(Debug)]
pub struct WorkerEnd(Arc<Rings>);

/// The control core's end.
#[derive(Debug)]
pub struct ControlEnd(Arc<Rings>);

/// Makes both ends, with [`SHARDS_PER_WORKER`] copies of `blank` ready for the worker.
pub fn handover(blank: &Shard) -> (WorkerEnd, ControlEnd) {
    let rings = Arc::new(Rings {
        sealed: ArrayQueue::new(SHARDS_PER_WORKER),
        empty: ArrayQueue::new(SHARDS_PER_WORKER),
        missed_epochs: AtomicU64::new(0),
    });
    for _ in 0..SHARDS_PER_WORKER {
        // The queue was made for exactly this many.
        let _ = rings.empty.push(Box::new(blank.clone()));
    }
    (WorkerEnd(Arc::clone(&rings)), ControlEnd(rings))
}

impl WorkerEnd {
    /// An empty shard for the coming epoch, or `None` when the control core has not returned one:
    /// that epoch goes unmeasured and is counted as missed.
    pub fn take_empty(&self) -> Option<Box<Shard>> {
        let shard = self.0.empty.pop();
        if shard.is_none() {
            let missed = self.0.missed_epochs.load(Ordering::Relaxed);
            self.0.missed_epochs.store(missed + 1, Ordering::Relaxed);
        }
        shard
    }

    /// Gives a sealed shard away. Cannot fail: the queue holds as many as circulate.
    pub fn give_sealed(&self, shard: Sealed<Shard>) {
        let _ = self.0.sealed.push(shard);
    }
}

impl ControlEnd {
    /// The next sealed shard, in order of epochs.
    pub fn take_sealed(&self) -> Option<Sealed<Shard>> {
        self.0.sealed.pop()
    }

    /// Empties a shard and gives it back to the worker.
    pub fn give_back(&self, shard: Sealed<Shard>) {
        let _ = self.0.empty.push(shard.reopen());
    }

    /// Epochs for which the worker found no empty shard.
    pub fn missed_epochs(&self) -> u64 {
        self.0.missed_epochs.load(Ordering::Relaxed)
    }
}
