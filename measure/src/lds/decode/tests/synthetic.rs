//! Sketches of generated flows whose delays are known.

use rand::distr::{Distribution, Uniform};
use rand::{RngExt, SeedableRng};
use rand_distr::{Normal, Pareto};
use rand_pcg::Pcg64;

use crate::lds::{
    DecodeOptions, Decoded, DelayCell, DelayCells, FlowDelay, FlowTable, LdsLayout, Source, decode,
};

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
    /// Packets of a flow at most.
    pub largest: f64,
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
            largest: 100_000.0,
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
        for cell in &mut cells {
            cell.usable = true;
        }
        let (mut columns, mut packets, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let mut means = Vec::new();
        for flow in 0..case.flows {
            let size: f64 = sizes.sample(&mut rng);
            let size = size.min(case.largest).ceil();
            let weight = case.weights[flow % case.weights.len()];
            let mode = case.modes[rng.random_range(0..case.modes.len())];
            let deviation = (case.between.powi(2) + case.within.powi(2) / size).sqrt();
            let sum = ((mode + deviation * normal.sample(&mut rng)) * size).round();
            for row in 0..case.rows {
                let base: u32 = column.sample(&mut rng);
                columns.push(base);
                let cell = &mut cells[row * case.columns as usize + base as usize];
                cell.sent += whole(size * weight).unsigned_abs();
                cell.received = cell.sent;
                cell.count = cell.sent;
                cell.delay_sum += whole(sum * weight);
            }
            packets.push(size);
            weights.push(weight);
            means.push(sum / size);
        }
        Self {
            cells: DelayCells::new(layout, cells).unwrap(),
            columns,
            packets,
            weights,
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
            known: None,
        }
    }

    pub fn decode(&self, options: &DecodeOptions) -> Decoded {
        self.decode_table(self.table(), options)
    }

    pub fn decode_table(&self, table: FlowTable<'_>, options: &DecodeOptions) -> Decoded {
        decode(&self.cells, table, options, || false).unwrap()
    }

    /// The paper's estimator.
    pub fn paper(&self) -> Vec<FlowDelay> {
        let rows = self.cells.layout().rows();
        let flows = self.columns.chunks(rows).zip(&self.packets);
        let flow = |(columns, &packets)| FlowDelay {
            mean_ticks: self.cells.estimate_at(columns).unwrap().mean_ticks,
            variance_ticks2: f64::INFINITY,
            packets,
            source: Source::Paper,
        };
        flows.map(flow).collect()
    }

    /// Exact means and Gaussian noise.
    pub fn noisy_means(&self, deviation: f64) -> Vec<f64> {
        let mut rng = Pcg64::seed_from_u64(77);
        let noise = Normal::new(0.0, deviation).unwrap();
        let means = self.means.iter();
        means.map(|mean| mean + noise.sample(&mut rng)).collect()
    }

    /// The same sketch, with a list that lacks each tenth flow.
    pub fn without_each_tenth(&self) -> Self {
        let rows = self.cells.layout().rows();
        let listed = |place: usize| place % 10 != 3;
        let keep = |list: &[f64]| -> Vec<f64> {
            let kept = list.iter().enumerate().filter(|&(flow, _)| listed(flow));
            kept.map(|(_, &value)| value).collect()
        };
        let flows = self.columns.chunks(rows).enumerate();
        Self {
            cells: self.cells.clone(),
            columns: flows
                .filter(|&(flow, _)| listed(flow))
                .flat_map(|(_, columns)| columns.to_vec())
                .collect(),
            packets: keep(&self.packets),
            weights: keep(&self.weights),
            means: keep(&self.means),
        }
    }

    pub fn errors(&self, flows: &[FlowDelay]) -> Vec<f64> {
        let pairs = flows.iter().zip(&self.means);
        pairs
            .map(|(flow, mean)| (flow.mean_ticks / mean - 1.0).abs())
            .collect()
    }

    pub fn worst_error(&self, decoded: &Decoded) -> f64 {
        self.errors(&decoded.flows).into_iter().fold(0.0, f64::max)
    }

    /// Over flows with a minimum number of packets.
    pub fn median_error(&self, flows: &[FlowDelay], least: f64) -> f64 {
        let errors = self.errors(flows).into_iter().zip(&self.packets);
        let large = errors.filter(|&(_, &packets)| packets >= least);
        median(large.map(|(error, _)| error).collect())
    }

    /// Share of flows whose true mean is within this number of deviations plus half a tick.
    pub fn coverage(&self, decoded: &Decoded, deviations: f64) -> f64 {
        let within = |(flow, mean): &(&FlowDelay, &f64)| {
            let bound = deviations * flow.variance_ticks2.sqrt() + 0.5;
            (flow.mean_ticks - *mean).abs() <= bound
        };
        let pairs = decoded.flows.iter().zip(&self.means);
        pairs.filter(within).count() as f64 / self.means.len() as f64
    }
}

#[expect(clippy::cast_possible_truncation, reason = "far under 2^63")]
fn whole(figure: f64) -> i64 {
    figure as i64
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    crate::statistics::median(&mut values).unwrap()
}
