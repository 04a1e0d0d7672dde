//! What the owner of a partition learns of its switches' segments: histories, from which rises are found.
//!
//! ```text
//!  report --> Locator of the switch --> what was found --> the switch's state
//!                   ^      |
//!       memory -----+      +-- every two minutes --> memory
//! ```

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use locate::Locator;
use report::msp::{Kind, Report, Segment};

use crate::clock::dated;
use crate::found::{Found, ms};
use crate::path::label;
use crate::state::State;

/// Histories that end later than this after the server's time are discarded: a minute.
const FUTURE_NS: u64 = 60_000_000_000;

/// Nanoseconds of a millisecond.
const NS_PER_MS: u64 = 1_000_000;

/// The histories of a switch that was not heard for so long are dropped: an hour.
const FORGET_MS: u64 = 3_600_000;

/// Segments whose histories this station has and may have.
#[derive(Debug)]
pub struct Room {
    segments: AtomicU64,
    segments_max: u64,
    /// Reports of segments for which there was no room.
    pub refused: AtomicU64,
}

impl Room {
    /// For so many segments.
    pub const fn new(segments_max: u64) -> Self {
        Self {
            segments: AtomicU64::new(0),
            segments_max,
            refused: AtomicU64::new(0),
        }
    }

    /// Segments now.
    pub fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Segments that one switch may have: some are left for the others.
    const fn share(&self) -> u64 {
        self.segments_max - self.segments_max / 4
    }

    /// Takes room for `more` segments of a switch that has `has`, if there is room.
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

/// What is learnt of one switch.
#[derive(Debug)]
struct Learnt {
    locator: Locator,
    /// Of the last report that is in it.
    sequence: u64,
    /// When the last report was stored, by the server's clock.
    heard_ms: u64,
    /// End of the last report's epoch, as it was dated.
    end_unix_ns: u64,
}

/// What is learnt of the switches of one partition.
#[derive(Debug)]
pub struct Learner {
    switches: BTreeMap<String, Learnt>,
    room: Arc<Room>,
}

impl Drop for Learner {
    fn drop(&mut self) {
        for learnt in self.switches.values() {
            self.room.give(learnt.locator.len() as u64);
        }
    }
}

impl Learner {
    /// Nothing yet.
    pub fn new(room: Arc<Room>) -> Self {
        Self {
            switches: BTreeMap::new(),
            room,
        }
    }

    /// Whether nothing is to be learnt.
    pub fn is_off(&self) -> bool {
        self.room.segments_max == 0
    }

    /// Whether something is known of a switch.
    pub fn has(&self, switch: &str) -> bool {
        self.switches.contains_key(switch)
    }

    /// What a station learnt of a switch up to a report, as bytes; whether it can be used.
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
        let learnt = Learnt {
            locator,
            sequence,
            heard_ms,
            end_unix_ns,
        };
        self.switches.insert(switch.to_owned(), learnt);
        true
    }

    /// Forgets sequences beyond `last`: the stream was created anew.
    pub fn rewind(&mut self, last: u64) {
        for learnt in self.switches.values_mut() {
            if learnt.sequence > last {
                learnt.sequence = 0;
            }
        }
    }

    /// False alarms are rare over all segments that a station may have.
    fn segments_max(&self) -> usize {
        usize::try_from(self.room.segments_max).unwrap_or(usize::MAX)
    }

