//! How flows and packets are spread over rows and columns.

use arrayvec::ArrayVec;

use crate::flows::FlowId;
use crate::observation::SegmentIndex;
use crate::packet::{FlowHash, PacketHash, ROW_MULTIPLIERS, row_of};
use crate::synopsis::ShapeMismatch;

/// Most rows of a sketch.
pub const ROWS_MAX: usize = 4;

const _: () = assert!(ROWS_MAX <= ROW_MULTIPLIERS.len(), "each has its own");

/// The scale of probabilities: a row samples by 32 bits of the packet hash.
const SCALE: f64 = 4_294_967_296.0;

/// The bound of a row that takes every packet.
const ALL: u64 = 1 << 32;

/// The multiplier that gives a packet its offset in a virtual LDA. It meets packet hashes only,
/// those of rows meet flow hashes only.
const OFFSET_MULTIPLIER: u64 = ROW_MULTIPLIERS[3];

/// Sizes that make no sketch.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LayoutError {
    /// None, or more than [`ROWS_MAX`].
    #[error("a sketch has 1 to {ROWS_MAX} rows, not {rows}; give one probability a row")]
    Rows {
        /// How many were given.
        rows: usize,
    },
    /// Columns out of range.
    #[error("a row has {columns} columns; give it 1 to {}", LdsLayout::COLUMNS_MAX)]
    Columns {
        /// What was given.
        columns: u32,
    },
    /// A virtual LDA of no cells, of too many, or wider than the row.
    #[error(
        "a flow has {virtual_cells} cells in each row of {columns}; give it 1 to {}, and no more \
         than the row has",
        LdsLayout::VIRTUAL_CELLS_MAX
    )]
    VirtualCells {
        /// What was given.
        virtual_cells: u32,
        /// Columns of the row.
        columns: u32,
    },
    /// A probability out of range, or not a number.
    #[error("row {row} samples with probability {probability}; give it 2^-32 to 1")]
    Probability {
        /// Which row, counted from 0.
        row: usize,
        /// Its probability.
        probability: f64,
    },
    /// A weight out of range.
    #[error(
        "segment {segment} has weight {weight}; give it 1 to {}",
        LdsLayout::WEIGHT_MAX
    )]
    Weight {
        /// Which segment: its index in the list.
        segment: usize,
        /// Its weight.
        weight: u32,
    },
    /// More weights than segments can be distinguished.
    #[error("there are {weights} weights; give one a segment, 65,536 at most")]
    Weights {
        /// How many were given.
        weights: usize,
    },
    /// Not as many cells as the layout has.
    #[error("{given} cells for a sketch of {expected}; give all cells, row by row")]
    Cells {
        /// How many the layout has.
        expected: usize,
        /// How many were given.
        given: usize,
    },
}

/// R rows of C columns; a flow has k neighbouring cells in each row (its virtual LDA); row r
/// samples packets with probability `p_r` (Sanjuas-Cuxart et al. 2011, sections 2.3.4 and 4.2).
///
/// One packet hash decides for all rows: what a row samples, a row of higher probability samples
/// too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdsLayout {
    columns: u32,
    virtual_cells: u32,
    /// For each row: it samples packets whose hash has lower 32 bits under this.
    bounds: ArrayVec<u64, ROWS_MAX>,
    /// By segment; 1 beyond.
    weights: Vec<u32>,
}

/// How a row takes packets to its cells.
pub(super) struct RowMap {
    /// Of [`row_of`], for flows.
    pub multiplier: u64,
    /// C.
    pub columns: u32,
    /// Index of its first cell, row by row.
    pub first_cell: u32,
    /// It samples packets whose hash has lower 32 bits under this.
    pub bound: u64,
}

impl LdsLayout {
    /// Most columns of a row.
    pub const COLUMNS_MAX: u32 = 1 << 24;
    /// Most cells of a flow in a row.
    pub const VIRTUAL_CELLS_MAX: u32 = 1_024;
    /// Highest weight: counts are kept modulo 2^32, weights included.
    pub const WEIGHT_MAX: u32 = 65_535;

