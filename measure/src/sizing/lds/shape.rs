//! What is tried, and how it fares.

use super::LdsDemand;
use super::model::{Row, miss_share};
use crate::lds::ROWS_MAX;
use crate::sizing::MEAN_OF_SIZE;

/// Flows up to this share of what may interfere count by their mean, larger ones each by itself:
/// so the model came nearest to simulation.
const SMALL_SHARE: f64 = 0.25;
/// Sizes of a virtual LDA that are tried.
const VIRTUAL_CELLS: [u32; 8] = [1, 2, 3, 4, 5, 6, 8, 10];
/// Least probabilities of a row that are tried.
const LEAST_SHARES: [f64; 7] = [1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01];

/// What is tried: all but the number of columns.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub virtual_cells: u32,
    pub row_probabilities: Vec<f64>,
}

impl Shape {
    /// All shapes that make sense for a demand.
    pub(super) fn all(demand: &LdsDemand) -> Vec<Self> {
        let mut shapes = Vec::new();
        for rows in 1..=ROWS_MAX {
            for virtual_cells in VIRTUAL_CELLS {
                for least_share in LEAST_SHARES {
                    shapes.push(Self {
                        virtual_cells,
                        row_probabilities: geometric(least_share, rows),
                    });
                }
            }
        }
        if demand.loss == 0.0 {
            // Without losses there is nothing to survive.
            shapes.retain(|shape| shape.virtual_cells == 1 && shape.row_probabilities[0] >= 1.0);
        }
        shapes
    }

    pub(super) fn rows(&self) -> u64 {
        self.row_probabilities.len() as u64
    }

    /// Fewest columns.
    pub(super) fn columns_min(&self) -> u64 {
        u64::from(self.virtual_cells) * 2
    }

    /// Share of flows of `packets` packets that miss `error` for want of a good cell.
    pub(super) fn miss_share(
        &self,
        demand: &LdsDemand,
        columns: u64,
        error: f64,
        packets: f64,
    ) -> f64 {
        let mut rows: Vec<Row> = self
            .row_probabilities
            .iter()
            .filter_map(|&share| self.row(demand, columns as f64, error, packets, share))
            .collect();
        miss_share(self.virtual_cells, &mut rows)
    }

    /// A row that samples `share`; `None` where it samples too little of the flow for its mean.
    fn row(
        &self,
        demand: &LdsDemand,
        columns: f64,
        error: f64,
        packets: f64,
        share: f64,
    ) -> Option<Row> {
        let k = f64::from(self.virtual_cells);
        // One cell's samples of the flow, and what they leave of the error to collisions.
        let samples = packets * share / k;
        let sampling = demand.delay_cv * ((1.0 - share / k) / samples).max(0.0).sqrt();
        let left = error * error - (MEAN_OF_SIZE * sampling).powi(2);
        if left <= 0.0 {
            return None;
        }
        // x packets of others shift the mean by x / (x + packets) of the distance between flows.
        let shift = (left.sqrt() / demand.delay_spread).min(1.0 - 1e-9);
        let interfering = packets * shift / (1.0 - shift);
        let flows_per_cell = (demand.flows as f64 - 1.0) / columns;
        let small_packets = k * flows_per_cell * demand.sizes.mean_up_to(interfering * SMALL_SHARE);
        let clear = if interfering > small_packets {
            let large = demand.sizes.share_over(interfering - small_packets);
            (-flows_per_cell * large).exp()
        } else {
            0.0
        };
        let packets_per_cell = flows_per_cell * demand.sizes.mean_up_to(f64::INFINITY);
        Some(Row {
            clear,
            intact: (-share * demand.loss * packets_per_cell).exp(),
            own_losses: share * demand.loss * packets / k,
        })
    }
}

/// `rows` shares from `least` to 1 in geometric steps; a single row has the least.
fn geometric(least: f64, rows: usize) -> Vec<f64> {
    let steps = rows.saturating_sub(1).max(1) as f64;
    (0..rows)
        .map(|row| least.powf(1.0 - row as f64 / steps))
        .collect()
}
