//! The states of all switches and the last hours of minutes, as stored in JetStream. Every station reads both, so that
//! an answer does not depend on the station.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::body::Bytes;
use parking_lot::RwLock;
use prost::Message as _;

use crate::state::{Minute, State};
use crate::values::{self, ValueError};

/// All switches.
#[derive(Debug)]
pub struct Fleet {
    states: RwLock<States>,
    minutes: RwLock<Minutes>,
    /// Whether all states, and all minutes, that existed at the start have been read.
    pub is_complete: [AtomicBool; 2],
    /// Values that could not be read.
    pub unreadable: AtomicU64,
}

/// The states read so far.
#[derive(Debug, Default)]
struct States {
    by_switch: BTreeMap<String, Known>,
    /// The last revision read.
    read: u64,
    /// Revisions that the server kept when it was last queried, until all of them have been read.
    kept: Option<RangeInclusive<u64>>,
}

impl States {
    /// Drops the states that the server has evicted, once everything it kept has been read: a newer state of the same
    /// switch may have evicted the one read before.
    fn evict(&mut self) {
        let has_read = |kept: &mut RangeInclusive<u64>| self.read >= *kept.end();
        if let Some(kept) = self.kept.take_if(has_read) {
            self.by_switch
                .retain(|_, known| known.revision >= *kept.start());
        }
    }
}

/// The stored state of a switch.
#[derive(Debug, Default)]
struct Known {
    /// The encoded state, once it is complete.
    bytes: Bytes,
    /// Revision of the last value.
    revision: u64,
    /// Parts received since the last head, by slot and number.
    parts: HashMap<(usize, usize), Bytes>,
    /// Why the last value is not a state.
    fault: Option<ValueError>,
}

/// Closed minutes, oldest first, limited by their size in bytes.
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
    /// Creates an empty fleet with room for `bytes_max` bytes of minutes.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            states: RwLock::default(),
            minutes: RwLock::new(Minutes {
                list: VecDeque::new(),
                bytes: 0,
                bytes_max,
            }),
            is_complete: Default::default(),
            unreadable: AtomicU64::new(0),
        }
    }

    /// Stores a state, a part of a state, or a deletion, given the key's subject and the value's revision.
    pub fn put_state(&self, subject: &str, revision: u64, value: &[u8]) {
        let mut states = self.states.write();
        states.read = revision;
        let Some((switch, part)) = values::switch_of(subject) else {
            self.unreadable.fetch_add(1, Ordering::Relaxed);
            return;
        };
        // Copied, because the message's bytes are part of a larger buffer.
        let bytes = Bytes::copy_from_slice(value);
        match part {
            Some(_) if bytes.is_empty() => {}
            Some(place) => {
                let known = states.by_switch.entry(switch).or_default();
                known.revision = revision;
                known.parts.insert(place, bytes);
            }
            None if bytes.is_empty() => {
                states.by_switch.remove(&switch);
            }
            None => {
                let known = states.by_switch.entry(switch).or_default();
                known.revision = revision;
                let parts = std::mem::take(&mut known.parts);
                let part = |slot, number| parts.get(&(slot, number)).map(|bytes| &**bytes);
                match values::whole(&bytes, part) {
                    Ok(whole) => {
                        known.bytes = whole.map_or(bytes, Bytes::from);
                        known.fault = None;
                    }
                    Err(fault) => self.find_fault(known, fault),
                }
            }
        }
        states.evict();
    }

    /// Notes that all states, with these subjects, have been read. Drops all others, which are from a lost store.
    pub fn has_all_states(&self, subjects: &HashSet<String>) {
        let switches = subjects
            .iter()
            .filter_map(|subject| values::switch_of(subject));
        let switches: HashSet<String> = switches.map(|(switch, _)| switch).collect();
        let mut states = self.states.write();
        states
            .by_switch
            .retain(|switch, _| switches.contains(switch));
        // Revisions may have restarted.
        states.kept = None;
        drop(states);
        self.is_complete[0].store(true, Ordering::Relaxed);
    }

    fn find_fault(&self, known: &mut Known, fault: ValueError) {
        if known.fault.replace(fault).is_none() {
            self.unreadable.fetch_add(1, Ordering::Relaxed);
        }
        known.bytes = Bytes::new();
    }

    /// Stores a minute, given its subject.
    pub fn put_minute(&self, subject: String, value: &[u8]) {
        let bytes = Bytes::copy_from_slice(value);
        self.minutes.write().push(subject, bytes);
    }

    /// Drops the states that the server has evicted, given the revisions that it keeps.
    pub fn evict(&self, kept: RangeInclusive<u64>) {
        let mut states = self.states.write();
        states.kept.get_or_insert(kept);
        states.evict();
    }

    /// Drops all minutes, to read them again.
    pub fn forget_minutes(&self) {
        let mut minutes = self.minutes.write();
        minutes.list.clear();
        minutes.bytes = 0;
    }

    /// Returns the size of the minutes in bytes.
    pub fn minutes_bytes(&self) -> usize {
        self.minutes.read().bytes
    }

    /// Returns the states of all switches, sorted by name.
    pub fn states(&self) -> Vec<State> {
        let known: Vec<(String, Bytes)> = {
            let states = self.states.read();
            let known = states.by_switch.iter();
            let whole = known.filter(|(_, known)| !known.bytes.is_empty());
            whole
                .map(|(switch, known)| (switch.clone(), known.bytes.clone()))
                .collect()
        };
        // Not under the lock, because noting an unreadable value takes the lock.
        let read = |(switch, bytes): (String, Bytes)| self.read_state(&switch, &bytes);
        known.into_iter().filter_map(read).collect()
    }

    /// Returns the state of a switch.
    pub fn state(&self, switch: &str) -> Option<State> {
        let bytes = self.states.read().by_switch.get(switch)?.bytes.clone();
        (!bytes.is_empty()).then(|| self.read_state(switch, &bytes))?
    }

    fn read_state(&self, switch: &str, bytes: &Bytes) -> Option<State> {
        let read = values::read(switch, bytes);
        if let Err(fault) = &read
            && let Some(known) = self.states.write().by_switch.get_mut(switch)
            && known.bytes == bytes
        {
            self.find_fault(known, fault.clone());
        }
        read.ok()
    }

    /// Returns the switches whose values cannot be read, with the reasons.
    pub fn faults(&self) -> Vec<(String, String)> {
        let states = self.states.read();
        let faults = states.by_switch.iter();
        let faults =
            faults.filter_map(|(switch, known)| Some((switch.clone(), known.fault.as_ref()?)));
        faults
            .map(|(switch, fault)| (switch, fault.to_string()))
            .collect()
    }

    /// Returns the size of the states in bytes.
    pub fn states_bytes(&self) -> usize {
        let states = self.states.read();
        let parts = |known: &Known| known.parts.values().map(Bytes::len).sum::<usize>();
        states
            .by_switch
            .iter()
            .map(|(switch, known)| switch.len() + known.bytes.len() + parts(known))
            .sum()
    }

    /// Returns the minutes of a switch without duplicates, oldest first.
    pub fn minutes(&self, switch: &str) -> Vec<Minute> {
        let subject = values::minutes_of(switch);
        let minutes = self.minutes.read();
        let of_switch = minutes.list.iter().filter(|(of, _)| *of == subject);
        let bytes: Vec<Bytes> = of_switch.map(|(_, bytes)| bytes.clone()).collect();
        drop(minutes);
        let read = bytes
            .iter()
            .filter_map(|bytes| self.read(Minute::decode(&**bytes)));
        // Copies of a minute that was written twice are equal.
        let read = read.filter(|minute| minute.switch == switch);
        let by_minute: BTreeMap<(u64, u32), Minute> = read
            .map(|minute| ((minute.minute, minute.part), minute))
            .collect();
        by_minute.into_values().collect()
    }

    fn read<T, E>(&self, read: Result<T, E>) -> Option<T> {
        if read.is_err() {
            self.unreadable.fetch_add(1, Ordering::Relaxed);
        }
        read.ok()
    }

    /// Returns whether everything that existed at the start has been read.
    pub fn is_ready(&self) -> bool {
        self.is_complete
            .iter()
            .all(|part| part.load(Ordering::Relaxed))
    }
}

