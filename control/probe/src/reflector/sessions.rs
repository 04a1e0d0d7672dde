//! What a reflector remembers of each session: a table of bounded size.

use std::collections::HashMap;
use std::time::Duration;

use super::SessionKey;
use crate::arrival::Stamped;
use crate::wire::time::UnixNs;

/// Between two searches for sessions that make room, in a table that is full.
const SEARCH: Duration = Duration::from_secs(1);

/// What is remembered of one session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    /// Requests that were received, modulo 2^32.
    pub(super) received: u32,
    /// Replies that were sent, modulo 2^32: the next one's sequence number.
    pub(super) sent: u32,
    /// The last reply: its sequence number, when it was sent, and who says so.
    pub(super) last: Option<(u32, UnixNs, Stamped)>,
    seen: Duration,
}

/// The table.
#[derive(Debug)]
pub(super) struct Sessions {
    slots: HashMap<SessionKey, usize>,
    states: Vec<State>,
    free: Vec<usize>,
    most: usize,
    idle: Duration,
    searched: Option<Duration>,
}

impl Sessions {
    pub(super) fn new(most: usize, idle: Duration) -> Self {
        Self {
            slots: HashMap::new(),
            states: Vec::new(),
            free: Vec::new(),
            most,
            idle,
            searched: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slot of a session that is seen now, a new one where there is room.
    pub(super) fn slot(&mut self, key: SessionKey, now: Duration) -> Option<usize> {
        let known = self.slots.get(&key).copied();
        let slot = known.or_else(|| self.add(key, now))?;
        self.states.get_mut(slot)?.seen = now;
        Some(slot)
    }

    fn add(&mut self, key: SessionKey, now: Duration) -> Option<usize> {
        if self.slots.len() >= self.most {
            self.make_room(now);
        }
        if self.slots.len() >= self.most {
            return None;
        }
        let slot = self.free.pop().unwrap_or(self.states.len());
        match self.states.get_mut(slot) {
            Some(state) => *state = State::default(),
            None => self.states.push(State::default()),
        }
        self.slots.insert(key, slot);
        Some(slot)
    }

    /// Forgets sessions that have said nothing for long. Looks through the table once a second at most, so that packets of
    /// ever new sessions do not make it look each time.
    fn make_room(&mut self, now: Duration) {
        if self
            .searched
            .is_some_and(|searched| now < searched + SEARCH)
        {
            return;
        }
        self.searched = Some(now);
        let (states, free, idle) = (&self.states, &mut self.free, self.idle);
        self.slots.retain(|_, slot| {
            let seen = states.get(*slot).map_or(Duration::ZERO, |state| state.seen);
            let stays = now.saturating_sub(seen) < idle;
            if !stays {
                free.push(*slot);
            }
            stays
        });
    }

    pub(super) fn state(&mut self, slot: usize) -> Option<&mut State> {
        self.states.get_mut(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(ssid: u16) -> SessionKey {
        SessionKey {
            from: ([10, 0, 0, 1], 5_000).into(),
            to: ([10, 0, 0, 2], 862).into(),
            ssid,
        }
    }

    #[test]
    fn the_table_does_not_grow_and_idle_sessions_make_room() {
        let mut sessions = Sessions::new(100, Duration::from_mins(1));
        let at = Duration::from_secs;
        for ssid in 0..50_000 {
            let slot = sessions.slot(key(ssid), at(1));
            assert_eq!(slot.is_some(), ssid < 100);
        }
        assert_eq!((sessions.len(), sessions.states.len()), (100, 100));
        // The first stays in use.
        let first = sessions.slot(key(0), at(50)).unwrap();
        sessions.state(first).unwrap().sent = 7;
        assert!(sessions.slot(key(1_000), at(60)).is_none());
        assert!(sessions.slot(key(1_000), at(62)).is_some());
        assert_eq!((sessions.len(), sessions.states.len()), (2, 100));
        let first = sessions.slot(key(0), at(62)).unwrap();
        assert_eq!(sessions.state(first).unwrap().sent, 7);
    }

    #[test]
    fn a_slot_that_is_used_again_is_empty() {
        let mut sessions = Sessions::new(1, Duration::from_secs(1));
        let slot = sessions.slot(key(1), Duration::ZERO).unwrap();
        sessions.state(slot).unwrap().received = 9;
        let again = sessions.slot(key(2), Duration::from_secs(5)).unwrap();
        assert_eq!((again, sessions.state(again).unwrap().received), (slot, 0));
    }
}
