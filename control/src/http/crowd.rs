//! The places for connections. Who comes always gets one: when all are taken, that of the connection
//! which has been longest without a complete request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::export::process;

/// Most clients at once.
pub const CONNECTIONS_MAX: usize = 64;

/// All connections that have a place.
#[derive(Debug, Clone, Default)]
pub(super) struct Crowd(Arc<Mutex<Places>>);

#[derive(Debug, Default)]
struct Places {
    /// How many have come.
    came: u64,
    /// Who is here, by arrival.
    taken: BTreeMap<u64, Guest>,
}

#[derive(Debug)]
struct Guest {
    /// When its last request was complete, or when it came.
    last: Instant,
    /// Has sent a part of a request since.
    is_asking: bool,
    /// Dropped, it cuts the connection off.
    _hold: oneshot::Sender<()>,
}

/// A place; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    crowd: Crowd,
}

/// Ends when the connection has to make room.
pub(super) type CutOff = oneshot::Receiver<()>;

impl Crowd {
    /// Takes a place, from another if need be.
    pub(super) fn enter(&self) -> (Place, CutOff) {
        let (hold, cut_off) = oneshot::channel();
        let mut places = self.0.lock();
        if places.taken.len() >= CONNECTIONS_MAX {
            let guests = places.taken.iter();
            let longest = guests.min_by_key(|(_, guest)| guest.last);
            if let Some((&number, _)) = longest {
                places.taken.remove(&number);
                process::rejected("crowded");
            }
        }
        let number = places.came;
        places.came += 1;
        let guest = Guest {
            last: Instant::now(),
            is_asking: true,
            _hold: hold,
        };
        places.taken.insert(number, guest);
        process::connections(places.taken.len());
        let crowd = self.clone();
        (Place { number, crowd }, cut_off)
    }
}

impl Place {
    /// Bytes of a request have come.
    pub(super) fn heard(&self) {
        if let Some(guest) = self.crowd.0.lock().taken.get_mut(&self.number) {
            guest.is_asking = true;
        }
    }

    /// A request is complete.
    pub(super) fn asked(&self) {
        if let Some(guest) = self.crowd.0.lock().taken.get_mut(&self.number) {
            guest.last = Instant::now();
            guest.is_asking = false;
        }
    }

    /// Whether a request is expected: it has begun, or none has come at all.
    pub(super) fn is_asking(&self) -> bool {
        let places = self.crowd.0.lock();
        let guest = places.taken.get(&self.number);
        guest.is_some_and(|guest| guest.is_asking)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.crowd.0.lock();
        places.taken.remove(&self.number);
        process::connections(places.taken.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_cut_off(cut_off: &mut CutOff) -> bool {
        cut_off.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn who_was_longest_without_a_request_makes_room() {
        let crowd = Crowd::default();
        let mut guests: Vec<_> = (0..CONNECTIONS_MAX).map(|_| crowd.enter()).collect();
        assert!(!guests.iter_mut().any(|(_, cut_off)| is_cut_off(cut_off)));
        // The first has asked since, so that the second is the one.
        std::thread::sleep(std::time::Duration::from_millis(2));
        guests[0].0.asked();
        let _newcomer = crowd.enter();
        let cut_off: Vec<_> = guests
            .iter_mut()
            .map(|(_, cut_off)| is_cut_off(cut_off))
            .collect();
        assert!(cut_off[1], "{cut_off:?}");
        assert_eq!(cut_off.iter().filter(|is_cut_off| **is_cut_off).count(), 1);
    }

    #[test]
    fn a_place_that_was_given_back_is_nobody_s_loss() {
        let crowd = Crowd::default();
        let mut guests: Vec<_> = (0..CONNECTIONS_MAX).map(|_| crowd.enter()).collect();
        drop(guests.pop());
        guests.push(crowd.enter());
        assert!(!guests.iter_mut().any(|(_, cut_off)| is_cut_off(cut_off)));
        drop(guests);
        assert!(crowd.0.lock().taken.is_empty());
    }

    #[test]
    fn a_request_is_expected_until_it_is_complete() {
        let crowd = Crowd::default();
        let (place, _cut_off) = crowd.enter();
        assert!(place.is_asking());
        place.asked();
        assert!(!place.is_asking());
        place.heard();
        assert!(place.is_asking());
    }
}
