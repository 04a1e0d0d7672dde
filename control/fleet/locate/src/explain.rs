//! What a path's segments say of its delay and losses.

use serde::{Deserialize, Serialize};

use crate::locator::PART_MAX;
use crate::report::{BOUND_ERRORS, Fault, FaultKind, Finding, Rise, Signal};

/// A part of a path, in order from end to end, with what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Hop {
    /// It is measured: by one segment, or by several over which the packets are divided, such as the ports by which they may come.
    Measured {
        /// Which part.
        name: String,
        /// The segments.
        members: Vec<Member>,
    },
    /// Nobody measures it.
    Uncovered {
        /// Which.
        name: String,
        /// What would cover it.
        cover: Vec<String>,
    },
}

/// A segment of a part.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name.
    pub segment: String,
    /// Packets, or whatever says how much it counts beside the others.
    pub weight: f64,
    /// What is known of it; `None` if it has never been reported.
    pub finding: Option<Finding>,
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
    /// Sum over the segments, bounds too, which may be off to the same side; `None` if one of them says nothing now.
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

/// An unexplained part of a rise below this is the accuracy of the shares.
const UNEXPLAINED_MIN: f64 = 0.2;

impl Finding {
    /// `None` without a delay now. Losses that are not known are none.
    pub fn estimate(&self) -> Option<Estimate> {
        let present = self.present_ns.filter(|_| self.silent_since_ms.is_none())?;
        let loss = self.present_loss.unwrap_or_default();
        Some(Estimate {
            mean_ns: present.value,
            bound_ns: BOUND_ERRORS * present.error,
            usual_ns: self.usual_ns.unwrap_or(present.value),
            loss: loss.value,
            loss_bound: BOUND_ERRORS * loss.error,
            usual_loss: self.usual_loss,
        })
    }

    fn state(&self, segment: &str, now_ms: u64) -> State {
        State {
            segment: segment.to_owned(),
            estimate: self.estimate(),
            deviation_ns: self.deviation_ns,
            p99_ns: self.p99_ns,
            age_ms: (self.time_ms > 0).then(|| now_ms.saturating_sub(self.time_ms)),
            is_ready: self.is_ready,
        }
    }
}

/// Which segments account for what a path suffers, at a time, by what is known of each. `end_to_end` is what somebody
/// measures from end to end. Parts beyond [`PART_MAX`] are left out.
pub fn explain(path: &[Hop], end_to_end: Option<&Finding>, now_ms: u64) -> Explanation {
    let path = &path[..path.len().min(PART_MAX)];
    let hops = path.iter().filter_map(|hop| match hop {
        Hop::Measured { name, members } => Some((name.as_str(), members.as_slice())),
        Hop::Uncovered { .. } => None,
    });
    let hops: Vec<_> = hops.collect();
    let members = || hops.iter().flat_map(|(_, members)| members.iter());
    let state = |&(name, members): &(&str, &[Member])| state(name, members, now_ms);
    let mut explanation = Explanation {
        segments: hops.iter().map(state).collect(),
        faults: members()
            .flat_map(|member| faults(member, now_ms))
            .collect(),
        end_to_end: end_to_end.and_then(Finding::estimate),
        ..Explanation::default()
    };
    // A sum with a part missing says nothing of the path; that part is named in `uncovered`.
    if hops.len() == path.len() {
        explanation.sum = sum(&explanation.segments);
    }
    explanation.compare();
    for signal in [Signal::Delay, Signal::Loss] {
        let rises: Vec<_> = hops
            .iter()
            .flat_map(|(_, members)| rises(members, signal))
            .collect();
        let of_path = end_to_end.and_then(|total| total.rise(signal));
        explanation.account(signal, &rises, of_path);
    }
    let causes = &mut explanation.causes;
    causes.sort_by(|one, other| other.share.total_cmp(&one.share));
    explanation.name_uncovered(path);
    explanation
}

