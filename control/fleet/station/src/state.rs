//! What stations know of one switch, folded report by report: the value under its key, and the minutes that leave it.
//!
//! ```text
//!  Report --take--> State (last values, the open minute, gaps) --a minute is over--> Minute
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;

use locate::Found;
use prost::Message;
use records::names::{Names, name};
use report::msp::{self, Flow, Health, Kind, Neighbour, Report};

use crate::clock;

/// Runs of a switch whose last epochs are kept: a report of one of them that comes again is known.
const RUNS_MAX: usize = 8;

/// Gaps that are kept.
pub const GAPS_MAX: usize = 8;

/// Most segments that are kept of a switch: those of a report, and of the hour before it.
const SEGMENTS_MAX: usize = 1 << 16;

/// Most bytes that are kept of a switch.
pub const BYTES_MAX: usize = 16 << 20;

/// A segment without news for so long is forgotten.
const FORGET_NS: u64 = 3_600_000_000_000;

/// Nanoseconds of a minute.
const MINUTE_NS: u64 = 60_000_000_000;

/// Which parts a head is without.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Parts {
    /// The slot that has them.
    #[prost(uint32, tag = "1")]
    pub slot: u32,
    /// How many they are.
    #[prost(uint32, tag = "2")]
    pub number: u32,
    /// `SipHash-2-4` of all their bytes under the key 0.
    #[prost(fixed64, tag = "3")]
    pub check: u64,
}

/// A switch.
#[derive(Clone, PartialEq, Message)]
pub struct State {
    /// Its name.
    #[prost(string, tag = "1")]
    pub switch: String,
    /// End of the last epoch reported, in nanoseconds since 1970, as it was [`dated`](crate::clock::dated).
    #[prost(uint64, tag = "2")]
    pub end_unix_ns: u64,
    /// Its runs, the present one first.
    #[prost(message, repeated, tag = "3")]
    pub runs: Vec<Run>,
    /// Length of an epoch.
    #[prost(uint64, tag = "4")]
    pub length_ns: u64,
    /// Health, of the last report.
    #[prost(message, optional, tag = "5")]
    pub health: Option<Health>,
    /// Number on wires.
    #[prost(uint32, optional, tag = "6")]
    pub wire_switch: Option<u32>,
    /// Names, to which segments, flows and neighbours refer.
    #[prost(string, repeated, tag = "7")]
    pub names: Vec<String>,
    /// Segments.
    #[prost(message, repeated, tag = "8")]
    pub segments: Vec<Known>,
    /// Top flows of the last report.
    #[prost(message, repeated, tag = "9")]
    pub flows: Vec<Flow>,
    /// Other ends of wires.
    #[prost(message, repeated, tag = "10")]
    pub neighbours: Vec<Neighbour>,
    /// Reports counted.
    #[prost(uint64, tag = "11")]
    pub reports: u64,
    /// Reports that came again.
    #[prost(uint64, tag = "12")]
    pub duplicates: u64,
    /// Epochs that no report covers.
    #[prost(uint64, tag = "13")]
    pub missed_epochs: u64,
    /// Reports that the switch dropped in this run.
    #[prost(uint64, tag = "14")]
    pub dropped_reports: u64,
    /// Times that it began anew.
    #[prost(uint64, tag = "15")]
    pub restarts: u64,
    /// The last gaps.
    #[prost(message, repeated, tag = "16")]
    pub gaps: Vec<Gap>,
    /// When JetStream stored the last report, in nanoseconds since 1970.
    #[prost(uint64, tag = "17")]
    pub received_unix_ns: u64,
    /// The open minute, counted from 1970.
    #[prost(uint64, tag = "18")]
    pub minute: u64,
    /// Of a prober: the node where it stands.
    #[prost(string, optional, tag = "19")]
    pub node: Option<String>,
    /// The last report's sequence in the stream: what is not beyond it has been read.
    #[prost(uint64, tag = "20")]
    pub sequence: u64,
    /// In the value under the key of a large state: the parts that have the rest.
    #[prost(message, optional, tag = "21")]
    pub parts: Option<Parts>,
    /// Segments that were evicted because the switch has too many.
    #[prost(uint64, tag = "22")]
    pub evicted_segments: u64,
    /// Times that something of this switch was set aside, so that the others go on.
    #[prost(uint64, tag = "23")]
    pub set_aside: u64,
    /// What it was the last time, and why.
    #[prost(string, tag = "24")]
    pub set_aside_why: String,
    /// When JetStream stored the first report with the number on wires, in nanoseconds since 1970; 0 of stations that did not
    /// note it.
    #[prost(uint64, tag = "40")]
    pub wire_since_unix_ns: u64,
    /// Since when it has reported without a break, in nanoseconds since 1970, by JetStream's stamps; 0 if an older station wrote the
    /// state.
    #[prost(uint64, tag = "41")]
    pub steady_since_unix_ns: u64,
    /// By how much the last report's own time is later than its date; negative if it is earlier.
    #[prost(sint64, tag = "30")]
    pub clock_off_ns: i64,
}

