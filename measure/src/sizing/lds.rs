//! Rows, columns, virtual LDA and sampling of an LDS.
//!
//! Sanjuas-Cuxart et al. 2011, section 3, judges a size by large collisions: a flow is measured well if one
//! of its cells contains at most x / k packets of others. This module keeps part of that model:
//!
//! - Within a row (section 3.1) it holds: flows larger than x fall into a cell at random, n P of them, P =
//!   P\[flow > x\]. Here their number is Poisson; the paper takes its first term. Also, x is reduced by the
//!   mean packets of smaller flows, which the paper ignores.
//! - Over rows it holds: Q(R) = 1 - (z R)^R and the best R = 1 / (e z).
//! - Over the k cells of a virtual LDA (section 3.2) it does **not** hold. The paper assumes independent
//!   collisions, Q(R k) = 1 - (n k R P / C)^(R k), and calls that cautious. But the k cells are neighbours:
//!   a flow with the same first cell collides in all of them, with probability n P R / C in each row,
//!   whatever k. So k > 1 does not reduce collisions, it only survives losses, and does not save rows (R =
//!   -ln eps / k).
//!
//! The model ([`miss_share`]): offsets from 1 - k to k - 1 between a flow's first cell and the observed one
//! contain large flows independently, each covering the overlap; lost packets, the flow's own and others',
//! spoil cells, as a Poisson number; the sampled packets of a flow must be enough for its mean.

use super::{
    CELL_BYTES, HALF_BYTES, MEAN_OF_SIZE, SizingError, check, least, loss, part, positive,
};
use crate::argument::InvalidArgument;
use crate::lds::{LdsLayout, ROWS_MAX};

/// Distribution of the packets of a flow in an epoch: P\[flow > x\] = (least / x)^shape from `least` to `most`, with
/// the rest at `most`.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSizes {
    least: f64,
    shape: f64,
    most: f64,
}

impl FlowSizes {
    /// Pareto from `least` packets on, with the given shape (1 to 2 is usual; the smaller, the heavier the
    /// tail); larger flows count as `most`.
    ///
    /// # Errors
    /// [`SizingError::Argument`].
    pub fn pareto(least: f64, shape: f64, most: f64) -> Result<Self, SizingError> {
        positive("the least flow size", least)?;
        positive("the shape of flow sizes", shape)?;
        let is_fine = most >= least && most.is_finite();
        check(
            is_fine,
            "the greatest flow size",
            most,
            "the least at least",
        )?;
        Ok(Self { least, shape, most })
    }

    /// Share of flows of more than `packets` packets: P\[flow > x\].
    pub fn share_over(&self, packets: f64) -> f64 {
        if packets >= self.most {
            return 0.0;
        }
        (self.least / packets.max(self.least)).powf(self.shape)
    }

    /// Mean packets of a flow, not counting those of flows with more than `packets`: E\[flow; flow <= x\].
    pub fn mean_up_to(&self, packets: f64) -> f64 {
        let &Self { least, shape, most } = self;
        let to = packets.clamp(least, most);
        let power = 1.0 - shape;
        // The integral of x times the density from `least` to `to`.
        let below = if power.abs() < 1e-9 {
            least * (to / least).ln()
        } else {
            shape * least / power * ((to / least).powf(power) - 1.0)
        };
        let at_most = if packets >= most {
            most * (least / most).powf(shape)
        } else {
            0.0
        };
        below + at_most
    }

    /// The size that a `share` of flows (over 0 to 1) reaches.
    pub fn attained_by(&self, share: f64) -> f64 {
        (self.least * share.powf(-1.0 / self.shape)).min(self.most)
    }
}

/// Most columns that are tried.
const COLUMNS_MAX: u64 = 1 << 26;
/// The flows of a port, and the requirements on their measurement.
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
    /// Packets of the smallest flow to measure well, at least 1.
    pub flow_packets: f64,
    /// Difference between flows' mean delays: their mean distance relative to the mean delay, over 0.
    pub delay_spread: f64,
    /// Standard deviation of a packet's delay within its flow over the mean, 0 or more.
    pub delay_cv: f64,
    /// Share of such flows that may miss the error, over 0 to under 1: epsilon.
    pub miss_share: f64,
}

/// A planned LDS. Errors are relative errors of a flow's mean delay by the paper's estimator; joint
/// decoding is better.
#[derive(Debug, Clone, PartialEq)]
pub struct LdsPlan {
    /// Columns of each row.
    pub columns: u32,
    /// Cells of a flow in each row: k.
    pub virtual_cells: u32,
    /// Share of packets that each row samples: p, one entry a row.
    pub row_probabilities: Vec<f64>,
    /// The error that flows of at least `flow_packets` packets do not exceed ..
    pub error: f64,
    /// .. except for this share of them.
    pub miss_share: f64,
    /// Bytes of one synopsis inside a switch, with both ends in one place.
    pub memory_bytes: u64,
    /// Bytes of cells that one end sends to the other at each rollover, without frames' headers.
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

    /// Packets of the flows used to judge a plan: the smallest to measure well, and the largest that
    /// exists.
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
    /// The smallest LDS in which all but `miss_share` of the flows to measure well have at most an error of
    /// `error`.
    ///
    /// # Errors
    /// [`SizingError`] if a number is out of range, the error is not achievable, or no LDS is needed.
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

