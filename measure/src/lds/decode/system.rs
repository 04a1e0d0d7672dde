//! The linear system: `s_c` = sum over flows of `a_cf` `x_f` + `e_c`, one equation a usable cell.
//!
//! Values are centred on the mean over all cells and divided by their spread, so that thresholds
//! mean the same whatever the delays are. Flows are in decoding order, the largest first; a
//! flow's edges lie side by side.

use super::features::Features;

/// A flow's share in a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    /// Index of the equation.
    pub cell: u32,
    /// `a_cf`, positive.
    pub coefficient: f64,
}

/// Which part of its flow an edge holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Parts at one offset are nested: the smaller one's packets are among the larger one's. Those of
    /// two offsets have none in common.
    pub offset: u32,
    /// Share of the flow's packets.
    pub share: f64,
}

/// A cell, an edge or an offset by number.
pub(super) fn index_of(number: usize) -> u32 {
    let index = u32::try_from(number);
    assert!(
        index.is_ok(),
        "cells and edges are bounded: ROWS_MAX, COLUMNS_MAX, EDGES_MAX"
    );
    index.unwrap_or(u32::MAX)
}

/// What is known of a cell, without the flows' own terms.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Equation {
    /// `s_c`.
    pub sum: f64,
    /// Noise: this many times tau2.
    pub between: f64,
    /// Noise: this many times sig2.
    pub within: f64,
    /// Noise: this many times the square of known means' coefficient.
    pub known: f64,
    /// Noise whatever the prior is.
    pub fixed: f64,
    /// `n_u`: packets of flows that are not on the list.
    pub unlisted: f64,
}

impl Equation {
    /// Whether it holds without noise.
    pub fn is_exact(&self) -> bool {
        self.between <= 0.0 && self.within <= 0.0 && self.fixed <= 0.0 && self.unlisted <= 0.0
    }
}

/// x in ticks = centre + unit times x in the system.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// In ticks.
    pub centre: f64,
    /// In ticks, positive; a power of two, so that scaling is exact.
    pub unit: f64,
}

impl Scale {
    /// Of values with this mean and spread.
    pub fn new(centre: f64, spread: f64) -> Self {
        let unit = spread.log2().round().exp2();
        let unit = if unit.is_normal() { unit } else { 1.0 };
        Self { centre, unit }
    }

    /// A value in ticks.
    pub fn ticks(&self, value: f64) -> f64 {
        self.unit.mul_add(value, self.centre)
    }

    /// A variance in ticks squared.
    pub fn ticks2(&self, variance: f64) -> f64 {
        variance * self.unit * self.unit
    }
}

/// The system.
#[derive(Debug)]
pub(super) struct System {
    /// All cells' equations; those without edges and unlisted packets say nothing.
    pub equations: Vec<Equation>,
    /// First edge of each flow, and the number of edges at the end.
    pub starts: Vec<u32>,
    /// Edges, flow by flow.
    pub edges: Vec<Edge>,
    /// What the edges hold, flow by flow and offset by offset; `None` where all hold whole flows.
    pub parts: Option<Vec<Part>>,
    /// 1 / `n_f`.
    pub inverse_packets: Vec<f64>,
    /// `z_f`.
    pub features: Features,
    /// Units.
    pub scale: Scale,
}

impl System {
    /// How many flows.
    pub fn flows(&self) -> usize {
        self.inverse_packets.len()
    }

    /// What sig2 is multiplied with in a flow's prior: 1 / `n_f`, or nothing where its mean is known, for
    /// that mean's error is that of all its packets.
    #[inline]
    pub fn share_of_within(&self, flow: usize) -> f64 {
        match self.features.within(flow) {
            Some(_) => 0.0,
            None => self.inverse_packets[flow],
        }
    }

    /// Where the flow's edges are.
    pub fn edges_of(&self, flow: usize) -> std::ops::Range<usize> {
        self.starts[flow] as usize..self.starts[flow + 1] as usize
    }

    /// Most edges of a flow.
    pub fn degree_max(&self) -> usize {
        let degrees = self.starts.windows(2).map(|pair| pair[1] - pair[0]);
        degrees.max().unwrap_or(0) as usize
    }
}
