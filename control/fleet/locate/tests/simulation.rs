//! Simulations by seed: what is found, when, and that nothing is found where nothing happened.
//! `VERNIER_LOCATE_INTERVALS=1000000` and `--no-capture` print the figures of docs/localisation.md.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lints treat as ordinary functions"
)]

use locate::{Finding, Hop, Locator, Member, Report, Signal, explain};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, Normal, Pareto, Poisson};
use rand_pcg::Pcg64;
use records::station::{BlamedHop, PathBlame};

/// How noisy a segment is.
#[derive(Debug, Clone, Copy)]
struct Noise {
    /// Usual mean, in nanoseconds.
    base_ns: f64,
    /// Standard deviation of the logarithm from interval to interval, and how much of the last stays (0 to 1).
    jitter: f64,
    memory: f64,
    /// Amplitude of the day's course: 0.3 is 30 % up and down.
    day: f64,
    /// Share of single intervals with a heavy tail: Pareto, exponent 1.5.
    spikes: f64,
    /// Bursts: share of intervals at which one begins, the chance that it goes on for another interval, and by how much it
    /// raises the delay on average (1: by as much as is usual), exponentially.
    bursts: f64,
    burst_goes_on: f64,
    burst_height: f64,
    /// Share of intervals at which half a minute without packets begins.
    idle: f64,
    /// Packets of an interval, on average.
    packets: f64,
    /// Share of packets lost, and in bursts.
    loss: f64,
}

const QUIET: Noise = Noise {
    base_ns: 50_000.0,
    jitter: 0.02,
    memory: 0.5,
    day: 0.05,
    spikes: 0.0,
    bursts: 0.0,
    burst_goes_on: 0.0,
    burst_height: 0.0,
    idle: 0.0,
    packets: 5_000.0,
    loss: 0.0,
};

const USUAL: Noise = Noise {
    base_ns: 200_000.0,
    jitter: 0.05,
    memory: 0.9,
    day: 0.3,
    spikes: 0.01,
    bursts: 0.003,
    burst_goes_on: 0.5,
    burst_height: 0.5,
    idle: 0.000_5,
    packets: 800.0,
    loss: 1e-4,
};

const BURSTY: Noise = Noise {
    burst_goes_on: 0.75,
    burst_height: 1.0,
    ..USUAL
};

const SPARSE: Noise = Noise {
    packets: 12.0,
    jitter: 0.2,
    ..USUAL
};

/// A history.
struct Source {
    noise: Noise,
    random: Pcg64,
    state: f64,
    burst: f64,
    idle: u32,
    second: u64,
}

impl Source {
    fn new(noise: Noise, seed: u64) -> Self {
        Self {
            noise,
            random: Pcg64::seed_from_u64(seed),
            state: 0.0,
            burst: 0.0,
            idle: 0,
            second: 1_700_000_000,
        }
    }

    /// The next second's report; `added_ns` and `lost` are a fault's.
    fn next(&mut self, added_ns: f64, lost: f64) -> Report {
        let Noise {
            base_ns,
            jitter,
            memory,
            ..
        } = self.noise;
        self.second += 1;
        let random = &mut self.random;
        let fresh: f64 = Normal::new(0.0, jitter * (1.0 - memory * memory).sqrt())
            .unwrap()
            .sample(random);
        self.state = memory * self.state + fresh;
        let day = (self.second % 86_400) as f64 / 86_400.0 * std::f64::consts::TAU;
        let mut mean = base_ns * (1.0 + self.noise.day * day.sin()) * self.state.exp();
        if random.random_bool(self.noise.spikes) {
            mean *= Pareto::new(1.0, 1.5).unwrap().sample(random);
        }
        let in_burst = self.burst > 0.0;
        if in_burst {
            mean *= 1.0 + self.burst;
            if !random.random_bool(self.noise.burst_goes_on) {
                self.burst = 0.0;
            }
        } else if random.random_bool(self.noise.bursts) {
            self.burst = self.noise.burst_height * Exp::<f64>::new(1.0).unwrap().sample(random);
        }
        if self.idle > 0 {
            self.idle -= 1;
        } else if random.random_bool(self.noise.idle) {
            self.idle = 30;
        }
        let expected = if self.idle > 0 {
            0.0
        } else {
            self.noise.packets
        };
        let sent = if expected > 0.0 {
            Poisson::new(expected).unwrap().sample(random)
        } else {
            0.0
        };
        let lost = (lost + self.noise.loss * if in_burst { 30.0 } else { 1.0 }).min(1.0);
        let lost = if sent * lost > 0.0 {
            Poisson::new(sent * lost).unwrap().sample(random).min(sent)
        } else {
            0.0
        };
        let packets = sent - lost;
        // Delays of packets are exponential about the least half.
        let error = mean / 2.0 / packets.max(1.0).sqrt();
        let off: f64 = Normal::new(0.0, error).unwrap().sample(random);
        Report {
            time_ms: self.second * 1_000,
            interval_ms: 1_000,
            packets: count(packets),
            mean_ns: mean + off + added_ns,
            bound_ns: Some(2.326 * error),
            deviation_ns: Some(mean / 2.0),
            p99_ns: None,
            sent: Some(count(sent)),
            lost: count(lost),
            clock_unsynchronised: false,
            is_through_device: false,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "packets of a second"
)]
fn count(packets: f64) -> u64 {
    packets as u64
}

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
        title: segment.to_owned(),
        kind: "wire".to_owned(),
        members: vec![Member {
            segment: segment.to_owned(),
            weight: 1.0,
            finding: locator.finding(segment, now_ms),
        }],
    }
}

