//! The state of a switch, folded report by report: the value under its key, and the minutes that it closes.
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

/// Number of a switch's runs whose last epochs are kept, to recognise a report that arrives again.
const RUNS_MAX: usize = 8;

/// Number of gaps that are kept.
pub const GAPS_MAX: usize = 8;

/// Largest number of segments that are kept of a switch: those of a report, and of the hour before it.
const SEGMENTS_MAX: usize = 1 << 16;

/// Largest size of a state in bytes.
pub const BYTES_MAX: usize = 16 << 20;

/// Time after which a segment without news is forgotten.
const FORGET_NS: u64 = 3_600_000_000_000;

/// Nanoseconds in a minute.
const MINUTE_NS: u64 = 60_000_000_000;

/// The parts that a head lacks.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Parts {
    /// Slot of the parts.
    #[prost(uint32, tag = "1")]
    pub slot: u32,
    /// Number of parts.
    #[prost(uint32, tag = "2")]
    pub number: u32,
    /// `SipHash-2-4` of all bytes of the parts, with key 0.
    #[prost(fixed64, tag = "3")]
    pub check: u64,
}

/// The state of a switch.
#[derive(Clone, PartialEq, Message)]
pub struct State {
    /// Name of the switch.
    #[prost(string, tag = "1")]
    pub switch: String,
    /// End of the last reported epoch, in nanoseconds since 1970; see [`dated`](crate::clock::dated).
    #[prost(uint64, tag = "2")]
    pub end_unix_ns: u64,
    /// Runs of the switch, the present one first.
    #[prost(message, repeated, tag = "3")]
    pub runs: Vec<Run>,
    /// Length of an epoch, in nanoseconds.
    #[prost(uint64, tag = "4")]
    pub length_ns: u64,
    /// Health in the last report.
    #[prost(message, optional, tag = "5")]
    pub health: Option<Health>,
    /// Number on wires.
    #[prost(uint32, optional, tag = "6")]
    pub wire_switch: Option<u32>,
    /// Names to which segments, flows and neighbours refer.
    #[prost(string, repeated, tag = "7")]
    pub names: Vec<String>,
    /// Segments.
    #[prost(message, repeated, tag = "8")]
    pub segments: Vec<Known>,
    /// Top flows of the last report.
    #[prost(message, repeated, tag = "9")]
    pub flows: Vec<Flow>,
    /// Neighbours at the other ends of wires.
    #[prost(message, repeated, tag = "10")]
    pub neighbours: Vec<Neighbour>,
    /// Reports counted.
    #[prost(uint64, tag = "11")]
    pub reports: u64,
    /// Duplicate reports.
    #[prost(uint64, tag = "12")]
    pub duplicates: u64,
    /// Epochs that no report covers.
    #[prost(uint64, tag = "13")]
    pub missed_epochs: u64,
    /// Reports that the switch dropped in this run.
    #[prost(uint64, tag = "14")]
    pub dropped_reports: u64,
    /// Number of restarts.
    #[prost(uint64, tag = "15")]
    pub restarts: u64,
    /// The most recent gaps.
    #[prost(message, repeated, tag = "16")]
    pub gaps: Vec<Gap>,
    /// When JetStream stored the last report, in nanoseconds since 1970.
    #[prost(uint64, tag = "17")]
    pub received_unix_ns: u64,
    /// Number of the open minute, counted from 1970.
    #[prost(uint64, tag = "18")]
    pub minute: u64,
    /// Node of a prober.
    #[prost(string, optional, tag = "19")]
    pub node: Option<String>,
    /// Sequence in the stream of the last report that was read.
    #[prost(uint64, tag = "20")]
    pub sequence: u64,
    /// Parts with the rest of a large state, in the value under its key.
    #[prost(message, optional, tag = "21")]
    pub parts: Option<Parts>,
    /// Segments evicted because the switch has too many.
    #[prost(uint64, tag = "22")]
    pub evicted_segments: u64,
    /// Number of faults of this switch that were set aside.
    #[prost(uint64, tag = "23")]
    pub set_aside: u64,
    /// The last of these faults.
    #[prost(string, tag = "24")]
    pub set_aside_why: String,
    /// When JetStream stored the first report with the number on wires, in nanoseconds since 1970; 0 if an older
    /// station wrote the state.
    #[prost(uint64, tag = "40")]
    pub wire_since_unix_ns: u64,
    /// Since when the switch has reported without a break, in nanoseconds since 1970, by JetStream's timestamps; 0 if
    /// an older station wrote the state.
    #[prost(uint64, tag = "41")]
    pub steady_since_unix_ns: u64,
    /// How much later than its date the last report's own time is; negative if it is earlier.
    #[prost(sint64, tag = "30")]
    pub clock_off_ns: i64,
}

