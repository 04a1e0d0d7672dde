//! LDS: the paper's estimator and joint decoding, compared with the exact truth.
//!
//! Sanjuas-Cuxart, Barlet-Ros, Duffield, Kompella: "Sketching the delay: tracking temporally
//! uncorrelated flow-level latencies" (IMC 2011), section 5.

use std::borrow::Cow;

use anyhow::Result;
use measure::lds::{Decoded, LdsLayout};
use reporting::Limit;
use reporting::statistics::{mean, median, percent_of, quantile};

use crate::baselines::multi_point_ns;
use crate::capture::Replay;
use crate::experiment::{Found, Plan};
use crate::interpolation::Interpolated;
use crate::sketched::{Sketched, columns_for, means};
use crate::trace::{ALL, HUNDREDS, Losses, Scenario, Sizes, THOUSANDS, Trace, Truth, errors};
use crate::traffic::{Supply, mix};

/// Seeds that the limits ask for.
const SEEDS: u32 = 5;

/// Name of the paper's estimator in tables.
const PAPER: &str = "paper's decoder";

/// Numbers of the tables, with their titles and descriptions.
const CHECKS: usize = 0;
const MEMORY: usize = 1;
const LOSS: usize = 2;
const WEIGHTS: usize = 3;
const MINED: usize = 4;
const BOUNDS: usize = 5;
const BESIDE: usize = 6;
const HEAVY: usize = 7;
const TABLES: [(&str, &str); 8] = [
    (
        "LDS: checks",
        "Median relative errors of per-flow means unless said otherwise. Paper: the paper's \
         decoder, from its text (section 5.1) or from the prototype on which the limits are based.",
    ),
    (
        "LDS: three memories",
        "Median relative errors; the reference sketch, a tenth and ten times its memory (fig. 9). \
         Ours: joint decoding with K = 2.",
    ),
    (
        "LDS: under loss",
        "Median relative errors of flows of at least 1000 packets, k = 5, 87500 x 4 (fig. 11). \
         Ours: joint decoding, K = 1. With one bank and p = 1 losses spoil nearly all cells of \
         large flows.",
    ),
    (
        "LDS: weights",
        "Median relative errors over all flows: gold 1 %, silver 9 %, bronze 90 % of them, drawn \
         at random (fig. 12). Ours: joint decoding, K = 1.",
    ),
    (
        "LDS: mined",
        "Other figures from the cells (section 4.3). Median relative errors.",
    ),
    (
        "LDS: flows whose bound holds their true mean",
        "Joint decoding; the bound is 3 sqrt(xv), nominally 98 %.",
    ),
    (
        "LDS beside RLI and MPE",
        "Relative errors of per-flow means, 17500 x 4 (fig. 9 and 10). Ours: joint decoding, K = 2. RLI \
         interpolates references at 1 kHz, all of the first queue; MPE stamps the first and the last \
         packet of 10 % and of 1 % of flows; overall mean: the true mean of all packets, whatever the \
         flow. A flow without a sample gets the mean of all samples. Paper: its decoder, from its \
         text. On delays that neighbours share, RLI is the better one: see the hybrid's tables.",
    ),
    (
        "LDS: heavy hitters",
        "Section 4.3; the paper has no figures for it. Its estimates are never too low, because even the least of a flow's cells includes packets of other flows, so every heavy hitter is found. 17500 x 4. Heavy hitters that are: share of the flows named as heavy (precision); found: share of the actual heavy hitters (recall). Ours: packets decoded jointly, with only the keys known.",
    ),
];