/// A segment from end to end, with what is known of it at a time.
fn end_to_end(locator: &Locator, segment: &str, now_ms: u64) -> Option<(BlamedHop, Finding)> {
    let finding = locator.finding(segment, now_ms)?;
    Some((finding.hop(segment, "wire", now_ms), finding))
}

/// From when a signal of the segment is risen at the time of this report.
fn risen_since(locator: &Locator, signal: Signal, report: &Report) -> Option<u64> {
    let finding = locator.finding("s", report.time_ms)?;
    Some(finding.rise(signal)?.since_ms)
}

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
        let mut risen = [false; 2];
        for _ in 0..intervals / HISTORIES {
            let report = source.next(0.0, 0.0);
            locator.report("s", &report);
            let now = Signal::ALL.map(|signal| risen_since(&locator, signal, &report).is_some());
            for signal in 0..2 {
                alarms[signal] += u32::from(now[signal] && !risen[signal]);
            }
            risen = now;
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
                locator.report("s", &report);
                risen_since(&locator, signal, &report).is_some()
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
            locator.report("s", &report);
            found = found.or(risen_since(&locator, Signal::Delay, &report));
        }
        assert_eq!(found, Some(begin.time_ms + 1_000), "seed {seed}");
    }
}

#[test]
fn a_rise_ends_and_one_that_stays_is_usual() {
    let (mut locator, mut source) = learnt(QUIET, 1, 600);
    // Reports, by how much more, and how often that is a rise.
    for (reports, factor, risen) in [
        (30, 20.0, 28..30),
        (5, 0.0, 2..4),
        (3_700, 20.0, 3_590..3_602),
    ] {
        let mut found = 0;
        for _ in 0..reports {
            let report = source.next(factor * QUIET.base_ns, 0.0);
            locator.report("s", &report);
            found += usize::from(risen_since(&locator, Signal::Delay, &report).is_some());
        }
        assert!(risen.contains(&found), "{reports}: {found}");
    }
    let finding = locator.finding("s", locator.last_ms()).unwrap();
    assert_eq!(finding.found.delay, None);
}

const HOPS: usize = 6;

/// A path whose segments and whole are measured.
struct Path {
    locator: Locator,
    sources: Vec<Source>,
    last: Vec<Report>,
    now_ms: u64,
}

fn name(hop: usize) -> String {
    format!("hop{hop}")
}

impl Path {
    fn new(noise: Noise, seed: u64) -> Self {
        let source = |hop| Source::new(noise, seed * 100 + hop as u64);
        Self {
            locator: Locator::new(SEGMENTS),
            sources: (0..HOPS).map(source).collect(),
            last: Vec::new(),
            now_ms: 0,
        }
    }

