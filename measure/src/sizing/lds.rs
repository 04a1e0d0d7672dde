//! Rows, columns, virtual LDA and sampling of an LDS.
//!
//! Sanjuas-Cuxart et al. 2011, section 3, judges a size by large collisions: a flow is well
//! measured where one of its cells holds no more than x / k packets of others. What is kept of
//! that, and what is not:
//!
//! - Within a row (section 3.1) it holds: flows larger than x fall on a cell as balls do, n P of
//!   them, P = P\[flow > x\]. Here as a Poisson number; the paper takes its first term,
//!   and x is less the packets that smaller flows bring in the mean, which the paper leaves out.
//! - Over rows it holds: Q(R) = 1 - (z R)^R and the best R = 1 / (e z).
//! - Over the k cells of a virtual LDA (section 3.2) it does **not**. The paper takes collisions in
//!   them for independent, Q(R k) = 1 - (n k R P / C)^(R k), and calls that cautious. But the k
//!   cells are neighbours: a flow with the same first cell collides in all of them, with
//!   probability n P R / C in each row, whatever k. So k > 1 buys no fewer collisions, only
//!   survival of losses; and rows cannot be saved for it (R = -ln eps / k).
//!
//! The model ([`model`]): offsets from 1 - k to k - 1 between a flow's first cell and mine hold
//! large flows independently, each covering what overlaps; lost packets, mine and others', spoil
//! cells as a Poisson number; what is sampled of a flow must suffice for its mean.

mod model;
mod shape;

use shape::Shape;

use crate::argument::InvalidArgument;
use crate::lds::{LdsLayout, ROWS_MAX};

use super::{CELL_BYTES, FlowSizes, HALF_BYTES, SizingError, check, least, loss, part, positive};

/// Most columns that are tried.
const COLUMNS_MAX: u64 = 1 << 26;
/// The flows of a port, and what is wanted of them.
#[derive(Debug, Clone, PartialEq)]
pub struct LdsDemand {
    /// Flows active in an epoch, 1 or more: n.
    pub flows: u64,
    /// Their sizes.
    pub sizes: FlowSizes,
    /// Packets sent a second, over 0.
    pub packets_per_s: f64,
    /// Length of an epoch in seconds, over 0.
    pub epoch_s: f64,
    /// Share of packets lost, from 0 to under 1.
    pub loss: f64,
    /// Packets of the smallest flow that must be well measured, 1 or more.
    pub flow_packets: f64,
    /// How much flows' mean delays differ: their mean distance over the mean delay, over 0.
    pub delay_spread: f64,
    /// Standard deviation of a packet's delay within its flow over the mean, 0 or more.
    pub delay_cv: f64,
    /// Share of such flows that may miss the error, over 0 to under 1: epsilon.
    pub miss_share: f64,
}

/// An LDS for a demand. Errors are relative errors of a flow's mean delay, as the paper's estimator
/// has them; joint decoding is better.
#[derive(Debug, Clone, PartialEq)]
pub struct LdsPlan {
    /// Columns of each row.
    pub columns: u32,
    /// Cells of a flow in each row: k.
    pub virtual_cells: u32,
    /// Share of packets that each row samples: p, one entry a row.
    pub row_probabilities: Vec<f64>,
    /// The error that flows of `flow_packets` packets and more stay under ..
    pub error: f64,
    /// .. but for this share of them.
    pub miss_share: f64,
    /// Bytes of one synopsis inside a switch, with both ends in one place.
    pub memory_bytes: u64,
    /// Bytes of cells that one end sends to the other at each turn, without frames' headers.
    pub wire_bytes: u64,
}

impl LdsDemand {
    fn check(&self) -> Result<(), InvalidArgument> {
        check(self.flows >= 1, "the number of flows", 0.0, "1 at least")?;
        positive("the number of packets a second", self.packets_per_s)?;
        positive("the epoch in seconds", self.epoch_s)?;
        loss("the share of packets lost", self.loss)?;
        let packets = self.packets_per_s * self.epoch_s;
        check(
            (1.0..=packets).contains(&self.flow_packets),
            "the number of packets of the smallest flow to measure well",
            self.flow_packets,
            "1 at least, and no more than an epoch has",
        )?;
        positive("the difference between flows' delays", self.delay_spread)?;
        check(
            self.delay_cv >= 0.0 && self.delay_cv.is_finite(),
            "the deviation of delays within a flow",
            self.delay_cv,
            "0 or more",
        )?;
        let miss_share = self.miss_share;
        part("the share of flows that may miss the error", miss_share)
    }