pub fn plan<'a>(supply: &'a Supply, plan: &mut Plan<'a>) {
    let replay = supply.capture.as_ref().map(Replay::two_paths);
    let (seeds, scale) = (supply.setting.traffic_seeds(SEEDS), supply.setting.scale);
    let packets = supply.setting.capture.as_ref().map_or_else(
        || "acceptance trace".to_owned(),
        |path| {
            let path = path.display();
            format!("packets of {path} over two paths, sketches scaled to its flows")
        },
    );
    for (title, about) in TABLES {
        plan.table(title, format!("{about} Mean of {seeds} seeds; {packets}."));
    }
    plan.case(seeds, move |number, found| {
        let trace = match &replay {
            None => Trace::generate(&Scenario::ACCEPTANCE, number, scale),
            Some(replay) => replay.trace(number),
        };
        let truth = Truth::of(&trace, &Losses::None.on(&trace, number));
        let seed = Seed {
            trace,
            truth,
            number,
        };
        seed.memories(found)?;
        seed.exact(found)?;
        seed.missing(found)?;
        for at in LOSSES {
            seed.multibank(at, found)?;
        }
        for probability in [0.05, 1.0] {
            for at in LOSSES {
                seed.single(at, probability, found)?;
            }
        }
        for columns in WEIGHTED_COLUMNS {
            for weights in WEIGHTINGS {
                seed.weighted(columns, weights, found)?;
            }
        }
        seed.counts(found)?;
        seed.losses(found)?;
        seed.deviations(5, found)?;
        seed.deviations(20, found)
    });
}

/// One seed's trace, with its truth where nothing is lost.
struct Seed {
    trace: Trace,
    truth: Truth,
    number: u64,
}

/// The trace in a sketch under losses, with the truth about what arrived.
struct Tried<'s> {
    sketched: Sketched,
    truth: Cow<'s, Truth>,
}

impl Seed {
    /// A sketch with as many columns for this trace as `columns` are for 146,000 flows.
    fn layout(&self, columns: u32, k: u32, probabilities: &[f64]) -> Result<LdsLayout> {
        let columns = columns_for(&self.trace, columns);
        Ok(LdsLayout::new(columns, k, probabilities)?)
    }

    fn sketch(&self, columns: u32, k: u32, rows: &[f64], losses: Losses) -> Result<Tried<'_>> {
        let layout = self.layout(columns, k, rows)?;
        Ok(self.sketch_classes(&layout, losses, |_| 0))
    }

    /// The reference sketch, where nothing is lost.
    fn reference(&self) -> Result<Tried<'_>> {
        self.sketch(17_500, 1, &[1.0; 4], Losses::None)
    }

    fn sketch_classes(
        &self,
        layout: &LdsLayout,
        losses: Losses,
        class: impl Fn(usize) -> u16,
    ) -> Tried<'_> {
        let mask = losses.on(&self.trace, self.number);
        let truth = match losses {
            Losses::None => Cow::Borrowed(&self.truth),
            _ => Cow::Owned(Truth::of(&self.trace, &mask)),
        };
        let sketched = Sketched::new(&self.trace, layout, &mask, class);
        Tried { sketched, truth }
    }
}

impl Tried<'_> {
    /// Joint decoding with known counts of packets.
    fn joint(&self, components: usize) -> Result<Decoded> {
        (self.sketched).joint(components, Some(&self.truth.received), &[])
    }

    /// Share of flows whose bound holds in a decoding.
    fn bounds(&self, what: &str, decoded: &Decoded, found: &mut Found) {
        let share = |width: f64| {
            percent_of(self.truth.flows(ALL).filter_map(|flow| {
                let (flow, mean_ns) = (decoded.flows.get(flow)?, self.truth.mean_ns.get(flow)?);
                // Exact flows have no variance; a nanosecond is the clock's.
                let bound = width * flow.variance_ticks2.sqrt() + 1.0;
                Some((flow.mean_ticks - mean_ns).abs() <= bound)
            }))
        };
        let check = format!("flows in their bound: {what}");
        let row = found.row(BOUNDS, check, "%", share(3.0));
        row.other("2 sqrt(xv)", share(2.0));
    }
}

/// Columns: the reference, a tenth and ten times its memory.
const MEMORIES: [u32; 3] = [17_500, 1_750, 175_000];

/// Decoders, with the numbers of their estimates.
const OF_PAPER: usize = 0;
const JOINT_1: usize = 1;
const JOINT_2: usize = 2;
const DECODERS: [&str; 3] = [PAPER, "K = 1", "K = 2"];

