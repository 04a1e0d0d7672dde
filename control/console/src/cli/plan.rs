//! Plans which routers of a network to upgrade, by [`topology::plan`].

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use ::topology::paths::Paths;
use ::topology::read;
use ::topology::{Router, Topology, plan};
use clap::{Args, ColorChoice, ValueEnum};
use serde::Serialize;

use super::mset::paths;
use super::{Correctable, Form};
use crate::view::{Page, Table};

mod figure;

/// `vernier plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Upgraded routers measure, and so divide the paths between all routers into segments. A segment is probed for
itself: the fewer hops all probes take, and the shorter a segment, the better.
No switch is asked. The end of the file's name says how it is written: .json, .intra (Rocketfuel) or .gml.")]
pub struct Plan {
    /// The network
    #[arg(long, value_name = "FILE")]
    topology: PathBuf,
    /// Maximum number of routers to upgrade
    #[arg(long, value_name = "NUMBER")]
    upgrade: usize,
    /// Use only this method [default: all, side by side]
    #[arg(long)]
    method: Option<Method>,
    /// Seed of the random orders
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Draw probe hops and segment lengths by upgrades into a file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
}

const STEPS: Table = Table::new(
    "upgrades | router | probe hops | segments | mean | least | greatest",
    &["least", "greatest", "segments"],
);

const BESIDE: Table = Table::new(
    "upgrades | greedy | hops | mean | search | hops | mean | random | mean",
    &["mean"],
);

/// How routers are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Method {
    /// Algorithm 1 of MPLANE: repeatedly the router that most segments pass through
    Greedy,
    /// Search for the set of this number of routers with the fewest probe hops; earlier rows are steps on the way
    Search,
    /// Random orders, for comparison: the median of eleven
    Random,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Answer {
    topology: String,
    routers: usize,
    links: usize,
    plans: Vec<Course>,
}

/// The upgrades by one method.
#[derive(Debug, Serialize)]
struct Course {
    method: Method,
    /// Before the first upgrade and after each.
    steps: Vec<Step>,
    /// Of random orders.
    orders: Option<Orders>,
}

#[derive(Debug, Serialize)]
struct Step {
    upgrades: usize,
    /// The router upgraded last.
    router: Option<String>,
    probe_hops: u64,
    segments: u64,
    mean_hops: f64,
    least_hops: u32,
    greatest_hops: u32,
}

/// Probe hops of all orders after the last upgrade.
#[derive(Debug, Serialize)]
struct Orders {
    seed: u64,
    number: usize,
    least_probe_hops: u64,
    greatest_probe_hops: u64,
}

/// `vernier plan`.
pub(super) fn run(color: ColorChoice, plan: &Plan) -> anyhow::Result<u8> {
    let answer = Answer::of(plan)?;
    if let Some(file) = &plan.svg {
        let svg = figure::svg(&answer)?;
        let written = fs::write(file, svg);
        let file = file.display();
        written.map_err(|why| Correctable(format!("{file}: cannot be written: {why}")))?;
    }
    let keys = ["plans", "steps"];
    plan.form
        .show(color, &keys, &answer, |page, answer| answer.write(page))
}

impl Answer {
    fn of(plan: &Plan) -> Result<Self, Correctable> {
        let topology = read::file(&plan.topology)?;
        let file = plan.topology.display().to_string();
        let (routers, upgrades) = (topology.routers().len(), plan.upgrade);
        if upgrades > routers {
            return Err(Correctable(format!(
                "--upgrade {upgrades}: expected at most {routers}, the routers of {file}"
            )));
        }
        let paths = paths(&topology, &file)?;
        let all = Method::value_variants().iter().copied();
        let methods = all.filter(|method| plan.method.is_none_or(|only| only == *method));
        Ok(Self {
            topology: file,
            routers,
            links: topology.links(),
            plans: methods
                .map(|method| Course::of(method, plan, &topology, &paths))
                .collect(),
        })
    }

