//! What has been learnt, as bytes: so that a program that ends does not begin anew.

use std::collections::BTreeMap;

use crate::locator::Locator;
use crate::segment::Segment;

/// Rises with every change of what a segment keeps: what an earlier version wrote is then not read.
const VERSION: u16 = 1;

/// Why bytes are not what a locator has learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryError {
    /// Another version of this library wrote them.
    Version,
    /// They are cut or were changed, have figures that are not numbers, or more segments than the locator is for.
    Malformed,
}

impl std::fmt::Display for MemoryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Version => "another version wrote what was learnt: it is learnt anew",
            Self::Malformed => "what was learnt is cut or was changed: it is learnt anew",
        })
    }
}

impl std::error::Error for MemoryError {}

impl Locator {
    /// All that it has learnt: 3 to 10 KiB a segment.
    pub fn to_bytes(&self) -> Vec<u8> {
        let written = postcard::to_allocvec(&(VERSION, &self.segments));
        // It fails only where a sequence has no length, which these have.
        debug_assert!(written.is_ok());
        written.unwrap_or_default()
    }

    /// A locator for so many segments at most that knows what another knew.
    ///
    /// # Errors
    /// [`MemoryError`], where nothing can be taken from the bytes.
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
            let finding = segment.finding(segment.last_ms().unwrap_or(0));
            let rises = [finding.delay, finding.loss].map(|rise| rise.map(|rise| rise.by));
            let means =
                [finding.present_ns, finding.present_loss].map(|mean| mean.map(|mean| mean.value));
            let usual = [finding.usual_ns, Some(finding.usual_loss)];
            let figures = [rises, means, usual].into_iter().flatten().flatten();
            !figures.into_iter().any(f64::is_nan)
        };
        if !segments.values().all(is_number) {
            return Err(MemoryError::Malformed);
        }
        locator.segments = segments;
        Ok(locator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    /// A second of a quiet segment; from `fault` on ten times the delay.
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
            assert_eq!(first.report("s", &report), second.report("s", &report));
            let finding = first.finding("s", report.time_ms);
            assert_eq!(finding, second.finding("s", report.time_ms));
            let is_risen = finding.unwrap().delay.is_some();
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
