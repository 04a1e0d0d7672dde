//! All segments.

use std::collections::BTreeMap;

use crate::clocks;
use crate::finding::Finding;
use crate::report::{Event, Fault, Report};
use crate::segment::Segment;
use crate::tail::WINDOWS;

/// Most segments of a path.
pub const PART_MAX: usize = 4_096;
/// Intervals of a month of reports of a second: over all segments less than one false alarm in so many.
const MONTH_INTERVALS: f64 = 2_629_800.0;
/// No delay is longer: eleven days.
const DELAY_MAX_NS: f64 = 1e15;
/// Delay and loss.
const SIGNALS: f64 = 2.0;
/// Reports during which a rise can still be found to be a step of a clock: the other direction may be reported later.
const STEP_WITHIN: u32 = 16;

/// The histories of all segments.
#[derive(Debug)]
pub struct Locator {
    pub(crate) segments: BTreeMap<String, Segment>,
    pub(crate) segments_max: usize,
    nats: f64,
}

impl Locator {
    /// For so many segments at most. It bounds memory (some 16 KiB a segment), and false alarms: less than one a month over
    /// all of them.
    pub fn new(segments_max: usize) -> Self {
        let segments_max = segments_max.max(1);
        let alarms = MONTH_INTERVALS * SIGNALS * WINDOWS.len() as f64 * segments_max as f64;
        Self {
            segments: BTreeMap::new(),
            segments_max,
            nats: alarms.ln(),
        }
    }

    /// Takes a report up; what it shows. Reports of a segment come in order of time: those that are not newer than the last,
    /// or of one segment too many, or with delays that are no numbers or beyond eleven days, are ignored.
    pub fn report(&mut self, segment: &str, report: &Report) -> Vec<Event> {
        let known = self.segments.get(segment);
        let is_new = known.is_none_or(|known| known.last_ms() < Some(report.time_ms));
        let has_room = known.is_some() || self.segments.len() < self.segments_max;
        if !is_new || !has_room || !is_sound(report) {
            return Vec::new();
        }
        let known = self.segments.entry(segment.to_owned()).or_default();
        let events = known.add(report, self.nats);
        let reverse = known.reverse.clone();
        self.look_for_step(segment);
        if let Some(reverse) = reverse {
            self.look_for_step(&reverse);
        }
        events
    }

    /// Two segments are the directions of one link between two clocks, so that steps of a clock are distinguished from the network.
    /// Both must have been reported, or nothing happens.
    pub fn pair(&mut self, one: &str, other: &str) {
        for (of, reverse) in [(one, other), (other, one)] {
            if self.segments.contains_key(reverse)
                && let Some(segment) = self.segments.get_mut(of)
            {
                segment.reverse = Some(reverse.to_owned());
            }
        }
    }

    /// Whether a segment has been reported.
    pub fn has(&self, segment: &str) -> bool {
        self.segments.contains_key(segment)
    }

    /// Names of the segments that have been reported.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.keys().map(String::as_str)
    }

    /// End of the newest interval of all segments, in milliseconds since 1970 (UTC); 0 without any.
    pub fn last_ms(&self) -> u64 {
        let segments = self.segments.values();
        segments.filter_map(Segment::last_ms).max().unwrap_or(0)
    }

    /// How many segments have been reported.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether none has been reported.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// What is known of a segment, at a time; `None` if it has never been reported.
    pub fn finding(&self, segment: &str, now_ms: u64) -> Option<Finding> {
        self.segments
            .get(segment)
            .map(|segment| segment.finding(now_ms))
    }

    /// Forgets the segments that the closure is false for.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&str) -> bool) {
        self.segments.retain(|name, _| is_kept(name));
    }

    /// Forgets a segment.
    pub fn forget(&mut self, segment: &str) {
        self.segments.remove(segment);
    }

    /// What is wrong with measuring, over all segments.
    pub fn faults(&self, now_ms: u64) -> Vec<Fault> {
        let segments = self.segments.iter();
        segments
            .flat_map(|(name, segment)| segment.finding(now_ms).faults(name, now_ms))
            .collect()
    }

    /// Names of the segments whose delay or loss is raised now.
    pub fn raised(&self) -> impl Iterator<Item = &str> {
        let raised = self.segments.iter().filter(|(_, segment)| {
            segment.delay.raised().is_some() || segment.loss.raised().is_some()
        });
        raised.map(|(name, _)| name.as_str())
    }

    /// Whether there is history enough to find a rise of a segment's delay.
    pub fn is_ready(&self, segment: &str) -> bool {
        let segment = self.segments.get(segment);
        segment.is_some_and(|segment| segment.delay.is_ready())
    }

    fn look_for_step(&mut self, name: &str) {
        let Some(segment) = self.segments.get(name) else {
            return;
        };
        let Some(raised) = segment.delay.raised() else {
            return;
        };
        let since_ms = raised.since_ms;
        let reverse = segment
            .reverse
            .clone()
            .filter(|_| raised.intervals < STEP_WITHIN);
        let Some((reverse, back)) =
            reverse.and_then(|name| Some((self.segments.get(&name)?, name)))
        else {
            return;
        };
        let Some((there, shift_back)) = clocks::step(segment, reverse, since_ms) else {
            return;
        };
        for (name, shift) in [(name, there), (&back, shift_back)] {
            if let Some(segment) = self.segments.get_mut(name) {
                segment.take_step(since_ms, shift);
            }
        }
    }
}

fn is_sound(report: &Report) -> bool {
    let figures = [
        Some(report.mean_ns),
        report.bound_ns,
        report.deviation_ns,
        report.p99_ns,
    ];
    let is_delay = |figure: f64| figure.abs() <= DELAY_MAX_NS;
    figures.into_iter().flatten().all(is_delay) && report.interval_ms > 0
}
