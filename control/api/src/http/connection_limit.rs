//! Slots for connections: half of them for clients that have not completed a request yet, half
//! for those that have. A new connection gets a slot of the first half, and with a complete request
//! one of the second. Where a half is full, the connection in it that has been longest without progress
//! is cut off: silent clients never cut off one that reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::process;

/// Most clients at once.
pub const CONNECTIONS_MAX: usize = 64;

/// All connections that have a slot.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionLimit(Arc<Mutex<Slots>>);

#[derive(Debug, Default)]
struct Slots {
    /// Connections since the start.
    admitted: u64,
    /// The present ones, by number.
    taken: BTreeMap<u64, Entry>,
}

/// A half of the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    /// Of connections without a complete request.
    New,
    /// Of those that have completed one.
    Asked,
}

#[derive(Debug)]
struct Entry {
    /// Its last progress: it was accepted, its request was complete, it took bytes of its answer.
    progress: Instant,
    half: Half,
    /// It has sent a part of a request since.
    is_asking: bool,
    /// Dropped, it cuts the connection off.
    _hold: oneshot::Sender<()>,
}

/// A slot; free again when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    number: u64,
    limit: ConnectionLimit,
}

/// Ends when the slot is given to another connection.
pub(super) type CutOff = oneshot::Receiver<()>;

impl Slots {
    /// Frees a slot of a half where none is free.
    fn make_room(&mut self, half: Half) {
        let half = (self.taken.iter()).filter(|(_, entry)| entry.half == half);
        if half.clone().count() < CONNECTIONS_MAX / 2 {
            return;
        }
        if let Some((&number, _)) = half.min_by_key(|(_, entry)| entry.progress) {
            self.taken.remove(&number);
            process::rejected("crowded");
        }
    }
}

impl ConnectionLimit {
    /// Gives a slot to a new connection, taken from another if necessary.
    pub(super) fn admit(&self) -> (Slot, CutOff) {
        let (hold, cut_off) = oneshot::channel();
        let mut slots = self.0.lock();
        slots.make_room(Half::New);
        let number = slots.admitted;
        slots.admitted += 1;
        let entry = Entry {
            progress: Instant::now(),
            half: Half::New,
            is_asking: true,
            _hold: hold,
        };
        slots.taken.insert(number, entry);
        process::connections(slots.taken.len());
        let limit = self.clone();
        (Slot { number, limit }, cut_off)
    }
}

impl Slot {
    /// Bytes of a request have come.
    pub(super) fn heard(&self) {
        if let Some(entry) = self.limit.0.lock().taken.get_mut(&self.number) {
            entry.is_asking = true;
        }
    }

    /// A request is complete. The first one gets a slot among those that have asked, taken from another if necessary.
    pub(super) fn asked(&self) {
        let mut slots = self.limit.0.lock();
        let entry = slots.taken.get(&self.number);
        if entry.is_some_and(|entry| entry.half == Half::New) {
            slots.make_room(Half::Asked);
        }
        if let Some(entry) = slots.taken.get_mut(&self.number) {
            entry.progress = Instant::now();
            entry.half = Half::Asked;
            entry.is_asking = false;
        }
    }

    /// The client took bytes of its answer.
    pub(super) fn took(&self) {
        if let Some(entry) = self.limit.0.lock().taken.get_mut(&self.number) {
            entry.progress = Instant::now();
        }
    }

    /// Whether a request is expected: it has begun, or none has come at all.
    pub(super) fn is_asking(&self) -> bool {
        let slots = self.limit.0.lock();
        let entry = slots.taken.get(&self.number);
        entry.is_some_and(|entry| entry.is_asking)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut slots = self.limit.0.lock();
        slots.taken.remove(&self.number);
        process::connections(slots.taken.len());
    }
}

#[cfg(test)]
mod tests;
