//! RLI compared with the exact truth: methods, policies, bounds, and the segment's mean.
//!
//! ```text
//! traffic --> injection policy --> queue (tail drop | RED) --> four receivers --> errors by flow
//! ```
//!
//! References are packets like any other: they wait, take bandwidth, and may be dropped.

pub mod exchange;

use std::num::{NonZeroU32, NonZeroU64};

use anyhow::Result;
use measure::lda::{Bank, LdaLayout, LdaPair};
use measure::rli::{Adaptive, FlowDelay, Method, Policy};
use reporting::Limit;
use reporting::statistics::{error_percent, mean, median, percent_of, quantile, whole};

use crate::experiment::{Found, Plan};
use crate::queue::{Dropping, LinkConfig, cross, lose};
use crate::recording::{Packet, record};
use crate::traffic::{Crossing, Kind, PS_PER_NS, Supply, Traffic, Wander, in_words};
use crate::truth::{FlowTruth, STDDEV_PACKETS_MIN, Truth};
use exchange::{Exchange, Received, packet_hash};

/// Loads of the acceptance runs.
pub const UTILISATIONS: [f64; 2] = [0.67, 0.93];
/// Seeds that limits are means of.
const SEEDS: u32 = 3;

/// Shares lost on the way, with what the prototype gave for the sums (the limit) and for LDA.
const LOSSES: [(f64, Option<(f64, f64)>); 4] = [
    (0.001, Some((0.02, 0.24))),
    (0.01, None),
    (0.05, None),
    (0.2, Some((0.3, 4.3))),
];
/// Draws of losses (and of LDA's cells) for each seed of traffic.
const DRAWS: u64 = 4;
/// Rows of the LDA, one bank tuned to the loss.
const LDA_ROWS: u32 = 1_024;

/// Algorithm 1 with a utilisation that single bursts do not move.
const STEADY: Adaptive = Adaptive {
    window_ns: 0,
    smoothing: 0.02,
    utilisation_min: 0.6,
    utilisation_max: 0.85,
    rate_min: 1.0 / 300.0,
    rate_max: 0.1,
};
/// How much worse than the better fixed rate it may be. A fixed rate sends as many references but for the
/// rounding of n, at 1-in-10 up to 5 %.
const STEADY_LIMIT: Limit = Limit::AtMost(1.1);
/// Where delays are as long as this, the rule that knows them sends 2^(1/3) times fewer references.
const KNOWN_NS: f64 = 10_000.0;
/// Packets a reference of that rule where nothing waits.
const KNOWN_PACKETS: f64 = 20.0;

/// Numbers of the tables.
const METHODS: usize = 0;
const POLICIES: usize = 1;
const BOUNDS: usize = 2;
const SEGMENT: usize = 3;
const BANDWIDTH: usize = 4;

/// Traffic of a queue, and its way of dropping.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scenario {
    utilisation: f64,
    wander: Wander,
    dropping: Dropping,
}

impl Scenario {
    /// Every scenario, by load, unevenness, and way of dropping.
    fn all(supply: &Supply) -> Vec<Self> {
        let mut all = Vec::new();
        for utilisation in UTILISATIONS {
            for &wander in supply.wanders() {
                all.extend(Dropping::ALL.map(|dropping| Self {
                    utilisation,
                    wander,
                    dropping,
                }));
            }
        }
        all
    }

    /// Whether limits hold for its load.
    fn is_high(self) -> bool {
        self.utilisation > 0.9
    }

    fn link(self) -> LinkConfig {
        LinkConfig {
            dropping: self.dropping,
            ..LinkConfig::ACCEPTANCE
        }
    }

    fn label(self) -> String {
        let (load, wander) = (100.0 * self.utilisation, self.wander.label());
        format!("{load:.0} %, {wander}, {}", self.dropping.label())
    }
}

/// One reference for `n` packets, `n` from 1.
pub fn one_in(n: u32) -> Policy {
    Policy::Count {
        packets: NonZeroU32::MIN.saturating_add(n - 1),
    }
}

