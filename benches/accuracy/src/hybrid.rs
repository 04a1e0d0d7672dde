//! The hybrid, LDS whose joint decoding uses RLI's estimate as a feature, compared with both alone; and the chooser,
//! which for each flow takes the estimate with the smallest bound.

use anyhow::Result;
use measure::chooser::{Candidate, Decoding, Method, choose};
use measure::lds::{Decoded, LdsLayout};
use measure::rli;
use reporting::Limit;
use reporting::statistics::{error_percent, median, percent_of};

use crate::capture::Replay;
use crate::experiment::{Found, Plan};
use crate::interpolation::Interpolated;
use crate::sketched::{Sketched, columns_for, means};
use crate::trace::{ALL, HUNDREDS, Losses, Scenario, Sizes, THOUSANDS, Trace, Truth};
use crate::traffic::Supply;

/// Number of seeds for the limits.
const SEEDS: u32 = 5;
/// Groups of flows by packets with their names, and the number of the prototype's figures for them.
const GROUPS: [(Sizes, &str, Option<usize>); 3] = [
    (ALL, "all flows", Some(0)),
    (HUNDREDS, ">= 100 packets", None),
    (THOUSANDS, ">= 1000 packets", Some(1)),
];
/// References are interpolated by lines.
const RLI: Method = Method::Rli(rli::Method::Linear);
/// The clock of a trace: whole nanoseconds.
const FLOOR_NS: f64 = 1.0;

/// The prototype's results for a scenario, in per cent: the hybrid, RLI, and the paper's LDS, each for all flows and
/// for flows of 1000 packets and more.
type Prototype = [[f64; 2]; 3];

/// In the order of [`Scenario::ALL`].
const PROTOTYPE: [Prototype; 4] = [
    [[0.95, 0.0031], [1.24, 0.070], [7.0, 0.047]],
    [[5.4, 0.017], [11.1, 5.5], [13.1, 0.48]],
    [[2.4, 0.0095], [3.1, 0.16], [8.2, 0.24]],
    [[3.5, 0.012], [5.1, 1.6], [6.5, 0.11]],
];

pub fn plan<'a>(supply: &'a Supply, plan: &mut Plan<'a>) {
    let (seeds, scale) = (supply.setting.traffic_seeds(SEEDS), supply.setting.scale);
    if let (Some(path), Some(capture)) = (&supply.setting.capture, &supply.capture) {
        let replay = Replay::two_paths(capture);
        let title = format!("packets of {} over two paths", path.display());
        let case = describe("capture", &title, seeds, None, plan);
        plan.case(seeds, move |seed, found| {
            case.run(&replay.trace(seed), seed, found)
        });
        return;
    }
    for (scenario, prototype) in Scenario::ALL.iter().zip(PROTOTYPE) {
        let Scenario { name, title, .. } = *scenario;
        let case = describe(name, title, seeds, Some(prototype), plan);
        plan.case(seeds, move |seed, found| {
            case.run(&Trace::generate(scenario, seed, scale), seed, found)
        });
    }
}

/// A scenario: its tables are two, for the hybrid and for the chooser.
struct Case {
    name: &'static str,
    table: usize,
    prototype: Option<Prototype>,
}

/// Adds the tables of a scenario.
fn describe(
    name: &'static str,
    title: &str,
    seeds: u32,
    prototype: Option<Prototype>,
    plan: &mut Plan<'_>,
) -> Case {
    let case = Case {
        name,
        table: plan.tables.len(),
        prototype,
    };
    plan.table(
        format!("Hybrid: {title}"),
        format!(
            "Median relative errors of per-flow means; 17500 x 4 (scaled to the flows), K = 2 \
             for the hybrid and for LDS joint; RLI interpolates references of path 0 alone; \
             mean of {seeds} seeds. Paper: the hybrid's reference values."
        ),
    );
    plan.table(
        format!("Chooser: {title}"),
        "For each flow the hybrid or, if all its packets share the references' queue, whichever of hybrid and RLI has the smaller 98 % bound, or their mean weighted by the bounds if these are similar. LDS joint is not used if there is a hybrid.",
    );
    case
}

impl Case {
    fn run(&self, trace: &Trace, seed: u64, found: &mut Found) -> Result<()> {
        let losses = Losses::None.on(trace, seed);
        let truth = Truth::of(trace, &losses);
        let layout = LdsLayout::new(columns_for(trace, 17_500), 1, &[1.0; 4])?;
        let sketched = Sketched::new(trace, &layout, &losses, |_| 0);
        let rli = Interpolated::of(trace);
        let joint = |feature| sketched.joint(2, Some(&truth.received), feature);
        let (hybrid, alone) = (joint(&rli.mean_ns)?, joint(&[])?);
        let choices = choices(trace, &alone, &hybrid, &rli);
        let hybrid = means(&hybrid);
        let others = [
            ("RLI", rli.mean_ns),
            ("LDS joint", means(&alone)),
            ("paper's LDS", sketched.paper()),
        ];
        self.estimates(&truth, &hybrid, &others, found);
        self.chosen(&choices, &truth, found);
        Ok(())
    }

