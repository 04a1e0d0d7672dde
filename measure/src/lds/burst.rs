//! The cells of a burst in a plain sketch, found a while before its packets are added to them.

use std::ops::Range;

use super::{LdsLayout, ROWS_MAX};
use crate::flows::FlowId;
use crate::observation::Observation;
use crate::packet::{ROW_MULTIPLIERS, row_of};
use crate::prefetch::prefetch;

/// Observations hashed before any is added: as many as a word has bits.
pub(super) const CHUNK: usize = 64;

/// The cells of a burst, or of some of it, in the sketches that it goes to: 1 KiB, used again for each
/// burst.
///
/// A cell's index follows from the observation's flow and the sketch's sizes, whatever sketch of these
/// sizes it is.
#[derive(Debug, Clone)]
pub struct BurstCells {
    /// Of each observation one a row, without gaps.
    cells: [u32; CHUNK * ROWS_MAX],
    /// By number of the observation, from the lowest bit on: whether its cells are here.
    kept: u64,
    /// R of the sketches, 1 to [`ROWS_MAX`].
    rows: usize,
    /// C of the sketches.
    columns: u32,
}

impl Default for BurstCells {
    fn default() -> Self {
        Self::new()
    }
}

impl BurstCells {
    /// Of no observations.
    pub const fn new() -> Self {
        Self {
            cells: [0; CHUNK * ROWS_MAX],
            kept: 0,
            rows: 1,
            columns: 0,
        }
    }

    /// Begins with another burst, which goes to sketches of that layout; `false` where no cells are kept
    /// of it.
    #[inline]
    pub(crate) fn begin(&mut self, layout: &LdsLayout, observations: usize) -> bool {
        self.kept = 0;
        self.rows = layout.rows();
        self.columns = layout.columns();
        (1..=CHUNK).contains(&observations) && layout.is_plain()
    }

    /// Keeps the cells of observations that are number `first` of the burst and the next ones, and asks the
    /// cache for those among `cells`.
    #[inline]
    pub(crate) fn keep<C>(&mut self, cells: &[C], first: usize, observations: &[Observation]) {
        match self.rows {
            1 => self.keep_rows::<1, C>(cells, first, observations),
            2 => self.keep_rows::<2, C>(cells, first, observations),
            3 => self.keep_rows::<3, C>(cells, first, observations),
            _ => self.keep_rows::<4, C>(cells, first, observations),
        }
    }

    #[inline]
    fn keep_rows<const ROWS: usize, C>(
        &mut self,
        cells: &[C],
        first: usize,
        observations: &[Observation],
    ) {
        let numbers = first..first + observations.len();
        debug_assert!(numbers.end <= CHUNK, "the burst is longer than it began");
        let (indices, _) = self.cells.as_chunks_mut::<ROWS>();
        if let Some(indices) = indices.get_mut(numbers.clone()) {
            find_cells(cells, self.columns, observations, indices);
            self.kept |= bits(&numbers);
        }
    }

    /// Whether they are cells of sketches of that layout.
    #[inline]
    pub(super) fn fit(&self, layout: &LdsLayout) -> bool {
        (self.rows, self.columns) == (layout.rows(), layout.columns()) && layout.is_plain()
    }

    /// Adds observations, with the first being number `first` of the burst; `false`, and nothing is added,
    /// where the cells of some were not kept.
    #[inline]
    pub(super) fn add<const ROWS: usize, C>(
        &self,
        cells: &mut [C],
        observations: &[Observation],
        first: usize,
        add: impl Fn(&mut C, &Observation),
    ) -> bool {
        let numbers = first..first + observations.len();
        let (indices, _) = self.cells.as_chunks::<ROWS>();
        let Some(indices) = indices.get(numbers.clone()) else {
            return false;
        };
        let wanted = bits(&numbers);
        if self.kept & wanted != wanted {
            return false;
        }
        debug_assert!(
            indices
                .iter()
                .zip(observations)
                .all(|(indices, observation)| {
                    *indices == cells_of::<ROWS>(FlowId::of(observation), self.columns)
                }),
            "cells of other observations"
        );
        add_at(cells, observations, indices, add);
        true
    }
}

/// Bits of numbers under 64.
#[inline]
fn bits(numbers: &Range<usize>) -> u64 {
    let below = |number: usize| {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        1_u64.checked_shl(number).map_or(u64::MAX, |bit| bit - 1)
    };
    below(numbers.end) & !below(numbers.start)
}

/// The cells of a flow in rows that take every packet to the first cell of its flow.
#[inline]
pub(super) fn cells_of<const ROWS: usize>(flow: FlowId, columns: u32) -> [u32; ROWS] {
    // Plain loops over arrays: they are unrolled over rows, which iterators are not.
    let mut indices = [0; ROWS];
    let mut first_cell = 0;
    for (index, multiplier) in indices.iter_mut().zip(ROW_MULTIPLIERS) {
        *index = first_cell + row_of(flow.bits(), multiplier, columns);
        first_cell += columns;
    }
    indices
}

/// Computes the cells of observations, and prefetches them.
#[inline]
pub(super) fn find_cells<const ROWS: usize, C>(
    cells: &[C],
    columns: u32,
    observations: &[Observation],
    indices: &mut [[u32; ROWS]],
) {
    for (indices, observation) in indices.iter_mut().zip(observations) {
        *indices = cells_of(FlowId::of(observation), columns);
        for &index in &*indices {
            prefetch(cells, index as usize);
        }
    }
}

/// Adds observations to their cells.
#[inline]
pub(super) fn add_at<const ROWS: usize, C>(
    cells: &mut [C],
    observations: &[Observation],
    indices: &[[u32; ROWS]],
    add: impl Fn(&mut C, &Observation),
) {
    for (indices, observation) in indices.iter().zip(observations) {
        for &index in indices {
            if let Some(cell) = cells.get_mut(index as usize) {
                add(cell, observation);
            }
        }
    }
}
