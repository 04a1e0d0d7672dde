//! `vernier-accuracy dump`: writes a sketch of the acceptance trace as CSV, with the truth.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use measure::cell::Cell;
use measure::lds::{LdsLayout, LdsPair};

use super::{possible, write_lines, write_to};
use crate::interchange::{CellRecord, FlowList, Half, write_cells, write_flows};
use crate::interpolation::Interpolated;
use crate::sketched::{Sketched, sketch};
use crate::trace::{Losses, Scenario, Trace, Truth};
use crate::traffic::mix;

/// Write the cells and flows of a generated case, for decoding here or elsewhere
///
/// Writes `cells.csv` and `flows.csv` into a folder, and `weights.csv` where flows have weights:
/// what `vernier-accuracy decode` reads. docs/interchange.md describes all files.
#[derive(Debug, Args)]
pub(super) struct Dump {
    /// What to write
    #[arg(long, value_name = "NAME", value_parser = possible(CASES.iter().map(|case| (case.name, case.title))))]
    case: String,

    /// Output folder; created if necessary
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Seed of the trace
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// A sketch of the acceptance trace.
struct Case {
    name: &'static str,
    title: &'static str,
    /// 1 is 146,000 flows.
    scale: f64,
    columns: u32,
    virtual_cells: u32,
    row_probabilities: [f64; 4],
    losses: Losses,
    /// Whether RLI's means are in the file; only without losses.
    has_rli: bool,
    /// Of three classes of flows; empty: all weigh 1.
    weights: &'static [u32],
}

const ACCEPTANCE: Case = Case {
    name: "acceptance",
    title: "the acceptance trace, 17500 x 4 cells: --k 1",
    scale: 1.0,
    columns: 17_500,
    virtual_cells: 1,
    row_probabilities: [1.0; 4],
    losses: Losses::None,
    has_rli: false,
    weights: &[],
};

const CASES: [Case; 4] = [
    Case {
        name: "small",
        title: "1,460 flows, 365 x 4 cells, with RLI means: a quick look",
        scale: 0.01,
        columns: 365,
        has_rli: true,
        ..ACCEPTANCE
    },
    ACCEPTANCE,
    Case {
        name: "loss",
        title: "0.5 % lost, 87500 x 4 cells: --k 5 --row-probabilities 0.01,0.1,0.5,1",
        columns: 87_500,
        virtual_cells: 5,
        row_probabilities: [0.01, 0.1, 0.5, 1.0],
        losses: Losses::Uniform(0.005),
        ..ACCEPTANCE
    },
    Case {
        name: "weights",
        title: "weights of 1, 25 and 100 for 90, 9 and 1 % of the flows, 10000 x 4 cells: --weights",
        columns: 10_000,
        weights: &[1, 25, 100],
        ..ACCEPTANCE
    },
];

impl Dump {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let case = CASES.iter().find(|case| case.name == self.case);
        let case = case.context("no such case")?;
        let trace = Trace::generate(&Scenario::ACCEPTANCE, self.seed, case.scale);
        let losses = case.losses.on(&trace, self.seed);
        let mut layout = LdsLayout::new(case.columns, case.virtual_cells, &case.row_probabilities)?;
        if !case.weights.is_empty() {
            layout = layout.with_weights(case.weights)?;
        }
        let class_of = |flow| class_of(case, flow);
        let pair = sketch(&trace, &layout, &losses, class_of);
        let sketched = Sketched::of(&pair, &trace, &layout, class_of);
        let truth = Truth::of(&trace, &losses);
        let flows = FlowList {
            rows: layout.rows(),
            names: (0..trace.flows()).map(|flow| flow.to_string()).collect(),
            columns: sketched.columns,
            packets: truth.received,
            rli_mean_ns: if case.has_rli {
                Interpolated::of(&trace).mean_ns
            } else {
                vec![f64::NAN; trace.flows()]
            },
            true_mean_ns: truth.mean_ns,
        };
        let folder = &self.out;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{}: cannot be made", folder.display()))?;
        write_to(&folder.join("cells.csv"), |file| {
            write_cells(file, cells(&pair, case.columns))
        })?;
        write_to(&folder.join("flows.csv"), |file| write_flows(file, &flows))?;
        if !sketched.weights.is_empty() {
            let lines = flows.names.iter().zip(&sketched.weights);
            let lines = lines.map(|(name, weight)| vec![name.clone(), weight.to_string()]);
            write_lines(&folder.join("weights.csv"), "flow,weight", lines)?;
        }
        eprintln!("{}: {}", case.name, case.title);
        Ok(ExitCode::SUCCESS)
    }
}

fn cells(pair: &LdsPair, columns: u32) -> impl Iterator<Item = CellRecord> {
    let half = |cell: Cell| Half {
        count: Some(cell.count.into()),
        sum_ns: Some(cell.sum),
        digest: Some(cell.digest.into()),
    };
    let rows = (0..).zip(pair.cells().chunks_exact(columns as usize));
    rows.flat_map(move |(row, cells)| {
        (0..).zip(cells).map(move |(column, pair)| CellRecord {
            row,
            column,
            sender: half(pair.sender),
            receiver: half(pair.receiver),
        })
    })
}

/// Class 0, 1 and 2 for 90, 9 and 1 % of the flows, where classes have weights.
fn class_of(case: &Case, flow: usize) -> u16 {
    let uniform = mix(flow as u64) as f64 / 2.0_f64.powi(64);
    match (case.weights, uniform) {
        ([], _) | (_, ..0.9) => 0,
        (_, ..0.99) => 1,
        _ => 2,
    }
}
