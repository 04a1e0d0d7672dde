//! States as values of a key-value bucket: one value if the state fits, otherwise parts and a head.
//!
//! ```text
//!  key PARTITION.SWITCH         the state; if it is large, the head: fields outside the parts, and the list of parts
//!  key PARTITION.SWITCH.S.N     part N of slot S: pieces of a state's names, segments, flows and neighbours
//! ```
//!
//! The slots alternate: the head, written last and over the revision that was read, refers to the complete parts in one
//! slot while the other slot is written. Concatenated, the protobuf messages of head and parts form the state.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;

use futures_util::future::try_join_all;
use prost::Message;
use report::subject;
use siphasher::sip::SipHasher24;

use crate::bus::{Bus, Put, PutError, Value};
use crate::state::{BYTES_MAX, Parts, State};

/// Prefix of the subjects in the bucket of states.
pub const KEY: &str = "$KV.vernier_switches.";

/// Prefix of the subjects of closed minutes.
pub const MINUTES: &str = "vernier.history.";

/// Largest number of parts of a state. A server's `max_payload` is 64 KiB or more.
const PARTS_MAX: usize = BYTES_MAX / (32 << 10);

/// Largest size of a part in bytes.
pub const PART_BYTES_MAX: usize = 512 << 10;

/// Returns the subject of a switch's key.
pub fn key(switch: &str) -> String {
    below(KEY, switch)
}

/// Returns the subject of a switch's closed minutes.
pub fn minutes_of(switch: &str) -> String {
    below(MINUTES, switch)
}

/// Returns a switch's subject below a prefix.
pub(crate) fn below(begin: &str, switch: &str) -> String {
    let (partition, token) = (subject::partition(switch), subject::token(switch));
    format!("{begin}{partition}.{token}")
}

/// Returns the switch that a subject of the bucket belongs to, and the slot and number of a part; `None` if the subject
/// is invalid.
pub fn switch_of(subject: &str) -> Option<(String, Option<(usize, usize)>)> {
    let mut tokens = subject.strip_prefix(KEY)?.split('.');
    let partition: u16 = tokens.next()?.parse().ok()?;
    let switch = tokens.next()?.replace('=', ".");
    let mut place = || tokens.next().map(str::parse);
    let part = match (place(), place(), place()) {
        (None, None, None) => None,
        (Some(Ok(slot)), Some(Ok(number)), None) if slot < 2 && number < PARTS_MAX => {
            Some((slot, number))
        }
        _ => return None,
    };
    (subject::partition(&switch) == partition && !switch.is_empty()).then_some((switch, part))
}

/// A part of a state. An earlier version cannot mistake it for a state, because its fields have other types.
#[derive(Clone, PartialEq, Message)]
struct Part {
    #[prost(fixed64, tag = "1")]
    check: u64,
    #[prost(bytes = "vec", tag = "2")]
    bytes: Vec<u8>,
}

/// The field of a value that names its parts.
#[derive(Clone, PartialEq, Message)]
struct Head {
    #[prost(message, optional, tag = "21")]
    parts: Option<Parts>,
}

/// Why a value is not a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The value is not a protobuf message of this type.
    #[error("the value under its key is not a state: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// Parts are missing, or were written at another time.
    #[error("parts of its state are missing")]
    Incomplete,
    /// The value is the state of another switch.
    #[error("the value under its key is the state of another switch")]
    Foreign,
}

fn check_of(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Joins a value with its parts to the encoded state, or returns `None` if the value has no parts; `parts` returns the
/// bytes of a part.
///
/// # Errors
/// [`ValueError`].
pub fn whole<'p>(
    head: &[u8],
    parts: impl Fn(usize, usize) -> Option<&'p [u8]>,
) -> Result<Option<Vec<u8>>, ValueError> {
    let Some(named) = Head::decode(head)?.parts else {
        return Ok(None);
    };
    let slot = named.slot as usize;
    let mut bytes = Vec::new();
    for number in 0..(named.number as usize).min(PARTS_MAX) {
        let part = Part::decode(parts(slot, number).ok_or(ValueError::Incomplete)?)?;
        bytes.extend(part.bytes);
    }
    if check_of(&bytes) != named.check {
        return Err(ValueError::Incomplete);
    }
    bytes.splice(..0, head.iter().copied());
    Ok(Some(bytes))
}

/// Reads a complete state.
///
/// # Errors
/// [`ValueError`].
pub fn read(switch: &str, bytes: &[u8]) -> Result<State, ValueError> {
    let mut state = State::decode(bytes)?;
    state.parts = None;
    if state.switch != switch {
        return Err(ValueError::Foreign);
    }
    Ok(state)
}