    /// Packets of the flows that a plan is held against: the smallest to measure well, and the
    /// largest that there is.
    fn measures(&self) -> [f64; 2] {
        let epoch = self.packets_per_s * self.epoch_s;
        let largest = self.sizes.attained_by(1.0 / self.flows as f64).min(epoch);
        [self.flow_packets, largest.max(self.flow_packets)]
    }

    fn miss_share(&self, shape: &Shape, columns: u64, error: f64) -> f64 {
        self.measures()
            .into_iter()
            .map(|packets| shape.miss_share(self, columns, error, packets))
            .fold(0.0, f64::max)
    }
}

impl LdsPlan {
    /// The smallest LDS in which all but `miss_share` of the flows that must be well measured
    /// have an error of `error` at most.
    ///
    /// # Errors
    /// [`SizingError`] when a number is out of range, or the error out of reach or needs no LDS.
    pub fn for_error(demand: &LdsDemand, error: f64) -> Result<Self, SizingError> {
        demand.check()?;
        let what = "the relative error allowed";
        check(error > 0.0, what, error, "a number over 0")?;
        if error >= demand.delay_spread {
            return Err(SizingError::MeanSuffices {
                target: error,
                spread: demand.delay_spread,
            });
        }
        let mut best: Option<(Shape, u64)> = None;
        let mut cells_max = COLUMNS_MAX * ROWS_MAX as u64;
        for shape in Shape::all(demand) {
            let most = (cells_max / shape.rows()).min(COLUMNS_MAX);
            if most < shape.columns_min() {
                continue;
            }
            let fits = |columns| demand.miss_share(&shape, columns, error) <= demand.miss_share;
            if let Some(columns) = least(shape.columns_min(), most, fits) {
                cells_max = columns * shape.rows() - 1;
                best = Some((shape, columns));
            }
        }
        let (shape, columns) = best.ok_or_else(|| SizingError::OutOfReach {
            target: error,
            best: Self::best(demand, COLUMNS_MAX * ROWS_MAX as u64)
                .map_or(f64::INFINITY, |(.., error)| error),
        })?;
        Ok(Self::new(demand, shape, columns, error))
    }

    /// Of `cells` cells, the shape with the least error that is kept; `None` where none keeps one
    /// under the difference between flows.
    fn best(demand: &LdsDemand, cells: u64) -> Option<(Shape, u64, f64)> {
        let mut best = None;
        let mut error_max = demand.delay_spread * (1.0 - 1e-6);
        for shape in Shape::all(demand) {
            let columns = (cells / shape.rows()).min(COLUMNS_MAX);
            let fits = |error| demand.miss_share(&shape, columns, error) <= demand.miss_share;
            if columns < shape.columns_min() || !fits(error_max) {
                continue;
            }
            // The share missed falls with the error allowed: halve the interval.
            let (mut low, mut high) = (0.0, error_max);
            for _ in 0..30 {
                let middle = f64::midpoint(low, high);
                if fits(middle) {
                    high = middle;
                } else {
                    low = middle;
                }
            }
            // Shapes that are no better must not replace simpler ones that came before.
            error_max = high * (1.0 - 1e-6);
            best = Some((shape, columns, high));
        }
        best
    }

    fn new(demand: &LdsDemand, shape: Shape, columns: u64, error: f64) -> Self {
        let cells = columns * shape.rows();
        #[expect(clippy::cast_possible_truncation, reason = "COLUMNS_MAX at most")]
        let columns_u32 = columns as u32;
        Self {
            columns: columns_u32,
            virtual_cells: shape.virtual_cells,
            miss_share: demand.miss_share(&shape, columns, error),
            row_probabilities: shape.row_probabilities,
            error,
            memory_bytes: cells * CELL_BYTES,
            wire_bytes: cells * HALF_BYTES,
        }
    }

    /// Rows: R.
    pub fn rows(&self) -> usize {
        self.row_probabilities.len()
    }

    /// Cells in all.
    pub fn cells(&self) -> u64 {
        self.memory_bytes / CELL_BYTES
    }

    /// The layout to make it with.
    ///
    /// # Errors
    /// [`InvalidArgument`] where fields were changed into what makes no LDS.
    pub fn layout(&self) -> Result<LdsLayout, InvalidArgument> {
        LdsLayout::new(self.columns, self.virtual_cells, &self.row_probabilities)
    }
}

#[cfg(test)]
mod tests;
