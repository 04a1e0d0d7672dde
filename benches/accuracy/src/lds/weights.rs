//! Customers of three classes (section 5.3, fig. 12).

use anyhow::Result;

use super::{ALL, PAPER, Seed, WEIGHTS, check};
use crate::experiment::{Found, Row};
use crate::sketched::{errors, means};
use crate::trace::Losses;
use crate::traffic::mix;
use reporting::statistics::median;

/// Classes in the order of their segments.
const CLASSES: [&str; 3] = ["bronze", "silver", "gold"];

/// Fig. 12: two sizes, three weightings, and none.
const COLUMNS: [u32; 2] = [10_000, 25_000];
const WEIGHTINGS: [[u32; 3]; 4] = [[1, 25, 100], [1, 10, 100], [1, 50, 2500], [1, 1, 1]];

/// Of the first case, in the order of classes: what the prototype gave for the paper's decoder, and the
/// limit.
const CHECKS: [(f64, f64); 3] = [(15.7, 16.0), (7.4, 2.0), (3.4, 0.5)];

fn cases() -> impl Iterator<Item = (u32, [u32; 3])> {
    let cases = COLUMNS.into_iter();
    cases.flat_map(|columns| WEIGHTINGS.map(|weights| (columns, weights)))
}

pub(super) fn run(seed: &Seed, found: &mut Found) -> Result<()> {
    for (case, (columns, weights)) in cases().enumerate() {
        weighted(seed, case, columns, weights, found)?;
    }
    Ok(())
}

/// Bronze 90 %, silver 9 %, gold 1 % of flows, at random.
fn class_of(seed: u64, flow: usize) -> u16 {
    match mix(seed.rotate_left(17) ^ flow as u64) % 100 {
        0 => 2,
        1..10 => 1,
        _ => 0,
    }
}

fn weighted(
    seed: &Seed,
    case: usize,
    columns: u32,
    weights: [u32; 3],
    found: &mut Found,
) -> Result<()> {
    let layout = seed.layout(columns, 1, &[1.0; 4])?.with_weights(&weights)?;
    let class = |flow| class_of(seed.number, flow);
    let tried = seed.sketch_classes(&layout, Losses::None, class);
    let (one, two) = (means(&tried.joint(1)?), means(&tried.joint(2)?));
    let paper = tried.sketched.paper();
    let weighting = match weights {
        [1, 1, 1] => "no weights".to_owned(),
        weights => format!("weights {}", weights.map(|w| w.to_string()).join("/")),
    };
    for (number, name) in (0..3).zip(CLASSES).rev() {
        let errors = |estimates: &[f64], least: f64| {
            let flows = tried.truth.flows(least..f64::INFINITY);
            let flows = flows.filter(|&flow| class(flow) == number);
            errors(estimates, &tried.truth.mean_ns, flows)
        };
        for (least, flows) in [(ALL.start, "all flows"), (100.0, ">= 100 packets")] {
            let check_name = format!("{columns} x 4, {weighting}: {name}, {flows}");
            let ours = median(errors(&one, least));
            let row = Row::new(check_name, "%", ours).others([
                ("K = 2", median(errors(&two, least))),
                (PAPER, median(errors(&paper, least))),
            ]);
            if case == 0 && least <= ALL.start {
                let (paper, most) = CHECKS[usize::from(number)];
                check(found, row, paper, most);
            } else {
                found.row(WEIGHTS, row);
            }
        }
    }
    Ok(())
}
