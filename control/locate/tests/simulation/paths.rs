//! Paths of several segments, one of them at fault.

use locate::{Explanation, FaultKind, Hop, Locator, Report, Signal, explain};

use super::noise::{Noise, QUIET, Source, USUAL};
use super::{SEGMENTS, measured};

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

    fn explain(&self) -> Explanation {
        self.explain_at(&self.hops(self.now_ms), self.now_ms)
    }

    fn explain_at(&self, hops: &[Hop], now_ms: u64) -> Explanation {
        let whole = self.locator.finding("whole", now_ms);
        explain(hops, whole.as_ref(), now_ms)
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
        assert_eq!(before.segments.len(), HOPS);
        assert!(
            before
                .segments
                .iter()
                .all(|state| state.is_ready && state.age_ms == Some(0))
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
            (&cause.segment, cause.since_ms),
            (&name(hop), begin_ms),
            "seed {seed}"
        );
        assert!(cause.share > 0.9 && cause.confidence > 0.95, "{cause:?}");
        if is_loss {
            assert!((0.03..0.07).contains(&cause.rise), "{cause:?}");
        } else {
            assert_eq!(cause.signal, Signal::Delay);
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
        .map(|cause| (cause.segment.as_str(), cause.share))
        .collect();
    let [("hop1", more), ("hop4", less)] = shares[..] else {
        panic!("{causes:?}")
    };
    assert!(
        (more - 0.75).abs() < 0.03 && (less - 0.25).abs() < 0.03,
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
        let kinds: Vec<_> = explanation.faults.iter().map(|fault| fault.kind).collect();
        let [
            FaultKind::ClockStep { shift_ns: one },
            FaultKind::ClockStep { shift_ns: other },
        ] = kinds[..]
        else {
            panic!("{explanation:?}")
        };
        assert!(
            (one - sign * 1e6).abs() < 1e5 && (other + sign * 1e6).abs() < 1e5,
            "{kinds:?}"
        );
        // A fault of one direction is the network's.
        path.steps(30, &added_ns, &NONE);
        added_ns[0] += 2e7;
        path.steps(3, &added_ns, &NONE);
        let causes = path.explain().causes;
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert_eq!(causes[0].segment, "hop0");
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
    assert_eq!(explanation.faults[0].kind, FaultKind::ClockUnsynchronised);
    let later_ms = path.now_ms + 60_000;
    let silent = path.explain_at(&path.hops(later_ms), later_ms);
    assert_eq!((silent.sum, silent.end_to_end), (None, None));
    let silences = silent
        .faults
        .iter()
        .filter(|fault| fault.kind == FaultKind::Silent);
    assert_eq!(silences.count(), HOPS);
    let unknown = [measured(&path.locator, "nobody's", later_ms)];
    let unknown = explain(&unknown, None, later_ms);
    assert_eq!(unknown.faults[0].kind, FaultKind::Silent);
}

#[test]
fn a_rise_in_a_part_that_nobody_measures_is_suspected_there() {
    let mut path = Path::new(QUIET, 90);
    path.steps(400, &NONE, &NONE);
    path.steps(4, &at(3, 5e6), &NONE);
    let explain = |path: &Path| {
        let mut hops = path.hops(path.now_ms);
        hops[3] = Hop::Uncovered {
            name: "D-E".to_owned(),
            cover: vec!["m-server at D".to_owned()],
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
    assert!(uncovered.is_suspect && uncovered.cover == ["m-server at D"]);
    // Where a segment explains the rise it is not.
    path.steps(20, &NONE, &NONE);
    path.steps(4, &at(1, 5e6), &NONE);
    let explanation = explain(&path);
    assert_eq!(explanation.causes[0].segment, "hop1");
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
