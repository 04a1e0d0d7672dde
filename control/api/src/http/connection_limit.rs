//! The places for connections: half of them for clients that have not completed a request yet, half
//! for those that have. Who comes always gets a place of the first half, and with a complete request
//! one of the second. Where all of a half are taken, that of the connection in it which has been
//! longest without progress: clients that say nothing never cost one that reads its place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::process;

/// Most clients at once.
pub const CONNECTIONS_MAX: usize = 64;

/// All connections that have a place.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionLimit(Arc<Mutex<Places>>);

#[derive(Debug, Default)]
struct Places {
    /// How many have come.
    came: u64,
    /// Who is here, by arrival.
    taken: BTreeMap<u64, Guest>,
}

#[derive(Debug)]
struct Guest {
    /// When it last made progress: it came, its request was complete, it took bytes of its answer.
    last: Instant,
    /// Has completed a request.
    has_asked: bool,
    /// Has sent a part of a request since.
    is_asking: bool,
    /// Dropped, it cuts the connection off.
    _hold: oneshot::Sender<()>,
}

/// A place; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    limit: ConnectionLimit,
}

/// Ends when the connection has to make room.
pub(super) type CutOff = oneshot::Receiver<()>;

impl Places {
    /// Makes room for one more of those that have asked, or have not.
    fn make_room(&mut self, has_asked: bool) {
        let half = self.taken.iter();
        let half = half.filter(|(_, guest)| guest.has_asked == has_asked);
        if half.clone().count() < CONNECTIONS_MAX / 2 {
            return;
        }
        if let Some((&number, _)) = half.min_by_key(|(_, guest)| guest.last) {
            self.taken.remove(&number);
            process::rejected("crowded");
        }
    }
}

impl ConnectionLimit {
    /// Takes a place, from another if need be.
    pub(super) fn enter(&self) -> (Place, CutOff) {
        let (hold, cut_off) = oneshot::channel();
        let mut places = self.0.lock();
        places.make_room(false);
        let number = places.came;
        places.came += 1;
        let guest = Guest {
            last: Instant::now(),
            has_asked: false,
            is_asking: true,
            _hold: hold,
        };
        places.taken.insert(number, guest);
        process::connections(places.taken.len());
        let limit = self.clone();
        (Place { number, limit }, cut_off)
    }
}

impl Place {
    /// Bytes of a request have come.
    pub(super) fn heard(&self) {
        if let Some(guest) = self.limit.0.lock().taken.get_mut(&self.number) {
            guest.is_asking = true;
        }
    }

    /// A request is complete. The first takes a place among those that have asked, from another if need be.
    pub(super) fn asked(&self) {
        let mut places = self.limit.0.lock();
        let guest = places.taken.get(&self.number);
        if guest.is_some_and(|guest| !guest.has_asked) {
            places.make_room(true);
        }
        if let Some(guest) = places.taken.get_mut(&self.number) {
            guest.last = Instant::now();
            guest.has_asked = true;
            guest.is_asking = false;
        }
    }

    /// The client took bytes of its answer.
    pub(super) fn took(&self) {
        if let Some(guest) = self.limit.0.lock().taken.get_mut(&self.number) {
            guest.last = Instant::now();
        }
    }

    /// Whether a request is expected: it has begun, or none has come at all.
    pub(super) fn is_asking(&self) -> bool {
        let places = self.limit.0.lock();
        let guest = places.taken.get(&self.number);
        guest.is_some_and(|guest| guest.is_asking)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.limit.0.lock();
        places.taken.remove(&self.number);
        process::connections(places.taken.len());
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    const HALF: usize = CONNECTIONS_MAX / 2;

    fn is_cut_off(cut_off: &mut CutOff) -> bool {
        cut_off.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    /// As many as have places in one half, and which of them were cut off.
    fn half(limit: &ConnectionLimit, has_asked: bool) -> Vec<(Place, CutOff)> {
        let enter = |_| {
            let guest = limit.enter();
            if has_asked {
                guest.0.asked();
            }
            guest
        };
        (0..HALF).map(enter).collect()
    }

    fn cut_off(guests: &mut [(Place, CutOff)]) -> Vec<usize> {
        let guests = guests.iter_mut().enumerate();
        let gone = guests.filter_map(|(n, (_, cut_off))| is_cut_off(cut_off).then_some(n));
        gone.collect()
    }

    #[test]
    fn who_was_longest_without_progress_makes_room() {
        let limit = ConnectionLimit::default();
        let mut guests = half(&limit, true);
        // The first has read since, and the second has asked again, so that the third is the one.
        sleep(Duration::from_millis(2));
        guests[0].0.took();
        guests[1].0.asked();
        let (newcomer, mut is_newcomer_out) = limit.enter();
        assert_eq!(cut_off(&mut guests), [0; 0]);
        newcomer.asked();
        assert_eq!(cut_off(&mut guests), [2]);
        assert!(!is_cut_off(&mut is_newcomer_out));
    }

    #[test]
    fn who_says_nothing_costs_only_others_that_say_nothing() {
        let limit = ConnectionLimit::default();
        let mut readers = half(&limit, true);
        sleep(Duration::from_millis(2));
        let mut silent = half(&limit, false);
        for newcomer in 0..HALF {
            silent.push(limit.enter());
            let expected: Vec<_> = (0..=newcomer).collect();
            assert_eq!(cut_off(&mut silent), expected);
        }
        assert_eq!(cut_off(&mut readers), [0; 0]);
        assert_eq!(limit.0.lock().taken.len(), CONNECTIONS_MAX);
    }

    #[test]
    fn a_place_that_was_given_back_is_nobody_s_loss() {
        let limit = ConnectionLimit::default();
        for has_asked in [false, true] {
            let mut guests = half(&limit, has_asked);
            drop(guests.pop());
            guests.push(limit.enter());
            assert_eq!(cut_off(&mut guests), [0; 0]);
        }
        assert!(limit.0.lock().taken.is_empty());
    }

    #[test]
    fn a_request_is_expected_until_it_is_complete() {
        let limit = ConnectionLimit::default();
        let (place, _cut_off) = limit.enter();
        assert!(place.is_asking());
        place.asked();
        assert!(!place.is_asking());
        place.heard();
        assert!(place.is_asking());
    }
}
