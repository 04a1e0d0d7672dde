//! Histories of localisation, read from bytes of the key-value store.
//!
//! Oracle: bytes are refused, or make a locator with no more segments than its limit. A locator that is read from its
//! own bytes writes the same bytes again. It accepts any further reports, and its memory stays within the limit of its
//! segments.

use locate::{Locator, Report};

/// Segments of a locator.
const SEGMENTS_MAX: usize = 8;

/// Upper limit of a segment's memory, whatever it has learnt.
const SEGMENT_BYTES_MAX: usize = 64 << 10;

/// The bytes are a stored history.
pub fn locator(bytes: &[u8]) {
    let Ok(mut locator) = Locator::from_bytes(SEGMENTS_MAX, bytes) else {
        return;
    };
    assert!(locator.len() <= SEGMENTS_MAX);
    let written = locator.to_bytes();
    let again = Locator::from_bytes(SEGMENTS_MAX, &written).unwrap();
    assert_eq!(again.to_bytes(), written);
    let names: Vec<String> = locator.names().map(str::to_owned).collect();
    let begin_ms = locator.last_ms();
    for n in 0..20 {
        for name in names.iter().map(String::as_str).chain(["new"]) {
            locator.report(name, &reported(begin_ms, n));
        }
        if let Some(name) = names.first() {
            locator.pair(name, "new");
        }
    }
    for name in locator.names() {
        let now_ms = begin_ms.saturating_add(20_000);
        if let Some(finding) = locator.finding(name, now_ms) {
            let _ = finding.faults(name, now_ms);
        }
    }
    assert!(locator.len() <= SEGMENTS_MAX);
    let bytes_max = bytes.len() + SEGMENTS_MAX * SEGMENT_BYTES_MAX;
    assert!(locator.to_bytes().len() <= bytes_max);
}

/// A report each second: quiet, without packets, with all packets lost, from the past, or with huge values.
fn reported(begin_ms: u64, n: u32) -> Report {
    let second = if n % 7 == 6 { 0 } else { u64::from(n) };
    let packets = if n % 5 == 4 { 0 } else { 100 };
    Report {
        time_ms: begin_ms.saturating_add(second * 1_000),
        interval_ms: if n == 13 { u32::MAX } else { 1_000 },
        packets,
        mean_ns: if n % 11 == 10 {
            1e15
        } else {
            1_000.0 + f64::from(n)
        },
        bound_ns: (!n.is_multiple_of(3)).then_some(20.0),
        deviation_ns: (!n.is_multiple_of(4)).then_some(3.0),
        p99_ns: (n % 4 > 1).then_some(2_000.0),
        sent: (!n.is_multiple_of(6)).then_some(packets),
        lost: if n % 8 == 7 { u64::MAX } else { 0 },
        clock_unsynchronised: n == 17,
        is_through_device: n.is_multiple_of(2),
    }
}

/// Histories of a quiet and a risen segment, with few and with more reports.
pub(crate) fn examples() -> Vec<Vec<u8>> {
    let example = |seconds: u64| {
        let mut locator = Locator::new(SEGMENTS_MAX);
        for second in 0..seconds {
            for (name, risen_ns) in [("inside lan>wan all", 0.0), ("wire wan:x>wan all", 1e5)] {
                let added_ns = if second + 3 < seconds { 0.0 } else { risen_ns };
                let mut report = reported(1_700_000_000_000, 1);
                report.time_ms += second * 1_000;
                report.mean_ns += added_ns + (second * 7_919 % 101) as f64;
                locator.report(name, &report);
            }
            locator.pair("inside lan>wan all", "wire wan:x>wan all");
        }
        locator.to_bytes()
    };
    [0, 1, 5, 30, 300].map(example).to_vec()
}