/// How much longer than another claimant a switch may be silent before it loses its number on wires, in nanoseconds.
const NUMBER_KEPT_NS: u64 = 3_600_000_000_000;

/// Returns the states by the switches' numbers on wires. If several switches claim a number, the first to claim it has
/// it; the others are refused, see [`refused_numbers`].
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

/// Returns the switch that has the number.
fn holder<'s>(claims: &[&'s State]) -> Option<&'s State> {
    let last_ns = claims.iter().map(|state| state.received_unix_ns).max()?;
    let gone_ns = last_ns.saturating_sub(NUMBER_KEPT_NS);
    let is_there = |state: &&&State| state.received_unix_ns >= gone_ns;
    let first = |state: &'s State| (state.wire_since_unix_ns, &*state.switch);
    let there = claims.iter().filter(is_there);
    there.copied().min_by_key(|state| first(state))
}

/// Returns the problem of each switch that claims the number of another, by name.
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

    fn state(switch: &str) -> State {
        State {
            switch: switch.to_owned(),
            ..State::default()
        }
    }

    fn claims(switch: &str, since: u64, received: u64) -> State {
        State {
            wire_switch: Some(7),
            wire_since_unix_ns: since,
            received_unix_ns: received,
            ..state(switch)
        }
    }

    #[test]
    fn a_value_that_is_no_state_costs_its_switch_only() {
        let fleet = Fleet::new(0);
        fleet.put_state(&values::key("a"), 1, &state("a").encode_to_vec());
        fleet.put_state(&values::key("b"), 2, &state("a").encode_to_vec());
        let known = fleet.states().into_iter().map(|state| state.switch);
        assert_eq!(known.collect::<Vec<_>>(), ["a"]);
        assert_eq!(fleet.faults()[0].0, "b");
        assert_eq!(fleet.unreadable.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_the_server_evicts_is_forgotten_and_what_was_rewritten_is_not() {
        let fleet = Fleet::new(0);
        let put = |switch: &str, revision| {
            fleet.put_state(
                &values::key(switch),
                revision,
                &state(switch).encode_to_vec(),
            );
        };
        let known = || {
            let states = fleet.states().into_iter();
            states.map(|state| state.switch).collect::<Vec<_>>()
        };
        put("a", 1);
        put("b", 2);
        put("c", 3);
        // The server has a newer state of "b", which has not arrived yet, and has evicted "a".
        fleet.evict(3..=4);
        assert_eq!(known(), ["a", "b", "c"]);
        put("b", 4);
        assert_eq!(known(), ["b", "c"]);
        // All that the server keeps had been read before the query.
        fleet.evict(4..=4);
        assert_eq!(known(), ["b"]);
    }

    #[test]
    fn a_number_stays_with_the_first_that_claimed_it_and_the_others_are_named() {
        // The liar's name sorts first, and its report is the newest.
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