/// A run of a switch.
#[derive(Clone, PartialEq, Message)]
pub struct Run {
    /// Its random number.
    #[prost(fixed64, tag = "1")]
    pub incarnation: u64,
    /// The last epoch reported.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
}

/// Epochs that no report covers.
#[derive(Clone, PartialEq, Message)]
pub struct Gap {
    /// The first.
    #[prost(uint64, tag = "1")]
    pub first: u64,
    /// The last.
    #[prost(uint64, tag = "2")]
    pub last: u64,
    /// End of the last, in nanoseconds since 1970.
    #[prost(uint64, tag = "3")]
    pub end_unix_ns: u64,
}

/// A segment.
#[derive(Clone, PartialEq, Message)]
pub struct Known {
    /// As it was reported last with delays, or ever.
    #[prost(message, required, tag = "1")]
    pub last: msp::Segment,
    /// End of that epoch.
    #[prost(uint64, tag = "2")]
    pub end_unix_ns: u64,
    /// The open minute; `None` without packets.
    #[prost(message, optional, tag = "3")]
    pub open: Option<Sums>,
    /// What localisation has found of it.
    #[prost(message, optional, tag = "4")]
    pub found: Option<Found>,
}

/// Sums over epochs.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Sums {
    /// Packets that entered.
    #[prost(uint64, tag = "1")]
    pub packets: u64,
    /// Packets lost.
    #[prost(sint64, tag = "2")]
    pub lost: i64,
    /// Packets whose delay is known.
    #[prost(uint64, tag = "3")]
    pub samples: u64,
    /// Sum of their delays.
    #[prost(double, tag = "4")]
    pub sum_ns: f64,
    /// Sum of the squares of delays, of the samples whose deviation is known.
    #[prost(double, tag = "5")]
    pub squares_ns2: f64,
    /// Samples whose deviation is not known.
    #[prost(uint64, tag = "6")]
    pub undeviated: u64,
    /// Sum of bounds, times samples.
    #[prost(double, tag = "7")]
    pub bounds_ns: f64,
    /// Samples whose bound is not known.
    #[prost(uint64, tag = "8")]
    pub unbounded: u64,
    /// Greatest 99th percentile.
    #[prost(float, optional, tag = "9")]
    pub p99_ns: Option<f32>,
    /// Greatest delay.
    #[prost(float, optional, tag = "10")]
    pub max_ns: Option<f32>,
}

/// One minute of a switch.
#[derive(Clone, PartialEq, Message)]
pub struct Minute {
    /// The switch.
    #[prost(string, tag = "1")]
    pub switch: String,
    /// The minute, counted from 1970.
    #[prost(uint64, tag = "2")]
    pub minute: u64,
    /// Names, to which segments refer.
    #[prost(string, repeated, tag = "3")]
    pub names: Vec<String>,
    /// Segments that had packets.
    #[prost(message, repeated, tag = "4")]
    pub segments: Vec<MinuteSegment>,
    /// Which part of a large minute it is, from 0: each part has other segments.
    #[prost(uint32, tag = "5")]
    pub part: u32,
}