    /// The shape of `cells` cells with the least error; `None` if none stays below the difference between
    /// flows.
    pub(super) fn best(demand: &LdsDemand, cells: u64) -> Option<(Shape, u64, f64)> {
        let mut best = None;
        let mut error_max = demand.delay_spread * (1.0 - 1e-6);
        for shape in Shape::all(demand) {
            let columns = (cells / shape.rows()).min(COLUMNS_MAX);
            let fits = |error| demand.miss_share(&shape, columns, error) <= demand.miss_share;
            if columns < shape.columns_min() || !fits(error_max) {
                continue;
            }
            // The share of misses falls with the allowed error: bisect.
            let (mut low, mut high) = (0.0, error_max);
            for _ in 0..30 {
                let middle = f64::midpoint(low, high);
                if fits(middle) {
                    high = middle;
                } else {
                    low = middle;
                }
            }
            // Shapes that are not better must not replace earlier, simpler ones.
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

    /// The layout of the plan.
    ///
    /// # Errors
    /// [`InvalidArgument`] if fields were changed to an invalid layout.
    pub fn layout(&self) -> Result<LdsLayout, InvalidArgument> {
        LdsLayout::new(self.columns, self.virtual_cells, &self.row_probabilities)
    }
}

/// Flows up to this share of the allowed interference count by their mean, larger ones individually; with
/// this value the model is closest to simulation.
const SMALL_SHARE: f64 = 0.25;
/// Sizes of a virtual LDA to try.
const VIRTUAL_CELLS: [u32; 8] = [1, 2, 3, 4, 5, 6, 8, 10];
/// Least probabilities of a row to try.
const LEAST_SHARES: [f64; 7] = [1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01];

/// Everything to try except the number of columns.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub virtual_cells: u32,
    pub row_probabilities: Vec<f64>,
}

impl Shape {
    /// All sensible shapes for a demand.
    fn all(demand: &LdsDemand) -> Vec<Self> {
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

    fn rows(&self) -> u64 {
        self.row_probabilities.len() as u64
    }

    /// Fewest columns.
    fn columns_min(&self) -> u64 {
        u64::from(self.virtual_cells) * 2
    }

    /// Share of flows of `packets` packets that miss `error` for lack of a good cell.
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

    /// A row that samples `share`; `None` if it samples too little of the flow for its mean.
    fn row(
        &self,
        demand: &LdsDemand,
        columns: f64,
        error: f64,
        packets: f64,
        share: f64,
    ) -> Option<Row> {
        let k = f64::from(self.virtual_cells);
        // One cell's samples of the flow, and the part of the error that they leave for collisions.
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

/// What can happen to a flow's cells in one row.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Probability that no large flow has its first cell at a given column.
    pub clear: f64,
    /// Probability that no lost packet of other flows is in a given cell.
    pub intact: f64,
    /// Lost packets of the flow itself that the row sampled, for each of its cells.
    pub own_losses: f64,
}

/// Probability that a flow has no good cell, which is one without a large flow and without a lost packet.
///
/// Rows are independent except for the flow's own losses. A packet has the same offset among the k cells in
/// each row, and rows that sample more also sample the packets of rows that sample less: its loss spoils
/// that offset in all of these. So the number of offsets left intact decreases from the row that samples
/// least to the one that samples most, and this sums over all possibilities.
fn miss_share(k: u32, rows: &mut [Row]) -> f64 {
    rows.sort_by(|a, b| a.own_losses.total_cmp(&b.own_losses));
    let offsets = k as usize;
    let mut reached = vec![0.0; offsets + 1];
    reached[offsets] = 1.0;
    let mut before = 0.0;
    for row in rows {
        let survives = (before - row.own_losses).exp();
        before = row.own_losses;
        let mut next = vec![0.0; offsets + 1];
        for (from, &probability) in reached.iter().enumerate() {
            for (to, next) in next.iter_mut().enumerate().take(from + 1) {
                *next += probability * binomial(from, to, survives);
            }
        }
        let free = free_offsets(offsets, row.clear);
        for (left, probability) in next.iter_mut().enumerate() {
            *probability *= row_misses(&free, left, row);
        }
        reached = next;
    }
    reached.iter().sum()
}

/// Probability that a row has no good cell if the flow's own losses left `left` offsets intact. `free[u]`:
/// probability that large flows leave u neighbouring offsets.
fn row_misses(free: &[f64], left: usize, row: &Row) -> f64 {
    let offsets = free.len() - 1;
    let spoiled = 1.0 - row.intact;
    let missed = |free: usize| -> f64 {
        (0..=free.min(left))
            .map(|both| {
                let ways = choose(left, both) * choose(offsets - left, free - both);
                ways / choose(offsets, free) * spoiled.powf(both as f64)
            })
            .sum()
    };
    free.iter()
        .enumerate()
        .map(|(free, &probability)| probability * missed(free))
        .sum()
}

/// Probabilities that large flows leave 0, 1, .. k offsets. Each covers the offsets from its first cell on:
/// those that start before the observed flow cover a prefix, those that start after it a suffix, one that
/// starts with it all.
fn free_offsets(k: usize, clear: f64) -> Vec<f64> {
    let longest = |covered: usize| {
        let none_longer = clear.powf((k - 1 - covered) as f64);
        if covered == 0 {
            none_longer
        } else {
            (1.0 - clear) * none_longer
        }
    };
    let mut free = vec![0.0; k + 1];
    free[0] = 1.0 - clear;
    for prefix in 0..k {
        for suffix in 0..k {
            free[k.saturating_sub(prefix + suffix)] += clear * longest(prefix) * longest(suffix);
        }
    }
    free
}

/// Probability of `hits` of `trials`, each with probability `share`.
fn binomial(trials: usize, hits: usize, share: f64) -> f64 {
    let misses = (trials - hits) as f64;
    choose(trials, hits) * share.powf(hits as f64) * (1.0 - share).powf(misses)
}

/// Ways to choose `few` of `many`; 0 where there are not so many.
fn choose(many: usize, few: usize) -> f64 {
    if few > many {
        return 0.0;
    }
    (0..few).fold(1.0, |ways, i| ways * (many - i) as f64 / (i + 1) as f64)
}