/// A run of a switch.
#[derive(Clone, PartialEq, Message)]
pub struct Run {
    /// Random number of the run.
    #[prost(fixed64, tag = "1")]
    pub incarnation: u64,
    /// Last reported epoch.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
}

/// Epochs that no report covers.
#[derive(Clone, PartialEq, Message)]
pub struct Gap {
    /// First missing epoch.
    #[prost(uint64, tag = "1")]
    pub first: u64,
    /// Last missing epoch.
    #[prost(uint64, tag = "2")]
    pub last: u64,
    /// End of the last missing epoch, in nanoseconds since 1970.
    #[prost(uint64, tag = "3")]
    pub end_unix_ns: u64,
}

/// A segment.
#[derive(Clone, PartialEq, Message)]
pub struct Known {
    /// The last report of the segment with delays, or its last report if none had any.
    #[prost(message, required, tag = "1")]
    pub last: msp::Segment,
    /// End of the epoch of that report, in nanoseconds since 1970.
    #[prost(uint64, tag = "2")]
    pub end_unix_ns: u64,
    /// Sums of the open minute; `None` without packets.
    #[prost(message, optional, tag = "3")]
    pub open: Option<Sums>,
    /// Findings of localisation.
    #[prost(message, optional, tag = "4")]
    pub found: Option<Found>,
}

/// Sums over epochs.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Sums {
    /// Packets that entered the segment.
    #[prost(uint64, tag = "1")]
    pub packets: u64,
    /// Packets lost.
    #[prost(sint64, tag = "2")]
    pub lost: i64,
    /// Packets whose delay is known.
    #[prost(uint64, tag = "3")]
    pub samples: u64,
    /// Sum of the known delays.
    #[prost(double, tag = "4")]
    pub sum_ns: f64,
    /// Sum of the squares of delays, over samples with a known deviation.
    #[prost(double, tag = "5")]
    pub squares_ns2: f64,
    /// Samples without a known deviation.
    #[prost(uint64, tag = "6")]
    pub undeviated: u64,
    /// Sum of the bounds, each times its samples.
    #[prost(double, tag = "7")]
    pub bounds_ns: f64,
    /// Samples without a known bound.
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
    /// Name of the switch.
    #[prost(string, tag = "1")]
    pub switch: String,
    /// Number of the minute, counted from 1970.
    #[prost(uint64, tag = "2")]
    pub minute: u64,
    /// Names to which segments refer.
    #[prost(string, repeated, tag = "3")]
    pub names: Vec<String>,
    /// Segments that had packets.
    #[prost(message, repeated, tag = "4")]
    pub segments: Vec<MinuteSegment>,
    /// Index of this part of a large minute, from 0. Each part has different segments.
    #[prost(uint32, tag = "5")]
    pub part: u32,
}

/// One minute of a segment.
#[derive(Clone, PartialEq, Message)]
pub struct MinuteSegment {
    /// Kind of the segment.
    #[prost(enumeration = "Kind", tag = "1")]
    pub kind: i32,
    /// Index of the name where packets enter.
    #[prost(uint32, tag = "2")]
    pub from: u32,
    /// Index of the name where packets leave.
    #[prost(uint32, tag = "3")]
    pub to: u32,
    /// Index of the class's name.
    #[prost(uint32, tag = "4")]
    pub class: u32,
    /// Sums over the minute.
    #[prost(message, required, tag = "5")]
    pub sums: Sums,
}

/// The result of taking a report.
#[derive(Debug, PartialEq)]
pub enum Taken {
    /// The report had already been counted.
    Duplicate,
    /// The report was counted. Contains the minute that it closed, if any.
    Counted(Option<Minute>),
}

