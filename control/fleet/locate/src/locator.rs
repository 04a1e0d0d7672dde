//! The histories of all segments.

use std::collections::BTreeMap;

use crate::history::WINDOWS;
use crate::report::{Finding, Report};
use crate::segment::{Segment, clock_step};

/// Largest number of segments of a path.
pub const PART_MAX: usize = 4_096;
/// Intervals in a month with a report each second. Over all segments, less than one false alarm is expected in this
/// time.
const MONTH_INTERVALS: f64 = 2_629_800.0;
/// Longest accepted delay: eleven days.
const DELAY_MAX_NS: f64 = 1e15;
/// Number of signals: delay and loss.
const SIGNALS: f64 = 2.0;
/// Number of reports during which a rise can still turn out to be a clock step, because the other direction may be
/// reported later.
const STEP_WITHIN: u32 = 16;

/// Version of the stored histories. Increment it with every change of their format: other versions are not read.
const VERSION: u16 = 1;

/// Why stored histories cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Another version of this library wrote them.
    #[error("the stored history is of another version; learning anew")]
    Version,
    /// They are truncated or corrupted, contain figures that are not numbers, or have more segments than the locator
    /// accepts.
    #[error("the stored history is truncated or corrupted; learning anew")]
    Malformed,
}

/// The histories of all segments.
#[derive(Debug)]
pub struct Locator {
    segments: BTreeMap<String, Segment>,
    segments_max: usize,
    nats: f64,
}

impl Locator {
    /// Creates a locator for at most `segments_max` segments. The number bounds memory (about 16 KiB a segment), and
    /// false alarms to less than one a month over all segments.
    pub fn new(segments_max: usize) -> Self {
        let segments_max = segments_max.max(1);
        let alarms = MONTH_INTERVALS * SIGNALS * WINDOWS.len() as f64 * segments_max as f64;
        Self {
            segments: BTreeMap::new(),
            segments_max,
            nats: alarms.ln(),
        }
    }

    /// Adds a report. Ignores reports that are not newer than the segment's last, that exceed the number of segments,
    /// or whose delays are not numbers or are beyond eleven days.
    pub fn report(&mut self, segment: &str, report: &Report) {
        let known = self.segments.get(segment);
        let is_new = known.is_none_or(|known| known.last_ms() < Some(report.time_ms));
        let has_room = known.is_some() || self.segments.len() < self.segments_max;
        if !is_new || !has_room || !is_sound(report) {
            return;
        }
        let known = self.segments.entry(segment.to_owned()).or_default();
        known.add(report, self.nats);
        let reverse = known.reverse.clone();
        self.look_for_step(segment);
        if let Some(reverse) = reverse {
            self.look_for_step(&reverse);
        }
    }

    /// Declares two segments to be the directions of one link between two clocks, so that clock steps are distinguished
    /// from changes of the network. Does nothing unless both have been reported.
    pub fn pair(&mut self, one: &str, other: &str) {
        for (of, reverse) in [(one, other), (other, one)] {
            if self.segments.contains_key(reverse)
                && let Some(segment) = self.segments.get_mut(of)
            {
                segment.reverse = Some(reverse.to_owned());
            }
        }
    }

    /// Returns whether a segment has been reported.
    pub fn has(&self, segment: &str) -> bool {
        self.segments.contains_key(segment)
    }