    fn estimates(
        &self,
        truth: &Truth,
        hybrid: &[f64],
        others: &[(&str, Vec<f64>); 3],
        found: &mut Found,
    ) {
        let name = self.name;
        let errors = |estimates: &[f64], packets| truth.median(estimates, packets);
        for (packets, group, of_prototype) in GROUPS {
            let check = format!("{name}: {group}");
            let row = found.row(self.table, check, "%", errors(hybrid, packets));
            let others = others.iter();
            row.others(others.map(|(method, of)| (*method, errors(of, packets))));
            if let Some(([hybrid, rli, lds], group)) = self.prototype.zip(of_prototype) {
                row.paper(hybrid[group])
                    .other("RLI (prototype)", rli[group])
                    .other("paper's LDS (prototype)", lds[group]);
            }
        }
        let [(_, rli), (_, joint), _] = others;
        let over = [rli, joint].map(|estimates| errors(estimates, HUNDREDS));
        let check = format!(
            "{name}: {}, hybrid / the better of RLI and LDS joint",
            GROUPS[1].1
        );
        let row = found.ratio(self.table, check, errors(hybrid, HUNDREDS), over);
        row.limit(Limit::AtMost(1.05));
    }

    /// Errors of the chosen estimates, how often their bounds hold, and their methods.
    fn chosen(&self, choices: &[Option<Candidate>], truth: &Truth, found: &mut Found) {
        let means = choices.iter();
        let means = means.map(|choice| choice.map_or(f64::NAN, |choice| choice.mean_ticks));
        let means: Vec<f64> = means.collect();
        let share_of = |method| {
            let is_chosen = |choice: &Option<Candidate>| choice.is_some_and(|c| c.method == method);
            percent_of(choices.iter().map(is_chosen))
        };
        let chosen_for = |flow: usize| {
            let chosen = choices.get(flow).copied().flatten();
            chosen.zip(truth.mean_ns.get(flow).copied())
        };
        let held = |packets| {
            percent_of(truth.flows(packets).map(|flow| {
                chosen_for(flow).is_some_and(|(chosen, mean_ns)| {
                    (chosen.mean_ticks - mean_ns).abs() <= chosen.bound_ticks
                })
            }))
        };
        let bounds = truth.flows(ALL).filter_map(|flow| {
            let (chosen, mean_ns) = chosen_for(flow)?;
            Some(error_percent(mean_ns + chosen.bound_ticks, mean_ns))
        });
        let (table, name) = (self.table + 1, self.name);
        let by = [Method::Combined, Method::Hybrid, RLI];
        let by = by.map(|method| (format!("by {} (%)", method.name()), share_of(method)));
        let check = format!("{name}: error of the choice, all flows");
        let row = found.row(table, check, "%", truth.median(&means, ALL));
        row.others(by);
        let check = format!("{name}: error of the choice, >= 100 packets");
        found.row(table, check, "%", truth.median(&means, HUNDREDS));
        let check = format!("{name}: flows in the bound of the choice");
        found.row(table, check, "%", held(ALL)).others([
            (">= 100 packets", held(HUNDREDS)),
            ("median bound (% of the mean)", median(bounds)),
        ]);
    }
}

/// The choice for every flow; `None` without an estimate.
fn choices(
    trace: &Trace,
    joint: &Decoded,
    hybrid: &Decoded,
    rli: &Interpolated,
) -> Vec<Option<Candidate>> {
    let choice = |flow: usize| {
        let decoded = |of: &Decoded, decoding| Candidate::decoded(of.flows.get(flow)?, decoding);
        let of_rli = rli.mean_ns.get(flow).zip(rli.bound_ns.get(flow));
        let of_rli = of_rli.filter(|_| trace.shares_reference_queue(flow));
        let candidate =
            |(&mean_ns, &bound_ns)| Candidate::rli(rli::Method::Linear, mean_ns, bound_ns);
        let candidates = [
            decoded(hybrid, Decoding::CellsAndReferences),
            decoded(joint, Decoding::Cells),
            of_rli.map(candidate),
        ];
        choose(candidates.into_iter().flatten(), FLOOR_NS)
    };
    (0..trace.flows()).map(choice).collect()
}
