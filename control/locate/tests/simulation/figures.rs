//! False alarms and times of detection. `VERNIER_LOCATE_INTERVALS=1000000` and `--no-capture` print the figures of docs/localisation.md.

use locate::{EventKind, Locator, Signal};

use super::noise::{BURSTY, Noise, QUIET, SPARSE, Source, USUAL};
use super::{SEGMENTS, learnt, rose};

const NOISES: [(&str, Noise); 4] = [
    ("quiet", QUIET),
    ("usual", USUAL),
    ("bursty", BURSTY),
    ("sparse", SPARSE),
];
const HISTORIES: u64 = 10;

/// False alarms of delay and loss over histories of so many intervals in all.
fn false_alarms(noise: Noise, intervals: u64) -> [u32; 2] {
    let mut alarms = [0; 2];
    for seed in 0..HISTORIES {
        let mut locator = Locator::new(SEGMENTS);
        let mut source = Source::new(noise, seed);
        for _ in 0..intervals / HISTORIES {
            let events = locator.report("s", &source.next(0.0, 0.0));
            for event in events.iter().filter(|event| event.kind == EventKind::Rose) {
                alarms[usize::from(event.signal == Signal::Loss)] += 1;
            }
        }
    }
    alarms
}

/// Reports until a fault is found, the median and the worst of thirty; `None` if it is not within 300.
fn until_found(noise: Noise, history: usize, added_ns: f64, lost: f64) -> [Option<usize>; 2] {
    let signal = if lost > 0.0 {
        Signal::Loss
    } else {
        Signal::Delay
    };
    let mut found: Vec<_> = (100..130)
        .map(|seed| {
            let (mut locator, mut source) = learnt(noise, seed, history);
            let mut reports = (1..=300).filter(|_| {
                let report = source.next(added_ns, lost);
                rose(&mut locator, signal, &report).is_some()
            });
            reports.next()
        })
        .collect();
    found.sort_unstable_by_key(|reports| reports.unwrap_or(usize::MAX));
    [found[15], found[29]]
}

#[test]
fn no_alarm_without_a_fault() {
    let given = std::env::var("VERNIER_LOCATE_INTERVALS").ok();
    let intervals = given.and_then(|text| text.parse().ok()).unwrap_or(60_000);
    for (name, noise) in NOISES {
        let alarms = false_alarms(noise, intervals);
        println!(
            "{name}: false alarms in {intervals} intervals: delay {}, loss {}",
            alarms[0], alarms[1]
        );
        assert_eq!(alarms, [0, 0], "{name}");
    }
}

#[test]
fn clear_faults_are_found_within_three_reports() {
    for (name, noise) in [("quiet", QUIET), ("usual", USUAL)] {
        let of_delay = until_found(noise, 600, 50.0 * noise.base_ns, 0.0);
        let of_loss = until_found(noise, 600, 0.0, 0.1);
        for [median, _] in [of_delay, of_loss] {
            assert!(
                median.is_some_and(|reports| reports <= 3),
                "{name}: {of_delay:?} {of_loss:?}"
            );
        }
    }
    let [median, worst] = until_found(QUIET, 600, 10.0 * QUIET.base_ns, 0.0);
    assert!(
        worst.is_some_and(|reports| reports <= 3),
        "{median:?} {worst:?}"
    );
}

/// By size, and by length of the history. Slow: only where figures are asked for.
#[test]
fn times_of_detection() {
    if std::env::var_os("VERNIER_LOCATE_INTERVALS").is_none() {
        return;
    }
    let text = |found: [Option<usize>; 2]| {
        let [median, worst] =
            found.map(|reports| reports.map_or("-".to_owned(), |reports| reports.to_string()));
        format!("{median} ({worst})")
    };
    for (name, noise) in NOISES {
        for history in [200, 4_000, 90_000] {
            let delays = [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0];
            let delays =
                delays.map(|factor| text(until_found(noise, history, factor * noise.base_ns, 0.0)));
            let losses = [0.001, 0.003, 0.01, 0.03, 0.1];
            let losses = losses.map(|lost| text(until_found(noise, history, 0.0, lost)));
            println!(
                "| {name} | {history} | {} | {} |",
                delays.join(" | "),
                losses.join(" | ")
            );
        }
    }
}

#[test]
fn a_rise_is_dated() {
    for seed in 0..10 {
        let (mut locator, mut source) = learnt(QUIET, seed, 600);
        let begin = source.next(0.0, 0.0);
        locator.report("s", &begin);
        let mut found = None;
        for _ in 0..3 {
            let report = source.next(20.0 * QUIET.base_ns, 0.0);
            found = found.or(rose(&mut locator, Signal::Delay, &report));
        }
        assert_eq!(found, Some(begin.time_ms + 1_000), "seed {seed}");
    }
}

#[test]
fn a_rise_ends_and_one_that_stays_is_usual() {
    let (mut locator, mut source) = learnt(QUIET, 1, 600);
    for _ in 0..30 {
        locator.report("s", &source.next(20.0 * QUIET.base_ns, 0.0));
    }
    assert_eq!(locator.raised().collect::<Vec<_>>(), ["s"]);
    let mut kinds = Vec::new();
    for _ in 0..5 {
        let events = locator.report("s", &source.next(0.0, 0.0));
        kinds.extend(events.iter().map(|event| event.kind));
    }
    assert_eq!(kinds, [EventKind::Ended]);
    for _ in 0..3_700 {
        let events = locator.report("s", &source.next(20.0 * QUIET.base_ns, 0.0));
        kinds.extend(events.iter().map(|event| event.kind));
    }
    assert_eq!(
        kinds,
        [EventKind::Ended, EventKind::Rose, EventKind::Accepted]
    );
    assert_eq!(locator.raised().count(), 0);
}