    /// Returns the names of the segments that have been reported.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.keys().map(String::as_str)
    }

    /// Returns the end of the newest interval of all segments, in milliseconds since 1970 (UTC); 0 without segments.
    pub fn last_ms(&self) -> u64 {
        let segments = self.segments.values();
        segments.filter_map(Segment::last_ms).max().unwrap_or(0)
    }

    /// Returns the number of segments that have been reported.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Returns whether no segment has been reported.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns the findings about a segment at a time; `None` if it has never been reported.
    pub fn finding(&self, segment: &str, now_ms: u64) -> Option<Finding> {
        self.segments
            .get(segment)
            .map(|segment| segment.finding(now_ms))
    }

    /// Drops the segments for which the closure returns `false`.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&str) -> bool) {
        self.segments.retain(|name, _| is_kept(name));
    }

    /// Serializes all histories: 3 to 10 KiB a segment.
    pub fn to_bytes(&self) -> Vec<u8> {
        let written = postcard::to_allocvec(&(VERSION, &self.segments));
        // Fails only for a sequence without a length; all of these have one.
        debug_assert!(written.is_ok());
        written.unwrap_or_default()
    }

    /// Restores a locator for at most `segments_max` segments.
    ///
    /// # Errors
    /// [`MemoryError`] if the bytes cannot be read.
    pub fn from_bytes(segments_max: usize, bytes: &[u8]) -> Result<Self, MemoryError> {
        let (version, rest) =
            postcard::take_from_bytes::<u16>(bytes).map_err(|_| MemoryError::Malformed)?;
        if version != VERSION {
            return Err(MemoryError::Version);
        }
        let segments: BTreeMap<String, Segment> =
            postcard::from_bytes(rest).map_err(|_| MemoryError::Malformed)?;
        let mut locator = Self::new(segments_max);
        if segments.len() > locator.segments_max {
            return Err(MemoryError::Malformed);
        }
        let is_number = |segment: &Segment| {
            let found = segment.finding(segment.last_ms().unwrap_or(0)).found;
            let rises = [found.delay, found.loss].map(|rise| rise.map(|rise| rise.by));
            let means = [found.present_ns, found.present_loss];
            let usual = [found.usual_ns, Some(found.usual_loss)];
            let figures = [rises, means, usual].into_iter().flatten().flatten();
            !figures.into_iter().any(f32::is_nan)
        };
        if !segments.values().all(is_number) {
            return Err(MemoryError::Malformed);
        }
        locator.segments = segments;
        Ok(locator)
    }

    fn look_for_step(&mut self, name: &str) {
        let step = self.segments.get(name).and_then(|segment| {
            let raised = segment.delay.raised()?;
            let back = segment.reverse.clone()?;
            let reverse = self.segments.get(&back)?;
            let is_new = raised.intervals < STEP_WITHIN;
            let shifts = is_new.then(|| clock_step(segment, reverse, raised.since_ms))??;
            Some((raised.since_ms, back, shifts))
        });
        if let Some((since_ms, back, (there, shift_back))) = step {
            for (name, shift) in [(name, there), (&back, shift_back)] {
                if let Some(segment) = self.segments.get_mut(name) {
                    segment.take_step(since_ms, shift);
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of a quiet segment, with ten times the delay from `fault` on.
    fn report(second: u64, fault: u64) -> Report {
        let noise = (second * 7_919 % 101) as f64;
        Report {
            time_ms: 1_700_000_000_000 + second * 1_000,
            interval_ms: 1_000,
            packets: 100,
            mean_ns: (10_000.0 + noise) * if second < fault { 1.0 } else { 10.0 },
            bound_ns: Some(20.0),
            deviation_ns: None,
            p99_ns: None,
            sent: Some(100),
            lost: u64::from(second.is_multiple_of(50)),
            clock_unsynchronised: false,
            is_through_device: false,
        }
    }

    #[test]
    fn what_was_learnt_goes_on_where_it_was() {
        let mut first = Locator::new(10);
        for second in 0..700 {
            first.report("s", &report(second, 698));
        }
        let bytes = first.to_bytes();
        assert!(bytes.len() < 12_000, "{}", bytes.len());
        let mut second = Locator::from_bytes(10, &bytes).unwrap();
        for at in 700..900 {
            let report = report(at, if at < 760 { 698 } else { 2_000 });
            first.report("s", &report);
            second.report("s", &report);
            let finding = first.finding("s", report.time_ms);
            assert_eq!(finding, second.finding("s", report.time_ms));
            let is_risen = finding.unwrap().found.delay.is_some();
            assert_eq!(is_risen, at < 762, "{at}: {finding:?}");
        }
    }

    #[test]
    fn what_is_no_memory_is_refused() {
        let mut locator = Locator::new(10);
        for second in 0..30 {
            locator.report("s", &report(second, 100));
            locator.report("t", &report(second, 100));
        }
        let bytes = locator.to_bytes();
        assert_eq!(Locator::from_bytes(10, &bytes).unwrap().len(), 2);
        let error = |max, bytes: &[u8]| Locator::from_bytes(max, bytes).unwrap_err();
        assert_eq!(error(1, &bytes), MemoryError::Malformed);
        for length in 0..bytes.len() {
            assert_eq!(error(10, &bytes[..length]), MemoryError::Malformed);
        }
        let mut later = bytes.clone();
        later[0] += 1;
        assert_eq!(error(10, &later), MemoryError::Version);
    }
}
