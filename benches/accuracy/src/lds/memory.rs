//! Without loss: three memories, flows missing from the list, every flow exact (section 5.1).

use anyhow::Result;
use measure::lds::LdsLayout;

use super::Seed;
use super::job::{Axes, FigureOf, Job, Part, TableOf, checked, row_of_medians};
use crate::sketched::{Known, Sketched, columns_for, errors, means};
use crate::table::{Curve, Row};
use crate::trace::{Losses, Truth};
use crate::traffic::mix;
use reporting::statistics::{mean, median, percent_of, quantile};

pub(super) const JOBS: [Job; 5] = [reference, tenth, tenfold, exact, missing];

/// Lower ends of the bins of fig. 10.
const SIZES: [f64; 7] = [1.0, 10.0, 100.0, 500.0, 1000.0, 10_000.0, f64::INFINITY];

/// A sketch without loss, and what all decoders say.
struct Decoders {
    paper: Vec<f64>,
    one: Vec<f64>,
    two: Vec<f64>,
}

/// k = 1, p = 1, R rows.
fn layout(seed: &Seed<'_>, columns: u32, rows: usize) -> Result<LdsLayout> {
    let columns = columns_for(&seed.trace, columns);
    Ok(LdsLayout::new(columns, 1, &vec![1.0; rows])?)
}

fn sketch(seed: &Seed<'_>, columns: u32, rows: usize) -> Result<Sketched> {
    let losses = Losses::None.on(&seed.trace, seed.number);
    Ok(Sketched::new(
        &seed.trace,
        &layout(seed, columns, rows)?,
        &losses,
        |_| 0,
    ))
}

fn decoders(
    seed: &Seed<'_>,
    sketched: &Sketched,
    size: &str,
    parts: &mut Vec<Part>,
) -> Result<Decoders> {
    let joint = |components| {
        sketched.joint(Known {
            packets: Some(&seed.truth.received),
            components,
            ..Known::default()
        })
    };
    let (one, two) = (joint(1)?, joint(2)?);
    for (components, decoded) in [(1, &one), (2, &two)] {
        parts.push(Part::Row(
            TableOf::Bounds,
            bounds(&format!("{size}, K = {components}"), decoded, &seed.truth),
        ));
    }
    Ok(Decoders {
        paper: sketched.paper(),
        one: means(&one),
        two: means(&two),
    })
}

/// How often the bound holds, over all flows.
pub(super) fn bounds(what: &str, decoded: &measure::lds::Decoded, truth: &Truth) -> Row {
    let share = |width: f64| {
        percent_of(truth.flows_of(0.0).filter_map(|flow| {
            let (flow, mean_ns) = (decoded.flows.get(flow)?, truth.mean_ns.get(flow)?);
            // Exact flows have no variance; a nanosecond is the clock's.
            let bound = width * flow.variance_ticks2.sqrt() + 1.0;
            Some((flow.mean_ticks - mean_ns).abs() <= bound)
        }))
    };
    Row::new(format!("flows in their bound: {what}"), "%", share(3.0))
        .other("2 sqrt(xv)", share(2.0))
}

impl Decoders {
    fn of(&self, seed: &Seed<'_>, least: f64, most: f64) -> [Vec<f64>; 3] {
        [&self.paper, &self.one, &self.two].map(|estimates| {
            let flows = seed.truth.flows_between(least, most);
            errors(estimates, &seed.truth.mean_ns, flows)
        })
    }

    /// Rows and curves that each memory has.
    fn parts(&self, seed: &Seed<'_>, size: &'static str, parts: &mut Vec<Part>) {
        for (least, name) in [
            (0.0, "all flows"),
            (100.0, ">= 100 packets"),
            (1000.0, ">= 1000"),
        ] {
            let [paper, one, two] = self.of(seed, least, f64::INFINITY);
            let others = vec![("K = 1", one), ("paper's decoder", paper)];
            let row = row_of_medians(format!("{size}: {name}"), two, others);
            parts.push(Part::Row(TableOf::Memory, row));
        }
        let figure = FigureOf {
            name: "lds-fig10-by-size",
            title: "error by size of the flow",
            axes: Axes::BySize,
        };
        for (decoder, which) in [("paper", 0), ("joint K = 2", 2)] {
            for (of, share) in [("median", 0.5), ("95 %", 0.95)] {
                let points = SIZES
                    .windows(2)
                    .map(|bin| {
                        let errors = self.of(seed, bin[0], bin[1]);
                        (bin[0], quantile(errors[which].clone(), share))
                    })
                    .filter(|(_, error)| error.is_finite())
                    .collect();
                let label = format!("{size} {decoder}, {of}");
                parts.push(Part::Curve(figure, Curve { label, points }));
            }
        }
    }
}