    /// `row_probabilities` has one entry a row, 1 to [`ROWS_MAX`], each in 2^-32..=1.
    ///
    /// # Errors
    /// [`LayoutError`] when a number is out of range.
    pub fn new(
        columns: u32,
        virtual_cells: u32,
        row_probabilities: &[f64],
    ) -> Result<Self, LayoutError> {
        let rows = row_probabilities.len();
        if rows == 0 || rows > ROWS_MAX {
            return Err(LayoutError::Rows { rows });
        }
        if columns == 0 || columns > Self::COLUMNS_MAX {
            return Err(LayoutError::Columns { columns });
        }
        if virtual_cells == 0 || virtual_cells > columns.min(Self::VIRTUAL_CELLS_MAX) {
            return Err(LayoutError::VirtualCells {
                virtual_cells,
                columns,
            });
        }
        let mut bounds = ArrayVec::new();
        for (row, &probability) in row_probabilities.iter().enumerate() {
            if !(1.0 / SCALE..=1.0).contains(&probability) {
                return Err(LayoutError::Probability { row, probability });
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 1 and 2^32"
            )]
            bounds.push((probability * SCALE).round() as u64);
        }
        Ok(Self {
            columns,
            virtual_cells,
            bounds,
            weights: Vec::new(),
        })
    }

    /// Weights of packets by segment (their class), each 1 to [`WEIGHT_MAX`](Self::WEIGHT_MAX); 1
    /// for segments beyond the list (section 4.1).
    ///
    /// # Errors
    /// [`LayoutError`] when a weight is out of range or there are more than segments can be.
    pub fn with_weights(mut self, weights: &[u32]) -> Result<Self, LayoutError> {
        if weights.len() > usize::from(u16::MAX) + 1 {
            return Err(LayoutError::Weights {
                weights: weights.len(),
            });
        }
        let out_of_range = |weight: &u32| !(1..=Self::WEIGHT_MAX).contains(weight);
        if let Some(segment) = weights.iter().position(out_of_range) {
            return Err(LayoutError::Weight {
                segment,
                weight: weights[segment],
            });
        }
        // Weights of 1 say nothing: without them the sketch takes its shorter way.
        let said = weights.iter().rposition(|&weight| weight != 1);
        self.weights = weights[..said.map_or(0, |last| last + 1)].to_vec();
        Ok(self)
    }

    /// R.
    pub fn rows(&self) -> usize {
        self.bounds.len()
    }

    /// C.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// k.
    pub fn virtual_cells(&self) -> u32 {
        self.virtual_cells
    }

    /// R times C.
    pub fn cells(&self) -> usize {
        self.rows() * self.columns as usize
    }

    /// `p_r` as it is laid out, in steps of 2^-32; 0 for a row that is not there.
    pub fn row_probability(&self, row: usize) -> f64 {
        self.bounds
            .get(row)
            .map_or(0.0, |&bound| bound as f64 / SCALE)
    }

    /// Whether a row takes every packet.
    pub fn takes_all(&self, row: usize) -> bool {
        self.bounds.get(row) == Some(&ALL)
    }

    /// w.
    #[inline]
    pub fn weight(&self, segment: SegmentIndex) -> u32 {
        self.weights
            .get(usize::from(segment.0))
            .copied()
            .unwrap_or(1)
    }

    /// Weights by segment; those after the list are 1.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// The first of the flow's k columns in each row (entries beyond R are 0); the others follow
    /// it, modulo C.
    pub fn base_columns(&self, flow: FlowHash, segment: SegmentIndex) -> [u32; ROWS_MAX] {
        let key = FlowId::new(flow, segment).bits();
        let mut columns = [0; ROWS_MAX];
        for (row, column) in columns.iter_mut().enumerate().take(self.rows()) {
            *column = row_of(key, ROW_MULTIPLIERS[row], self.columns);
        }
        columns
    }

    /// Which of the flow's k cells a packet goes to, in every row: h' of section 2.3.4.
    #[inline]
    pub fn offset(&self, PacketHash(hash): PacketHash) -> u32 {
        row_of(hash, OFFSET_MULTIPLIER, self.virtual_cells)
    }

    /// Whether row `row` samples a packet.
    #[inline]
    pub fn samples(&self, row: usize, PacketHash(hash): PacketHash) -> bool {
        let bound = self.bounds.get(row).copied().unwrap_or(0);
        hash & 0xffff_ffff < bound
    }

    /// How each row takes packets to its cells.
    #[inline]
    pub(super) fn row_maps(&self) -> impl Iterator<Item = RowMap> + '_ {
        let columns = self.columns;
        (0..)
            .zip(ROW_MULTIPLIERS)
            .zip(&self.bounds)
            .map(move |((row, multiplier), &bound)| RowMap {
                multiplier,
                columns,
                first_cell: row * columns,
                bound,
            })
    }

    /// Whether two rows sample the same packets.
    pub(super) fn sample_alike(&self, row: usize, other: usize) -> bool {
        self.bounds.get(row) == self.bounds.get(other)
    }

    /// Index (row by row) of one of a flow's k cells in a row, given its base column there; `None`
    /// where there is no such row, column or offset.
    pub(super) fn cell_at(&self, row: usize, base: u32, offset: u32) -> Option<usize> {
        if row >= self.rows() || base >= self.columns || offset >= self.virtual_cells {
            return None;
        }
        let column = (base + offset) % self.columns;
        Some(row * self.columns as usize + column as usize)
    }

    /// Virtual LDAs, or rows that sample packets: cells depend on the packet. Otherwise each packet of a
    /// flow goes to one cell of each row, always the same.
    pub fn asks_which_packet(&self) -> bool {
        self.virtual_cells > 1 || self.bounds.iter().any(|&bound| bound != ALL)
    }

    /// Neither virtual LDAs nor sampling or weights: a packet of flow f goes to one cell of
    /// each row.
    pub(crate) fn is_plain(&self) -> bool {
        !self.asks_which_packet() && self.weights.is_empty()
    }

    pub(crate) fn same_shape(&self, other: &Self) -> Result<(), ShapeMismatch> {
        let equal = |what, left: u64, right: u64| {
            let mismatch = ShapeMismatch { what, left, right };
            if left == right { Ok(()) } else { Err(mismatch) }
        };
        equal("rows", self.rows() as u64, other.rows() as u64)?;
        equal("columns", self.columns.into(), other.columns.into())?;
        equal(
            "cells of a flow in a row",
            self.virtual_cells.into(),
            other.virtual_cells.into(),
        )?;
        for (&mine, &theirs) in self.bounds.iter().zip(&other.bounds) {
            equal("sampled share of a row in 2^-32", mine, theirs)?;
        }
        for segment in 0..self.weights.len().max(other.weights.len()) {
            // At most as many as there are segments.
            let segment = SegmentIndex(u16::try_from(segment).unwrap_or(u16::MAX));
            equal(
                "weight of a segment",
                self.weight(segment).into(),
                other.weight(segment).into(),
            )?;
        }
        Ok(())
    }
}