/// Limits on the paper's decoder with the reference sketch, held against the paper's own figures (section 5.1): flows, what the
/// paper gives, the limit, and what the prototype of the decoder gives for the same.
const PAPER_LIMITS: [(Sizes, &str, f64, f64, f64); 3] = [
    ((500.0, 1e3), "500-999", 1.2, 1.5, 1.31),
    ((1e3, 1e4), "1000-9999", 0.4, 0.7, 0.58),
    ((1e4, MANY), ">= 10000", 0.06, 0.1, 0.074),
];

/// Limits on the median error of joint decoding: columns, components, flows, what the paper gives, and the limit.
const LIMITS: [(u32, usize, Sizes, &str, f64, f64); 5] = [
    (17_500, JOINT_1, HUNDREDS, ">= 100", 2.0, 0.32),
    (17_500, JOINT_2, HUNDREDS, ">= 100", 2.0, 0.24),
    (17_500, JOINT_1, THOUSANDS, ">= 1000", 0.48, 0.035),
    (17_500, JOINT_2, THOUSANDS, ">= 1000", 0.48, 0.027),
    (1_750, JOINT_2, HUNDREDS, ">= 100", 12.0, 2.3),
];
const MANY: f64 = f64::INFINITY;

/// Without loss: three memories, flows missing from the list, every flow exact (section 5.1).
impl Seed {
    fn memories(&self, found: &mut Found) -> Result<()> {
        for columns in MEMORIES {
            let tried = self.sketch(columns, 1, &[1.0; 4], Losses::None)?;
            let decoded = [tried.joint(1)?, tried.joint(2)?];
            for (k, decoded) in (1..).zip(&decoded) {
                tried.bounds(&format!("{columns} x 4, K = {k}"), decoded, found);
            }
            let [one, two] = decoded.map(|decoded| means(&decoded));
            let estimates = [tried.sketched.paper(), one, two];
            tried.checks(columns, &estimates, found);
            if columns == MEMORIES[0] {
                self.beside(&tried, &estimates[JOINT_2], &estimates[OF_PAPER], found);
            }
        }
        Ok(())
    }

    /// R = 3 and three flows for four cells: under the threshold of peeling, nothing is left to guess.
    fn exact(&self, found: &mut Found) -> Result<()> {
        let tried = self.sketch(64_889, 1, &[1.0; 3], Losses::None)?;
        let errors = tried.truth.errors(&means(&tried.joint(1)?), ALL);
        let name = "R = 3, flows / cells 0.75: largest error of any flow";
        let paper = tried.truth.median(&tried.sketched.paper(), ALL);
        let row = found.row(CHECKS, name, "%", quantile(errors, 1.0));
        row.at_most((3.3, 1e-4));
        row.other(format!("{PAPER}, median"), paper);
        Ok(())
    }

    fn missing(&self, found: &mut Found) -> Result<()> {
        let is_listed = |flow: usize| !mix(!self.number ^ flow as u64).is_multiple_of(10);
        let listed: Vec<usize> = (0..self.trace.flows())
            .filter(|&flow| is_listed(flow))
            .collect();
        let tried = self.reference()?;
        let sketched = tried.sketched.listing(&listed);
        let pick =
            |figures: &[f64]| -> Vec<f64> { listed.iter().map(|&flow| figures[flow]).collect() };
        let (packets, mean_ns) = (pick(&self.truth.received), pick(&self.truth.mean_ns));
        let joint = |components| sketched.joint(components, Some(&packets), &[]);
        let error = |estimates: &[f64]| {
            let flows = (0..listed.len()).filter(|&flow| packets[flow] >= 1000.0);
            median(errors(estimates, &mean_ns, flows))
        };
        let name = "10 % of flows missing from the list, K = 1: >= 1000 packets";
        let ours = error(&means(&joint(1)?));
        let row = found.row(CHECKS, name, "%", ours);
        row.at_most((0.4, 0.04)).others([
            ("K = 2", error(&means(&joint(2)?))),
            (PAPER, error(&sketched.paper())),
        ]);
        Ok(())
    }