fn reference(seed: &Seed<'_>) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let sketched = sketch(seed, 17_500, 4)?;
    let decoders = decoders(seed, &sketched, "17500 x 4", &mut parts)?;

    // The paper's own figures: section 5.1.
    for (least, most, name, paper, limit, methods) in [
        (500.0, 1000.0, "500-999", 1.2, 1.5, 1.31),
        (1000.0, 10_000.0, "1000-9999", 0.4, 0.7, 0.58),
        (10_000.0, f64::INFINITY, ">= 10000", 0.06, 0.1, 0.074),
    ] {
        let [errors, ..] = decoders.of(seed, least, most);
        let row = row_of_medians(
            format!("paper's decoder, 17500 x 4: {name} packets"),
            errors,
            vec![],
        )
        .other("prototype", methods);
        parts.push(checked(seed, row, paper, limit));
    }
    for (least, name, paper, one_most, two_most) in [
        (100.0, ">= 100", 2.0, 0.32, 0.24),
        (1000.0, ">= 1000", 0.48, 0.035, 0.027),
    ] {
        let [from_paper, one, two] = decoders.of(seed, least, f64::INFINITY);
        for (k, errors, most) in [(1, one, one_most), (2, two, two_most)] {
            let check = format!("joint K = {k}, 17500 x 4: {name} packets");
            let others = vec![("paper's decoder", from_paper.clone())];
            let row = row_of_medians(check, errors, others);
            parts.push(checked(seed, row, paper, most));
        }
    }
    decoders.parts(seed, "17500 x 4", &mut parts);
    cdfs(seed, &decoders, &mut parts);
    by_delay(seed, &decoders, &mut parts);
    Ok(parts)
}

/// Fig. 9, with what knows only the overall mean.
fn cdfs(seed: &Seed<'_>, decoders: &Decoders, parts: &mut Vec<Part>) {
    for (least, name, title) in [
        (0.0, "lds-fig9-all", "error of all flows, 17500 x 4"),
        (
            100.0,
            "lds-fig9-100",
            "error of flows of 100 packets and more, 17500 x 4",
        ),
        (
            1000.0,
            "lds-fig9-1000",
            "error of flows of 1000 packets and more, 17500 x 4",
        ),
    ] {
        let figure = FigureOf {
            name,
            title,
            axes: Axes::Cdf,
        };
        let [paper, one, two] = decoders.of(seed, least, f64::INFINITY);
        let truth = &seed.truth;
        let packets: f64 = truth.received.iter().sum();
        let sums = truth
            .flows_of(0.0)
            .map(|f| truth.mean_ns[f] * truth.received[f]);
        let overall = vec![sums.sum::<f64>() / packets; truth.mean_ns.len()];
        let overall = errors(&overall, &truth.mean_ns, truth.flows_of(least));
        for (label, errors) in [
            ("joint K = 2", two),
            ("joint K = 1", one),
            ("paper's decoder", paper),
            ("overall mean", overall),
        ] {
            parts.push(Part::Curve(figure, Curve::cdf(label, errors)));
        }
    }
}