/// A state, with the revisions of its keys, which reveal another writer.
#[derive(Debug, Default)]
pub struct Entry {
    /// The state.
    pub state: State,
    /// Revision of the key; 0 if it does not exist.
    pub revision: u64,
    /// Revisions of the parts in each slot.
    parts: [BTreeMap<usize, u64>; 2],
    /// Slot to which the value under the key refers.
    slot: usize,
    /// The value as it was read, until this station has written a new one.
    head: Option<Vec<u8>>,
}

/// Returns the states of a partition by switch, from all values of the bucket. An unreadable state is replaced by an
/// empty one that names the reason.
pub fn entries(values: Vec<Value>) -> BTreeMap<String, Entry> {
    let mut heads = Vec::new();
    let mut parts: HashMap<String, [BTreeMap<usize, Value>; 2]> = HashMap::new();
    for value in values {
        match switch_of(&value.subject) {
            Some((switch, None)) => heads.push((switch, value)),
            Some((switch, Some((slot, number)))) => {
                parts.entry(switch).or_default()[slot].insert(number, value);
            }
            None => tracing::warn!(
                "{}: ignored, because the key belongs to no switch",
                value.subject.escape_debug()
            ),
        }
    }
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    for (switch, head) in heads {
        let of_switch = parts.get(&switch);
        let part = |slot: usize, number: usize| {
            let part = of_switch?.get(slot)?.get(&number)?;
            Some(&*part.bytes)
        };
        let bytes = whole(&head.bytes, part);
        let is_parted = matches!(bytes, Ok(Some(_)));
        let read = bytes.and_then(|bytes| read(&switch, bytes.as_deref().unwrap_or(&head.bytes)));
        let state = read.unwrap_or_else(|error| {
            let mut state = State {
                switch: switch.clone(),
                ..State::default()
            };
            state.set_aside(&format!("{error}; its counts restart at zero"));
            state
        });
        let slot = Head::decode(&*head.bytes).ok().and_then(|head| head.parts);
        let entry = Entry {
            state,
            revision: head.revision,
            slot: slot.map_or(0, |parts| parts.slot as usize % 2),
            head: is_parted.then(|| head.bytes.to_vec()),
            ..Entry::default()
        };
        entries.insert(switch, entry);
    }
    for (switch, slots) in parts {
        let entry = entries.entry(switch).or_default();
        entry.parts = slots.map(|slot| {
            let revisions = slot.into_iter();
            revisions
                .map(|(number, value)| (number, value.revision))
                .collect()
        });
    }
    entries
}

impl Entry {
    /// Writes the state if its keys still have the revisions that were read.
    ///
    /// # Errors
    /// [`PutError`].
    pub async fn write<B: Bus>(&mut self, bus: &B) -> Result<(), PutError> {
        let bytes_max = bus.bytes_max().min(PART_BYTES_MAX);
        let key = key(&self.state.switch);
        let (value, slot) = if self.state.encoded_len() <= bytes_max {
            (self.state.encode_to_vec(), self.slot)
        } else {
            let slot = 1 - self.slot;
            (self.write_parts(bus, &key, slot, bytes_max).await?, slot)
        };
        self.revision = bus.put(key, value, Put::Over(self.revision)).await?;
        self.head = None;
        self.slot = slot;
        Ok(())
    }

    /// Writes the parts of a state to a slot. Returns the head.
    async fn write_parts<B: Bus>(
        &mut self,
        bus: &B,
        key: &str,
        slot: usize,
        bytes_max: usize,
    ) -> Result<Vec<u8>, PutError> {
        // From here on, a former owner that has written its parts, but not its head, cannot finish.
        if let Some(head) = self.head.take() {
            let on = Put::Over(self.revision);
            self.revision = bus.put(key.to_owned(), head, on).await?;
        }
        let mut rest = State::default();
        self.state.swap_large(&mut rest);
        let bytes = rest.encode_to_vec();
        let check = check_of(&bytes);
        let chunks = bytes.chunks(bytes_max);
        let parts = Parts {
            slot: u32::try_from(slot).unwrap_or_default(),
            number: u32::try_from(chunks.len()).unwrap_or(u32::MAX),
            check,
        };
        self.state.parts = Some(parts);
        let head = self.state.encode_to_vec();
        self.state.parts = None;
        self.state.swap_large(&mut rest);
        if chunks.len() > PARTS_MAX {
            let why = format!("{} parts; raise `max_payload` of the server", chunks.len());
            return Err(PutError::Refused(why));
        }
        let revisions = &self.parts[slot];
        let written = chunks.enumerate().map(|(number, bytes)| {
            let part = Part {
                check,
                bytes: bytes.to_vec(),
            };
            let revision = revisions.get(&number).copied().unwrap_or_default();
            let key = format!("{key}.{slot}.{number}");
            async move {
                let on = Put::Over(revision);
                let revision = bus.put(key, part.encode_to_vec(), on).await?;
                Ok::<_, PutError>((number, revision))
            }
        });
        let written = try_join_all(written).await?;
        self.parts[slot].extend(written);
        Ok(head)
    }
}

#[cfg(test)]
mod tests;
