//! Customers of three classes (section 5.3, fig. 12).

use anyhow::Result;
use measure::lds::LdsLayout;

use super::Seed;
use super::job::{Axes, FigureOf, Job, Part, TableOf, checked, row_of_medians};
use crate::sketched::{Known, Sketched, columns_for, errors, means};
use crate::table::Curve;
use crate::trace::Losses;
use crate::traffic::mix;

pub(super) const JOBS: [Job; 8] = [
    |seed| weighted(seed, &CASES[0]),
    |seed| weighted(seed, &CASES[1]),
    |seed| weighted(seed, &CASES[2]),
    |seed| weighted(seed, &CASES[3]),
    |seed| weighted(seed, &CASES[4]),
    |seed| weighted(seed, &CASES[5]),
    |seed| weighted(seed, &CASES[6]),
    |seed| weighted(seed, &CASES[7]),
];

/// Classes in the order of their segments.
const CLASSES: [&str; 3] = ["bronze", "silver", "gold"];

/// A size, and weights in the order of classes.
struct Case {
    columns: u32,
    weights: [u32; 3],
    name: &'static str,
    figure: &'static str,
    title: &'static str,
    /// For gold, silver and bronze: what the prototype gave for the paper's decoder, and the limit.
    checks: Option<[(f64, f64); 3]>,
}

const fn case(
    columns: u32,
    weights: [u32; 3],
    name: &'static str,
    figure: &'static str,
    title: &'static str,
) -> Case {
    Case {
        columns,
        weights,
        name,
        figure,
        title,
        checks: None,
    }
}

/// Fig. 12: two sizes, three weightings, and none.
const CASES: [Case; 8] = [
    Case {
        // In the order of CLASSES.
        checks: Some([(15.7, 16.0), (7.4, 2.0), (3.4, 0.5)]),
        ..case(
            10_000,
            [1, 25, 100],
            "10000 x 4, weights 1/25/100",
            "lds-fig12-10000-25-100",
            "weights 1, 25, 100; 10000 x 4; all flows",
        )
    },
    case(
        10_000,
        [1, 10, 100],
        "10000 x 4, weights 1/10/100",
        "lds-fig12-10000-10-100",
        "weights 1, 10, 100; 10000 x 4; all flows",
    ),
    case(
        10_000,
        [1, 50, 2500],
        "10000 x 4, weights 1/50/2500",
        "lds-fig12-10000-50-2500",
        "weights 1, 50, 2500; 10000 x 4; all flows",
    ),
    case(
        10_000,
        [1, 1, 1],
        "10000 x 4, no weights",
        "lds-fig12-10000-none",
        "no weights; 10000 x 4; all flows",
    ),
    case(
        25_000,
        [1, 25, 100],
        "25000 x 4, weights 1/25/100",
        "lds-fig12-25000-25-100",
        "weights 1, 25, 100; 25000 x 4; all flows",
    ),
    case(
        25_000,
        [1, 10, 100],
        "25000 x 4, weights 1/10/100",
        "lds-fig12-25000-10-100",
        "weights 1, 10, 100; 25000 x 4; all flows",
    ),
    case(
        25_000,
        [1, 50, 2500],
        "25000 x 4, weights 1/50/2500",
        "lds-fig12-25000-50-2500",
        "weights 1, 50, 2500; 25000 x 4; all flows",
    ),
    case(
        25_000,
        [1, 1, 1],
        "25000 x 4, no weights",
        "lds-fig12-25000-none",
        "no weights; 25000 x 4; all flows",
    ),
];

/// Bronze 90 %, silver 9 %, gold 1 % of flows, at random.
fn class_of(seed: u64, flow: usize) -> u16 {
    match mix(seed.rotate_left(17) ^ flow as u64) % 100 {
        0 => 2,
        1..10 => 1,
        _ => 0,
    }
}

fn weighted(seed: &Seed<'_>, case: &Case) -> Result<Vec<Part>> {
    let columns = columns_for(&seed.trace, case.columns);
    let layout = LdsLayout::new(columns, 1, &[1.0; 4])?.with_weights(&case.weights)?;
    let losses = Losses::None.on(&seed.trace, seed.number);
    let class = |flow| class_of(seed.number, flow);
    let sketched = Sketched::new(&seed.trace, &layout, &losses, class);
    let joint = |components| {
        sketched.joint(Known {
            packets: Some(&seed.truth.received),
            components,
            ..Known::default()
        })
    };
    let estimates = [means(&joint(1)?), means(&joint(2)?), sketched.paper()];
    let figure = FigureOf {
        name: case.figure,
        title: case.title,
        axes: Axes::Cdf,
    };
    let mut parts = Vec::new();
    for (number, name) in (0..3).zip(CLASSES).rev() {
        let of = |estimates: &[f64], least: f64| {
            let flows = seed.truth.flows_of(least);
            let flows = flows.filter(|&flow| class(flow) == number);
            errors(estimates, &seed.truth.mean_ns, flows)
        };
        let [one, two, paper] = estimates.each_ref();
        let row = |least| {
            row_of_medians(
                format!(
                    "{}: {name}, {}",
                    case.name,
                    if least > 0.0 {
                        ">= 100 packets"
                    } else {
                        "all flows"
                    }
                ),
                of(one, least),
                vec![
                    ("K = 2", of(two, least)),
                    ("paper's decoder", of(paper, least)),
                ],
            )
        };
        let check = case
            .checks
            .and_then(|checks| checks.get(usize::from(number)).copied());
        parts.push(match check {
            Some((methods, most)) => checked(seed, row(0.0), methods, most),
            None => Part::Row(TableOf::Weights, row(0.0)),
        });
        parts.push(Part::Row(TableOf::Weights, row(100.0)));
        for (decoder, estimates) in [("joint", one), ("paper", paper)] {
            let label = format!("{name}, {decoder}");
            parts.push(Part::Curve(figure, Curve::cdf(label, of(estimates, 0.0))));
        }
    }
    Ok(parts)
}