    /// A second of all segments, and of the whole. `added_ns` and `lost` by hop.
    fn step(&mut self, added_ns: &[f64; HOPS], lost: &[f64; HOPS]) {
        let reports = self.sources.iter_mut().zip(added_ns).zip(lost);
        self.last = reports
            .map(|((source, added_ns), lost)| source.next(*added_ns, *lost))
            .collect();
        for (hop, report) in self.last.iter().enumerate() {
            self.locator.report(&name(hop), report);
        }
        self.now_ms = self.last[0].time_ms;
        let kept = |report: &Report| 1.0 - report.lost as f64 / report.sent.unwrap().max(1) as f64;
        let kept: f64 = self.last.iter().map(kept).product();
        let bounds = self
            .last
            .iter()
            .map(|report| report.bound_ns.unwrap().powi(2));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of 10,000"
        )]
        let whole = Report {
            mean_ns: self.last.iter().map(|report| report.mean_ns).sum(),
            bound_ns: Some(bounds.sum::<f64>().sqrt()),
            packets: 10_000,
            sent: Some(10_000),
            lost: ((1.0 - kept) * 10_000.0).round() as u64,
            ..self.last[0]
        };
        self.locator.report("whole", &whole);
    }

    fn steps(&mut self, number: usize, added_ns: &[f64; HOPS], lost: &[f64; HOPS]) {
        for _ in 0..number {
            self.step(added_ns, lost);
        }
    }

    /// The path's segments, with what is known of them at a time.
    fn hops(&self, now_ms: u64) -> Vec<Hop> {
        let hop = |hop| measured(&self.locator, &name(hop), now_ms);
        (0..HOPS).map(hop).collect()
    }

    fn explain(&self) -> PathBlame {
        self.explain_at(&self.hops(self.now_ms), self.now_ms)
    }

    fn explain_at(&self, hops: &[Hop], now_ms: u64) -> PathBlame {
        explain(hops, end_to_end(&self.locator, "whole", now_ms), now_ms)
    }
}

const NONE: [f64; HOPS] = [0.0; HOPS];

fn at(hop: usize, value: f64) -> [f64; HOPS] {
    let mut all = NONE;
    all[hop] = value;
    all
}

#[test]
fn the_hop_at_fault_is_found_within_three_reports() {
    for seed in 0..10 {
        let hop = usize::try_from(seed).unwrap() % HOPS;
        let mut path = Path::new(QUIET, seed);
        path.steps(400, &NONE, &NONE);
        let before = path.explain();
        assert!(
            before.causes.is_empty() && before.faults.is_empty(),
            "{before:?}"
        );
        assert_eq!(before.is_difference_explained, Some(true));
        let usual = before.sum.unwrap().usual_ns / QUIET.base_ns;
        assert!(
            (0.9 * HOPS as f64..1.1 * HOPS as f64).contains(&usual),
            "{usual}"
        );
        assert_eq!(before.unexplained_share, None);
        assert_eq!(before.chain.len(), HOPS);
        assert!(
            before
                .chain
                .iter()
                .all(|hop| hop.is_ready && hop.age_s == Some(0.0))
        );
        let begin_ms = path.now_ms + 1_000;
        let is_loss = seed % 2 == 1;
        let (added_ns, lost) = if is_loss {
            (NONE, at(hop, 0.05))
        } else {
            (at(hop, 5e6), NONE)
        };
        path.steps(3, &added_ns, &lost);
        let after = path.explain();
        let [cause] = &after.causes[..] else {
            panic!("seed {seed}: {after:?}")
        };
        assert_eq!(
            (&cause.title, cause.since_unix_s),
            (&name(hop), begin_ms as f64 / 1e3),
            "seed {seed}"
        );
        assert!(
            cause.share_percent > 90.0 && cause.confidence > 0.95,
            "{cause:?}"
        );
        if is_loss {
            assert!((0.03..0.07).contains(&cause.rise), "{cause:?}");
        } else {
            assert_eq!(cause.signal, "delay");
            assert!((4.8e6..5.2e6).contains(&cause.rise), "{cause:?}");
            assert!(after.unexplained_share.unwrap() < 0.1);
        }
        path.steps(20, &NONE, &NONE);
        assert!(path.explain().causes.is_empty(), "{:?}", path.explain());
    }
}

