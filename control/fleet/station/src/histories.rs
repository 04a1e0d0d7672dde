//! Histories of the segments of a partition's switches, from which rises of delay and loss are found. They are stored
//! in JetStream, so that the next owner of the partition continues them.
//!
//! ```text
//!  report --> Locator of the switch --> findings --> the switch's state
//!                   ^      |
//!      JetStream ---+      +-- every two minutes --> JetStream
//! ```
//!
//! Key-value bucket `vernier_located`, key `PARTITION.SWITCH.N`: as many values as the bytes need.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Bytes;
use futures_util::future::try_join_all;
use locate::Locator;
use prost::Message;
use report::msp::{Health, Kind, Report, Segment};

use crate::bus::{Bus, Put, StoreError, failed};
use crate::clock::{dated, ms};
use crate::place::{Place, label};
use crate::state::State;
use crate::store::{MEMORIES, MEMORY_KEY};
use crate::values::{PART_BYTES_MAX, below};

/// Histories that end later than this after the server's time are discarded: a minute.
const FUTURE_NS: u64 = 60_000_000_000;

/// Nanoseconds in a millisecond.
const NS_PER_MS: u64 = 1_000_000;

/// Silence after which the histories of a switch are dropped: an hour.
const FORGET_MS: u64 = 3_600_000;

/// Number of segments with histories at this station, and its limit.
#[derive(Debug)]
pub struct Room {
    segments: AtomicU64,
    segments_max: u64,
    /// Reports of segments for which there was no room.
    pub refused: AtomicU64,
}

impl Room {
    /// Creates room for `segments_max` segments.
    pub const fn new(segments_max: u64) -> Self {
        Self {
            segments: AtomicU64::new(0),
            segments_max,
            refused: AtomicU64::new(0),
        }
    }

    /// Returns the present number of segments.
    pub fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Returns the largest number of segments of one switch; the rest is left to other switches.
    const fn share(&self) -> u64 {
        self.segments_max - self.segments_max / 4
    }

    /// Reserves room for `more` segments of a switch that has `has`. Returns `false` if there is none.
    fn take(&self, has: u64, more: u64) -> bool {
        if has.saturating_add(more) > self.share() {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let taken = self
            .segments
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |segments| {
                let after = segments.checked_add(more)?;
                (after <= self.segments_max).then_some(after)
            });
        if taken.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    fn give(&self, fewer: u64) {
        self.segments.fetch_sub(fewer, Ordering::Relaxed);
    }
}

/// The history of one switch.
#[derive(Debug)]
struct History {
    locator: Locator,
    /// Sequence of the last report in it.
    sequence: u64,
    /// When the last report was stored, by the server's clock.
    heard_ms: u64,
    /// Date of the end of the last report's epoch.
    end_unix_ns: u64,
}

/// The histories of the switches of one partition.
#[derive(Debug)]
pub struct Histories {
    switches: BTreeMap<String, History>,
    room: Arc<Room>,
}

impl Drop for Histories {
    fn drop(&mut self) {
        for history in self.switches.values() {
            self.room.give(history.locator.len() as u64);
        }
    }
}

impl Histories {
    /// Creates empty histories.
    pub fn new(room: Arc<Room>) -> Self {
        Self {
            switches: BTreeMap::new(),
            room,
        }
    }

    /// Returns whether histories are turned off.
    pub fn is_off(&self) -> bool {
        self.room.segments_max == 0
    }

    /// Returns whether there is a history of a switch.
    pub fn has(&self, switch: &str) -> bool {
        self.switches.contains_key(switch)
    }

    /// Restores the history of a switch up to a report. Returns whether the bytes were valid.
    pub fn restore(&mut self, switch: &str, sequence: u64, heard_ms: u64, bytes: &[u8]) -> bool {
        let locator = match Locator::from_bytes(self.segments_max(), bytes) {
            Ok(locator) => locator,
            Err(error) => {
                tracing::info!("{switch}: {error}");
                return false;
            }
        };
        if self.has(switch) || !self.room.take(0, locator.len() as u64) {
            return false;
        }
        let end_unix_ns = locator.last_ms().saturating_mul(NS_PER_MS);
        let history = History {
            locator,
            sequence,
            heard_ms,
            end_unix_ns,
        };
        self.switches.insert(switch.to_owned(), history);
        true
    }

    /// Resets sequences beyond `last`, because the stream was recreated.
    pub fn rewind(&mut self, last: u64) {
        for history in self.switches.values_mut() {
            if history.sequence > last {
                history.sequence = 0;
            }
        }
    }

