//! Attributes a path's delay and losses to its segments.

use records::station::{BlameCause, BlamedHop, Level, MeasuringFault, PathBlame, UncoveredHop};

use crate::locator::PART_MAX;
use crate::report::{BOUND_ERRORS, Finding, Rise, SILENT, Signal, fault, seconds};

/// A part of a path, in order from end to end, with its findings.
#[derive(Debug, Clone, PartialEq)]
pub enum Hop {
    /// Measured by one segment, or by several that share the packets, such as the ports by which they may enter.
    Measured {
        /// The part's title.
        title: String,
        /// The kind of its segments.
        kind: String,
        /// The segments.
        members: Vec<Member>,
    },
    /// Measured by no segment.
    Uncovered {
        /// The part's title.
        title: String,
        /// What would cover it.
        cover: String,
    },
}

/// A segment of a part.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The segment's name.
    pub segment: String,
    /// Its weight among the part's segments, such as its packets.
    pub weight: f64,
    /// Its findings; `None` if it has never been reported.
    pub finding: Option<Finding>,
}

/// An unexplained part of a rise below this share is within the accuracy of the shares.
const UNEXPLAINED_MIN: f64 = 0.2;

impl Finding {
    /// Returns delay and losses now and as usual; `None` without a present delay. Unknown losses count as none.
    pub fn level(&self) -> Option<Level> {
        let found = &self.found;
        let present_ns = found
            .present_ns
            .filter(|_| self.silent_since_ms.is_none())?;
        Some(Level {
            mean_ns: present_ns.into(),
            bound_ns: BOUND_ERRORS * f64::from(found.present_error_ns),
            usual_ns: found.usual_ns.unwrap_or(present_ns).into(),
            loss: found.present_loss.unwrap_or_default().into(),
            loss_bound: BOUND_ERRORS * f64::from(found.present_loss_error),
            usual_loss: found.usual_loss.into(),
        })
    }

    /// Returns a hop that consists of this segment alone.
    pub fn hop(&self, title: &str, kind: &str, now_ms: u64) -> BlamedHop {
        let age_ms = (self.time_ms > 0).then(|| now_ms.saturating_sub(self.time_ms));
        BlamedHop {
            title: title.to_owned(),
            kind: kind.to_owned(),
            level: self.level(),
            stddev_ns: self.deviation_ns,
            p99_ns: self.p99_ns,
            age_s: age_ms.map(seconds),
            is_ready: self.found.is_ready,
        }
    }
}

/// Returns the segments that account for a path's delay and losses at a time. `end_to_end` is a measurement from end to
/// end. Parts beyond [`PART_MAX`] are left out. The caller fills in the path's switches.
pub fn explain(path: &[Hop], end_to_end: Option<(BlamedHop, Finding)>, now_ms: u64) -> PathBlame {
    let path = &path[..path.len().min(PART_MAX)];
    let (end_to_end, whole) = end_to_end.unzip();
    let mut blame = PathBlame {
        end_to_end,
        ..PathBlame::default()
    };
    let mut hops = Vec::new();
    for hop in path {
        match hop {
            Hop::Measured {
                title,
                kind,
                members,
            } => {
                hops.push(members.as_slice());
                blame.chain.push(joined(title, kind, members, now_ms));
                let faults = members.iter().flat_map(|member| faults(member, now_ms));
                blame.faults.extend(faults);
            }
            Hop::Uncovered { title, cover } => blame.uncovered.push(UncoveredHop {
                title: title.clone(),
                cover: cover.clone(),
                is_suspect: false,
            }),
        }
    }
    // A sum without every part would say nothing about the path; the missing part is named in `uncovered`.
    if hops.len() == path.len() {
        blame.sum = sum(&blame.chain);
    }
    compare(&mut blame);
    for signal in Signal::ALL {
        let rises = hops.iter().flat_map(|members| rises(members, signal));
        let of_path = whole.and_then(|whole| whole.rise(signal));
        let (causes, unexplained) = account(signal, &rises.collect::<Vec<_>>(), of_path);
        blame.causes.extend(causes);
        match signal {
            Signal::Delay => blame.unexplained_share = unexplained,
            Signal::Loss => blame.unexplained_loss_share = unexplained,
        }
    }
    let causes = &mut blame.causes;
    causes.sort_by(|one, other| other.share_percent.total_cmp(&one.share_percent));
    let rests = [blame.unexplained_share, blame.unexplained_loss_share];
    let mut rests = rests.into_iter().flatten();
    let is_suspect = rests.any(|rest| rest > UNEXPLAINED_MIN);
    for uncovered in &mut blame.uncovered {
        uncovered.is_suspect = is_suspect;
    }
    blame
}