#[test]
fn two_hops_share_a_rise() {
    let mut path = Path::new(QUIET, 50);
    path.steps(400, &NONE, &NONE);
    let mut added_ns = at(1, 3e6);
    added_ns[4] = 1e6;
    path.steps(5, &added_ns, &NONE);
    let causes = path.explain().causes;
    let shares: Vec<_> = causes
        .iter()
        .map(|cause| (cause.title.as_str(), cause.share_percent))
        .collect();
    let [("hop1", more), ("hop4", less)] = shares[..] else {
        panic!("{causes:?}")
    };
    assert!(
        (more - 75.0).abs() < 3.0 && (less - 25.0).abs() < 3.0,
        "{causes:?}"
    );
}

#[test]
fn a_path_without_a_fault_has_no_causes() {
    let mut path = Path::new(USUAL, 60);
    for second in 0..8_000 {
        path.step(&NONE, &NONE);
        if second % 10 == 0 {
            let explanation = path.explain();
            assert!(explanation.causes.is_empty(), "{second}: {explanation:?}");
        }
    }
}

/// Both directions of a link; a clock is set by a millisecond.
#[test]
fn a_step_of_a_clock_is_no_fault_of_the_network() {
    for is_first in [true, false] {
        let mut path = Path::new(QUIET, 70);
        path.steps(400, &NONE, &NONE);
        path.locator.pair("hop0", "hop1");
        let sign = if is_first { 1.0 } else { -1.0 };
        let mut added_ns = at(0, sign * 1e6);
        added_ns[1] = -sign * 1e6;
        path.steps(3, &added_ns, &NONE);
        let explanation = path.explain();
        assert!(explanation.causes.is_empty(), "{explanation:?}");
        let faults = explanation.faults.iter();
        let faults: Vec<_> = faults
            .map(|fault| (fault.what.as_str(), fault.place.as_str()))
            .collect();
        assert_eq!(faults, [("clock_step", "hop0"), ("clock_step", "hop1")]);
        for (hop, expected_ns) in [("hop0", sign * 1e6), ("hop1", -sign * 1e6)] {
            let found = path.locator.finding(hop, path.now_ms).unwrap().found;
            let shift_ns = f64::from(found.step_shift_ns);
            assert!((shift_ns - expected_ns).abs() < 1e5, "{shift_ns}");
        }
        // A fault of one direction is the network's.
        path.steps(30, &added_ns, &NONE);
        added_ns[0] += 2e7;
        path.steps(3, &added_ns, &NONE);
        let causes = path.explain().causes;
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert_eq!(causes[0].title, "hop0");
    }
}

#[test]
fn clocks_that_are_not_synchronised_and_silence_are_named() {
    let mut path = Path::new(QUIET, 80);
    path.steps(400, &NONE, &NONE);
    let mut report = path.sources[2].next(1e9, 0.0);
    report.clock_unsynchronised = true;
    for _ in 0..5 {
        path.locator.report("hop2", &report);
        report.time_ms += 1_000;
    }
    let explanation = path.explain();
    assert!(explanation.causes.is_empty(), "{explanation:?}");
    assert_eq!(explanation.faults[0].what, "clock_unsynchronised");
    let later_ms = path.now_ms + 60_000;
    let silent = path.explain_at(&path.hops(later_ms), later_ms);
    assert_eq!((silent.sum, silent.end_to_end.unwrap().level), (None, None));
    let silences = silent.faults.iter();
    let silences = silences.filter(|fault| fault.what == "silent");
    assert_eq!(silences.count(), HOPS);
    let unknown = [measured(&path.locator, "nobody's", later_ms)];
    let unknown = explain(&unknown, None, later_ms);
    assert_eq!(unknown.faults[0].what, "silent");
}

#[test]
fn a_rise_in_a_part_that_nobody_measures_is_suspected_there() {
    let mut path = Path::new(QUIET, 90);
    path.steps(400, &NONE, &NONE);
    path.steps(4, &at(3, 5e6), &NONE);
    let explain = |path: &Path| {
        let mut hops = path.hops(path.now_ms);
        hops[3] = Hop::Uncovered {
            title: "D-E".to_owned(),
            cover: "m-server at D".to_owned(),
        };
        path.explain_at(&hops, path.now_ms)
    };
    let explanation = explain(&path);
    assert!(
        explanation.causes.is_empty() && explanation.sum.is_none(),
        "{explanation:?}"
    );
    assert!(explanation.unexplained_share.unwrap() > 0.95);
    let [uncovered] = &explanation.uncovered[..] else {
        panic!("{explanation:?}")
    };
    assert!(uncovered.is_suspect && uncovered.cover == "m-server at D");
    // Where a segment explains the rise it is not.
    path.steps(20, &NONE, &NONE);
    path.steps(4, &at(1, 5e6), &NONE);
    let explanation = explain(&path);
    assert_eq!(explanation.causes[0].title, "hop1");
    assert!(!explanation.uncovered[0].is_suspect, "{explanation:?}");
}