    /// RLI, MPE and the overall mean on the packets of the sketch (section 5.1, fig. 9 and 10).
    fn beside(&self, tried: &Tried<'_>, joint: &[f64], of_paper: &[f64], found: &mut Found) {
        let others = self.others(tried);
        let row = |found: &mut Found, name, packets, of, share, paper: Option<f64>| {
            let error = |estimates: &[f64]| quantile(tried.truth.errors(estimates, packets), share);
            let row = found.row(BESIDE, format!("{of}: {name}"), "%", error(joint));
            row.paper(paper).other(PAPER, error(of_paper));
            let others = others.iter();
            row.others(others.map(|(label, estimates)| (*label, error(estimates))));
        };
        for (name, packets) in [
            ("all flows", ALL),
            (">= 100 packets", HUNDREDS),
            (">= 1000 packets", THOUSANDS),
        ] {
            row(found, name, packets, "median", 0.5, None);
        }
        let error = |estimates: &[f64]| tried.truth.median(estimates, HUNDREDS);
        let [rli, mpe_tenth, mpe_hundredth, _] = others.each_ref().map(|(_, of)| error(of));
        let check = "joint / the better of RLI and MPE: >= 100 packets";
        let over = [rli, mpe_tenth, mpe_hundredth];
        found.ratio(BESIDE, check, error(joint), over).limit(BETTER);
        for (name, packets, paper) in BINS {
            row(found, name, packets, "median", 0.5, paper);
            row(found, name, packets, "95th percentile", 0.95, None);
        }
    }

    /// Estimates of every flow by other methods.
    fn others(&self, tried: &Tried<'_>) -> [(&'static str, Vec<f64>); 4] {
        let truth = &tried.truth;
        let received: f64 = truth.received.iter().sum();
        let sums = truth
            .flows(ALL)
            .map(|f| truth.mean_ns[f] * truth.received[f]);
        let overall_ns = sums.sum::<f64>() / received;
        let packets = || {
            (0..).zip(0..self.trace.flows()).flat_map(|(number, flow)| {
                let arrived = self.trace.of_flow(flow);
                arrived.filter_map(move |(_, packet)| {
                    Some((number, packet.sent_ns, f64::from(packet.delay_ns()?)))
                })
            })
        };
        let flows = self.trace.flows();
        let mpe = |share| multi_point_ns(packets(), flows, share, self.number);
        [
            ("RLI, 1 kHz", Interpolated::of(&self.trace).mean_ns),
            ("MPE 10 %", mpe(0.1)),
            ("MPE 1 %", mpe(0.01)),
            ("overall mean", vec![overall_ns; truth.mean_ns.len()]),
        ]
    }
}

/// Bins of fig. 10 by packets of a flow, with the paper's median for its decoder.
const BINS: [(&str, Sizes, Option<f64>); 6] = [
    ("1-9 packets", (1.0, 10.0), None),
    ("10-99 packets", (10.0, 100.0), None),
    ("100-499 packets", (100.0, 500.0), None),
    ("500-999 packets", (500.0, 1e3), Some(1.2)),
    ("1000-9999 packets", (1e3, 1e4), Some(0.4)),
    (">= 10000 packets", (1e4, MANY), Some(0.06)),
];
/// Of the errors of RLI and MPE, how much joint decoding may leave for flows of 100 packets and more.
const BETTER: Limit = Limit::AtMost(0.1);