    /// Takes up a report that JetStream stored at this time, unless it has been.
    pub fn feed(&mut self, report: &Report, sequence: u64, received_unix_ns: u64) {
        if self.is_off() {
            return;
        }
        let segments_max = self.segments_max();
        let Self { switches, room } = self;
        let learnt = switches
            .entry(report.switch.clone())
            .or_insert_with(|| Learnt {
                locator: Locator::new(segments_max),
                sequence: 0,
                heard_ms: 0,
                end_unix_ns: 0,
            });
        if sequence <= learnt.sequence {
            return;
        }
        // A station of an earlier version took reports of the future, or the server's clock went back: new reports would be ignored.
        if learnt.end_unix_ns > received_unix_ns.saturating_add(FUTURE_NS) {
            room.give(learnt.locator.len() as u64);
            learnt.locator = Locator::new(segments_max);
        }
        learnt.sequence = sequence;
        learnt.heard_ms = ms(received_unix_ns);
        learnt.end_unix_ns = dated(report, received_unix_ns, learnt.end_unix_ns);
        let time_ms = ms(learnt.end_unix_ns);
        let locator = &mut learnt.locator;
        let is_free = report
            .health
            .as_ref()
            .is_some_and(|health| health.clock == "free");
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
            let clock_unsynchronised = matches!(kind, Kind::Wire | Kind::Probe) && is_free;
            let interval = interval(segment, report, time_ms, clock_unsynchronised);
            locator.report(&name, &interval);
            if locator.has(&name) {
                reported.insert(name);
            } else {
                room.give(1);
            }
        }
        for (one, other) in pairs {
            locator.pair(&one, &other);
        }
        // What had no packets is not in the report: it is not silent.
        let idle: Vec<String> = locator
            .names()
            .filter(|name| !reported.contains(*name))
            .map(str::to_owned)
            .collect();
        for name in idle {
            let none = Segment::default();
            locator.report(&name, &interval(&none, report, time_ms, false));
        }
    }

    /// Enters what was found into the state of a switch.
    pub fn note(&mut self, state: &mut State) {
        let Some(learnt) = self.switches.get(&state.switch) else {
            return;
        };
        let now_ms = ms(state.end_unix_ns);
        let State {
            segments, names, ..
        } = state;
        let name = |index: u32| names.get(index as usize).map_or("", String::as_str);
        for known in segments {
            let last = &known.last;
            let [from, to, class] = [last.from, last.to, last.class].map(name);
            let segment = segment_name(last.kind(), from, to, class);
            let finding = learnt.locator.finding(&segment, now_ms);
            known.found = finding.map(Found::from);
        }
    }

    /// Drops the segments that the states do not have, and switches that have long been silent: their names.
    pub fn forget<'s>(
        &mut self,
        state_of: impl Fn(&str) -> Option<&'s State>,
        now_ms: u64,
    ) -> Vec<String> {
        let room = &self.room;
        let mut forgotten = Vec::new();
        self.switches.retain(|switch, learnt| {
            let before = learnt.locator.len();
            let state =
                state_of(switch).filter(|_| now_ms.saturating_sub(learnt.heard_ms) < FORGET_MS);
            let Some(state) = state else {
                room.give(before as u64);
                forgotten.push(switch.clone());
                return false;
            };
            let kept = state.segments.iter().map(|known| {
                let [from, to, class] =
                    [known.last.from, known.last.to, known.last.class].map(|name| state.name(name));
                segment_name(known.last.kind(), from, to, class)
            });
            let kept: HashSet<String> = kept.collect();
            learnt.locator.retain(|name| kept.contains(name));
            room.give((before - learnt.locator.len()) as u64);
            true
        });
        forgotten
    }

    /// What is known of each switch, as bytes, with when it was heard last.
    pub fn memories(&self) -> impl Iterator<Item = (&str, u64, Vec<u8>)> {
        let switches = self.switches.iter();
        switches
            .map(|(switch, learnt)| (switch.as_str(), learnt.heard_ms, learnt.locator.to_bytes()))
    }
}

/// The name of a segment among those of its switch: kind, ends and class.
fn segment_name(kind: Kind, from: &str, to: &str, class: &str) -> String {
    let kind = label(kind);
    format!("{kind} {from}>{to} {class}")
}

/// A segment's report as localisation takes it.
fn interval(
    segment: &Segment,
    report: &Report,
    time_ms: u64,
    clock_unsynchronised: bool,
) -> locate::Report {
    let length_ms = u32::try_from(ms(report.length_ns)).unwrap_or(u32::MAX);
    locate::Report {
        time_ms,
        interval_ms: length_ms.max(1),
        packets: segment.samples,
        mean_ns: segment.mean_ns.into(),
        bound_ns: segment.bound_ns.map(f64::from),
        deviation_ns: segment.stddev_ns.map(f64::from),
        p99_ns: segment.quantiles.map(|quantiles| quantiles.p99_ns.into()),
        sent: (segment.packets > 0).then_some(segment.packets),
        // On a wire a loss may be counted an epoch late, and be taken back.
        lost: u64::try_from(segment.lost).unwrap_or(0),
        clock_unsynchronised,
    }
}

#[cfg(test)]
mod tests;