    /// Returns the number of segments over which false alarms must be rare: the limit of a station.
    fn segments_max(&self) -> usize {
        usize::try_from(self.room.segments_max).unwrap_or(usize::MAX)
    }

    /// Adds a report that JetStream stored at this time, unless it has already been added.
    pub fn feed(&mut self, report: &Report, sequence: u64, received_unix_ns: u64) {
        if self.is_off() {
            return;
        }
        let segments_max = self.segments_max();
        let Self { switches, room } = self;
        let history = switches
            .entry(report.switch.clone())
            .or_insert_with(|| History {
                locator: Locator::new(segments_max),
                sequence: 0,
                heard_ms: 0,
                end_unix_ns: 0,
            });
        if sequence <= history.sequence {
            return;
        }
        // Reports from the future (earlier versions) or a clock set back would make new reports be ignored.
        if history.end_unix_ns > received_unix_ns.saturating_add(FUTURE_NS) {
            room.give(history.locator.len() as u64);
            history.locator = Locator::new(segments_max);
        }
        history.sequence = sequence;
        history.heard_ms = ms(received_unix_ns);
        history.end_unix_ns = dated(report, received_unix_ns, history.end_unix_ns);
        let time_ms = ms(history.end_unix_ns);
        let locator = &mut history.locator;
        let mut reported = HashSet::with_capacity(report.segments.len());
        let mut pairs = Vec::new();
        for segment in &report.segments {
            let [from, to, class] =
                [segment.from, segment.to, segment.class].map(|name| report.name(name));
            let kind = segment.kind();
            let name = segment_name(kind, from, to, class);
            if !locator.has(&name) {
                if !room.take(locator.len() as u64, 1) {
                    continue;
                }
                // Both directions between two clocks.
                if matches!(kind, Kind::Wire | Kind::Probe) {
                    pairs.push((name.clone(), segment_name(kind, to, from, class)));
                }
            }
            locator.report(&name, &interval(segment, report, time_ms));
            if locator.has(&name) {
                reported.insert(name);
            } else {
                room.give(1);
            }
        }
        for (one, other) in pairs {
            locator.pair(&one, &other);
        }
        // The report omits segments without packets; they are not silent.
        let idle: Vec<String> = locator
            .names()
            .filter(|name| !reported.contains(*name))
            .map(str::to_owned)
            .collect();
        for name in idle {
            let none = Segment::default();
            locator.report(&name, &interval(&none, report, time_ms));
        }
    }

    /// Copies the findings to the state of a switch.
    pub fn note(&mut self, state: &mut State) {
        let Some(history) = self.switches.get(&state.switch) else {
            return;
        };
        let now_ms = ms(state.end_unix_ns);
        let findings = state.places().map(|place| {
            let finding = history.locator.finding(&name_of(place), now_ms);
            finding.map(|finding| finding.found)
        });
        let findings: Vec<_> = findings.collect();
        for (known, found) in state.segments.iter_mut().zip(findings) {
            known.found = found;
        }
    }

    /// Drops the segments that the states do not have, and switches that have long been silent. Returns the names of
    /// these switches.
    pub fn forget<'s>(
        &mut self,
        state_of: impl Fn(&str) -> Option<&'s State>,
        now_ms: u64,
    ) -> Vec<String> {
        let room = &self.room;
        let mut forgotten = Vec::new();
        self.switches.retain(|switch, history| {
            let before = history.locator.len();
            let state =
                state_of(switch).filter(|_| now_ms.saturating_sub(history.heard_ms) < FORGET_MS);
            let Some(state) = state else {
                room.give(before as u64);
                forgotten.push(switch.clone());
                return false;
            };
            let kept: HashSet<String> = state.places().map(name_of).collect();
            history.locator.retain(|name| kept.contains(name));
            room.give((before - history.locator.len()) as u64);
            true
        });
        forgotten
    }

    /// Returns the encoded history of each switch, with the time of its last report.
    pub fn encoded(&self) -> impl Iterator<Item = (&str, u64, Vec<u8>)> {
        let switches = self.switches.iter();
        switches.map(|(switch, history)| {
            (
                switch.as_str(),
                history.heard_ms,
                history.locator.to_bytes(),
            )
        })
    }
}

/// Returns the name of a segment within its switch, made of kind, ends and class.
fn segment_name(kind: Kind, from: &str, to: &str, class: &str) -> String {
    let kind = label(kind);
    format!("{kind} {from}>{to} {class}")
}

/// Returns the [`segment_name`] of a place.
fn name_of(place: Place<'_>) -> String {
    let [from, to] = place.ends();
    segment_name(place.kind(), from, to, place.class())
}

