//! What is answered from: the states of all switches and the last hours of minutes, as JetStream has them. Every station reads
//! both, so that an answer does not depend on which station is asked.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_nats::jetstream::Message;
use axum::body::Bytes;
use parking_lot::RwLock;
use prost::Message as _;

use crate::state::{Minute, State};

/// All switches.
#[derive(Debug)]
pub struct Fleet {
    /// States as they were read, by the key's subject.
    states: RwLock<BTreeMap<String, Value>>,
    minutes: RwLock<Minutes>,
    /// All states and minutes that there were at the start have been read.
    pub is_complete: [AtomicBool; 2],
    /// Values that could not be read.
    pub unreadable: AtomicU64,
}

/// A state as it was read, and its revision.
type Value = (u64, Bytes);

/// Closed minutes, the oldest first, of so many bytes at most.
#[derive(Debug)]
struct Minutes {
    list: VecDeque<(String, Bytes)>,
    bytes: usize,
    bytes_max: usize,
}

impl Minutes {
    fn push(&mut self, subject: String, bytes: Bytes) {
        self.bytes += size(&subject, &bytes);
        self.list.push_back((subject, bytes));
        while self.bytes > self.bytes_max
            && let Some((subject, bytes)) = self.list.pop_front()
        {
            self.bytes -= size(&subject, &bytes);
        }
    }
}

fn size(subject: &str, bytes: &Bytes) -> usize {
    size_of::<(String, Bytes)>() + subject.len() + bytes.len()
}

impl Fleet {
    /// Nothing yet; minutes in so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let list = VecDeque::new();
        Self {
            states: RwLock::default(),
            minutes: RwLock::new(Minutes {
                list,
                bytes: 0,
                bytes_max,
            }),
            is_complete: Default::default(),
            unreadable: AtomicU64::new(0),
        }
    }

    /// A state was written, or its key deleted.
    pub fn take_state(&self, message: &Message) {
        let revision = message.info().map_or(0, |info| info.stream_sequence);
        self.put_state(message.subject.to_string(), revision, &message.payload);
    }

    /// As [`Fleet::take_state`], by the key's subject and the value's revision.
    pub fn put_state(&self, subject: String, revision: u64, value: &[u8]) {
        let mut states = self.states.write();
        if value.is_empty() {
            states.remove(&subject);
        } else {
            // A copy: the message's bytes are part of a larger buffer.
            states.insert(subject, (revision, Bytes::copy_from_slice(value)));
        }
    }

    /// All states that there are have been taken, under these subjects: others are of a store that is lost.
    pub fn has_all_states(&self, subjects: &HashSet<String>) {
        let mut states = self.states.write();
        states.retain(|subject, _| subjects.contains(subject));
        self.is_complete[0].store(true, Ordering::Relaxed);
    }

    /// The newest revision that was read; 0 before any.
    pub fn newest(&self) -> u64 {
        let states = self.states.read();
        states.values().map(|value| value.0).max().unwrap_or(0)
    }

    /// Forgets the states that the server has evicted, and those of a stream before this one, by the revisions that it keeps. Revisions after
    /// `newest` were read since it was asked.
    pub fn evict(&self, kept: &RangeInclusive<u64>, newest: u64) {
        let is_kept = |revision: &u64| kept.contains(revision) || *revision > newest;
        self.states
            .write()
            .retain(|_, (revision, _)| is_kept(revision));
    }

    /// A minute was written.
    pub fn take_minute(&self, message: &Message) {
        self.put_minute(message.subject.to_string(), &message.payload);
    }

    /// As [`Fleet::take_minute`], by its subject.
    pub fn put_minute(&self, subject: String, value: &[u8]) {
        let bytes = Bytes::copy_from_slice(value);
        self.minutes.write().push(subject, bytes);
    }

    /// They are read anew.
    pub fn forget_minutes(&self) {
        let mut minutes = self.minutes.write();
        minutes.list.clear();
        minutes.bytes = 0;
    }

    /// Bytes of minutes.
    pub fn minutes_bytes(&self) -> usize {
        self.minutes.read().bytes
    }

    /// Every switch's state, by name.
    pub fn states(&self) -> Vec<State> {
        let values = self.states.read();
        let bytes: Vec<Bytes> = values.values().map(|value| value.1.clone()).collect();
        drop(values);
        let mut states: Vec<State> = bytes
            .iter()
            .filter_map(|bytes| self.read(State::decode(&**bytes)))
            .collect();
        states.sort_by(|a, b| a.switch.cmp(&b.switch));
        states
    }

    /// One switch's state.
    pub fn state(&self, switch: &str) -> Option<State> {
        let key = crate::store::key(switch);
        let bytes = self.states.read().get(&key)?.1.clone();
        self.read(State::decode(&*bytes))
    }

    /// The minutes of a switch, the oldest first, each once.
    pub fn minutes(&self, switch: &str) -> Vec<Minute> {
        let token = report::subject::token(switch);
        let partition = report::subject::partition(switch);
        let subject = format!("vernier.history.{partition}.{token}");
        let minutes = self.minutes.read();
        let of_switch = minutes.list.iter().filter(|(of, _)| *of == subject);
        let bytes: Vec<Bytes> = of_switch.map(|(_, bytes)| bytes.clone()).collect();
        drop(minutes);
        let read = bytes
            .iter()
            .filter_map(|bytes| self.read(Minute::decode(&**bytes)));
        // One that was written twice is the same twice.
        let by_minute: BTreeMap<u64, Minute> = read.map(|minute| (minute.minute, minute)).collect();
        by_minute.into_values().collect()
    }

    fn read<T, E>(&self, read: Result<T, E>) -> Option<T> {
        if read.is_err() {
            self.unreadable.fetch_add(1, Ordering::Relaxed);
        }
        read.ok()
    }

    /// Whether all that there was at the start has been read.
    pub fn is_ready(&self) -> bool {
        self.is_complete
            .iter()
            .all(|part| part.load(Ordering::Relaxed))
    }
}

