//! The cells that a point accumulates.
//!
//! Cells are scattered over more memory than a core's caches hold. So observations are processed in chunks:
//! first all are hashed and their cells prefetched, then all are added, by which time the cells are in the
//! cache.

use super::layout::RowMap;
use super::{DelayCells, LdsLayout, ROWS_MAX};
use crate::cell::{BothEnds, CellPair, PassedCell};
use crate::flows::FlowId;
use crate::observation::{End, Observation};
use crate::packet::{ROW_MULTIPLIERS, row_of};
use crate::prefetch::prefetch;
use crate::synopsis::{ShapeMismatch, Synopsis};

/// Observations hashed before any is added.
const CHUNK: usize = 64;

/// An LDS with both ends in one place: R rows of C cells, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct LdsPair<C = CellPair> {
    layout: LdsLayout,
    cells: Vec<C>,
}

/// Hashes of an observation, computed once for all rows.
#[derive(Clone, Copy, Default)]
struct Hashed {
    key: u64,
    offset: u32,
    weight: u32,
}

/// An observation of the chunk, and a cell to add it to.
#[derive(Clone, Copy, Default)]
struct Addition {
    cell: u32,
    observation: u32,
}

impl LdsPair {
    /// An empty sketch of 32 bytes a cell.
    pub fn new(layout: &LdsLayout) -> Self {
        Self::empty(layout)
    }

    /// Removes packets that were recorded at one end: the exact inverse.
    pub fn unrecord(&mut self, end: End, observations: &[Observation]) {
        self.add(observations, |cell, observation, weight| {
            cell.unrecord(end, observation, weight);
        });
    }
}

impl<C: BothEnds> LdsPair<C> {
    /// An empty sketch of any kind of cells.
    pub fn empty(layout: &LdsLayout) -> Self {
        Self {
            layout: layout.clone(),
            cells: vec![C::default(); layout.cells()],
        }
    }

    /// Its layout.
    pub fn layout(&self) -> &LdsLayout {
        &self.layout
    }

    /// Cells, row by row.
    pub fn cells(&self) -> &[C] {
        &self.cells
    }

    /// The difference of both ends.
    pub fn delays(&self) -> DelayCells {
        DelayCells::from_halves(&self.layout, self.cells.iter().map(C::halves))
    }

    /// Adds a burst: calls `add` with each cell of each observation and the observation's weight.
    #[inline]
    fn add(&mut self, observations: &[Observation], add: impl Fn(&mut C, &Observation, u32)) {
        if !self.layout.is_plain() {
            return self.add_any(observations, add);
        }
        let columns = self.layout.columns();
        let cells = self.cells.as_mut_slice();
        match self.layout.rows() {
            1 => add_plain::<1, C>(cells, columns, observations, add),
            2 => add_plain::<2, C>(cells, columns, observations, add),
            3 => add_plain::<3, C>(cells, columns, observations, add),
            _ => add_plain::<4, C>(cells, columns, observations, add),
        }
    }

    /// Any layout.
    #[inline(never)]
    fn add_any(&mut self, observations: &[Observation], add: impl Fn(&mut C, &Observation, u32)) {
        let Self { layout, cells } = self;
        let mut hashed = [Hashed::default(); CHUNK];
        let mut additions = [Addition::default(); CHUNK];
        for chunk in observations.chunks(CHUNK) {
            for (hashed, observation) in hashed.iter_mut().zip(chunk) {
                *hashed = Hashed {
                    key: FlowId::of(observation).bits(),
                    offset: layout.offset(observation.packet),
                    weight: layout.weight(observation.segment),
                };
            }
            for row in layout.row_maps() {
                let additions = row.additions(chunk, &hashed, &mut additions);
                for addition in additions {
                    prefetch(cells, addition.cell as usize);
                }
                for &Addition { cell, observation } in additions {
                    let observation = observation as usize;
                    if let Some(cell) = cells.get_mut(cell as usize)
                        && let Some((observation, hashed)) =
                            chunk.get(observation).zip(hashed.get(observation))
                    {
                        add(cell, observation, hashed.weight);
                    }
                }
            }
        }
    }