/// The policies that are compared, by name. The first is that of the limits: all four methods are
/// run on it, the paper's RLI and RLI-AS on the others.
fn policies() -> [(&'static str, Policy); 7] {
    let interval_ns = NonZeroU64::MIN.saturating_add(99_999);
    let either = Policy::Either {
        packets: NonZeroU32::MIN.saturating_add(99),
        interval_ns: interval_ns.saturating_add(100_000),
    };
    [
        ("1-in-100", one_in(100)),
        ("1-in-10", one_in(10)),
        ("1-in-300", one_in(300)),
        ("1-in-1000", one_in(1_000)),
        ("100 us", Policy::Time { interval_ns }),
        ("1-in-100 or 200 us", either),
        ("adaptive", Policy::Adaptive(Adaptive::default())),
    ]
}

pub fn plan<'a>(supply: &'a Supply, plan: &mut Plan<'a>) {
    let seeds = supply.setting.traffic_seeds(SEEDS);
    tables(&in_words(seeds), plan);
    let scenarios = Scenario::all(supply);
    for &scenario in &scenarios {
        plan.case(seeds, move |seed, found| {
            scenario.compare(supply, seed, found)
        });
    }
    for scenario in scenarios {
        if scenario.dropping == Dropping::TailDrop {
            plan.case(seeds, move |seed, found| {
                let traffic = supply.traffic(scenario.utilisation, scenario.wander, seed);
                scenario.segment_means(&traffic, seed, found)?;
                scenario.equal_bandwidth(&traffic, seed, found)
            });
        }
    }
}

// Long: descriptions.
fn tables(seeds: &str, plan: &mut Plan) {
    plan.table(
        "RLI: methods",
        format!(
            "Relative error of flows' mean delays over all flows, with one reference for 100 \
             packets: RLI-AS beside RLI-L and RLI (the paper's) and RLI-S; means of \
             {seeds}. Deviation: median error of the standard deviation of flows of at least \
             {STDDEV_PACKETS_MIN} packets. Paper: a median of 10 to 12 % (slide 21).",
        ),
    );
    plan.table(
        "RLI: policies",
        format!(
            "Median error of flows' mean delays, when references are injected by other rules; \
             means of {seeds}: RLI-AS, and the paper's RLI. The adaptive policy sees only measured packets, a third of the load. Over the few packets between two references its utilisation is that of single bursts, so its rate is not steady.",
        ),
    );
    plan.table(
        "RLI: bounds",
        format!(
            "Share of flows whose true mean is within the nominal 98 % bound of the estimate; also the share before calibration, the calibration factors of flows with one interval between references and with many, and the factor with which the nominal bound would cover exactly 98 % here. One reference for 100 packets; means \
             of {seeds}. In another implementation with other traffic, the uncalibrated bounds covered 95.1 to 97.9 % (RLI) and 98.9 % or more (RLI-AS).",
        ),
    );
    plan.table(
        "RLI: mean delay of the segment",
        format!(
            "Mean relative error of the mean delay of all measured packets, from the sums that \
             1-in-100 references carry; packets and references are lost equally behind the queue, in addition to drops by a full queue (hardly any under light modulation, to which the limits apply); {seeds} of traffic and {DRAWS} draws of losses for \
             each. Packets before the first and behind the last reference are left out, because a running stream has no ends. For comparison, and as the paper's figure: LDA with one bank of \
             {LDA_ROWS} rows tuned to the loss.",
        ),
    );
    plan.table(
        "RLI: adaptive against fixed rates of equal bandwidth",
        format!(
            "Median error of flows' mean delays (RLI's, and RLI-AS's) under a rule for injecting references, \
             divided by that of the better of 1-in-n and 1-in-tau with the same number of references; tail drop; means \
             of {seeds}. Paper: adaptive is better. It is not: the more references there are, the less another one helps, so a varying rate loses more while it is low than it gains while it is high. Algorithm 1 uses two intervals of a few packets, takes a burst for a busy link, and leaves most packets in its longest gaps (as packets see it: the mean over packets of the \
             length of their gap). On generated traffic smoothing 0.02 instead of 0.5 makes it 1-in-10, as good as \
             fixed and no better, for three to four times the bandwidth. Known delays: a rule that no sender can use, \
             n = {KNOWN_PACKETS} (1 + delay / {:.0} us)^(1/3); even so a fixed rate is better. The purpose of adapting is fewer references on a busy link.",
            KNOWN_NS / 1_000.0
        ),
    );
}

/// Errors of one method on one run, in per cent, over all flows unless said otherwise.
struct Outcome {
    method: Method,
    /// Median error of flows' mean delays.
    median: f64,
    p95: f64,
    /// Median error of the standard deviations of flows of at least [`STDDEV_PACKETS_MIN`].
    stddev_median: f64,
    /// Share of flows whose true mean is within the bound as it is, and within the nominal 98 %.
    covered_raw: f64,
    covered_98: f64,
    /// What the nominal bound would have to be multiplied by to cover just 98 % of flows.
    factor_98: f64,
}

