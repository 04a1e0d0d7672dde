//! What owners have learnt of segments, kept in JetStream: so that the next owner of a partition goes on where the last one was.
//!
//! Key-value bucket `vernier_located`, key `PARTITION.SWITCH.N`: as many values as the bytes need.

use std::collections::BTreeMap;

use axum::body::Bytes;
use futures_util::future::try_join_all;
use prost::Message;
use report::subject;

use crate::bus::{Bus, Put, StoreError, failed};
use crate::learn::Learner;
use crate::store::{MEMORIES, MEMORY_KEY};
use crate::values::PART_BYTES_MAX;

/// Reports are read again for so long at most: what is older is not made up for. An hour.
const AGAIN_MS: u64 = 3_600_000;

/// A part of what was learnt of a switch.
#[derive(Clone, PartialEq, Message)]
struct Part {
    /// The switch.
    #[prost(string, tag = "1")]
    switch: String,
    /// Sequence in the stream of the last report that was read.
    #[prost(uint64, tag = "2")]
    sequence: u64,
    /// When this was written, in milliseconds since 1970.
    #[prost(uint64, tag = "3")]
    written_ms: u64,
    /// When the server stored its last report, in milliseconds since 1970.
    #[prost(uint64, tag = "4")]
    heard_ms: u64,
    /// Which part, from 0.
    #[prost(uint32, tag = "5")]
    number: u32,
    /// How many there are.
    #[prost(uint32, tag = "6")]
    parts: u32,
    /// Its bytes.
    #[prost(bytes = "vec", tag = "7")]
    bytes: Vec<u8>,
}

fn key(switch: &str, number: u32) -> String {
    let (partition, token) = (subject::partition(switch), subject::token(switch));
    format!("{MEMORY_KEY}{partition}.{token}.{number}")
}

/// All parts of one memory, in order, if they are there and of one time.
fn whole(mut parts: Vec<Part>) -> Option<Part> {
    parts.sort_by_key(|part| part.number);
    let newest = parts.iter().map(|part| part.written_ms).max()?;
    // More parts may be left of a time when it had more segments.
    parts.retain(|part| part.written_ms == newest);
    let mut parts = parts.into_iter();
    let mut whole = parts.next()?;
    let mut number = 1;
    for part in parts {
        if part.number != number {
            return None;
        }
        number += 1;
        whole.bytes.extend_from_slice(&part.bytes);
    }
    (whole.number == 0 && number == whole.parts).then_some(whole)
}

/// As [`recall`], from the values of the bucket.
pub fn restore(
    values: impl Iterator<Item = Bytes>,
    now_ms: u64,
    learner: &mut Learner,
) -> Option<u64> {
    let mut by_switch: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    // An unreadable history is learnt anew.
    for part in values.filter_map(|value| Part::decode(value).ok()) {
        by_switch.entry(part.switch.clone()).or_default().push(part);
    }
    let mut behind: Option<u64> = None;
    for memory in by_switch.into_values().filter_map(whole) {
        let Part {
            switch,
            sequence,
            written_ms,
            heard_ms,
            bytes,
            ..
        } = memory;
        let is_recent = now_ms.saturating_sub(written_ms) < AGAIN_MS;
        if learner.restore(&switch, sequence, heard_ms, &bytes) && is_recent {
            behind = Some(behind.map_or(sequence, |behind| behind.min(sequence)));
        }
    }
    behind
}

/// Restores the histories of a partition's switches. Returns the sequence after which reports have to be read again; `None`
/// if there are no histories.
///
/// # Errors
/// The server's error.
pub async fn recall<B: Bus>(
    bus: &B,
    partition: u16,
    learner: &mut Learner,
) -> Result<Option<u64>, StoreError> {
    let values = bus
        .last(MEMORIES, format!("{MEMORY_KEY}{partition}.>"))
        .await?;
    let in_place = values.into_iter().filter(|value| {
        let part = Part::decode(&*value.bytes);
        part.is_ok_and(|part| key(&part.switch, part.number) == value.subject)
    });
    let now_ms = crate::found::ms(bus.now_unix_ns());
    Ok(restore(in_place.map(|value| value.bytes), now_ms, learner))
}