impl Tried<'_> {
    /// Rows that each memory has, and the limits on it.
    fn checks(&self, columns: u32, estimates: &[Vec<f64>; 3], found: &mut Found) {
        let median = |decoder: usize, packets| self.truth.median(&estimates[decoder], packets);
        if columns == MEMORIES[0] {
            for (packets, name, paper, most, prototype) in PAPER_LIMITS {
                let name = format!("{PAPER}, {columns} x 4: {name} packets");
                let row = found.row(CHECKS, name, "%", median(OF_PAPER, packets));
                row.at_most((paper, most)).other("prototype", prototype);
            }
        }
        let of_columns = LIMITS.iter().filter(|check| check.0 == columns);
        for &(_, k, packets, name, paper, most) in of_columns {
            let name = format!("joint K = {k}, {columns} x 4: {name} packets");
            let row = found.row(CHECKS, name, "%", median(k, packets));
            row.at_most((paper, most));
            if columns == 1_750 {
                row.other(DECODERS[JOINT_1], median(JOINT_1, packets));
            }
            row.other(DECODERS[OF_PAPER], median(OF_PAPER, packets));
        }
        for (packets, name) in [
            (ALL, "all flows"),
            (HUNDREDS, ">= 100 packets"),
            (THOUSANDS, ">= 1000"),
        ] {
            let name = format!("{columns} x 4: {name}");
            let row = found.row(MEMORY, name, "%", median(JOINT_2, packets));
            let beside = [JOINT_1, OF_PAPER];
            row.others(beside.map(|other| (DECODERS[other], median(other, packets))));
        }
    }
}

/// The rows of the paper's multi-bank sketch.
const MULTIBANK: [f64; 4] = [0.01, 0.1, 0.5, 1.0];