    fn write(&self, page: &mut Page) {
        let (file, routers, links) = (&self.topology, self.routers, self.links);
        let _ = writeln!(
            page,
            "{file}: {routers} routers, {links} links (each direction counted)\n"
        );
        match &self.plans[..] {
            [one] => one.table(page),
            all => beside(page, all),
        }
        for course in &self.plans {
            if let (Some(orders), Some(last)) = (&course.orders, course.steps.last()) {
                let (number, upgrades) = (orders.number, last.upgrades);
                let (least, greatest) = (orders.least_probe_hops, orders.greatest_probe_hops);
                let _ = writeln!(
                    page,
                    "\nrandom: the median of {number} orders; with {upgrades} upgrades they have {least} to {greatest} probe hops"
                );
            }
        }
    }
}

impl Course {
    fn of(method: Method, plan: &Plan, topology: &Topology, paths: &Paths) -> Self {
        let (order, orders) = match method {
            Method::Greedy => (plan::greedy(paths, plan.upgrade), None),
            Method::Search => (plan::search(paths, plan.upgrade), None),
            Method::Random => {
                let (order, orders) = random(paths, plan);
                (order, Some(orders))
            }
        };
        let routers = order.iter().map(|router| topology.name(*router).to_owned());
        let routers = std::iter::once(None).chain(routers.map(Some));
        let steps = plan::course(paths, &order)
            .into_iter()
            .zip(routers)
            .enumerate();
        let steps = steps.map(|(upgrades, (segments, router))| Step {
            upgrades,
            router,
            probe_hops: segments.hops,
            segments: segments.count,
            mean_hops: segments.mean_hops(),
            least_hops: segments.least_hops(),
            greatest_hops: segments.greatest_hops,
        });
        Self {
            method,
            steps: steps.collect(),
            orders,
        }
    }

    fn table(&self, page: &mut Page) {
        let rows = self.steps.iter().map(|step| {
            [
                step.upgrades.to_string(),
                step.router.clone().unwrap_or_default(),
                step.probe_hops.to_string(),
                step.segments.to_string(),
                format!("{:.2}", step.mean_hops),
                step.least_hops.to_string(),
                step.greatest_hops.to_string(),
            ]
        });
        page.table(&STEPS, rows);
    }
}

/// The order with the median of probe hops.
fn random(paths: &Paths, plan: &Plan) -> (Vec<Router>, Orders) {
    let orders = plan::random(paths, plan.upgrade, plan.seed);
    let hops = orders.iter().map(|order| plan::segments(paths, order).hops);
    let mut by_hops: Vec<_> = hops.zip(&orders).collect();
    by_hops.sort_by_key(|(hops, _)| *hops);
    let (_, median) = by_hops[by_hops.len() / 2];
    let all = Orders {
        seed: plan.seed,
        number: by_hops.len(),
        least_probe_hops: by_hops[0].0,
        greatest_probe_hops: by_hops[by_hops.len() - 1].0,
    };
    (median.clone(), all)
}

/// All methods in one table; of the random orders no routers.
fn beside(page: &mut Page, plans: &[Course]) {
    let rows = plans.iter().map(|course| course.steps.len()).max();
    let rows = (0..rows.unwrap_or(0)).map(|upgrades| {
        let mut row: [String; 9] = std::array::from_fn(|_| String::new());
        row[0] = upgrades.to_string();
        let mut column = 1;
        for course in plans {
            // A method that found nothing left to divide stays where it was.
            let step = course.steps.get(upgrades);
            if course.method != Method::Random {
                let router = step.and_then(|step| step.router.clone());
                row[column] = router.unwrap_or_default();
                column += 1;
            }
            let Some(step) = step.or(course.steps.last()) else {
                continue;
            };
            row[column] = step.probe_hops.to_string();
            row[column + 1] = format!("{:.2}", step.mean_hops);
            column += 2;
        }
        row
    });
    page.table(&BESIDE, rows);
}

#[cfg(test)]
mod tests;