/// What the segments of a part say together: means and losses by weight, deviations likewise, of percentiles the greatest.
fn state(name: &str, members: &[Member], now_ms: u64) -> State {
    let known: Vec<_> = members
        .iter()
        .filter_map(|member| Some((member.weight, member.finding?.state("", now_ms))))
        .collect();
    if let [(_, only)] = &known[..] {
        return State {
            segment: name.to_owned(),
            ..only.clone()
        };
    }
    let present: Vec<_> = known
        .iter()
        .filter_map(|(weight, state)| Some((*weight, state.estimate?)))
        .collect();
    let whole: f64 = present.iter().map(|(weight, _)| weight).sum();
    let mean = |of: fn(&Estimate) -> f64| {
        let parts = present
            .iter()
            .map(|(weight, estimate)| weight * of(estimate));
        parts.sum::<f64>() / whole
    };
    let estimate = (whole > 0.0).then(|| Estimate {
        mean_ns: mean(|one| one.mean_ns),
        bound_ns: mean(|one| one.bound_ns),
        usual_ns: mean(|one| one.usual_ns),
        loss: mean(|one| one.loss),
        loss_bound: mean(|one| one.loss_bound),
        usual_loss: mean(|one| one.usual_loss),
    });
    let states = || known.iter().map(|(_, state)| state);
    let greatest = |of: fn(&State) -> Option<f64>| states().filter_map(of).reduce(f64::max);
    State {
        segment: name.to_owned(),
        estimate,
        deviation_ns: greatest(|state| state.deviation_ns),
        p99_ns: greatest(|state| state.p99_ns),
        age_ms: states().filter_map(|state| state.age_ms).max(),
        is_ready: !known.is_empty() && states().all(|state| state.is_ready),
    }
}

/// Bounds add as they are: those between two clocks have the clocks' errors in them, which are of one sign for all packets.
fn sum(segments: &[State]) -> Option<Estimate> {
    let mut sum = Estimate::default();
    let (mut kept, mut usually_kept) = (1.0, 1.0);
    for state in segments {
        let one = state.estimate?;
        sum.mean_ns += one.mean_ns;
        sum.usual_ns += one.usual_ns;
        sum.bound_ns += one.bound_ns;
        sum.loss_bound += one.loss_bound;
        kept *= 1.0 - one.loss;
        usually_kept *= 1.0 - one.usual_loss;
    }
    (sum.loss, sum.usual_loss) = (1.0 - kept, 1.0 - usually_kept);
    (!segments.is_empty()).then_some(sum)
}

fn faults(member: &Member, now_ms: u64) -> Vec<Fault> {
    match member.finding.filter(|finding| finding.time_ms > 0) {
        Some(finding) => finding.faults(&member.segment, now_ms),
        None => vec![Fault {
            segment: member.segment.clone(),
            kind: FaultKind::Silent,
            since_ms: 0,
        }],
    }
}

/// The rises of a part's segments: of each as much as it adds to the part.
fn rises(members: &[Member], signal: Signal) -> Vec<(&str, Rise, f64)> {
    let whole: f64 = members.iter().map(|member| member.weight).sum();
    let rises = members.iter().filter_map(|member| {
        let rise = member.finding?.rise(signal)?;
        let part = if members.len() == 1 {
            1.0
        } else {
            member.weight / whole.max(f64::MIN_POSITIVE)
        };
        Some((member.segment.as_str(), rise, part * rise.by))
    });
    rises.collect()
}

impl Explanation {
    fn compare(&mut self) {
        if let (Some(sum), Some(total)) = (&self.sum, &self.end_to_end) {
            let difference_ns = total.mean_ns - sum.mean_ns;
            let bound_ns = total.bound_ns + sum.bound_ns;
            self.difference_ns = Some(difference_ns);
            self.difference_bound_ns = Some(bound_ns);
            self.is_difference_explained = Some(difference_ns.abs() <= bound_ns);
        }
    }

    /// Divides a rise among the segments that rose; of each by how much it rose, and how much that adds to the path.
    fn account(&mut self, signal: Signal, rises: &[(&str, Rise, f64)], of_path: Option<Rise>) {
        let found: f64 = rises.iter().map(|(_, _, adds)| adds).sum();
        // What is measured end to end counts, unless the segments have more.
        let whole = of_path.map_or(found, |rise| rise.by.max(found));
        if let Some(rise) = of_path.filter(|rise| rise.by > 0.0) {
            let rest = Some((1.0 - found / rise.by).clamp(0.0, 1.0));
            match signal {
                Signal::Delay => self.unexplained_share = rest,
                Signal::Loss => self.unexplained_loss_share = rest,
            }
        }
        let causes = rises.iter().filter(|(_, _, adds)| *adds > 0.0);
        self.causes.extend(causes.map(|(name, rise, adds)| Cause {
            segment: (*name).to_owned(),
            signal,
            share: adds / whole,
            rise: rise.by,
            confidence: rise.confidence(),
            since_ms: rise.since_ms,
        }));
    }

    fn name_uncovered(&mut self, path: &[Hop]) {
        let rests = [self.unexplained_share, self.unexplained_loss_share];
        let is_suspect = rests
            .into_iter()
            .flatten()
            .any(|rest| rest > UNEXPLAINED_MIN);
        let uncovered = path.iter().filter_map(|hop| match hop {
            Hop::Uncovered { name, cover } => Some(Uncovered {
                name: name.clone(),
                cover: cover.clone(),
                is_suspect,
            }),
            Hop::Measured { .. } => None,
        });
        self.uncovered = uncovered.collect();
    }
}
