//! Rows of cells, and how a burst of sights is added to them.
//!
//! Cells lie scattered in more memory than a core's caches hold. So sights are taken in chunks:
//! all of a chunk are hashed and their cells asked for, then all are added, by which time the
//! cells are there.

use arrayvec::ArrayVec;

use super::LdsLayout;
use crate::flows::FlowId;
use crate::packet::{ROW_MULTIPLIERS, row_of};
use crate::prefetch::prefetch;
use crate::sight::Sight;
use crate::synopsis::ShapeMismatch;

/// Sights hashed before any is added.
const CHUNK: usize = 64;

/// Bytes at both ends of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BytesPair {
    /// At the sender's end.
    pub sender: u64,
    /// At the receiver's end.
    pub receiver: u64,
}

impl BytesPair {
    /// Adds what another shard, or another epoch, accumulated.
    pub(super) fn merge(&mut self, other: &Self) {
        self.sender = self.sender.wrapping_add(other.sender);
        self.receiver = self.receiver.wrapping_add(other.receiver);
    }
}

/// R rows of C cells of some kind, row by row, and their bytes where these are counted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grid<C> {
    pub layout: LdsLayout,
    pub cells: Vec<C>,
    /// As many as cells, or none.
    pub bytes: Vec<BytesPair>,
}

/// What is hashed of a sight once for all rows.
struct Hashed {
    key: u64,
    offset: u32,
    weight: u32,
}

/// A cell that a sight of the chunk is added to.
#[derive(Clone, Copy, Default)]
struct Place {
    cell: u32,
    sight: u32,
}

impl<C: Copy + Default> Grid<C> {
    pub fn new(layout: &LdsLayout) -> Self {
        let bytes = if layout.counts_bytes() {
            layout.cells()
        } else {
            0
        };
        Self {
            layout: layout.clone(),
            cells: vec![C::default(); layout.cells()],
            bytes: vec![BytesPair::default(); bytes],
        }
    }

    /// Adds a burst: `add` is called with each cell of each sight and the sight's weight, and
    /// `add_bytes` with the cell's bytes, where they are counted.
    #[inline]
    pub fn record(
        &mut self,
        sights: &[Sight],
        add: impl Fn(&mut C, &Sight, u32),
        add_bytes: impl Fn(&mut BytesPair, u64),
    ) {
        if !self.layout.is_plain() {
            return self.record_any(sights, add, add_bytes);
        }
        let columns = self.layout.columns();
        let cells = self.cells.as_mut_slice();
        match self.layout.rows() {
            1 => record_plain::<1, C>(cells, columns, sights, add),
            2 => record_plain::<2, C>(cells, columns, sights, add),
            3 => record_plain::<3, C>(cells, columns, sights, add),
            _ => record_plain::<4, C>(cells, columns, sights, add),
        }
    }

    /// Any layout.
    #[inline(never)]
    fn record_any(
        &mut self,
        sights: &[Sight],
        add: impl Fn(&mut C, &Sight, u32),
        add_bytes: impl Fn(&mut BytesPair, u64),
    ) {
        let Self {
            layout,
            cells,
            bytes,
        } = self;
        for chunk in sights.chunks(CHUNK) {
            let hashed: ArrayVec<Hashed, CHUNK> = chunk
                .iter()
                .map(|sight| Hashed {
                    key: FlowId::of(sight).bits(),
                    offset: layout.offset(sight.packet),
                    weight: layout.weight(sight.segment),
                })
                .collect();
            for row in 0..layout.rows() {
                let mut places = [Place::default(); CHUNK];
                let places = layout.places(row, chunk, &hashed, &mut places);
                for place in places {
                    prefetch(cells, place.cell as usize);
                    prefetch(bytes, place.cell as usize);
                }
                for &Place { cell, sight } in places {
                    let (cell, sight) = (cell as usize, sight as usize);
                    let (Some(sight), Some(hashed)) = (chunk.get(sight), hashed.get(sight)) else {
                        continue;
                    };
                    if let Some(cell) = cells.get_mut(cell) {
                        add(cell, sight, hashed.weight);
                    }
                    if let Some(bytes) = bytes.get_mut(cell) {
                        add_bytes(bytes, sight.bytes.into());
                    }
                }
            }
        }
    }

    pub fn merge(&mut self, other: &Self, merge: impl Fn(&mut C, &C)) -> Result<(), ShapeMismatch> {
        self.layout.same_shape(&other.layout)?;
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            merge(mine, theirs);
        }
        for (mine, theirs) in self.bytes.iter_mut().zip(&other.bytes) {
            mine.merge(theirs);
        }
        Ok(())
    }

    pub fn clear(&mut self) {
        self.cells.fill(C::default());
        self.bytes.fill(BytesPair::default());
    }
}

impl LdsLayout {
    /// Where the sights that row `row` samples go.
    #[inline]
    fn places<'a>(
        &self,
        row: usize,
        sights: &[Sight],
        hashed: &[Hashed],
        places: &'a mut [Place; CHUNK],
    ) -> &'a [Place] {
        let columns = self.columns();
        let Some((&multiplier, first)) = ROW_MULTIPLIERS.get(row).zip(self.first_cell(row)) else {
            return &[];
        };
        let mut sampled = 0;
        for ((number, sight), hashed) in (0..).zip(sights).zip(hashed) {
            let column = row_of(hashed.key, multiplier, columns) + hashed.offset;
            let wrapped = column.checked_sub(columns).unwrap_or(column);
            // Written for every sight, kept for those sampled: no branch on what is hard to guess.
            if let Some(place) = places.get_mut(sampled) {
                *place = Place {
                    cell: first + wrapped,
                    sight: number,
                };
            }
            sampled += usize::from(self.samples(row, sight.packet));
        }
        places.get(..sampled).unwrap_or(&[])
    }

    /// Index of a row's first cell.
    fn first_cell(&self, row: usize) -> Option<u32> {
        u32::try_from(row).ok()?.checked_mul(self.columns())
    }
}

/// Rows that take every packet to the first cell of its flow, with weight 1.
#[inline]
fn record_plain<const ROWS: usize, C>(
    cells: &mut [C],
    columns: u32,
    sights: &[Sight],
    add: impl Fn(&mut C, &Sight, u32),
) {
    for chunk in sights.chunks(CHUNK) {
        let places: ArrayVec<[u32; ROWS], CHUNK> = chunk
            .iter()
            .map(|sight| {
                let key = FlowId::of(sight).bits();
                let mut first_cell = 0;
                std::array::from_fn(|row| {
                    let cell = first_cell + row_of(key, ROW_MULTIPLIERS[row], columns);
                    first_cell += columns;
                    prefetch(cells, cell as usize);
                    cell
                })
            })
            .collect();
        for (sight, places) in chunk.iter().zip(&places) {
            for &cell in places {
                if let Some(cell) = cells.get_mut(cell as usize) {
                    add(cell, sight, 1);
                }
            }
        }
    }
}