/// Stamps of both ends are rounded down to a nanosecond: a bound can be no tighter.
const RESOLUTION_NS: f64 = 1.0;

impl Outcome {
    fn of(method: Method, exchange: &Exchange, truth: &Truth) -> Result<Self> {
        let received = exchange.receive(method)?;
        let errors = truth.errors(received.means_ns(), FlowTruth::mean_ns);
        let of_errors = |share| quantile(errors.iter().copied(), share);
        let raw = factors(&received, truth, FlowDelay::raw_bound_ns);
        let calibrated = factors(&received, truth, |flow| flow.bound_ns(method));
        let covered = |factors: &[f64]| percent_of(factors.iter().map(|&needed| needed <= 1.0));
        Ok(Self {
            method,
            median: of_errors(0.5),
            p95: of_errors(0.95),
            stddev_median: median(truth.errors(received.stddevs_ns(), FlowTruth::stddev_ns)),
            covered_raw: covered(&raw),
            covered_98: covered(&calibrated),
            factor_98: quantile(calibrated, 0.98),
        })
    }
}

/// What each flow's bound would have to be multiplied by to hold its true mean: 1 or less where it
/// does as it is.
fn factors(
    received: &Received,
    truth: &Truth,
    bound_ns: impl Fn(&FlowDelay) -> Option<f64>,
) -> Vec<f64> {
    let flows = truth.flows.iter().zip(&received.flows);
    let arrived = flows.filter(|(truth, _)| truth.packets > 0);
    let needed = arrived.filter_map(|(truth, estimate)| {
        let error_ns = (estimate.mean_ns()? - truth.mean_ns()).abs();
        let bound_ns = bound_ns(estimate)?;
        Some(if error_ns <= RESOLUTION_NS {
            0.0
        } else {
            error_ns / bound_ns
        })
    });
    needed.collect()
}

fn bounds(outcomes: &[Outcome], label: &str, found: &mut Found) {
    for of in outcomes {
        let name = format!("{}: {label}", name_of(of.method));
        let row = found.row(BOUNDS, name, "% of flows", of.covered_98);
        row.limit(Limit::AtLeast(98.0)).others([
            ("as it is", of.covered_raw),
            ("factor, one interval", of.method.bound_calibration(1.0)),
            ("many", of.method.bound_calibration(f64::INFINITY)),
            ("and another, for 98 %", of.factor_98),
        ]);
    }
}

/// `RLI-AS`.
fn name_of(method: Method) -> String {
    method.label().to_uppercase()
}

/// The mean in nanoseconds that an LDA gives over the same packets: one bank tuned to the losses that
/// there were. `None` where no cell is usable.
pub fn lda_mean_ns(crossings: &[Crossing], truth: &Truth) -> Result<Option<f64>> {
    let lost = truth.sent - truth.segment.packets;
    let layout = LdaLayout::new(&[Bank::for_losses(LDA_ROWS, lost, 1.0)])?;
    let mut lda = LdaPair::new(&layout);
    let regular = crossings.iter().filter(|c| c.kind == Kind::Regular);
    let packets = (0..).zip(regular).map(|(number, crossing)| {
        let sent_ns = crossing.sent_ns();
        let delay_ns = crossing.received_ns().map(|at_ns| at_ns - sent_ns);
        Packet::of_segment(packet_hash(number), sent_ns, delay_ns)
    });
    record(|end, burst| lda.record(end, burst), packets);
    Ok(lda.estimate(truth.segment.packets).mean_ticks)
}

impl Scenario {
    /// Every policy in one scenario: methods and bounds of the first, errors of all.
    fn compare(self, supply: &Supply, seed: u64, found: &mut Found) -> Result<()> {
        let traffic = supply.traffic(self.utilisation, self.wander, seed);
        let label = self.label();
        for (number, (name, policy)) in policies().into_iter().enumerate() {
            let exchange = Exchange::send(&traffic, &self.link(), policy, seed)?;
            let truth = Truth::of(&exchange.crossings, traffic.flows);
            let outcome = |method| Outcome::of(method, &exchange, &truth);
            let (rli, anchored) = (outcome(Method::Linear)?, outcome(Method::AnchoredSums)?);
            let references = exchange.references() as f64;
            let row = found.row(POLICIES, format!("{name}: {label}"), "%", anchored.median);
            row.others([
                ("RLI", rli.median),
                ("packets a reference", truth.sent as f64 / references),
                ("% of the link", exchange.bandwidth_percent()),
            ]);
            if number == 0 {
                let references = exchange.crossings.iter();
                let references = references.filter(|crossing| crossing.kind == Kind::Reference);
                let lost = percent_of(references.map(|crossing| crossing.received_ps.is_none()));
                let others = [
                    ("packets lost", truth.lost_percent()),
                    ("references lost", lost),
                ];
                let all = [
                    outcome(Method::Left)?,
                    rli,
                    outcome(Method::Sums)?,
                    anchored,
                ];
                self.methods(&all, others, found);
                bounds(&all, &label, found);
            }
        }
        Ok(())
    }