    /// Adds packets seen at one end of the segment.
    #[inline]
    pub fn record(&mut self, end: End, observations: &[Observation]) {
        // A loop for each end, so that the end is not tested inside the loop.
        match end {
            End::Sender => self.add(observations, |cell, observation, weight| {
                cell.record(End::Sender, observation, weight);
            }),
            End::Receiver => self.add(observations, |cell, observation, weight| {
                cell.record(End::Receiver, observation, weight);
            }),
        }
    }
}

impl LdsPair<PassedCell> {
    /// Adds packets that passed both ends, as seen at the receiver's end: equivalent to recording them
    /// there, and at the sender's end at `time - delay`, for half of the work.
    ///
    /// For a worker that owns both ends of a burst. Packets lost in between must be recorded at the
    /// sender's end.
    #[inline]
    pub fn record_passed(&mut self, observations: &[Observation]) {
        self.add(observations, |cell, observation, weight| {
            cell.pass_all(weight, observation.delay.wrapping_mul(weight.into()));
        });
    }

    /// Adds all passed packets of a flow by the sum of their delays: equivalent to recording them one by
    /// one, if the layout is plain.
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
    pub(crate) fn record_flow(&mut self, flow: FlowId, packets: u64, delay_sum: u64) {
        let Self { layout, cells } = self;
        let indices = cells_of::<ROWS_MAX>(flow, layout.columns());
        for &index in indices.iter().take(layout.rows()) {
            if let Some(cell) = cells.get_mut(index as usize) {
                cell.pass_all(packets as u32, delay_sum);
            }
        }
    }
}

impl<C: BothEnds> Synopsis for LdsPair<C> {
    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.layout.same_shape(&other.layout)?;
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            mine.merge(theirs);
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.cells.fill(C::default());
    }
}

impl RowMap {
    /// The observations that this row samples, with their cells.
    #[inline]
    fn additions<'a>(
        &self,
        observations: &[Observation],
        hashed: &[Hashed],
        additions: &'a mut [Addition; CHUNK],
    ) -> &'a [Addition] {
        let Self {
            multiplier,
            columns,
            first_cell,
            bound,
        } = *self;
        let mut sampled = 0;
        for ((number, observation), hashed) in (0..).zip(observations).zip(hashed) {
            let column = row_of(hashed.key, multiplier, columns) + hashed.offset;
            // The lesser one is in range: the other is too large, or wrapped.
            let column = column.min(column.wrapping_sub(columns));
            // Written for every observation, kept for sampled ones: avoids an unpredictable branch.
            if let Some(addition) = additions.get_mut(sampled) {
                *addition = Addition {
                    cell: first_cell + column,
                    observation: number,
                };
            }
            sampled += usize::from(observation.packet.0 & 0xffff_ffff < bound);
        }
        additions.get(..sampled).unwrap_or(&[])
    }
}

/// A plain layout: weights are 1.
#[inline]
fn add_plain<const ROWS: usize, C>(
    cells: &mut [C],
    columns: u32,
    observations: &[Observation],
    add: impl Fn(&mut C, &Observation, u32),
) {
    let mut indices = [[0_u32; ROWS]; CHUNK];
    for chunk in observations.chunks(CHUNK) {
        for (indices, observation) in indices.iter_mut().zip(chunk) {
            *indices = cells_of(FlowId::of(observation), columns);
            for &index in &*indices {
                prefetch(cells, index as usize);
            }
        }
        for (indices, observation) in indices.iter().zip(chunk) {
            for &index in indices {
                if let Some(cell) = cells.get_mut(index as usize) {
                    add(cell, observation, 1);
                }
            }
        }
    }
}

/// The cells of a flow in rows that take every packet to the flow's first cell.
#[inline]
fn cells_of<const ROWS: usize>(flow: FlowId, columns: u32) -> [u32; ROWS] {
    // Plain loops over arrays are unrolled over rows; iterators are not.
    let mut indices = [0; ROWS];
    let mut first_cell = 0;
    for (index, multiplier) in indices.iter_mut().zip(ROW_MULTIPLIERS) {
        *index = first_cell + row_of(flow.bits(), multiplier, columns);
        first_cell += columns;
    }
    indices
}
