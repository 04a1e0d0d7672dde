//! Chooses which of several estimates to report.
//!
//! Methods differ in what they can estimate and how accurately. All bounds are half-widths of nominal 98 % intervals,
//! so they are comparable. A bound is never below the clocks' resolution and error. The chooser takes the smallest
//! bound and names its method.
//!
//! A method is ignored if another uses a superset of its inputs: joint decoding beside the hybrid, which uses the
//! same cells and the references as well. Of two bounds from the same cells, the smaller one is often the wrong one.
//!
//! If both the hybrid and RLI estimate a flow, neither uses all inputs of the other: the hybrid uses the cells, RLI
//! the wait of each packet. If their bounds are similar, their mean, weighted by the inverse squares of the bounds,
//! is more accurate than either. It is given the smaller of both bounds. The true bound is smaller if errors are
//! independent, and up to 1.21 times larger if both are at their bounds in the same direction. Which is the case is
//! unknown; tables of the chooser in `make accuracy` show that the bound holds.
//!
//! | method | estimates | bound |
//! |---|---|---|
//! | stamps | segments and flows inside a switch | the clocks |
//! | LDA | its segment | t interval ([`LdaEstimate::ci98_half_width_ticks`]) |
//! | LDS, joint or hybrid | each flow of the list | 3 sqrt(posterior variance); hybrid up to 5, by references' share of it |
//! | LDS, the paper's estimator | each flow with a usable cell | not known |
//! | RLI | flows in the references' own queue | its formula, calibrated (`rli::FlowDelay::bound_ns`) |

use crate::lda::LdaEstimate;
use crate::lds::{FlowDelay, Source};
use crate::rli;

/// Standard deviations in the nominal 98 % bound of joint decoding. Two cover .945 to .998 of flows
/// without loss, .92 to .96 with it.
pub const JOINT_DEVIATIONS: f64 = 3.0;

/// Two estimates are combined if neither bound is more than this many times the other. Beyond that, a tenth
/// of the worse one's error would spoil the better one.
const COMBINED_MAX: f64 = 3.0;

/// The method of an estimate. Between equal bounds the earlier method wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Every packet was stamped at both ends.
    Stamped,
    /// The hybrid and RLI, weighted by their bounds.
    Combined,
    /// Joint decoding with the references' delays as a feature.
    Hybrid,
    /// Joint decoding.
    Joint,
    /// Reference Latency Interpolation.
    Rli(rli::Method),
    /// Lossy Difference Aggregator.
    Lda,
    /// The LDS paper's estimator.
    LdsPaper,
    /// The mean of the other flows, if nothing is known of the flow.
    Prior,
}

impl Method {
    /// Its name in tables and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stamped => "stamped",
            Self::Combined => "combined",
            Self::Hybrid => "hybrid",
            Self::Joint => "joint",
            Self::Rli(method) => method.label(),
            Self::Lda => "lda",
            Self::LdsPaper => "lds-paper",
            Self::Prior => "lds-prior",
        }
    }
}

/// Inputs of a decoded flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoding {
    /// The cells alone.
    Cells,
    /// The cells, with references' delays as a feature: the hybrid.
    CellsAndReferences,
}

/// An estimate for the flow or segment in question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Its method.
    pub method: Method,
    /// Mean delay in ticks.
    pub mean_ticks: f64,
    /// Half-width of the nominal 98 % interval in ticks; infinite if unknown.
    pub bound_ticks: f64,
}

impl Candidate {
    /// LDA's estimate of its segment; `None` without samples.
    pub fn lda(estimate: &LdaEstimate) -> Option<Self> {
        Some(Self {
            method: Method::Lda,
            mean_ticks: estimate.mean_ticks?,
            bound_ticks: estimate.ci98_half_width_ticks.unwrap_or(f64::INFINITY),
        })
    }

    /// A decoded flow; `None` if nothing is known. Estimates from the prior have no bound.
    pub fn decoded(flow: &FlowDelay, decoding: Decoding) -> Option<Self> {
        let method = match flow.source {
            Source::Joint | Source::Prior if decoding == Decoding::CellsAndReferences => {
                Method::Hybrid
            }
            Source::Joint => Method::Joint,
            Source::Paper => Method::LdsPaper,
            Source::Prior | Source::SegmentMean => Method::Prior,
            Source::Nothing => return None,
        };
        Some(Self {
            method,
            mean_ticks: flow.mean_ticks,
            bound_ticks: match flow.source {
                // A flow without usable cells has lost packets; the flows that the prior was fitted to have
                // not.
                Source::Prior => f64::INFINITY,
                _ => JOINT_DEVIATIONS * flow.variance_ticks2.sqrt(),
            },
        })
    }