    /// Rows of the methods; limits hold for the high load.
    fn methods(self, all: &[Outcome; 4], lost: [(&str, f64); 2], found: &mut Found) {
        type FigureOf = fn(&Outcome) -> f64;
        let [left, rli, sums, anchored] = all;
        let name = self.label();
        let judged = |limit: Limit| Some(limit).filter(|_| self.is_high());
        let (median_most, p95_most) = match self.dropping {
            Dropping::TailDrop => (0.60, Some(0.50)),
            Dropping::Red => (0.75, None),
        };
        let figures: [(&str, FigureOf, Option<f64>); 3] = [
            ("median", |o| o.median, Some(median_most)),
            ("95th percentile", |o| o.p95, p95_most),
            ("deviation", |o| o.stddev_median, Some(0.75)),
        ];
        for (what, figure, _) in figures {
            let row = found.row(METHODS, format!("{what}: {name}"), "%", figure(anchored));
            row.paper((what == "median" && self.is_high()).then_some(12.0));
            let others = [("RLI-L", left), ("RLI", rli), ("RLI-S", sums)];
            row.others(others.map(|(name, outcome)| (name, figure(outcome))));
        }
        let row = found.row(METHODS, format!("RLI's median: {name}"), "%", rli.median);
        row.limit(judged(Limit::Between(2.0, 12.0))).others(lost);
        for (what, figure, most) in figures {
            let check = format!("RLI-AS / RLI, {what}: {name}");
            let row = found.ratio(METHODS, check, figure(anchored), [figure(rli)]);
            row.limit(most.map(Limit::AtMost).and_then(judged));
        }
    }

    /// The mean delay of the whole segment: for each loss, mean errors over draws of sums that references carry, and of LDA.
    fn segment_means(self, traffic: &Traffic, seed: u64, found: &mut Found) -> Result<()> {
        let whole = Exchange::send(traffic, &self.link(), one_in(100), seed)?;
        for (loss, prototype) in LOSSES {
            let (mut of_sums, mut of_lda) = (Vec::new(), Vec::new());
            for draw in 0..DRAWS {
                let mut exchange = whole.clone();
                lose(&mut exchange.crossings, loss, seed * DRAWS + draw);
                let between = exchange.between_references();
                let truth = Truth::of(between, traffic.flows);
                let error = |estimate_ns: Option<f64>| {
                    error_percent(estimate_ns.unwrap_or(f64::NAN), truth.segment.mean_ns())
                };
                of_sums.push(error(exchange.receive(Method::Linear)?.segment.mean_ns()));
                of_lda.push(error(lda_mean_ns(between, &truth)?));
            }
            let label = self.label();
            let check = format!("{:.1} % lost at random, {label}", 100.0 * loss);
            let row = found.row(SEGMENT, check, "%", mean(of_sums));
            // Under heavy modulation the queue adds losses of its own, which do not come at random.
            let judged = prototype.filter(|_| self.wander == Wander::Light);
            row.other("LDA", mean(of_lda));
            row.limit(judged.map(|(most, _)| Limit::AtMost(most)));
            row.paper(prototype.map(|(_, lda)| lda));
        }
        Ok(())
    }

