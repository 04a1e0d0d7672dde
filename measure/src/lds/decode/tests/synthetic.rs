//! Sketches of generated flows whose delays are known.

use rand::distr::{Distribution, Uniform};
use rand::{RngExt, SeedableRng};
use rand_distr::{Normal, Pareto};
use rand_pcg::Pcg64;

use crate::lds::{DecodeOptions, Decoded, DelayCell, DelayCells, FlowTable, LdsLayout, decode};

/// What to generate.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub seed: u64,
    pub flows: usize,
    pub rows: usize,
    pub columns: u32,
    /// Mean delay of each mode in ticks; flows take one at random.
    pub modes: Vec<f64>,
    /// Deviation between flows of a mode.
    pub between: f64,
    /// Deviation between packets of a flow.
    pub within: f64,
    pub weights: Vec<f64>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            seed: 0,
            flows: 500,
            rows: 4,
            columns: 250,
            modes: vec![100_000.0],
            between: 5_000.0,
            within: 15_000.0,
            weights: vec![1.0],
        }
    }
}

/// Flows, and the sketch that saw them.
#[derive(Debug, Clone)]
pub(super) struct Truth {
    pub cells: DelayCells,
    pub columns: Vec<u32>,
    pub packets: Vec<f64>,
    pub weights: Vec<f64>,
    pub modes: Vec<f64>,
    pub means: Vec<f64>,
}

impl Truth {
    pub fn new(case: &Case) -> Self {
        let mut rng = Pcg64::seed_from_u64(case.seed);
        let layout = LdsLayout::new(case.columns, 1, &vec![1.0; case.rows]).unwrap();
        let sizes = Pareto::new(1.0, 0.8).unwrap();
        let column = Uniform::new(0, case.columns).unwrap();
        let normal = Normal::new(0.0, 1.0).unwrap();
        let mut cells = vec![DelayCell::default(); layout.cells()];
        cells.iter_mut().for_each(|cell| cell.usable = true);
        let (mut columns, mut packets, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let (mut modes, mut means) = (Vec::new(), Vec::new());
        for flow in 0..case.flows {
            let size: f64 = sizes.sample(&mut rng);
            let size = size.min(100_000.0).ceil();
            let weight = case.weights[flow % case.weights.len()];
            let mode = case.modes[rng.random_range(0..case.modes.len())];
            let deviation = (case.between.powi(2) + case.within.powi(2) / size).sqrt();
            let sum = ((mode + deviation * normal.sample(&mut rng)) * size).round();
            for row in 0..case.rows {
                let base: u32 = column.sample(&mut rng);
                columns.push(base);
                let cell = &mut cells[row * case.columns as usize + base as usize];
                cell.sent += (size * weight) as u64;
                cell.received = cell.sent;
                cell.count = cell.sent;
                cell.delay_sum += (sum * weight) as i64;
            }
            packets.push(size);
            weights.push(weight);
            modes.push(mode);
            means.push(sum / size);
        }
        Self {
            cells: DelayCells::new(layout, cells).unwrap(),
            columns,
            packets,
            weights,
            modes,
            means,
        }
    }

    pub fn table(&self) -> FlowTable<'_> {
        FlowTable {
            columns: &self.columns,
            packets: Some(&self.packets),
            weights: Some(&self.weights),
            features: &[],
            features_per_flow: 0,
        }
    }

    pub fn decode(&self, options: &DecodeOptions) -> Decoded {
        decode(&self.cells, self.table(), options, || false).unwrap()
    }

    pub fn errors(&self, decoded: &Decoded) -> Vec<f64> {
        let pairs = decoded.flows.iter().zip(&self.means);
        pairs
            .map(|(flow, mean)| (flow.mean_ticks / mean - 1.0).abs())
            .collect()
    }

    pub fn worst_error(&self, decoded: &Decoded) -> f64 {
        self.errors(decoded).into_iter().fold(0.0, f64::max)
    }
}
