//! The hybrid: LDS whose joint decoding uses RLI's estimate as a feature, beside both alone.

mod chosen;
pub mod interpolation;

use anyhow::Result;
use measure::lds::LdsLayout;
use rayon::prelude::*;

use super::replay::Replay;
use super::sketched::{Known, Sketched, columns_for, errors, means};
use super::table::{Curve, Figure, Limit, Row, Table, mean_rows};
use super::trace::{Losses, Scenario, Trace, Truth};
use super::traffic::capture::Capture;
use super::{Experiment, Findings, Setting, Source};
use interpolation::Interpolated;
use reporting::statistics::median;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hybrid",
    title: "Hybrid: LDS that knows what RLI says",
    steps,
    run,
};

/// Seeds that the limits ask for.
const SEEDS: u32 = 5;
/// Groups of flows by packets.
const GROUPS: [(f64, &str); 3] = [
    (0.0, "all flows"),
    (100.0, ">= 100 packets"),
    (1000.0, ">= 1000 packets"),
];

/// What the prototype gave for a scenario, in per cent: (all flows, >= 1000 packets).
struct Printed {
    hybrid: (f64, f64),
    rli: (f64, f64),
    paper_lds: (f64, f64),
}

/// In the order of [`Scenario::ALL`].
const PRINTED: [Printed; 4] = [
    Printed {
        hybrid: (0.95, 0.0031),
        rli: (1.24, 0.070),
        paper_lds: (7.0, 0.047),
    },
    Printed {
        hybrid: (5.4, 0.017),
        rli: (11.1, 5.5),
        paper_lds: (13.1, 0.48),
    },
    Printed {
        hybrid: (2.4, 0.0095),
        rli: (3.1, 0.16),
        paper_lds: (8.2, 0.24),
    },
    Printed {
        hybrid: (3.5, 0.012),
        rli: (5.1, 1.6),
        paper_lds: (6.5, 0.11),
    },
];

/// What a scenario gives on one seed.
struct Outcome {
    /// Three rows: one a group.
    rows: Vec<Row>,
    /// What the chooser made of it.
    chosen: Vec<Row>,
    curves: Vec<Curve>,
}

fn seeds(setting: &Setting) -> u64 {
    let usual = match setting.source {
        Source::Generated => SEEDS,
        Source::Capture(_) => 1,
    };
    setting.seeds.unwrap_or(usual).max(1).into()
}

fn steps(setting: &Setting) -> u64 {
    match setting.source {
        Source::Generated => seeds(setting) * Scenario::ALL.len() as u64,
        Source::Capture(_) => seeds(setting),
    }
}

fn run(setting: &Setting, step: &(dyn Fn() + Sync)) -> Result<Findings> {
    let mut findings = Findings::default();
    match &setting.source {
        Source::Generated => {
            for (scenario, printed) in Scenario::ALL.iter().zip(&PRINTED) {
                let trace = |seed| Trace::generate(scenario, seed, setting.scale);
                let mut found = tried(setting, scenario.name, trace, step)?;
                for (group, row) in found.rows.iter_mut().enumerate() {
                    *row = with_printed(row.clone(), group, printed);
                }
                findings.add(setting, scenario.name, scenario.title, found);
            }
        }
        Source::Capture(path) => {
            let replay = Replay::two_paths(&Capture::read(path)?);
            let trace =
                |seed| Trace::from_passages(&replay.passages, replay.references.clone(), seed);
            let found = tried(setting, "capture", trace, step)?;
            let title = format!("packets of {} over two paths", path.display());
            findings.add(setting, "capture", &title, found);
        }
    }
    Ok(findings)
}

/// All seeds: mean rows, and the first seed's curves.
fn tried(
    setting: &Setting,
    name: &str,
    trace: impl Fn(u64) -> Trace + Sync,
    step: &(dyn Fn() + Sync),
) -> Result<Outcome> {
    let outcomes: Vec<Outcome> = (0..seeds(setting))
        .into_par_iter()
        .map(|seed| {
            let outcome = outcome(name, &trace(seed), seed)?;
            step();
            Ok(outcome)
        })
        .collect::<Result<_>>()?;
    let mean_of = |rows: fn(&Outcome) -> &Vec<Row>| {
        mean_rows(
            &outcomes
                .iter()
                .map(|outcome| rows(outcome).clone())
                .collect::<Vec<_>>(),
        )
    };
    Ok(Outcome {
        rows: mean_of(|outcome| &outcome.rows),
        chosen: mean_of(|outcome| &outcome.chosen),
        curves: outcomes
            .into_iter()
            .next()
            .map_or_else(Vec::new, |first| first.curves),
    })
}

