//! Simulations by seed: what is found, when, and that nothing is found where nothing happened.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lints take for ordinary functions"
)]

mod figures;
mod noise;
mod paths;
mod properties;

use locate::{EventKind, Hop, Locator, Member, Report, Signal};
use noise::{Noise, Source};

/// Segments that a locator of these tests is for.
const SEGMENTS: usize = 1_000;

/// A locator that has learnt one segment, `s`.
fn learnt(noise: Noise, seed: u64, intervals: usize) -> (Locator, Source) {
    let mut locator = Locator::new(SEGMENTS);
    let mut source = Source::new(noise, seed);
    for _ in 0..intervals {
        locator.report("s", &source.next(0.0, 0.0));
    }
    (locator, source)
}

/// A part of a path that one segment measures, with what is known of it at a time.
fn measured(locator: &Locator, segment: &str, now_ms: u64) -> Hop {
    Hop::Measured {
        name: segment.to_owned(),
        members: vec![Member {
            segment: segment.to_owned(),
            weight: 1.0,
            finding: locator.finding(segment, now_ms),
        }],
    }
}

/// Whether a signal of the segment rose at this report; from when.
fn rose(locator: &mut Locator, signal: Signal, report: &Report) -> Option<u64> {
    let events = locator.report("s", report);
    let rose = events
        .iter()
        .find(|event| event.kind == EventKind::Rose && event.signal == signal);
    rose.map(|event| event.time_ms)
}