/// A switch that is silent for so much longer than another no longer keeps its number on wires from it, in nanoseconds.
const NUMBER_KEPT_NS: u64 = 3_600_000_000_000;

/// States by the switches' numbers on wires. Of several that claim one number the first to have claimed it has it; the others
/// are refused it, see [`refused_numbers`].
pub fn by_number(states: &[State]) -> HashMap<u32, &State> {
    let mut claims = HashMap::<u32, Vec<&State>>::new();
    for state in states {
        if let Some(number) = state.wire_switch {
            claims.entry(number).or_default().push(state);
        }
    }
    let held = claims.into_iter();
    held.filter_map(|(number, claims)| Some((number, holder(&claims)?)))
        .collect()
}

/// Whose number it is.
fn holder<'s>(claims: &[&'s State]) -> Option<&'s State> {
    let last_ns = claims.iter().map(|state| state.received_unix_ns).max()?;
    let gone_ns = last_ns.saturating_sub(NUMBER_KEPT_NS);
    let is_there = |state: &&&State| state.received_unix_ns >= gone_ns;
    let first = |state: &'s State| (state.wire_since_unix_ns, &*state.switch);
    let there = claims.iter().filter(is_there);
    there.copied().min_by_key(|state| first(state))
}

/// What is wrong with the numbers of switches that claim another's, by name.
pub fn refused_numbers(states: &[State]) -> HashMap<&str, String> {
    let numbers = by_number(states);
    let refused = states.iter().filter_map(|state| {
        let holder = numbers.get(&state.wire_switch?)?;
        let number = state.wire_switch?;
        (holder.switch != state.switch).then(|| {
            let words = format!(
                "wire number {number} is that of {}: give one of them another `wire.switch`; its wires are not joined",
                holder.switch
            );
            (&*state.switch, words)
        })
    });
    refused.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(switch: &str, since: u64, received: u64) -> State {
        State {
            switch: switch.to_owned(),
            wire_switch: Some(7),
            wire_since_unix_ns: since,
            received_unix_ns: received,
            ..State::default()
        }
    }

    #[test]
    fn a_number_stays_with_the_first_that_claimed_it_and_the_others_are_named() {
        // Its name would come first, its report last.
        let liar = claims("a-liar", 2_000, 9_000);
        let honest = claims("honest", 1_000, 8_000);
        for states in [
            [liar.clone(), honest.clone()],
            [honest.clone(), liar.clone()],
        ] {
            assert_eq!(by_number(&states)[&7].switch, "honest");
            let refused = refused_numbers(&states);
            assert_eq!(refused.len(), 1);
            assert!(
                refused["a-liar"].contains("wire number 7 is that of honest"),
                "{refused:?}"
            );
        }
        let alone = [honest.clone()];
        assert_eq!(by_number(&alone)[&7].switch, "honest");
        assert!(refused_numbers(&alone).is_empty());
        // A switch that was replaced does not keep its number for ever.
        let later = claims("new", 3_000, 8_001 + NUMBER_KEPT_NS);
        let states = [honest, later];
        assert_eq!(by_number(&states)[&7].switch, "new");
    }
}