    /// RLI's estimate with its calibrated bound, for a flow in the references' own queue; references in
    /// another queue or path do not apply to it.
    pub fn rli(method: rli::Method, mean_ticks: f64, bound_ticks: f64) -> Self {
        Self {
            method: Method::Rli(method),
            mean_ticks,
            bound_ticks,
        }
    }

    /// Compares bounds; of equal ones the earlier method is better.
    fn is_better_than(&self, other: &Self) -> bool {
        let bounds = self.bound_ticks.total_cmp(&other.bound_ticks);
        bounds.then(self.method.cmp(&other.method)).is_lt()
    }

    /// The mean of both, weighted by the inverse squares of their bounds; `None` if a bound is unknown, or
    /// so much larger that its estimate would not help.
    fn with(&self, other: &Self) -> Option<Self> {
        let least = self.bound_ticks.min(other.bound_ticks);
        let most = self.bound_ticks.max(other.bound_ticks);
        if !(most.is_finite() && most <= COMBINED_MAX * least) {
            return None;
        }
        // Weight of the other: half if both bounds are 0.
        let share = 1.0 / (1.0 + (other.bound_ticks / self.bound_ticks).powi(2));
        let share = if share.is_nan() { 0.5 } else { share };
        Some(Self {
            method: Method::Combined,
            mean_ticks: self.mean_ticks + share * (other.mean_ticks - self.mean_ticks),
            bound_ticks: least,
        })
    }
}

/// Returns the candidate with the smallest bound, which is at least `floor_ticks`: the clocks' resolution
/// and error. Unknown bounds lose to all others, and estimates that are not finite are ignored. Joint
/// decoding is ignored beside a hybrid, and hybrid and RLI are combined if their bounds are similar. `None`
/// without candidates.
pub fn choose(
    candidates: impl IntoIterator<Item = Candidate>,
    floor_ticks: f64,
) -> Option<Candidate> {
    let mut best: Option<Candidate> = None;
    let (mut joint, mut hybrid, mut rli) = (None, None, None);
    let better = |best: Option<Candidate>, one: Candidate| match best {
        Some(best) if !one.is_better_than(&best) => Some(best),
        _ => Some(one),
    };
    for mut candidate in candidates {
        if !candidate.mean_ticks.is_finite() {
            continue;
        }
        candidate.bound_ticks = bound(candidate.bound_ticks, floor_ticks);
        match candidate.method {
            Method::Joint => {
                joint = better(joint, candidate);
                continue;
            }
            Method::Hybrid => hybrid = better(hybrid, candidate),
            Method::Rli(_) => rli = better(rli, candidate),
            _ => {}
        }
        best = better(best, candidate);
    }
    let joint = joint.filter(|_| hybrid.is_none());
    let combined = hybrid.zip(rli).and_then(|(hybrid, rli)| hybrid.with(&rli));
    joint.into_iter().chain(combined).fold(best, better)
}