/// Converts a segment's report to the input of localisation.
fn interval(segment: &Segment, report: &Report, time_ms: u64) -> locate::Report {
    let length_ms = u32::try_from(ms(report.length_ns)).unwrap_or(u32::MAX);
    let kind = segment.kind();
    let is_free = |health: &Health| health.clock == "free";
    locate::Report {
        time_ms,
        interval_ms: length_ms.max(1),
        packets: segment.samples,
        mean_ns: segment.mean_ns.into(),
        bound_ns: segment.bound_ns.map(f64::from),
        deviation_ns: segment.stddev_ns.map(f64::from),
        p99_ns: segment.quantiles.map(|quantiles| quantiles.p99_ns.into()),
        sent: (segment.packets > 0).then_some(segment.packets),
        // A loss on a wire may be counted an epoch late, and be corrected then.
        lost: u64::try_from(segment.lost).unwrap_or(0),
        clock_unsynchronised: matches!(kind, Kind::Wire | Kind::Probe)
            && report.health.as_ref().is_some_and(is_free),
        is_through_device: kind == Kind::Around,
    }
}

/// Longest time for which reports are read again; older ones are skipped. An hour.
const AGAIN_MS: u64 = 3_600_000;

/// A part of the history of a switch.
#[derive(Clone, PartialEq, Message)]
struct Part {
    /// Name of the switch.
    #[prost(string, tag = "1")]
    switch: String,
    /// Sequence in the stream of the last report that was read.
    #[prost(uint64, tag = "2")]
    sequence: u64,
    /// When this was written, in milliseconds since 1970.
    #[prost(uint64, tag = "3")]
    written_ms: u64,
    /// When the server stored the last report, in milliseconds since 1970.
    #[prost(uint64, tag = "4")]
    heard_ms: u64,
    /// Index of the part, from 0.
    #[prost(uint32, tag = "5")]
    number: u32,
    /// Number of parts.
    #[prost(uint32, tag = "6")]
    parts: u32,
    /// Bytes of the part.
    #[prost(bytes = "vec", tag = "7")]
    bytes: Vec<u8>,
}

fn key(switch: &str, number: u32) -> String {
    format!("{}.{number}", below(MEMORY_KEY, switch))
}

/// Joins the parts of a history, if all of them are present and were written at the same time.
fn whole(mut parts: Vec<Part>) -> Option<Part> {
    parts.sort_by_key(|part| part.number);
    let newest = parts.iter().map(|part| part.written_ms).max()?;
    // Stale parts may remain from a time with more segments.
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

/// Restores histories from the values of the bucket; see [`load`].
pub fn restore(
    values: impl Iterator<Item = Bytes>,
    now_ms: u64,
    histories: &mut Histories,
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
        if histories.restore(&switch, sequence, heard_ms, &bytes) && is_recent {
            behind = Some(behind.map_or(sequence, |behind| behind.min(sequence)));
        }
    }
    behind
}

/// Restores the histories of a partition's switches. Returns the sequence after which reports must be read again;
/// `None` if there are no histories.
///
/// # Errors
/// The server's error.
pub async fn load<B: Bus>(
    bus: &B,
    partition: u16,
    histories: &mut Histories,
) -> Result<Option<u64>, StoreError> {
    let values = bus
        .last(MEMORIES, format!("{MEMORY_KEY}{partition}.>"))
        .await?;
    let in_place = values.into_iter().filter(|value| {
        let part = Part::decode(&*value.bytes);
        part.is_ok_and(|part| key(&part.switch, part.number) == value.subject)
    });
    let now_ms = ms(bus.now_unix_ns());
    Ok(restore(
        in_place.map(|value| value.bytes),
        now_ms,
        histories,
    ))
}

/// Writes the histories of a partition's switches up to a report.
///
/// # Errors
/// The server's error.
pub async fn store<B: Bus>(
    bus: &B,
    histories: &Histories,
    sequence: u64,
) -> Result<(), StoreError> {
    let written_ms = ms(bus.now_unix_ns());
    let bytes_max = bus.bytes_max().min(PART_BYTES_MAX);
    for (switch, heard_ms, bytes) in histories.encoded() {
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
pub async fn delete<B: Bus>(bus: &B, switch: &str) -> Result<(), StoreError> {
    // An empty value counts as none.
    let taken_out = bus.put(key(switch, 0), Vec::new(), Put::Anyway).await;
    taken_out
        .map(drop)
        .map_err(failed("cannot delete what was learnt"))
}

#[cfg(test)]
mod tests;
