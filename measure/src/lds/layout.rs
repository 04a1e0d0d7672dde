//! How flows and packets are spread over rows and columns.

use crate::packet::FlowHash;
use crate::sight::SegmentIndex;

/// Most rows of a sketch.
pub const ROWS_MAX: usize = 4;

/// Sizes that make no sketch.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LayoutError {
    /// To be refined.
    #[error("bad layout")]
    Bad,
}

/// R rows of C columns; a flow has k neighbouring cells in each row (its virtual LDA); row r
/// samples packets with probability p_r.
#[derive(Debug, Clone, PartialEq)]
pub struct LdsLayout {}

#[expect(unused_variables, reason = "contract")]
impl LdsLayout {
    /// `row_probabilities` has one entry a row, 1 to [`ROWS_MAX`], each in 2^-32..=1.
    ///
    /// # Errors
    /// [`LayoutError`] when a number is out of range.
    pub fn new(
        columns: u32,
        virtual_cells: u32,
        row_probabilities: &[f64],
    ) -> Result<Self, LayoutError> {
        todo!()
    }

    /// Weights of packets by segment (their class); 1 for segments beyond the list.
    ///
    /// # Errors
    /// [`LayoutError`] when a weight is 0.
    pub fn with_weights(self, weights: &[u32]) -> Result<Self, LayoutError> {
        todo!()
    }

    /// Counts bytes as well.
    #[must_use]
    pub fn with_bytes(self) -> Self {
        todo!()
    }

    /// R.
    pub fn rows(&self) -> usize {
        todo!()
    }

    /// C.
    pub fn columns(&self) -> u32 {
        todo!()
    }

    /// k.
    pub fn virtual_cells(&self) -> u32 {
        todo!()
    }

    /// R times C.
    pub fn cells(&self) -> usize {
        todo!()
    }

    /// p_r.
    pub fn row_probability(&self, row: usize) -> f64 {
        todo!()
    }

    /// w.
    pub fn weight(&self, segment: SegmentIndex) -> u32 {
        todo!()
    }

    /// The first of the flow's k columns in each row (entries beyond R are 0); the others follow
    /// it, modulo C.
    pub fn base_columns(&self, flow: FlowHash, segment: SegmentIndex) -> [u32; ROWS_MAX] {
        todo!()
    }
}