#[test]
fn a_part_that_is_missing_shows_in_the_difference() {
    let mut path = Path::new(QUIET, 95);
    path.steps(400, &NONE, &NONE);
    let explanation = path.explain_at(&path.hops(path.now_ms)[1..], path.now_ms);
    assert_eq!(explanation.is_difference_explained, Some(false));
    let missing = explanation.difference_ns.unwrap();
    assert!((0.8..1.2).contains(&(missing / QUIET.base_ns)), "{missing}");
}

/// Figures as they should not be, too.
fn figure() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 1e3..1e7_f64,
        1 => any::<f64>(),
        1 => Just(0.0),
        1 => -1e9..1e9_f64,
    ]
}

fn report() -> impl Strategy<Value = Report> {
    let figures = (figure(), prop::option::of(figure()));
    let counts = (0_u64..100, prop::option::of(any::<u64>()), any::<u64>());
    (figures, counts, 0_u64..5_000, 0_u32..2_000, any::<bool>()).prop_map(
        |((mean_ns, bound_ns), (packets, sent, lost), time_ms, interval_ms, is_off)| Report {
            time_ms,
            interval_ms,
            packets,
            mean_ns,
            bound_ns,
            deviation_ns: None,
            p99_ns: None,
            sent,
            lost,
            clock_unsynchronised: is_off,
            is_through_device: false,
        },
    )
}

proptest! {
    #[test]
    fn any_reports_are_taken_or_ignored(
        reports in prop::collection::vec((0_usize..4, report()), 0..300),
        is_in_order in any::<bool>(),
    ) {
        let mut locator = Locator::new(3);
        let mut time_ms = 0;
        for (segment, mut report) in reports {
            if is_in_order {
                time_ms += report.time_ms;
                report.time_ms = time_ms;
            }
            locator.report(&segment.to_string(), &report);
            locator.pair("0", "1");
        }
        for now_ms in [0, time_ms, u64::MAX] {
            let hops = (0..5).map(|segment| measured(&locator, &segment.to_string(), now_ms));
            let hops: Vec<_> = hops.collect();
            let explanation = explain(&hops, end_to_end(&locator, "2", now_ms), now_ms);
            for cause in &explanation.causes {
                prop_assert!((0.0..=100.0 + 1e-7).contains(&cause.share_percent), "{:?}", cause);
                prop_assert!((0.0..=1.0).contains(&cause.confidence), "{:?}", cause);
            }
            let json = serde_json::to_string(&explanation).unwrap();
            let back: Result<PathBlame, _> = serde_json::from_str(&json);
            prop_assert!(back.is_ok(), "{}", json);
            let back = back.unwrap();
            prop_assert_eq!(back.causes.len(), explanation.causes.len());
            prop_assert_eq!(back.faults.len(), explanation.faults.len());
        }
    }

    #[test]
    fn what_is_old_or_too_much_is_ignored(times in prop::collection::vec(0_u64..20, 1..40)) {
        let mut locator = Locator::new(1);
        let mut newest = None;
        for time_ms in times {
            let report = Report {
                time_ms,
                interval_ms: 1_000,
                packets: 10,
                mean_ns: 1e5,
                bound_ns: None,
                deviation_ns: None,
                p99_ns: None,
                sent: None,
                lost: 0,
                clock_unsynchronised: false,
                is_through_device: false,
            };
            newest = newest.max(Some(time_ms));
            locator.report("s", &report);
            locator.report("one too many", &report);
            prop_assert_eq!(Some(locator.last_ms()), newest);
            prop_assert_eq!(locator.names().collect::<Vec<_>>(), ["s"]);
        }
    }
}