/// What the paper's rows are tried under; what the prototype gave for its decoder, and the limit.
const LOSSES: [AtLoss; 4] = [
    (Losses::Uniform(0.001), "0.1 % loss", Some((3.3, 0.3))),
    (Losses::Uniform(0.005), "0.5 % loss", Some((3.5, 0.65))),
    (Losses::Uniform(0.01), "1 % loss", Some((3.7, 1.0))),
    (
        Losses::Episodes(0.01),
        "1 % loss in episodes of 100 packets",
        None,
    ),
];
type AtLoss = (Losses, &'static str, Option<(f64, f64)>);

/// Under loss: k = 5 and rows that sample (section 5.2, fig. 11).
impl Seed {
    fn multibank(&self, (losses, at, judged): AtLoss, found: &mut Found) -> Result<()> {
        let tried = self.sketch(87_500, 5, &MULTIBANK, losses)?;
        let (one, two) = (tried.joint(1)?, tried.joint(2)?);
        let (estimates, paper) = (means(&one), tried.sketched.paper());
        let rows = format!("rows .01/.1/.5/1, {at}");
        let name = format!("k = 5, rows .01/.1/.5/1, K = 1, {at}: >= 1000 packets");
        let table = if judged.is_some() { CHECKS } else { LOSS };
        let median = |estimates: &[f64], packets| tried.truth.median(estimates, packets);
        let row = found.row(table, name, "%", median(&estimates, THOUSANDS));
        row.at_most(judged).others([
            ("K = 2", median(&means(&two), THOUSANDS)),
            (PAPER, median(&paper, THOUSANDS)),
        ]);
        for (packets, name) in [(HUNDREDS, ">= 100 packets"), (ALL, "all flows")] {
            let check = format!("{rows}: {name}");
            let row = found.row(LOSS, check, "%", median(&estimates, packets));
            row.other(PAPER, median(&paper, packets));
        }
        for (k, decoded) in [(1, &one), (2, &two)] {
            tried.bounds(&format!("k = 5, {rows}, K = {k}"), decoded, found);
        }
        Ok(())
    }

    fn single(&self, (losses, at, _): AtLoss, probability: f64, found: &mut Found) -> Result<()> {
        let tried = self.sketch(87_500, 5, &[probability; 4], losses)?;
        let joint = tried.truth.median(&means(&tried.joint(1)?), THOUSANDS);
        let paper = tried.truth.median(&tried.sketched.paper(), THOUSANDS);
        // Large flows without a usable cell.
        let unread = percent_of(tried.truth.flows(THOUSANDS).map(|flow| {
            let columns = tried.sketched.columns_of(flow);
            tried.sketched.cells.estimate_at(columns).is_none()
        }));
        let name = format!("one bank, p = {probability}, {at}: >= 1000 packets");
        let row = found.row(LOSS, name, "%", joint);
        row.others([(PAPER, paper), ("flows without a cell (%)", unread)]);
        Ok(())
    }
}

/// Classes in the order of their segments.
const CLASSES: [&str; 3] = ["bronze", "silver", "gold"];

/// Fig. 12: two sizes, three weightings, and none.
const WEIGHTED_COLUMNS: [u32; 2] = [10_000, 25_000];
const WEIGHTINGS: [[u32; 3]; 4] = [[1, 25, 100], [1, 10, 100], [1, 50, 2500], [1, 1, 1]];

/// Of the first case, in the order of classes: what the prototype gave for the paper's decoder, and the
/// limit.
const WEIGHT_CHECKS: [(f64, f64); 3] = [(15.7, 16.0), (7.4, 2.0), (3.4, 0.5)];

/// Bronze 90 %, silver 9 %, gold 1 % of flows, at random.
fn class_of(seed: u64, flow: usize) -> u16 {
    match mix(seed.rotate_left(17) ^ flow as u64) % 100 {
        0 => 2,
        1..10 => 1,
        _ => 0,
    }
}

/// Customers of three classes (section 5.3, fig. 12).
impl Seed {
    fn weighted(&self, columns: u32, weights: [u32; 3], found: &mut Found) -> Result<()> {
        let layout = self.layout(columns, 1, &[1.0; 4])?.with_weights(&weights)?;
        let class = |flow| class_of(self.number, flow);
        let is_judged = columns == WEIGHTED_COLUMNS[0] && weights == WEIGHTINGS[0];
        let tried = self.sketch_classes(&layout, Losses::None, class);
        let (one, two) = (means(&tried.joint(1)?), means(&tried.joint(2)?));
        let paper = tried.sketched.paper();
        let weighting = match weights {
            [1, 1, 1] => "no weights".to_owned(),
            weights => format!("weights {}", weights.map(|w| w.to_string()).join("/")),
        };
        for (number, name) in (0..3).zip(CLASSES).rev() {
            let errors = |estimates: &[f64], least: f64| {
                let flows = tried.truth.flows((least, f64::INFINITY));
                let flows = flows.filter(|&flow| class(flow) == number);
                errors(estimates, &tried.truth.mean_ns, flows)
            };
            for (least, flows) in [(ALL.0, "all flows"), (100.0, ">= 100 packets")] {
                let check = format!("{columns} x 4, {weighting}: {name}, {flows}");
                let judged = WEIGHT_CHECKS[usize::from(number)];
                let judged = Some(judged).filter(|_| is_judged && least <= ALL.0);
                let table = if judged.is_some() { CHECKS } else { WEIGHTS };
                let row = found.row(table, check, "%", median(errors(&one, least)));
                row.at_most(judged).others([
                    ("K = 2", median(errors(&two, least))),
                    (PAPER, median(errors(&paper, least))),
                ]);
            }
        }
        Ok(())
    }
}

/// Other figures from the cells: packets, losses, deviations (section 4.3).
impl Seed {
    /// Packets, 17500 x 4, nothing known but the flows' keys.
    fn counts(&self, found: &mut Found) -> Result<()> {
        let tried = self.reference()?;
        let (sketched, truth) = (&tried.sketched, &tried.truth);
        let decoded = sketched.joint(1, None, &[])?;
        let packets: Vec<f64> = decoded.flows.iter().map(|flow| flow.packets).collect();
        let delays = means(&decoded);
        let count_min = sketched.each(|columns| {
            let packets = sketched.cells.packets_at(columns);
            packets.map_or(f64::NAN, |packets| packets as f64)
        });
        let error = |estimates: &[f64], truth_of: &[f64], packets: Sizes| {
            median(errors(estimates, truth_of, truth.flows(packets)))
        };
        let named = [(HUNDREDS, ">= 100 packets"), (THOUSANDS, ">= 1000 packets")];
        let judged = [(CHECKS, Some((15.9, 2.5))), (MINED, None)];
        for ((flows, name), (table, judged)) in named.into_iter().zip(judged) {
            let name = format!("packets of a flow, decoded, 17500 x 4: {name}");
            let ours = error(&packets, &truth.received, flows);
            let count_min = error(&count_min, &truth.received, flows);
            let row = found.row(table, name, "%", ours);
            row.at_most(judged).other("count-min", count_min);
        }
        let paper = sketched.paper();
        for (flows, name) in named {
            let name = format!("delay, counts decoded, 17500 x 4, K = 1: {name}");
            let row = found.row(MINED, name, "%", error(&delays, &truth.mean_ns, flows));
            row.other(PAPER, error(&paper, &truth.mean_ns, flows));
        }
        tried.heavy_hitters(&packets, &count_min, found);
        Ok(())
    }

    /// Losses of a flow at 1 % in all.
    fn losses(&self, found: &mut Found) -> Result<()> {
        let tried = self.sketch(17_500, 1, &[1.0; 4], Losses::Uniform(0.01))?;
        let truth = &tried.truth;
        let apart = truth.flows(THOUSANDS).map(|flow| {
            let columns = tried.sketched.columns_of(flow);
            let lost = tried.sketched.cells.lost_at(columns);
            let truly = truth.sent[flow] - truth.received[flow];
            lost.map_or(f64::NAN, |lost| {
                (lost as f64 - truly).abs() / truth.sent[flow]
            })
        });
        let name = "lost share of a flow at 1 % loss, least of its cells: >= 1000 packets, apart by (mean)";
        found.row(MINED, name, "% of packets", 100.0 * mean(apart));
        Ok(())
    }

    /// Deviation of a flow's packets: LDA's, over the k cells of the flow.
    fn deviations(&self, k: u32, found: &mut Found) -> Result<()> {
        let columns = columns_for(&self.trace, 17_500);
        let layout = LdsLayout::new(columns * k, k, &[1.0; 4])?;
        let tried = self.sketch_classes(&layout, Losses::None, |_| 0);
        let stddev = tried.sketched.each(|columns| {
            let variance = tried.sketched.cells.variance_at(columns);
            variance.map_or(f64::NAN, f64::sqrt)
        });
        let flows = tried.truth.flows(THOUSANDS);
        let errors = errors(&stddev, &tried.truth.stddev_ns, flows);
        let columns = 17_500 * k;
        let name = format!("deviation of a flow, k = {k}, {columns} x 4: >= 1000 packets");
        found.row(MINED, name, "%", median(errors));
        Ok(())
    }
}

/// A heavy hitter has at least this share of all packets.
const SHARES: [f64; 3] = [0.0001, 0.001, 0.01];

impl Tried<'_> {
    /// Heavy hitters, from packet counts decoded from the cells (section 4.3).
    fn heavy_hitters(&self, decoded: &[f64], count_min: &[f64], found: &mut Found) {
        let exact = &self.truth.received;
        let all: f64 = exact.iter().sum();
        for share in SHARES {
            let at = share * all;
            let label = format!("{} % of packets", 100.0 * share);
            let is_heavy = |flow: usize| exact.get(flow).is_some_and(|&size| size >= at);
            let precision = |named: &[f64]| {
                let named = named.iter().enumerate().filter(|(_, size)| **size >= at);
                percent_of(named.map(|(flow, _)| is_heavy(flow)))
            };
            let recall = |named: &[f64]| {
                let heavy = named.iter().enumerate().filter(|(flow, _)| is_heavy(*flow));
                percent_of(heavy.map(|(_, size)| *size >= at))
            };
            let check = format!("heavy hitters that are, flows of {label}");
            let row = found.row(HEAVY, check, "% of flows", precision(decoded));
            row.other("count-min", precision(count_min));
            let check = format!("heavy hitters found, flows of {label}");
            let row = found.row(HEAVY, check, "% of flows", recall(count_min));
            row.limit(Limit::AtLeast(100.0));
            row.other("decoded", recall(decoded));
            let heavy = || (0..exact.len()).filter(|flow| is_heavy(*flow));
            let check = format!("size of heavy hitters, flows of {label}");
            let error = |of: &[f64]| median(errors(of, exact, heavy()));
            let row = found.row(HEAVY, check, "%", error(decoded));
            row.other("count-min", error(count_min));
        }
    }
}