/// One minute of a segment.
#[derive(Clone, PartialEq, Message)]
pub struct MinuteSegment {
    /// Its kind.
    #[prost(enumeration = "Kind", tag = "1")]
    pub kind: i32,
    /// Name of where packets enter it.
    #[prost(uint32, tag = "2")]
    pub from: u32,
    /// Name of where they leave it.
    #[prost(uint32, tag = "3")]
    pub to: u32,
    /// Name of the class.
    #[prost(uint32, tag = "4")]
    pub class: u32,
    /// The sums.
    #[prost(message, required, tag = "5")]
    pub sums: Sums,
}

/// What became of a report.
#[derive(Debug, PartialEq)]
pub enum Taken {
    /// It had been counted before.
    Duplicate,
    /// It was counted, and a minute is over, or not.
    Counted(Option<Minute>),
}

impl Sums {
    /// Those of one segment over one epoch.
    pub fn of(segment: &msp::Segment) -> Self {
        let samples = segment.samples;
        let (n, mean) = (samples as f64, f64::from(segment.mean_ns));
        let square = segment
            .stddev_ns
            .map(|stddev| n * (mean.powi(2) + f64::from(stddev).powi(2)));
        let quantiles = segment.quantiles;
        let unless = |is_known| if is_known { 0 } else { samples };
        Self {
            packets: segment.packets,
            lost: segment.lost,
            samples,
            sum_ns: n * mean,
            squares_ns2: square.unwrap_or_default(),
            undeviated: unless(square.is_some()),
            bounds_ns: n * f64::from(segment.bound_ns.unwrap_or_default()),
            unbounded: unless(segment.bound_ns.is_some()),
            p99_ns: quantiles.map(|quantiles| quantiles.p99_ns),
            max_ns: quantiles.map(|quantiles| quantiles.max_ns),
        }
    }

    /// Adds those of other epochs, or other segments.
    pub fn add(&mut self, other: &Self) {
        let greatest = |a: Option<f32>, b: Option<f32>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (one, other) => one.or(other),
        };
        self.packets = self.packets.saturating_add(other.packets);
        self.lost = self.lost.saturating_add(other.lost);
        self.samples = self.samples.saturating_add(other.samples);
        self.sum_ns += other.sum_ns;
        self.squares_ns2 += other.squares_ns2;
        self.undeviated = self.undeviated.saturating_add(other.undeviated);
        self.bounds_ns += other.bounds_ns;
        self.unbounded = self.unbounded.saturating_add(other.unbounded);
        self.p99_ns = greatest(self.p99_ns, other.p99_ns);
        self.max_ns = greatest(self.max_ns, other.max_ns);
    }
}

impl Known {
    /// Adds an epoch.
    fn add(&mut self, segment: msp::Segment, end_unix_ns: u64) {
        let sums = Sums::of(&segment);
        self.open.get_or_insert_default().add(&sums);
        // Delays stay until there are others.
        if segment.samples > 0 || self.last.samples == 0 {
            self.last = segment;
            self.end_unix_ns = end_unix_ns;
        } else if segment.packets > 0 {
            // Where all are lost there are none.
            (self.last.packets, self.last.lost) = (segment.packets, segment.lost);
        }
    }
}