/// Writes the histories of a partition's switches up to a report.
///
/// # Errors
/// The server's error.
pub async fn remember<B: Bus>(bus: &B, learner: &Learner, sequence: u64) -> Result<(), StoreError> {
    let written_ms = crate::found::ms(bus.now_unix_ns());
    let bytes_max = bus.bytes_max().min(PART_BYTES_MAX);
    for (switch, heard_ms, bytes) in learner.memories() {
        let chunks = bytes.chunks(bytes_max);
        let parts = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        let written = (0..).zip(chunks).map(|(number, bytes)| {
            let part = Part {
                switch: switch.to_owned(),
                sequence,
                written_ms,
                heard_ms,
                number,
                parts,
                bytes: bytes.to_vec(),
            };
            bus.put(key(switch, number), part.encode_to_vec(), Put::Anyway)
        });
        let written = try_join_all(written).await;
        written.map_err(failed("cannot write what was learnt"))?;
    }
    Ok(())
}

/// Deletes the history of a switch.
///
/// # Errors
/// The server's error.
pub async fn forget<B: Bus>(bus: &B, switch: &str) -> Result<(), StoreError> {
    // A value without bytes is none.
    let taken_out = bus.put(key(switch, 0), Vec::new(), Put::Anyway).await;
    taken_out
        .map(drop)
        .map_err(failed("cannot delete what was learnt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(written_ms: u64, number: u32, parts: u32) -> Part {
        Part {
            written_ms,
            number,
            parts,
            bytes: vec![u8::try_from(number).unwrap(); 2],
            ..Part::default()
        }
    }

    /// What was learnt of a switch, as a station of 78f1034 stored it in two parts.
    #[test]
    fn parts_that_an_earlier_station_stored_are_read_as_they_were_meant() {
        let parts = [0, 1].map(|number| Part {
            switch: "edge-1.lab_2".to_owned(),
            sequence: 987_654,
            written_ms: 1_700_000_000_001,
            heard_ms: 1_700_000_000_000,
            number,
            parts: 2,
            bytes: vec![0x5a; 3 + number as usize],
        });
        for (meant, name) in parts.iter().zip(["part-0.bin", "part-1.bin"]) {
            let bytes = testkit::golden::kept("78f1034", name, || meant.encode_to_vec()).unwrap();
            let read = Part::decode(&*bytes).unwrap();
            assert_eq!(read, *meant);
            assert_eq!(read.encode_to_vec(), bytes);
        }
        assert_eq!(whole(parts.to_vec()).unwrap().bytes, [0x5a; 7]);
        assert_eq!(key("a.b_c", 1), "$KV.vernier_located.30.a=b_c.1");
    }

    #[test]
    fn only_parts_of_one_time_are_a_whole() {
        let bytes = |parts: &[(u64, u32, u32)]| {
            let parts = parts.iter();
            let parts = parts.map(|&(written, number, of)| part(written, number, of));
            whole(parts.collect()).map(|whole| whole.bytes)
        };
        assert_eq!(bytes(&[(5, 1, 2), (5, 0, 2)]), Some(vec![0, 0, 1, 1]));
        assert_eq!(bytes(&[(5, 0, 1)]), Some(vec![0, 0]));
        // It was larger once.
        assert_eq!(bytes(&[(5, 0, 1), (4, 1, 2)]), Some(vec![0, 0]));
        // Its writer was stopped.
        assert_eq!(bytes(&[(6, 0, 2), (5, 1, 2)]), None);
        assert_eq!(bytes(&[(5, 1, 2)]), None);
        assert_eq!(bytes(&[(5, 0, 3), (5, 2, 3)]), None);
        assert_eq!(bytes(&[]), None);
    }
}