/// Joins the segments of a part: means, losses and deviations by weight, the greatest of percentiles.
fn joined(title: &str, kind: &str, members: &[Member], now_ms: u64) -> BlamedHop {
    let known = members.iter().filter_map(|member| {
        let hop = member.finding?.hop(title, kind, now_ms);
        Some((member.weight, hop))
    });
    let known: Vec<_> = known.collect();
    if let [(_, only)] = &known[..] {
        return only.clone();
    }
    let present: Vec<_> = known
        .iter()
        .filter_map(|(weight, hop)| Some((*weight, hop.level?)))
        .collect();
    let whole: f64 = present.iter().map(|(weight, _)| weight).sum();
    let mean = |of: fn(&Level) -> f64| {
        let parts = present.iter().map(|(weight, level)| weight * of(level));
        parts.sum::<f64>() / whole
    };
    let level = (whole > 0.0).then(|| Level {
        mean_ns: mean(|one| one.mean_ns),
        bound_ns: mean(|one| one.bound_ns),
        usual_ns: mean(|one| one.usual_ns),
        loss: mean(|one| one.loss),
        loss_bound: mean(|one| one.loss_bound),
        usual_loss: mean(|one| one.usual_loss),
    });
    let hops = || known.iter().map(|(_, hop)| hop);
    let greatest = |of: fn(&BlamedHop) -> Option<f64>| hops().filter_map(of).reduce(f64::max);
    BlamedHop {
        title: title.to_owned(),
        kind: kind.to_owned(),
        level,
        stddev_ns: greatest(|hop| hop.stddev_ns),
        p99_ns: greatest(|hop| hop.p99_ns),
        age_s: greatest(|hop| hop.age_s),
        is_ready: !known.is_empty() && hops().all(|hop| hop.is_ready),
    }
}

/// Sums hops. Bounds are added linearly, because those between two clocks contain the clocks' errors, which have one
/// sign for all packets.
fn sum(chain: &[BlamedHop]) -> Option<Level> {
    let mut sum = Level::default();
    let (mut kept, mut usually_kept) = (1.0, 1.0);
    for hop in chain {
        let one = hop.level?;
        sum.mean_ns += one.mean_ns;
        sum.usual_ns += one.usual_ns;
        sum.bound_ns += one.bound_ns;
        sum.loss_bound += one.loss_bound;
        kept *= 1.0 - one.loss;
        usually_kept *= 1.0 - one.usual_loss;
    }
    (sum.loss, sum.usual_loss) = (1.0 - kept, 1.0 - usually_kept);
    (!chain.is_empty()).then_some(sum)
}

fn faults(member: &Member, now_ms: u64) -> Vec<MeasuringFault> {
    match member.finding.filter(|finding| finding.time_ms > 0) {
        Some(finding) => finding.faults(&member.segment, now_ms),
        None => vec![fault(SILENT, &member.segment, 0)],
    }
}

/// Returns the rises of a part's segments, each with its contribution to the part.
fn rises(members: &[Member], signal: Signal) -> Vec<(&str, Rise, f64)> {
    let whole: f64 = members.iter().map(|member| member.weight).sum();
    let rises = members.iter().filter_map(|member| {
        let rise = member.finding?.rise(signal)?;
        let part = if members.len() == 1 {
            1.0
        } else {
            member.weight / whole.max(f64::MIN_POSITIVE)
        };
        Some((member.segment.as_str(), rise, part * f64::from(rise.by)))
    });
    rises.collect()
}

fn compare(blame: &mut PathBlame) {
    let end_to_end = blame.end_to_end.as_ref();
    let total = end_to_end.and_then(|hop| hop.level);
    if let (Some(sum), Some(total)) = (blame.sum, total) {
        let difference_ns = total.mean_ns - sum.mean_ns;
        let bound_ns = total.bound_ns + sum.bound_ns;
        blame.difference_ns = Some(difference_ns);
        blame.difference_bound_ns = Some(bound_ns);
        blame.is_difference_explained = Some(difference_ns.abs() <= bound_ns);
    }
}

/// Divides a rise among the segments that rose, each by the size of its rise and its contribution to the path. Returns
/// the causes, and the share of the path's rise that none of them explains.
fn account(
    signal: Signal,
    rises: &[(&str, Rise, f64)],
    of_path: Option<Rise>,
) -> (Vec<BlameCause>, Option<f64>) {
    let found: f64 = rises.iter().map(|(_, _, adds)| adds).sum();
    // The rise from end to end counts, unless the segments add up to more.
    let of_path = of_path.map(|rise| f64::from(rise.by));
    let whole = of_path.map_or(found, |by| by.max(found));
    let unexplained = of_path
        .filter(|by| *by > 0.0)
        .map(|by| (1.0 - found / by).clamp(0.0, 1.0));
    let causes = rises.iter().filter(|(_, _, adds)| *adds > 0.0);
    let causes = causes.map(|(title, rise, adds)| BlameCause {
        title: (*title).to_owned(),
        signal: signal.label().to_owned(),
        share_percent: adds / whole * 100.0,
        rise: rise.by.into(),
        confidence: rise.confidence(),
        since_unix_s: seconds(rise.since_ms),
    });
    (causes.collect(), unexplained)
}
