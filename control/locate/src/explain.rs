//! What a path's segments say of its delay and losses.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::locator::{Locator, PART_MAX};
use crate::report::{Fault, FaultKind, Signal};
use crate::segment::{BOUND_ERRORS, Mean, Segment};

/// A part of a path, in order from end to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A segment that is measured, by the name that its reports have.
    Segment(String),
    /// A part that nobody measures.
    Uncovered {
        /// Which.
        name: String,
        /// What would cover it: `m-server or upgrade at D`.
        cover: Vec<String>,
    },
}

/// A mean delay and a share of losses, now and as usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean delay in nanoseconds.
    pub mean_ns: f64,
    /// Half-width of its 98 % interval.
    pub bound_ns: f64,
    /// What is usual at this time, in nanoseconds.
    pub usual_ns: f64,
    /// Share of packets lost, 0 to 1.
    pub loss: f64,
    /// Half-width of its 98 % interval.
    pub loss_bound: f64,
    /// What is usual.
    pub usual_loss: f64,
}

/// What a segment says now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The segment.
    pub segment: String,
    /// Delay and losses; `None` if it is silent, or had no packets.
    pub estimate: Option<Estimate>,
    /// Standard deviation of the packets' delays in the last report, in nanoseconds.
    pub deviation_ns: Option<f64>,
    /// Their 99th percentile.
    pub p99_ns: Option<f64>,
    /// Time since the end of its last interval, in milliseconds; `None` without any.
    pub age_ms: Option<u64>,
    /// There is history enough to find a rise of its delay.
    pub is_ready: bool,
}

/// A segment that accounts for a rise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The segment.
    pub segment: String,
    /// Of what.
    pub signal: Signal,
    /// The part of the path's rise that is this segment's, 0 to 1.
    pub share: f64,
    /// By how much it rose: nanoseconds, or share of packets.
    pub rise: f64,
    /// Probability that at least half of this rise is there, by its standard error.
    pub confidence: f64,
    /// From when, milliseconds since 1970.
    pub since_ms: u64,
}

/// A part that nobody measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncovered {
    /// Which.
    pub name: String,
    /// What would cover it.
    pub cover: Vec<String>,
    /// The path's rise is not in the segments that are measured, so it may be here.
    pub is_suspect: bool,
}

/// What is known of a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The segments, in order.
    pub segments: Vec<State>,
    /// Sum over the segments; `None` if one of them says nothing now.
    pub sum: Option<Estimate>,
    /// What was measured end to end.
    pub end_to_end: Option<Estimate>,
    /// End to end less the sum, in nanoseconds.
    pub difference_ns: Option<f64>,
    /// What the bounds of both allow it to be.
    pub difference_bound_ns: Option<f64>,
    /// The difference is within that. If it is not: something between the segments is not measured, or a clock is off.
    pub is_difference_explained: Option<bool>,
    /// Segments that rose, the greatest share first.
    pub causes: Vec<Cause>,
    /// The part of the end-to-end delay's rise that is in no segment, 0 to 1; `None` if it did not rise.
    pub unexplained_share: Option<f64>,
    /// The same of losses.
    pub unexplained_loss_share: Option<f64>,
    /// What is wrong with measuring: such segments are no causes.
    pub faults: Vec<Fault>,
    /// Parts that nobody measures.
    pub uncovered: Vec<Uncovered>,
}

/// A rise with its standard error.
#[derive(Debug, Clone, Copy)]
struct Rise {
    by: f64,
    error: f64,
    since_ms: u64,
}

/// An unexplained part of a rise below this is the accuracy of the shares.
const UNEXPLAINED_MIN: f64 = 0.2;

impl Segment {
    /// `None` without a delay now. Losses that are not known are none.
    fn estimate(&self, now_ms: u64) -> Option<Estimate> {
        let present = self
            .present()
            .filter(|_| self.silent_since(now_ms).is_none())?;
        let loss = self.present_loss().unwrap_or_default();
        Some(Estimate {
            mean_ns: present.value,
            bound_ns: BOUND_ERRORS * present.error,
            usual_ns: self.delay.usual_ns(now_ms).unwrap_or(present.value),
            loss: loss.value,
            loss_bound: BOUND_ERRORS * loss.error,
            usual_loss: self.loss.usual(),
        })
    }

    fn state(&self, name: &str, now_ms: u64) -> State {
        let last = self.last();
        State {
            segment: name.to_owned(),
            estimate: self.estimate(now_ms),
            deviation_ns: last.and_then(|last| last.deviation_ns),
            p99_ns: last.and_then(|last| last.p99_ns),
            age_ms: last.map(|last| now_ms.saturating_sub(last.time_ms)),
            is_ready: self.delay.is_ready(),
        }
    }

    fn rise(&self, signal: Signal) -> Option<Rise> {
        let (raised, present, usual): (_, Mean, f64) = match signal {
            Signal::Delay => {
                let raised = self.delay.raised().filter(|_| self.is_synchronised())?;
                (raised, self.present()?, raised.usual)
            }
            Signal::Loss => {
                let raised = self.loss.raised()?;
                (raised, self.present_loss()?, raised.usual)
            }
        };
        Some(Rise {
            by: (present.value - usual).max(0.0),
            error: present.error,
            since_ms: raised.since_ms,
        })
    }
}

