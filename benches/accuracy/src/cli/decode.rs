//! `vernier-accuracy decode`: the delays of flows from the cells of any program.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use measure::lds::{Decoded, DelayCell, DelayCells, FlowDelay, LdsLayout, Source, Warning};

use super::{STANDARD, open, write_lines};
use crate::interchange::{
    CellRecord, FlowList, SKETCH_COLUMNS_MAX, known, read_cells, read_flows, read_weights,
};
use crate::sketched::{Sketched, options};

/// Decode flow delays from the cells of a sketch: the paper's estimator, joint decoding, hybrid
///
/// Cells that the file does not name are empty at both ends. A cell is usable where counts are
/// equal at both ends and digests are equal or unknown; a field left empty is unknown.
/// Writes `flow,packets,paper_ns,joint_ns,joint_sd_ns,hybrid_ns`. docs/interchange.md describes
/// all files.
#[derive(Debug, Args)]
pub(super) struct Decode {
    /// Cells at both ends: `row,col,n_tx,s_tx_ns,d_tx,n_rx,s_rx_ns,d_rx`
    #[arg(long, value_name = "FILE")]
    cells: PathBuf,

    /// Flows: `flow,packets,col_0,...[,rli_mean_ns]`; missing packets are decoded
    #[arg(long, value_name = "FILE")]
    flows: PathBuf,

    /// Neighbouring cells of a flow in each row (its virtual LDA)
    #[arg(long, value_name = "K", default_value_t = 1)]
    k: u32,

    /// Components of the prior, 1 to 3; use 2 or 3 if delays differ widely between flows
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=3))]
    components: u8,

    /// Share of packets that each row samples, separated by commas [default: all packets]
    #[arg(long, value_name = "P,P,...", value_delimiter = ',')]
    row_probabilities: Vec<f64>,

    /// Columns of a row [default: one more than the greatest in the files]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(1..=i64::from(SKETCH_COLUMNS_MAX)))]
    columns: Option<u32>,

    /// Weights of flows whose packets count more than once: `flow,weight`; the weight of others is 1
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,

    /// Maximum sweeps of joint decoding [default: 10 for one component, 20 for more]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    sweeps: Option<u16>,

    /// Output file for the estimates; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

impl Decode {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let inputs = [&self.cells, &self.flows];
        let inputs = inputs.into_iter().chain(&self.weights);
        let standard = inputs.filter(|path| path.as_os_str() == STANDARD);
        ensure!(standard.count() <= 1, "only one file can be standard input");

        let (name, input) = open(&self.cells)?;
        let cells = read_cells(&name, input)?;
        let (name, input) = open(&self.flows)?;
        let flows = read_flows(&name, input)?;
        let mut weights = Vec::new();
        if let Some(path) = &self.weights {
            let (name, input) = open(path)?;
            weights = read_weights(&name, input, &flows)?;
        }
        let layout = layout(self, &cells, &flows)?;
        let sketched = Sketched {
            cells: delay_cells(layout, &cells)?,
            columns: flows.columns.clone(),
            weights,
        };
        let mut options = options(self.components.into());
        options.sweeps = self.sweeps.map_or(options.sweeps, usize::from);
        let decode = |feature| sketched.decode(Some(&flows.packets), feature, &options);
        let joint = decode(&[]).context("joint decoding")?;
        report("joint", &joint);
        // If any flow has an RLI mean.
        let mut hybrid = None;
        if flows.rli_mean_ns.iter().any(|mean| mean.is_finite()) {
            let decoded = decode(&flows.rli_mean_ns).context("hybrid decoding")?;
            report("hybrid", &decoded);
            hybrid = Some(decoded);
        }
        self.write(&flows, &sketched.paper(), &joint, hybrid.as_ref())?;
        Ok(ExitCode::SUCCESS)
    }

    fn write(
        &self,
        flows: &FlowList,
        paper_ns: &[f64],
        joint: &Decoded,
        hybrid: Option<&Decoded>,
    ) -> Result<()> {
        let header = "flow,packets,paper_ns,joint_ns,joint_sd_ns,hybrid_ns";
        // If nothing is known, the mean is a placeholder.
        let mean = |flow: &FlowDelay| match flow.source {
            Source::Nothing => f64::NAN,
            _ => flow.mean_ticks,
        };
        let lines = (0..).zip(&flows.names).zip(paper_ns).zip(&joint.flows);
        let lines = lines.map(|(((flow, name), &paper), joint)| {
            let hybrid = hybrid.and_then(|decoded: &Decoded| decoded.flows.get::<usize>(flow));
            let numbers = [
                joint.packets,
                paper,
                mean(joint),
                joint.variance_ticks2.sqrt(),
                hybrid.map_or(f64::NAN, mean),
            ];
            let numbers = numbers.into_iter().map(known);
            std::iter::once(name.clone()).chain(numbers).collect()
        });
        write_lines(&self.out, header, lines)
    }
}