impl State {
    /// Counts a report that JetStream stored at this time, unless it was counted before.
    pub fn take(&mut self, report: &Report, received_unix_ns: u64) -> Taken {
        let end_unix_ns = clock::dated(report, received_unix_ns, self.end_unix_ns);
        if !self.begin(report, end_unix_ns) {
            self.duplicates = self.duplicates.saturating_add(1);
            return Taken::Duplicate;
        }
        let minute = end_unix_ns.saturating_sub(1) / MINUTE_NS;
        // An earlier version opened minutes of the future.
        let is_future = self.minute > received_unix_ns / MINUTE_NS + 1;
        let is_over = minute > self.minute || is_future;
        let closed = is_over.then(|| self.close(minute)).flatten();
        self.reports = self.reports.saturating_add(1);
        // A server's clock that was set back breaks it, too.
        if self.is_silent(received_unix_ns) || received_unix_ns < self.steady_since_unix_ns {
            self.steady_since_unix_ns = received_unix_ns;
        }
        self.received_unix_ns = received_unix_ns;
        self.end_unix_ns = end_unix_ns;
        self.clock_off_ns = clock::off_ns(report, end_unix_ns);
        self.length_ns = report.length_ns;
        self.health.clone_from(&report.health);
        self.claim(report.wire_switch, received_unix_ns);
        self.node.clone_from(&report.node);
        self.dropped_reports = report.dropped_reports;
        let mut names = Names::from(std::mem::take(&mut self.names));
        let index: Vec<u32> = (report.names.iter())
            .map(|name| names.index(name))
            .collect();
        let index = |of: u32| index.get(of as usize).copied().unwrap_or_default();
        self.flows.clone_from(&report.flows);
        self.neighbours.clone_from(&report.neighbours);
        let mut segments = report.segments.clone();
        let new = segments.iter_mut();
        for name in msp::indices(new, &mut self.flows, &mut self.neighbours) {
            *name = index(*name);
        }
        let known = self.segments.iter().enumerate();
        let mut places: HashMap<_, usize> = known
            .map(|(place, known)| (key(&known.last), place))
            .collect();
        for segment in segments {
            let place = *places.entry(key(&segment)).or_insert(self.segments.len());
            if place == self.segments.len() {
                self.segments.push(Known {
                    last: segment.clone(),
                    end_unix_ns,
                    open: None,
                    found: None,
                });
            }
            let known = &mut self.segments[place];
            known.add(segment, end_unix_ns);
        }
        self.names = names.all();
        self.evict();
        Taken::Counted(closed)
    }

    /// Notes the number on wires, and since when the switch has it.
    fn claim(&mut self, number: Option<u32>, received_unix_ns: u64) {
        if self.wire_switch != number {
            self.wire_switch = number;
            self.wire_since_unix_ns = received_unix_ns;
        }
    }

    /// Enters the report's run and epoch, and what is missing before it; false where it was counted before.
    fn begin(&mut self, report: &Report, end_unix_ns: u64) -> bool {
        let is_of = |run: &Run| run.incarnation == report.incarnation;
        let place = self.runs.iter().position(is_of);
        if place.is_some_and(|place| self.runs[place].epoch >= report.epoch) {
            return false;
        }
        let first = report.epoch.saturating_add(1);
        let first = first.saturating_sub(report.epochs);
        let next = match place {
            Some(place) => self.runs.remove(place).epoch.saturating_add(1),
            // What was before the stations were is not missing.
            None if self.runs.is_empty() => first,
            None => {
                self.restarts = self.restarts.saturating_add(1);
                0
            }
        };
        self.switch.clone_from(&report.switch);
        let run = Run {
            incarnation: report.incarnation,
            epoch: report.epoch,
        };
        self.runs.insert(0, run);
        self.runs.truncate(RUNS_MAX);
        if first > next {
            self.missed_epochs = self.missed_epochs.saturating_add(first - next);
            let after = report.epochs.saturating_mul(report.length_ns);
            self.gaps.push(Gap {
                first: next,
                last: first - 1,
                end_unix_ns: end_unix_ns.saturating_sub(after),
            });
            let old = self.gaps.len().saturating_sub(GAPS_MAX);
            self.gaps.drain(..old);
        }
        true
    }

    /// Seconds since an epoch ended ([`State::age_ns`]).
    pub fn age_s(&self, end_unix_ns: u64, now_unix_ns: u64) -> f64 {
        self.age_ns(end_unix_ns, now_unix_ns) as f64 / 1e9
    }

    /// How long ago an epoch ended. Of the switch's clock only a difference is taken, so that it may be wrong.
    pub fn age_ns(&self, end_unix_ns: u64, now_unix_ns: u64) -> u64 {
        let before = self.end_unix_ns.saturating_sub(end_unix_ns);
        now_unix_ns
            .saturating_sub(self.received_unix_ns)
            .saturating_add(before)
    }