impl Sums {
    /// Returns the sums of one segment over one epoch.
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

    /// Adds the sums of other epochs, or of other segments.
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
        // Delays are kept until newer ones arrive.
        if segment.samples > 0 || self.last.samples == 0 {
            self.last = segment;
            self.end_unix_ns = end_unix_ns;
        } else if segment.packets > 0 {
            // An epoch in which all packets are lost has no delays.
            (self.last.packets, self.last.lost) = (segment.packets, segment.lost);
        }
    }
}

impl State {
    /// Counts a report that JetStream stored at this time, unless it has already been counted.
    pub fn take(&mut self, report: &Report, received_unix_ns: u64) -> Taken {
        let end_unix_ns = clock::dated(report, received_unix_ns, self.end_unix_ns);
        if !self.begin(report, end_unix_ns) {
            self.duplicates = self.duplicates.saturating_add(1);
            return Taken::Duplicate;
        }
        let minute = end_unix_ns.saturating_sub(1) / MINUTE_NS;
        // An earlier version opened minutes in the future.
        let is_future = self.minute > received_unix_ns / MINUTE_NS + 1;
        let is_over = minute > self.minute || is_future;
        let closed = is_over.then(|| self.close(minute)).flatten();
        self.reports = self.reports.saturating_add(1);
        // A step back of the server's clock also counts as a break.
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

    /// Notes the number on wires, and since when the switch has had it.
    fn claim(&mut self, number: Option<u32>, received_unix_ns: u64) {
        if self.wire_switch != number {
            self.wire_switch = number;
            self.wire_since_unix_ns = received_unix_ns;
        }
    }

    /// Enters the report's run and epoch, and the gap before it. Returns `false` if the report has already been
    /// counted.
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
            // Epochs before the first report are not missing.
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

    /// Returns the seconds since an epoch ended; see [`State::age_ns`].
    pub fn age_s(&self, end_unix_ns: u64, now_unix_ns: u64) -> f64 {
        self.age_ns(end_unix_ns, now_unix_ns) as f64 / 1e9
    }

    /// Returns the nanoseconds since an epoch ended. Uses only a difference of the switch's clock, so that the clock
    /// may be wrong.
    pub fn age_ns(&self, end_unix_ns: u64, now_unix_ns: u64) -> u64 {
        let before = self.end_unix_ns.saturating_sub(end_unix_ns);
        now_unix_ns
            .saturating_sub(self.received_unix_ns)
            .saturating_add(before)
    }

    /// Closes the open minute, and drops segments without news for an hour.
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
        // The next report brings new flows and neighbours.
        self.flows.clear();
        self.neighbours.clear();
        self.compact();
        (!closed.segments.is_empty()).then_some(closed)
    }

    /// Notes that a fault of this switch was set aside, so that other switches are not affected.
    pub fn set_aside(&mut self, why: &str) {
        self.set_aside = self.set_aside.saturating_add(1);
        why.clone_into(&mut self.set_aside_why);
    }

    /// Swaps the lists that may be large with those of another state.
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

    /// Returns whether the switch is silent: three reports and another two seconds are overdue.
    pub fn is_silent(&self, now_unix_ns: u64) -> bool {
        now_unix_ns.saturating_sub(self.received_unix_ns) > self.patience_ns()
    }

    /// Returns how long the switch may send no report before it is silent, in nanoseconds.
    pub fn patience_ns(&self) -> u64 {
        3 * self.length_ns.min(3_600_000_000_000) + 2_000_000_000
    }

    /// Returns the name at an index; empty if there is none.
    pub fn name(&self, index: u32) -> &str {
        name(&self.names, index)
    }
}

fn key(segment: &msp::Segment) -> (i32, u32, u32, u32) {
    (segment.kind, segment.from, segment.to, segment.class)
}

impl Minute {
    /// Splits the minute into parts of at most `bytes_max` bytes each.
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

    /// Keeps only the names to which the segments refer.
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

/// Changes an index into `old` to an index into `new`, adding the name.
fn renumber(index: &mut u32, old: &[String], new: &mut Names) {
    *index = new.index(name(old, *index));
}

#[cfg(test)]
mod tests;