    /// Each rule of adaptive injection, beside the fixed rates that send as many references.
    fn equal_bandwidth(self, traffic: &Traffic, seed: u64, found: &mut Found) -> Result<()> {
        let under = |policy| Exchange::send(traffic, &self.link(), policy, seed);
        let paper = under(Policy::Adaptive(Adaptive::default()))?;
        let steady = under(Policy::Adaptive(STEADY))?;
        let known = self.knowing_delays(traffic, seed)?;
        for (name, limit, exchange) in [
            ("adaptive", None, paper),
            ("adaptive, smoothing 0.02", Some(STEADY_LIMIT), steady),
            ("known delays", None, known),
        ] {
            let (packets, squares) = gaps(&exchange.crossings);
            let references = exchange.references().max(1) as f64;
            let n = u32::try_from(whole((packets / references).round()))?;
            let interval_ns = traffic.duration_ps as f64 / references / PS_PER_NS as f64;
            let interval_ns = NonZeroU64::new(whole(interval_ns) as u64).unwrap_or(NonZeroU64::MIN);
            let count = under(one_in(n.max(NonZeroU32::MIN.get())))?;
            let time = under(Policy::Time { interval_ns })?;
            for method in [Method::Linear, Method::AnchoredSums] {
                let error = |exchange: &Exchange| {
                    let truth = Truth::of(&exchange.crossings, traffic.flows);
                    let received = exchange.receive(method)?;
                    anyhow::Ok(median(
                        truth.errors(received.means_ns(), FlowTruth::mean_ns),
                    ))
                };
                let [ours, count_error, time_error] =
                    [error(&exchange)?, error(&count)?, error(&time)?];
                let check = format!("{}, {name}: {}", name_of(method), self.label());
                let row = found.ratio(BANDWIDTH, check, ours, [count_error, time_error]);
                row.limit(limit).others([
                    ("median, %", ours),
                    ("1-in-n", count_error),
                    ("1-in-tau", time_error),
                    ("packets a reference", packets / references),
                    ("as packets see it", squares / packets),
                    ("of 1-in-n", f64::from(n)),
                    ("of 1-in-tau", packets / time.references() as f64),
                    ("% of the link", exchange.bandwidth_percent()),
                ]);
            }
        }
        Ok(())
    }

    /// References by a rule that knows how long each packet will wait.
    fn knowing_delays(self, traffic: &Traffic, seed: u64) -> Result<Exchange> {
        let alone = cross(traffic, &self.link(), seed, |_| None);
        let regular = |crossing: &&Crossing| crossing.kind == Kind::Regular;
        let mut delays = alone.iter().filter(regular).map(Crossing::delay_ns);
        let mut due = 0.0;
        Exchange::send_by(traffic, &self.link(), seed, move |_, _| {
            // A packet that a full queue drops waits for nothing.
            let delay_ns = delays.next().flatten().unwrap_or(0.0);
            due += (1.0 + delay_ns / KNOWN_NS).cbrt().recip() / KNOWN_PACKETS;
            let is_due = due >= 1.0;
            due -= f64::from(u8::from(is_due));
            is_due
        })
    }
}

/// Regular packets, and the sum of the squares of their numbers from one reference to the next.
fn gaps(crossings: &[Crossing]) -> (f64, f64) {
    let gaps = crossings.split(|crossing| crossing.kind == Kind::Reference);
    gaps.fold((0.0, 0.0), |(packets, squares), gap| {
        let regular = gap.iter().filter(|crossing| crossing.kind == Kind::Regular);
        let regular = regular.count() as f64;
        (packets + regular, squares + regular * regular)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_delay_is_recovered_by_every_method() {
        // One packet a microsecond, all alike: none waits, but for the one behind each reference.
        let arrival = |number: u64| Crossing {
            sent_ps: number * 1_000_000,
            received_ps: None,
            flow: u32::try_from(number % 7).unwrap(),
            bytes: 64,
            kind: Kind::Regular,
            class: 0,
        };
        let traffic = Traffic {
            arrivals: (0..10_000).map(arrival).collect(),
            flows: 7,
            duration_ps: 10_000_000_000,
        };
        let exchange = Exchange::send(&traffic, &LinkConfig::ACCEPTANCE, one_in(10), 1).unwrap();
        assert_eq!(exchange.references(), 1_000);
        let truth = Truth::of(&exchange.crossings, traffic.flows);
        assert!((truth.segment.mean_ns() - 51.2).abs() < 1e-9);
        assert!(truth.lost_percent().abs() < 1e-9);
        // A reference that waits for the packet before it: 51.2 ns more than the packets have.
        for method in [Method::Left, Method::Linear] {
            let received = exchange.receive(method).unwrap();
            for mean_ns in received.means_ns() {
                assert!((mean_ns - 102.4).abs() < 2.0, "{method:?}: {mean_ns}");
            }
        }
        // The sums know better.
        for method in [Method::Sums, Method::AnchoredSums] {
            let received = exchange.receive(method).unwrap();
            for mean_ns in received.means_ns() {
                assert!((mean_ns - 51.2).abs() < 15.0, "{method:?}: {mean_ns}");
            }
            let segment_ns = received.segment.mean_ns().unwrap();
            assert!((segment_ns - 51.2).abs() < 1.0, "{segment_ns}");
        }
    }
}