    /// Ends the open minute, and forgets what has had no news for an hour.
    fn close(&mut self, next: u64) -> Option<Minute> {
        let segments = self.segments.iter_mut().filter_map(|known| {
            let sums = known.open.take()?;
            let last = &known.last;
            Some(MinuteSegment {
                kind: last.kind,
                from: last.from,
                to: last.to,
                class: last.class,
                sums,
            })
        });
        let closed = Minute {
            switch: self.switch.clone(),
            minute: self.minute,
            segments: segments.collect(),
            names: self.names.clone(),
            part: 0,
        };
        self.minute = next;
        let now = self.end_unix_ns;
        self.segments
            .retain(|known| known.end_unix_ns.saturating_add(FORGET_NS) > now);
        // Those of the next report follow.
        self.flows.clear();
        self.neighbours.clear();
        self.compact();
        (!closed.segments.is_empty()).then_some(closed)
    }

    /// Notes that something of this switch was set aside, so that others go on.
    pub fn set_aside(&mut self, why: &str) {
        self.set_aside = self.set_aside.saturating_add(1);
        why.clone_into(&mut self.set_aside_why);
    }

    /// Exchanges the lists that may be large with those of another state.
    pub fn swap_large(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.names, &mut other.names);
        std::mem::swap(&mut self.segments, &mut other.segments);
        std::mem::swap(&mut self.flows, &mut other.flows);
        std::mem::swap(&mut self.neighbours, &mut other.neighbours);
    }

    /// Evicts the segments that were reported longest ago until the state is within its limits.
    fn evict(&mut self) {
        let before = self.segments.len();
        if self.encoded_len() > BYTES_MAX {
            self.compact();
        }
        while self.segments.len() > SEGMENTS_MAX
            || (self.encoded_len() > BYTES_MAX && !self.segments.is_empty())
        {
            self.segments
                .sort_by_key(|known| Reverse(known.end_unix_ns));
            let kept = SEGMENTS_MAX.min(self.segments.len() / 4 * 3);
            self.segments.truncate(kept);
            self.compact();
        }
        let evicted = (before - self.segments.len()) as u64;
        self.evicted_segments = self.evicted_segments.saturating_add(evicted);
    }

    /// Drops names that nothing refers to.
    fn compact(&mut self) {
        let old = std::mem::take(&mut self.names);
        let mut names = Names::default();
        let segments = self.segments.iter_mut().map(|known| &mut known.last);
        for index in msp::indices(segments, &mut self.flows, &mut self.neighbours) {
            renumber(index, &old, &mut names);
        }
        self.names = names.all();
    }

    /// Whether three reports should have come, and two more seconds have passed.
    pub fn is_silent(&self, now_unix_ns: u64) -> bool {
        now_unix_ns.saturating_sub(self.received_unix_ns) > self.patience_ns()
    }

    /// How long it may send no report before it is silent.
    pub fn patience_ns(&self) -> u64 {
        3 * self.length_ns.min(3_600_000_000_000) + 2_000_000_000
    }

    /// The name at an index; empty where there is none.
    pub fn name(&self, index: u32) -> &str {
        name(&self.names, index)
    }
}

fn key(segment: &msp::Segment) -> (i32, u32, u32, u32) {
    (segment.kind, segment.from, segment.to, segment.class)
}

impl Minute {
    /// Splits it into parts of at most `bytes_max` bytes each.
    pub fn split(self, bytes_max: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut rest = vec![self];
        while let Some(mut part) = rest.pop() {
            if part.encoded_len() <= bytes_max || part.segments.len() < 2 {
                part.part = u32::try_from(parts.len()).unwrap_or(u32::MAX);
                parts.push(part);
                continue;
            }
            let mut behind = part.clone();
            behind.segments = part.segments.split_off(part.segments.len() / 2);
            rest.extend([behind, part].map(Self::compacted));
        }
        parts
    }

    /// With the names that its segments refer to.
    fn compacted(mut self) -> Self {
        let mut names = Names::default();
        for segment in &mut self.segments {
            for index in [&mut segment.from, &mut segment.to, &mut segment.class] {
                renumber(index, &self.names, &mut names);
            }
        }
        self.names = names.all();
        self
    }
}

/// Makes an index into `old` an index into `new`, which gets the name.
fn renumber(index: &mut u32, old: &[String], new: &mut Names) {
    *index = new.index(name(old, *index));
}

#[cfg(test)]
mod tests;