fn outcome(name: &str, trace: &Trace, seed: u64) -> Result<Outcome> {
    let losses = Losses::None.on(trace, seed);
    let truth = Truth::of(trace, &losses);
    let layout = LdsLayout::new(columns_for(trace, 17_500), 1, &[1.0; 4])?;
    let sketched = Sketched::new(trace, &layout, &losses, |_| 0);
    let rli = Interpolated::of(trace);
    let joint = |feature| {
        sketched.joint(Known {
            packets: Some(&truth.received),
            feature,
            components: 2,
        })
    };
    let (hybrid, alone) = (joint(&rli.mean_ns)?, joint(&[])?);
    let choices = chosen::choices(trace, &alone, &hybrid, &rli);
    let estimates = [
        ("hybrid", means(&hybrid)),
        (RLI, rli.mean_ns),
        (JOINT, means(&alone)),
        (PAPER, sketched.paper()),
    ];
    let of = |estimates: &[f64], least| errors(estimates, &truth.mean_ns, truth.flows_of(least));
    let rows = GROUPS
        .into_iter()
        .map(|(least, group)| {
            let [(_, hybrid), others @ ..] = &estimates;
            let row = Row::new(format!("{name}: {group}"), "%", median(of(hybrid, least)));
            others.iter().fold(row, |row, (name, estimates)| {
                row.other(*name, median(of(estimates, least)))
            })
        })
        .collect();
    let curves = estimates
        .iter()
        .map(|(name, estimates)| Curve::cdf(*name, of(estimates, 100.0)))
        .collect();
    Ok(Outcome {
        rows,
        chosen: chosen::rows(name, &choices, &truth),
        curves,
    })
}

/// Names of the other methods.
const RLI: &str = "RLI";
const JOINT: &str = "LDS joint";
const PAPER: &str = "paper's LDS";

fn with_printed(row: Row, group: usize, printed: &Printed) -> Row {
    let pick = |(all, large): (f64, f64)| match group {
        0 => Some(all),
        2 => Some(large),
        _ => None,
    };
    let others = [
        ("RLI (prototype)", printed.rli),
        ("paper's LDS (prototype)", printed.paper_lds),
    ];
    others
        .into_iter()
        .filter_map(|(name, figures)| Some((name, pick(figures)?)))
        .fold(row.paper(pick(printed.hybrid)), |row, (name, figure)| {
            row.other(name, figure)
        })
}

/// How the hybrid's error compares with the better of RLI and LDS.
fn beside_the_better(setting: &Setting, name: &str, row: &Row) -> Row {
    let better = row
        .others
        .iter()
        .filter(|(name, _)| [RLI, JOINT].contains(&name.as_str()))
        .map(|&(_, figure)| figure)
        .fold(f64::INFINITY, f64::min);
    let check = format!(
        "{name}: {}, hybrid / the better of RLI and LDS joint",
        GROUPS[1].1
    );
    Row::new(check, "ratio", row.ours / better).limit(setting.judged(Limit::AtMost(1.05)))
}

impl Findings {
    /// A scenario's table and figure.
    fn add(&mut self, setting: &Setting, name: &str, title: &str, found: Outcome) {
        let mut rows = found.rows;
        if let Some(row) = rows.get(1) {
            rows.push(beside_the_better(setting, name, row));
        }
        self.tables.push(Table {
            title: format!("Hybrid: {title}"),
            about: format!(
                "Median relative errors of per-flow means; 17500 x 4 (scaled to the flows), K = 2 \
                 for the hybrid and for LDS joint; RLI interpolates references of path 0 alone; \
                 mean of {} seeds. Paper: the hybrid's reference values.",
                seeds(setting)
            ),
            rows,
        });
        self.tables.push(Table {
            title: format!("Chooser: {title}"),
            about: "For each flow the hybrid or, where it shares the references' queue with all of its \
                    packets, the one of hybrid and RLI with the smaller 98 % bound; their mean, \
                    weighted by these, where they are alike. LDS joint is silent beside the hybrid."
                .to_owned(),
            rows: found.chosen,
        });
        self.figures.push(Figure {
            name: format!("hybrid-{name}"),
            title: format!("Hybrid, {title}: error of flows of 100 packets and more"),
            x_label: "relative error (%)".to_owned(),
            y_label: "share of flows".to_owned(),
            x_log: true,
            curves: found.curves,
        });
    }
}

#[cfg(test)]
mod tests;