impl Locator {
    /// Which segments account for what a path suffers, at a time. `end_to_end` is the name of a series of reports like a
    /// segment's, if somebody measures from end to end. Parts beyond [`PART_MAX`] are left out.
    pub fn explain(&self, path: &[Part], end_to_end: Option<&str>, now_ms: u64) -> Explanation {
        let path = &path[..path.len().min(PART_MAX)];
        let names = path.iter().filter_map(|part| match part {
            Part::Segment(name) => Some(name.as_str()),
            Part::Uncovered { .. } => None,
        });
        let names: Vec<_> = names.collect();
        let mut explanation = Explanation::default();
        let total = end_to_end.and_then(|name| self.segment(name));
        let unknown = Segment::default();
        let state = |name: &&str| self.segment(name).unwrap_or(&unknown).state(name, now_ms);
        explanation.segments = names.iter().map(state).collect();
        let all = names.iter().map(|name| (*name, self.segment(name)));
        explanation.faults = all
            .flat_map(|(name, segment)| faults(name, segment, now_ms))
            .collect();
        explanation.end_to_end = total.and_then(|total| total.estimate(now_ms));
        // A sum with a part missing says nothing of the path; that part is named in `uncovered`.
        if names.len() == path.len() {
            explanation.sum = self.sum(&names, now_ms);
        }
        explanation.compare();
        for signal in [Signal::Delay, Signal::Loss] {
            let rises: Vec<_> = names
                .iter()
                .filter_map(|name| {
                    let segment = self.segment(name)?;
                    let is_current = segment.silent_since(now_ms).is_none();
                    Some((*name, segment.rise(signal).filter(|_| is_current)?))
                })
                .collect();
            let of_path = total.and_then(|total| total.rise(signal));
            explanation.account(signal, &rises, of_path);
        }
        let causes = &mut explanation.causes;
        causes.sort_by(|one, other| other.share.total_cmp(&one.share));
        explanation.name_uncovered(path);
        explanation
    }

    fn sum(&self, names: &[&str], now_ms: u64) -> Option<Estimate> {
        let mut sum = Estimate::default();
        let (mut kept, mut usually_kept) = (1.0, 1.0);
        for name in names {
            let one = self.segment(name)?.estimate(now_ms)?;
            sum.mean_ns += one.mean_ns;
            sum.usual_ns += one.usual_ns;
            // They are measured independently of each other.
            sum.bound_ns = sum.bound_ns.hypot(one.bound_ns);
            sum.loss_bound = sum.loss_bound.hypot(one.loss_bound);
            kept *= 1.0 - one.loss;
            usually_kept *= 1.0 - one.usual_loss;
        }
        (sum.loss, sum.usual_loss) = (1.0 - kept, 1.0 - usually_kept);
        (!names.is_empty()).then_some(sum)
    }
}

fn faults(name: &str, segment: Option<&Segment>, now_ms: u64) -> Vec<Fault> {
    match segment.filter(|segment| segment.last().is_some()) {
        Some(segment) => segment.faults(name, now_ms),
        None => vec![Fault {
            segment: name.to_owned(),
            kind: FaultKind::Silent,
            since_ms: 0,
        }],
    }
}

impl Explanation {
    fn compare(&mut self) {
        if let (Some(sum), Some(total)) = (&self.sum, &self.end_to_end) {
            let difference_ns = total.mean_ns - sum.mean_ns;
            let bound_ns = total.bound_ns.hypot(sum.bound_ns);
            self.difference_ns = Some(difference_ns);
            self.difference_bound_ns = Some(bound_ns);
            self.is_difference_explained = Some(difference_ns.abs() <= bound_ns);
        }
    }

    /// Divides a rise among the segments that rose.
    fn account(&mut self, signal: Signal, rises: &[(&str, Rise)], of_path: Option<Rise>) {
        let found: f64 = rises.iter().map(|(_, rise)| rise.by).sum();
        // What is measured end to end counts, unless the segments have more.
        let whole = of_path.map_or(found, |rise| rise.by.max(found));
        if let Some(rise) = of_path.filter(|rise| rise.by > 0.0) {
            let rest = Some((1.0 - found / rise.by).clamp(0.0, 1.0));
            match signal {
                Signal::Delay => self.unexplained_share = rest,
                Signal::Loss => self.unexplained_loss_share = rest,
            }
        }
        let causes = rises.iter().filter(|(_, rise)| rise.by > 0.0);
        self.causes.extend(causes.map(|(name, rise)| Cause {
            segment: (*name).to_owned(),
            signal,
            share: rise.by / whole,
            rise: rise.by,
            confidence: confidence(*rise),
            since_ms: rise.since_ms,
        }));
    }

    fn name_uncovered(&mut self, path: &[Part]) {
        let rests = [self.unexplained_share, self.unexplained_loss_share];
        let is_suspect = rests
            .into_iter()
            .flatten()
            .any(|rest| rest > UNEXPLAINED_MIN);
        let uncovered = path.iter().filter_map(|part| match part {
            Part::Uncovered { name, cover } => Some(Uncovered {
                name: name.clone(),
                cover: cover.clone(),
                is_suspect,
            }),
            Part::Segment(_) => None,
        });
        self.uncovered = uncovered.collect();
    }
}

fn confidence(rise: Rise) -> f64 {
    let normal = Normal::standard();
    normal.cdf(rise.by / 2.0 / rise.error.max(f64::MIN_POSITIVE))
}