/// An invalid bound (not a number, negative) counts as none.
fn bound(bound_ticks: f64, floor_ticks: f64) -> f64 {
    if bound_ticks >= 0.0 {
        bound_ticks.max(floor_ticks)
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SUMS: rli::Method = rli::Method::Sums;

    fn candidate(method: Method, bound_ticks: f64) -> Candidate {
        Candidate {
            method,
            mean_ticks: 100.0,
            bound_ticks,
        }
    }

    fn decoded(source: Source, variance_ticks2: f64) -> FlowDelay {
        FlowDelay {
            mean_ticks: 100.0,
            variance_ticks2,
            packets: 5.0,
            source,
        }
    }

    #[test]
    fn the_smallest_bound_speaks() {
        let joint = Candidate::decoded(&decoded(Source::Joint, 4.0), Decoding::Cells).unwrap();
        let rli = Candidate::rli(SUMS, 101.0, 5.0);
        let choice = |shares| {
            let rli = Some(rli).filter(|_| shares);
            choose([joint].into_iter().chain(rli), 1.0).unwrap()
        };
        assert_eq!(
            (choice(true).method, choice(true).bound_ticks),
            (Method::Rli(SUMS), 5.0)
        );
        assert_eq!(
            (choice(false).method, choice(false).bound_ticks),
            (Method::Joint, 6.0)
        );
    }

    #[test]
    fn a_bound_is_never_under_the_clocks() {
        let sure = [
            candidate(Method::Rli(SUMS), 0.0),
            candidate(Method::Joint, 0.5),
        ];
        let chosen = choose(sure, 1.0).unwrap();
        // Both bounds are at the floor, so the order decides.
        assert_eq!((chosen.method, chosen.bound_ticks), (Method::Joint, 1.0));
    }

    #[test]
    fn joint_decoding_is_silent_beside_the_hybrid() {
        let both = [
            candidate(Method::Joint, 1.0),
            candidate(Method::Hybrid, 2.0),
        ];
        assert_eq!(choose(both, 0.0).unwrap().method, Method::Hybrid);
        let unsound = Candidate {
            mean_ticks: f64::NAN,
            ..candidate(Method::Hybrid, 2.0)
        };
        let chosen = choose([candidate(Method::Joint, 1.0), unsound], 0.0);
        assert_eq!(chosen.unwrap().method, Method::Joint);
    }

    #[test]
    fn hybrid_and_rli_speak_together() {
        let of = |method, mean_ticks, bound_ticks| Candidate {
            method,
            mean_ticks,
            bound_ticks,
        };
        let chosen = |hybrid, rli| {
            let hybrid = of(Method::Hybrid, 100.0, hybrid);
            choose([hybrid, of(Method::Rli(SUMS), 110.0, rli)], 0.0).unwrap()
        };
        assert_eq!(chosen(4.0, 2.0), of(Method::Combined, 108.0, 2.0));
        assert_eq!(chosen(0.0, 0.0), of(Method::Combined, 105.0, 0.0));
        assert_eq!(chosen(2.0, 6.0), of(Method::Combined, 101.0, 2.0));
        assert_eq!(chosen(2.0, 6.1), of(Method::Hybrid, 100.0, 2.0));
        assert_eq!(chosen(2.0, 0.0), of(Method::Rli(SUMS), 110.0, 0.0));
        assert_eq!(chosen(4.0, f64::INFINITY), of(Method::Hybrid, 100.0, 4.0));
    }

    #[test]
    fn what_knows_nothing_is_taken_last() {
        let hybrid = Decoding::CellsAndReferences;
        let paper = Candidate::decoded(&decoded(Source::Paper, f64::INFINITY), hybrid).unwrap();
        let chosen = choose([paper, candidate(Method::Rli(SUMS), 1e9)], 0.0).unwrap();
        assert_eq!(chosen.method, Method::Rli(SUMS));
        assert_eq!(choose([paper], 0.0).unwrap().method, Method::LdsPaper);
        assert_eq!(
            Candidate::decoded(&decoded(Source::Nothing, 1.0), Decoding::Cells),
            None
        );
        assert_eq!(Candidate::lda(&LdaEstimate::default()), None);
        assert_eq!(choose([], 0.0), None);
    }

    proptest! {
        #[test]
        fn whatever_comes_the_choice_is_sane(
            all in proptest::collection::vec((any::<f64>(), any::<f64>()), 0..6),
            floor in 0.0..10.0_f64,
        ) {
            let candidates = || all.iter().map(|&(mean_ticks, bound_ticks)| Candidate {
                method: Method::Lda,
                mean_ticks,
                bound_ticks,
            });
            let some = candidates().any(|candidate| candidate.mean_ticks.is_finite());
            let chosen = choose(candidates(), floor);
            prop_assert_eq!(chosen.is_some(), some);
            if let Some(chosen) = chosen {
                prop_assert!(chosen.mean_ticks.is_finite() && chosen.bound_ticks >= floor);
                let others = candidates().filter(|c| c.mean_ticks.is_finite() && c.bound_ticks >= 0.0);
                for other in others {
                    prop_assert!(chosen.bound_ticks <= other.bound_ticks.max(floor));
                }
            }
        }
    }
}