/// Fig. 10, bottom: bins by size and by delay beside the mean of all flows.
fn by_delay(seed: &Seed<'_>, decoders: &Decoders, parts: &mut Vec<Part>) {
    let truth = &seed.truth;
    let all = mean(truth.flows_of(0.0).map(|flow| truth.mean_ns[flow]));
    let figure = FigureOf {
        name: "lds-fig10-by-delay",
        title: "error by size and delay, 17500 x 4",
        axes: Axes::ByDelay,
    };
    for (least, most, name) in [
        (1.0, 100.0, "under 100"),
        (100.0, 1000.0, "100-999"),
        (1000.0, f64::INFINITY, "1000 and more"),
    ] {
        for (decoder, estimates) in [("paper", &decoders.paper), ("joint K = 2", &decoders.two)] {
            let points = (5..20)
                .map(|tenth| f64::from(tenth) / 10.0)
                .filter_map(|from| {
                    let bin = from * all..(from + 0.1) * all;
                    let flows = truth.flows_between(least, most);
                    let flows = flows.filter(|&flow| bin.contains(&truth.mean_ns[flow]));
                    let errors = errors(estimates, &truth.mean_ns, flows);
                    (errors.len() >= 10).then(|| (from + 0.05, median(errors)))
                })
                .collect();
            let label = format!("{name} packets, {decoder}");
            parts.push(Part::Curve(figure, Curve { label, points }));
        }
    }
}

fn tenth(seed: &Seed<'_>) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let sketched = sketch(seed, 1_750, 4)?;
    let decoders = decoders(seed, &sketched, "1750 x 4", &mut parts)?;
    let [paper, one, two] = decoders.of(seed, 100.0, f64::INFINITY);
    let others = vec![("K = 1", one), ("paper's decoder", paper)];
    let row = row_of_medians("joint K = 2, 1750 x 4: >= 100 packets", two, others);
    parts.push(checked(seed, row, 12.0, 2.3));
    decoders.parts(seed, "1750 x 4", &mut parts);
    Ok(parts)
}

fn tenfold(seed: &Seed<'_>) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let sketched = sketch(seed, 175_000, 4)?;
    let decoders = decoders(seed, &sketched, "175000 x 4", &mut parts)?;
    decoders.parts(seed, "175000 x 4", &mut parts);
    Ok(parts)
}

/// R = 3 and three flows for four cells: under the threshold of peeling, nothing is left to guess.
fn exact(seed: &Seed<'_>) -> Result<Vec<Part>> {
    let sketched = sketch(seed, 64_889, 3)?;
    let decoded = sketched.joint(Known {
        packets: Some(&seed.truth.received),
        components: 1,
        ..Known::default()
    })?;
    let all = || seed.truth.flows_of(0.0);
    let errors_of = |estimates: &[f64]| errors(estimates, &seed.truth.mean_ns, all());
    let worst = quantile(errors_of(&means(&decoded)), 1.0);
    let row = Row::new(
        "R = 3, flows / cells 0.75: largest error of any flow",
        "%",
        worst,
    )
    .other(
        "paper's decoder, median",
        median(errors_of(&sketched.paper())),
    );
    Ok(vec![checked(seed, row, 3.3, 1e-4)])
}

fn missing(seed: &Seed<'_>) -> Result<Vec<Part>> {
    let truth = &seed.truth;
    let listed: Vec<usize> = (0..seed.trace.flows())
        .filter(|&flow| !mix(!seed.number ^ flow as u64).is_multiple_of(10))
        .collect();
    let sketched = sketch(seed, 17_500, 4)?.listing(&listed);
    let pick = |figures: &[f64]| -> Vec<f64> { listed.iter().map(|&flow| figures[flow]).collect() };
    let (packets, mean_ns) = (pick(&truth.received), pick(&truth.mean_ns));
    let joint = |components| {
        sketched.joint(Known {
            packets: Some(&packets),
            components,
            ..Known::default()
        })
    };
    let large = |estimates: &[f64]| {
        let flows = (0..listed.len()).filter(|&flow| packets[flow] >= 1000.0);
        errors(estimates, &mean_ns, flows)
    };
    let row = row_of_medians(
        "10 % of flows missing from the list, K = 1: >= 1000 packets",
        large(&means(&joint(1)?)),
        vec![
            ("K = 2", large(&means(&joint(2)?))),
            ("paper's decoder", large(&sketched.paper())),
        ],
    );
    Ok(vec![checked(seed, row, 0.4, 0.04)])
}