/// The sketch that both files describe.
fn layout(arguments: &Decode, cells: &[(u64, CellRecord)], flows: &FlowList) -> Result<LdsLayout> {
    let named = cells.iter().map(|(_, cell)| cell.column);
    let greatest = named.chain(flows.columns.iter().copied()).max();
    let needed = greatest.map_or(1, |column| column + 1);
    let columns = arguments.columns.unwrap_or(needed.max(arguments.k));
    ensure!(
        columns >= needed,
        "--columns {columns}: the files name column {}; give {needed} or more",
        needed - 1
    );
    let rows = flows.rows;
    for (line, cell) in cells {
        ensure!(
            usize::from(cell.row) < rows,
            "{}, line {line}: row {}, but {} names columns for {rows} rows only; add col_{} there",
            arguments.cells.display(),
            cell.row,
            arguments.flows.display(),
            cell.row
        );
    }
    let probabilities = match &arguments.row_probabilities[..] {
        [] => vec![1.0; rows],
        given if given.len() == rows => given.to_vec(),
        given => bail!(
            "--row-probabilities: {} given, but {} names {rows} rows; give one for each",
            given.len(),
            arguments.flows.display()
        ),
    };
    Ok(LdsLayout::new(columns, arguments.k, &probabilities)?)
}

/// All cells of the sketch: those that are not `named` are empty at both ends.
fn delay_cells(layout: LdsLayout, named: &[(u64, CellRecord)]) -> Result<DelayCells> {
    let empty = DelayCell {
        usable: true,
        ..DelayCell::default()
    };
    let mut cells = vec![empty; layout.cells()];
    for (_, record) in named {
        let row = usize::from(record.row) * layout.columns() as usize;
        let delays = record.delays();
        let (count, delay_sum) = delays.unwrap_or((0, 0));
        let (sent, received) = (record.sender.count, record.receiver.count);
        if let Some(cell) = cells.get_mut(row + record.column as usize) {
            *cell = DelayCell {
                sent: sent.unwrap_or(0),
                received: received.unwrap_or(0),
                count,
                delay_sum,
                usable: delays.is_some(),
                partial: false,
                missing: sent.is_none() || received.is_none(),
            };
        }
    }
    Ok(DelayCells::new(layout, cells)?)
}

/// Prints warnings about the estimates on standard error.
fn report(name: &str, decoded: &Decoded) {
    if let Some(fallback) = decoded.fallback {
        eprintln!("{name}: the paper's estimator instead of joint decoding: {fallback:?}");
    }
    for warning in &decoded.warnings {
        if let Some(warning) = in_words(warning, decoded) {
            eprintln!("{name}: {warning}");
        }
    }
}

/// Changes below this, relative to the largest estimate, give no warning.
const SETTLED: f64 = 1e-3;

fn in_words(warning: &Warning, decoded: &Decoded) -> Option<String> {
    Some(match warning {
        Warning::UnlistedPackets { share } => format!(
            "{:.1} % of the packets in the cells are of flows that are not listed",
            100.0 * share
        ),
        Warning::ExcessPackets { cells } => format!(
            "in {cells} cells the flows claim more packets than were counted; their counts were \
             scaled down to fit"
        ),
        Warning::NotSettled if decoded.last_change < SETTLED => return None,
        Warning::NotSettled => format!(
            "after {} sweeps an estimate still moved by {:.1} % of the largest; more --sweeps may \
             help",
            decoded.sweeps,
            100.0 * decoded.last_change
        ),
    })
}
