//! How flows and packets are spread over rows and columns.

use arrayvec::ArrayVec;

use crate::argument::{InvalidArgument, ensure};
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

/// The multiplier that gives a packet its offset in a virtual LDA. It is applied to packet hashes only,
/// those of rows to flow hashes only.
const OFFSET_MULTIPLIER: u64 = ROW_MULTIPLIERS[3];

/// R rows of C columns; a flow has k neighbouring cells in each row (its virtual LDA); row r samples
/// packets with probability `p_r` (Sanjuas-Cuxart et al. 2011, sections 2.3.4 and 4.2).
///
/// One packet hash decides for all rows, so a row also samples every packet sampled by a row of lower
/// probability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdsLayout {
    columns: u32,
    virtual_cells: u32,
    /// For each row, the bound: it samples packets whose hash has lower 32 bits below it.
    bounds: ArrayVec<u64, ROWS_MAX>,
    /// By segment; 1 for segments beyond the list.
    weights: Vec<u32>,
}

/// Maps packets to the cells of a row.
pub(super) struct RowMap {
    /// Multiplier of [`row_of`], for flows.
    pub multiplier: u64,
    /// C.
    pub columns: u32,
    /// Index of its first cell, row by row.
    pub first_cell: u32,
    /// It samples packets whose hash has lower 32 bits below this.
    pub bound: u64,
}

impl LdsLayout {
    /// Most columns of a row.
    pub const COLUMNS_MAX: u32 = 1 << 24;
    /// Most cells of a flow in a row.
    pub const VIRTUAL_CELLS_MAX: u32 = 1_024;
    /// Greatest weight: counts are kept modulo 2^32, including weights.
    pub const WEIGHT_MAX: u32 = 65_535;

    /// `row_probabilities` has one entry for each row, 1 to [`ROWS_MAX`], each in 2^-32..=1.
    ///
    /// # Errors
    /// [`InvalidArgument`] if a number is out of range.
    pub fn new(
        columns: u32,
        virtual_cells: u32,
        row_probabilities: &[f64],
    ) -> Result<Self, InvalidArgument> {
        let rows = row_probabilities.len();
        ensure((1..=ROWS_MAX).contains(&rows), || {
            format!("a sketch has 1 to {ROWS_MAX} rows, not {rows}; give one probability a row")
        })?;
        ensure((1..=Self::COLUMNS_MAX).contains(&columns), || {
            let most = Self::COLUMNS_MAX;
            format!("a row has {columns} columns; give it 1 to {most}")
        })?;
        let most = Self::VIRTUAL_CELLS_MAX;
        ensure((1..=columns.min(most)).contains(&virtual_cells), || {
            format!(
                "a flow has {virtual_cells} cells in each row of {columns}; give it 1 to {most}, and no more than the \
                 row has"
            )
        })?;
        let mut bounds = ArrayVec::new();
        for (row, &probability) in row_probabilities.iter().enumerate() {
            ensure((1.0 / SCALE..=1.0).contains(&probability), || {
                format!("row {row} samples with probability {probability}; give it 2^-32 to 1")
            })?;
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

    /// Sets weights of packets by segment (their class), each 1 to [`WEIGHT_MAX`](Self::WEIGHT_MAX); 1 for
    /// segments beyond the list (section 4.1).
    ///
    /// # Errors
    /// [`InvalidArgument`] if a weight is out of range or there are more weights than segments can exist.
    pub fn with_weights(mut self, weights: &[u32]) -> Result<Self, InvalidArgument> {
        let given = weights.len();
        ensure(given <= usize::from(u16::MAX) + 1, || {
            format!("there are {given} weights; give one a segment, 65,536 at most")
        })?;
        let most = Self::WEIGHT_MAX;
        for (segment, weight) in weights.iter().enumerate() {
            ensure((1..=most).contains(weight), || {
                format!("segment {segment} has weight {weight}; give it 1 to {most}")
            })?;
        }
        // Weights of 1 are dropped: without weights the sketch is faster.
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

    /// `p_r` as laid out, in steps of 2^-32; 0 for a row that does not exist.
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

    /// Weights by segment; segments beyond the list have 1.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// The first of the flow's k columns in each row (entries beyond R are 0); the others follow, modulo C.
    pub fn base_columns(&self, flow: FlowHash, segment: SegmentIndex) -> [u32; ROWS_MAX] {
        let key = FlowId::new(flow, segment).bits();
        let mut columns = [0; ROWS_MAX];
        for (row, column) in columns.iter_mut().enumerate().take(self.rows()) {
            *column = row_of(key, ROW_MULTIPLIERS[row], self.columns);
        }
        columns
    }

    /// The packet's offset among the flow's k cells, in every row: h' of section 2.3.4.
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

    /// How each row maps packets to its cells.
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

    /// Index (row by row) of one of a flow's k cells in a row, given its base column there; `None` if the
    /// row, column or offset does not exist.
    pub(super) fn cell_at(&self, row: usize, base: u32, offset: u32) -> Option<usize> {
        if row >= self.rows() || base >= self.columns || offset >= self.virtual_cells {
            return None;
        }
        let column = (base + offset) % self.columns;
        Some(row * self.columns as usize + column as usize)
    }

    /// Whether cells depend on the packet, because of virtual LDAs or sampling. Otherwise each packet of a
    /// flow goes to the same cell of each row.
    pub fn asks_which_packet(&self) -> bool {
        self.virtual_cells > 1 || self.bounds.iter().any(|&bound| bound != ALL)
    }

    /// Whether there are neither virtual LDAs nor sampling nor weights: a packet of a flow goes to one cell
    /// of each row.
    pub(crate) fn is_plain(&self) -> bool {
        !self.asks_which_packet() && self.weights.is_empty()
    }

    pub(crate) fn same_shape(&self, other: &Self) -> Result<(), ShapeMismatch> {
        let equal = ShapeMismatch::check;
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
