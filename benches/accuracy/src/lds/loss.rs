//! Under loss: k = 5 and rows that sample (section 5.2, fig. 11).

use anyhow::Result;
use measure::lds::LdsLayout;

use super::Seed;
use super::job::{Axes, FigureOf, Job, Part, TableOf, checked, row_of_medians};
use super::memory::bounds;
use crate::sketched::{Known, Sketched, columns_for, errors, means};
use crate::table::Curve;
use crate::trace::{Losses, Truth};
use reporting::statistics::percent_of;

pub(super) const JOBS: [Job; 12] = [
    |seed| multibank(seed, &LOSSES[0]),
    |seed| multibank(seed, &LOSSES[1]),
    |seed| multibank(seed, &LOSSES[2]),
    |seed| multibank(seed, &EPISODES),
    |seed| single(seed, &LOSSES[0], 0.05),
    |seed| single(seed, &LOSSES[1], 0.05),
    |seed| single(seed, &LOSSES[2], 0.05),
    |seed| single(seed, &EPISODES, 0.05),
    |seed| single(seed, &LOSSES[0], 1.0),
    |seed| single(seed, &LOSSES[1], 1.0),
    |seed| single(seed, &LOSSES[2], 1.0),
    |seed| single(seed, &EPISODES, 1.0),
];

/// The rows of the paper's multi-bank sketch.
const MULTIBANK: [f64; 4] = [0.01, 0.1, 0.5, 1.0];

/// A loss process, what the prototype gave for the paper's decoder, and the limit.
struct AtLoss {
    losses: Losses,
    name: &'static str,
    check: Option<(f64, f64)>,
    figure: FigureOf,
}

const fn figure(name: &'static str, title: &'static str) -> FigureOf {
    FigureOf {
        name,
        title,
        axes: Axes::Cdf,
    }
}

const LOSSES: [AtLoss; 3] = [
    AtLoss {
        losses: Losses::Uniform(0.001),
        name: "0.1 % loss",
        check: Some((3.3, 0.3)),
        figure: figure(
            "lds-fig11-0.1",
            "0.1 % uniform loss, flows of 1000 packets and more",
        ),
    },
    AtLoss {
        losses: Losses::Uniform(0.005),
        name: "0.5 % loss",
        check: Some((3.5, 0.65)),
        figure: figure(
            "lds-fig11-0.5",
            "0.5 % uniform loss, flows of 1000 packets and more",
        ),
    },
    AtLoss {
        losses: Losses::Uniform(0.01),
        name: "1 % loss",
        check: Some((3.7, 1.0)),
        figure: figure(
            "lds-fig11-1",
            "1 % uniform loss, flows of 1000 packets and more",
        ),
    },
];

const EPISODES: AtLoss = AtLoss {
    losses: Losses::Episodes(0.01),
    name: "1 % loss in episodes of 100 packets",
    check: None,
    figure: figure(
        "lds-fig11-episodes",
        "1 % loss in episodes, flows of 1000 packets and more",
    ),
};

/// A sketch under loss, with the truth about what arrived.
struct Lossy {
    sketched: Sketched,
    truth: Truth,
}

impl Lossy {
    fn new(seed: &Seed<'_>, at: &AtLoss, probabilities: &[f64]) -> Result<Self> {
        let columns = columns_for(&seed.trace, 87_500);
        let layout = LdsLayout::new(columns, 5, probabilities)?;
        let losses = at.losses.on(&seed.trace, seed.number);
        Ok(Self {
            sketched: Sketched::new(&seed.trace, &layout, &losses, |_| 0),
            truth: Truth::of(&seed.trace, &losses),
        })
    }

    fn errors(&self, estimates: &[f64], least: f64) -> Vec<f64> {
        errors(estimates, &self.truth.mean_ns, self.truth.flows_of(least))
    }

    fn joint(&self, components: usize) -> Result<measure::lds::Decoded> {
        self.sketched.joint(Known {
            packets: Some(&self.truth.received),
            components,
            ..Known::default()
        })
    }

    /// Large flows with no cell that can be read.
    fn unread(&self) -> f64 {
        percent_of(self.truth.flows_of(1000.0).map(|flow| {
            let columns = self.sketched.columns_of(flow);
            self.sketched.cells.estimate_at(columns).is_none()
        }))
    }
}

fn multibank(seed: &Seed<'_>, at: &AtLoss) -> Result<Vec<Part>> {
    let lossy = Lossy::new(seed, at, &MULTIBANK)?;
    let (one, two) = (lossy.joint(1)?, lossy.joint(2)?);
    let (estimates, paper) = (means(&one), lossy.sketched.paper());
    let errors = lossy.errors(&estimates, 1000.0);
    let paper_errors = lossy.errors(&paper, 1000.0);
    let check = format!(
        "k = 5, rows .01/.1/.5/1, K = 1, {}: >= 1000 packets",
        at.name
    );
    let row = row_of_medians(
        check,
        errors.clone(),
        vec![
            ("K = 2", lossy.errors(&means(&two), 1000.0)),
            ("paper's decoder", paper_errors.clone()),
        ],
    );
    let mut parts = vec![match at.check {
        Some((methods, most)) => checked(seed, row, methods, most),
        None => Part::Row(TableOf::Loss, row),
    }];
    let hundreds = row_of_medians(
        format!("rows .01/.1/.5/1, {}: >= 100 packets", at.name),
        lossy.errors(&estimates, 100.0),
        vec![("paper's decoder", lossy.errors(&paper, 100.0))],
    );
    let all = row_of_medians(
        format!("rows .01/.1/.5/1, {}: all flows", at.name),
        lossy.errors(&estimates, 0.0),
        vec![("paper's decoder", lossy.errors(&paper, 0.0))],
    );
    parts.extend([hundreds, all].map(|row| Part::Row(TableOf::Loss, row)));
    for (components, decoded) in [(1, &one), (2, &two)] {
        let what = format!("k = 5, rows .01/.1/.5/1, {}, K = {components}", at.name);
        parts.push(Part::Row(
            TableOf::Bounds,
            bounds(&what, decoded, &lossy.truth),
        ));
    }
    parts.push(Part::Curve(
        at.figure,
        Curve::cdf("four banks, joint", errors),
    ));
    parts.push(Part::Curve(
        at.figure,
        Curve::cdf("four banks, paper", paper_errors),
    ));
    Ok(parts)
}

fn single(seed: &Seed<'_>, at: &AtLoss, probability: f64) -> Result<Vec<Part>> {
    let lossy = Lossy::new(seed, at, &[probability; 4])?;
    let joint = lossy.errors(&means(&lossy.joint(1)?), 1000.0);
    let paper = lossy.errors(&lossy.sketched.paper(), 1000.0);
    let curves = [("joint", &joint), ("paper", &paper)].map(|(decoder, errors)| {
        let label = format!("p = {probability}, {decoder}");
        Part::Curve(at.figure, Curve::cdf(label, errors.clone()))
    });
    let check = format!("one bank, p = {probability}, {}: >= 1000 packets", at.name);
    let row = row_of_medians(check, joint, vec![("paper's decoder", paper)])
        .other("flows without a cell (%)", lossy.unread());
    Ok(std::iter::once(Part::Row(TableOf::Loss, row))
        .chain(curves)
        .collect())
}
