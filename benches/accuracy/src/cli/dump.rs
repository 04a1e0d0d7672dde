//! `vernier-accuracy dump`: a sketch of the acceptance trace as CSV, with the truth beside it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use measure::cell::Cell;
use measure::lds::LdsLayout;
use measure::observation::SegmentIndex;

use super::{Kept, files};
use crate::interchange::{CellRecord, FlowList, Half, write_cells, write_flows};
use crate::interpolation::Interpolated;
use crate::sketched::sketch;
use crate::trace::{Losses, Scenario, Trace, Truth};
use crate::traffic::mix;

/// Write the cells and flows of a generated case, for decoding here or elsewhere
///
/// Writes `cells.csv` and `flows.csv` into a folder, and `weights.csv` where flows have weights:
/// what `vernier-accuracy decode` reads. docs/interchange.md describes all files.
#[derive(Debug, Args)]
pub(super) struct Dump {
    /// What to write
    #[arg(long, value_name = "NAME", value_parser = cases())]
    case: String,

    /// Folder to write to; made where it is missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Seed of the trace
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Whether a figure of flows is in the file.
enum Figure {
    Given,
    Unknown,
}

/// A sketch of a trace.
struct Case {
    name: &'static str,
    title: &'static str,
    scenario: &'static Scenario,
    /// Of the acceptance trace: 1 is 146,000 flows.
    scale: f64,
    columns: u32,
    virtual_cells: u32,
    row_probabilities: &'static [f64],
    losses: Losses,
    /// Share of flows that are left out of the list.
    unlisted: f64,
    packets: Figure,
    /// RLI's means; only where nothing is lost.
    rli: Figure,
    /// Of three classes of flows; empty: all weigh 1.
    weights: &'static [u32],
}

const ACCEPTANCE: Case = Case {
    name: "acceptance",
    title: "the acceptance trace, 17500 x 4 cells: --k 1",
    scenario: &Scenario::ACCEPTANCE,
    scale: 1.0,
    columns: 17_500,
    virtual_cells: 1,
    row_probabilities: &[1.0; 4],
    losses: Losses::None,
    unlisted: 0.0,
    packets: Figure::Given,
    rli: Figure::Unknown,
    weights: &[],
};

const CASES: &[Case] = &[
    Case {
        name: "small",
        title: "1,460 flows, 365 x 4 cells, with RLI means: a quick look",
        scale: 0.01,
        columns: 365,
        rli: Figure::Given,
        ..ACCEPTANCE
    },
    ACCEPTANCE,
    Case {
        name: "tenth",
        title: "a tenth of the memory, 1750 x 4 cells",
        columns: 1_750,
        ..ACCEPTANCE
    },
    Case {
        name: "exact",
        title: "0.75 flows a cell in three rows: every flow comes out exactly",
        columns: 64_889,
        row_probabilities: &[1.0; 3],
        ..ACCEPTANCE
    },
    Case {
        name: "loss",
        title: "0.5 % lost, 87500 x 4 cells: --k 5 --row-probabilities 0.01,0.1,0.5,1",
        columns: 87_500,
        virtual_cells: 5,
        row_probabilities: &[0.01, 0.1, 0.5, 1.0],
        losses: Losses::Uniform(0.005),
        ..ACCEPTANCE
    },
    Case {
        name: "missing",
        title: "10 % of the flows are not in the list",
        unlisted: 0.1,
        ..ACCEPTANCE
    },
    Case {
        name: "counts",
        title: "packets of flows are not given, and decoded",
        packets: Figure::Unknown,
        ..ACCEPTANCE
    },
    Case {
        name: "weights",
        title: "weights of 1, 25 and 100 for 90, 9 and 1 % of the flows, 10000 x 4 cells: --weights",
        columns: 10_000,
        weights: &[1, 25, 100],
        ..ACCEPTANCE
    },
    Case {
        name: "fifo",
        title: "one FIFO queue, with RLI means",
        scenario: &Scenario::FIFO,
        rli: Figure::Given,
        ..ACCEPTANCE
    },
    Case {
        name: "two-queues",
        title: "two uncorrelated queues, with RLI means of one of them",
        rli: Figure::Given,
        ..ACCEPTANCE
    },
    Case {
        name: "ecmp",
        title: "two paths of equal cost, with RLI means of one of them",
        scenario: &Scenario::ECMP,
        rli: Figure::Given,
        ..ACCEPTANCE
    },
    Case {
        name: "mixed",
        title: "a little of everything, with RLI means",
        scenario: &Scenario::MIXED,
        rli: Figure::Given,
        ..ACCEPTANCE
    },
];

fn cases() -> PossibleValuesParser {
    let names = CASES.iter();
    names
        .map(|case| PossibleValue::new(case.name).help(case.title))
        .collect::<Vec<_>>()
        .into()
}

pub(super) fn run(arguments: &Dump) -> Result<Kept> {
    let case = CASES.iter().find(|case| case.name == arguments.case);
    let case = case.context("no such case")?;
    let Dumped {
        cells,
        flows,
        weights,
    } = Dumped::of(case, arguments.seed)?;
    let folder = &arguments.out;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{}: cannot be made", folder.display()))?;
    let file = |name: &str| {
        let file = folder.join(name);
        let written = format!("{}: cannot be written", file.display());
        Ok::<_, anyhow::Error>((files::create(&file)?, written))
    };
    let (cells_file, written) = file("cells.csv")?;
    write_cells(cells_file, cells).context(written)?;
    let (flows_file, written) = file("flows.csv")?;
    write_flows(flows_file, &flows).context(written)?;
    if !weights.is_empty() {
        let lines = flows.names.iter().zip(&weights);
        let lines = lines.map(|(name, weight)| vec![name.clone(), weight.to_string()]);
        files::write_lines(&folder.join("weights.csv"), &["flow", "weight"], lines)?;
    }
    eprintln!("{}: {}", case.name, case.title);
    Ok(true)
}

/// What goes into the files.
struct Dumped {
    cells: Vec<CellRecord>,
    flows: FlowList,
    /// One entry a flow; empty: all weigh 1.
    weights: Vec<u32>,
}

impl Dumped {
    fn of(case: &Case, seed: u64) -> Result<Self> {
        let trace = Trace::generate(case.scenario, seed, case.scale);
        let losses = case.losses.on(&trace, seed);
        let mut layout = LdsLayout::new(case.columns, case.virtual_cells, case.row_probabilities)?;
        if !case.weights.is_empty() {
            layout = layout.with_weights(case.weights)?;
        }
        let sketch = sketch(&trace, &layout, &losses, |flow| class_of(case, flow));
        let rows = sketch.cells().chunks_exact(case.columns as usize);
        let cells = (0..).zip(rows).flat_map(|(row, cells)| {
            (0..).zip(cells).map(move |(column, pair)| CellRecord {
                row,
                column,
                sender: half_of(pair.sender),
                receiver: half_of(pair.receiver),
            })
        });

        let truth = Truth::of(&trace, &losses);
        let rli = match case.rli {
            Figure::Given => Interpolated::of(&trace).mean_ns,
            Figure::Unknown => vec![f64::NAN; trace.flows()],
        };
        let mut flows = FlowList {
            rows: layout.rows(),
            ..FlowList::default()
        };
        let mut weights = Vec::new();
        // Which flows are left out does not matter: they are drawn alike.
        let listed = (0..trace.flows()).filter(|&flow| uniform(flow) >= case.unlisted);
        for flow in listed {
            let class = SegmentIndex(class_of(case, flow));
            let base = layout.base_columns(trace.flow_hash(flow), class);
            flows.names.push(flow.to_string());
            flows.columns.extend(base.iter().take(layout.rows()));
            flows.packets.push(match case.packets {
                Figure::Given => truth.received[flow],
                Figure::Unknown => f64::NAN,
            });
            flows.true_mean_ns.push(truth.mean_ns[flow]);
            flows.rli_mean_ns.push(rli[flow]);
            if !case.weights.is_empty() {
                weights.push(layout.weight(class));
            }
        }
        Ok(Self {
            cells: cells.collect(),
            flows,
            weights,
        })
    }
}

/// A number of the flow alone, uniform in 0..1.
fn uniform(flow: usize) -> f64 {
    mix(flow as u64) as f64 / 2.0_f64.powi(64)
}

/// Class 0, 1 and 2 for 90, 9 and 1 % of the flows, where classes have weights.
fn class_of(case: &Case, flow: usize) -> u16 {
    match (case.weights, uniform(flow)) {
        ([], _) | (_, ..0.9) => 0,
        (_, ..0.99) => 1,
        _ => 2,
    }
}

fn half_of(cell: Cell) -> Half {
    Half {
        count: Some(cell.count.into()),
        sum_ns: Some(cell.sum),
        digest: Some(cell.digest.into()),
    }
}
