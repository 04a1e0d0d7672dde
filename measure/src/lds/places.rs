//! Where the sights of a burst go in a plain sketch, found out a while before they are added.

use super::{LdsLayout, ROWS_MAX};
use crate::flows::FlowId;
use crate::packet::{FlowHash, ROW_MULTIPLIERS, row_of};
use crate::prefetch::prefetch;
use crate::sight::{SegmentIndex, Sight};

/// Sights hashed before any is added.
pub(super) const CHUNK: usize = 64;

/// The cells of a burst in the sketches that it goes to, or nothing: 1 KiB, to be kept and used
/// again for each burst.
///
/// A place follows from the sight's flow and the sketch's sizes, whatever sketch of these sizes it
/// is. Places say whose they are: for sketches of other sizes, for more sights, or for sights that
/// begin with another flow they are of no use.
#[derive(Debug, Clone)]
pub struct Places {
    /// Of each sight one a row, without gaps.
    cells: [u32; CHUNK * ROWS_MAX],
    /// Sights whose places are here.
    sights: usize,
    /// R of the sketches, 1 to [`ROWS_MAX`].
    rows: usize,
    /// C of the sketches.
    columns: u32,
    /// Of the first sight.
    flow: FlowId,
}

impl Default for Places {
    fn default() -> Self {
        Self::new()
    }
}

impl Places {
    /// Of no sights.
    pub const fn new() -> Self {
        Self {
            cells: [0; CHUNK * ROWS_MAX],
            sights: 0,
            rows: 1,
            columns: 0,
            flow: FlowId::new(FlowHash(0), SegmentIndex(0)),
        }
    }

    /// Forgets all.
    #[inline]
    pub const fn clear(&mut self) {
        self.sights = 0;
    }

    /// Forgets all, and begins with a burst that goes to sketches of that layout; `false` where no
    /// places are kept of it.
    #[inline]
    pub(crate) fn begin(&mut self, layout: &LdsLayout, sights: &[Sight]) -> bool {
        self.clear();
        let Some(first) = sights.first() else {
            return false;
        };
        self.rows = layout.rows();
        self.columns = layout.columns();
        self.flow = FlowId::of(first);
        sights.len() <= CHUNK && layout.is_plain()
    }

    /// Goes on with the next sights of the burst, and asks the cache for those of `cells` that they
    /// will be added to.
    #[inline]
    pub(crate) fn extend<C>(&mut self, cells: &[C], sights: &[Sight]) {
        match self.rows {
            1 => self.extend_rows::<1, C>(cells, sights),
            2 => self.extend_rows::<2, C>(cells, sights),
            3 => self.extend_rows::<3, C>(cells, sights),
            _ => self.extend_rows::<4, C>(cells, sights),
        }
    }

    #[inline]
    fn extend_rows<const ROWS: usize, C>(&mut self, cells: &[C], sights: &[Sight]) {
        let (places, _) = self.cells.as_chunks_mut::<ROWS>();
        if let Some(places) = places.get_mut(self.sights..self.sights + sights.len()) {
            place(cells, self.columns, sights, places);
            self.sights += sights.len();
        }
    }

    /// Whether the burst begins with these sights.
    #[inline]
    pub(crate) fn begin_with(&self, sights: &[Sight]) -> bool {
        let first = sights.first().map(FlowId::of);
        sights.len() <= self.sights && first == Some(self.flow)
    }

    /// Whether they are places in sketches of that layout.
    #[inline]
    pub(super) fn fit(&self, layout: &LdsLayout) -> bool {
        (self.rows, self.columns) == (layout.rows(), layout.columns()) && layout.is_plain()
    }

    /// Adds sights, of which the first is number `first` of the burst; `false`, and nothing is added,
    /// where not all of them have places.
    #[inline]
    pub(super) fn add<const ROWS: usize, C>(
        &self,
        cells: &mut [C],
        sights: &[Sight],
        first: usize,
        add: impl Fn(&mut C, &Sight),
    ) -> bool {
        let (places, _) = self.cells.as_chunks::<ROWS>();
        let kept = places.get(..self.sights).and_then(|kept| kept.get(first..));
        let Some(places) = kept.and_then(|kept| kept.get(..sights.len())) else {
            return false;
        };
        debug_assert!(
            places.iter().zip(sights).all(|(places, sight)| {
                *places == places_of::<ROWS>(FlowId::of(sight), self.columns)
            }),
            "places of other sights"
        );
        add_at(cells, sights, places, add);
        true
    }
}

/// The cells of a flow in rows that take every packet to the first cell of its flow.
#[inline]
fn places_of<const ROWS: usize>(flow: FlowId, columns: u32) -> [u32; ROWS] {
    // Plain loops over arrays: they are unrolled over rows, which iterators are not.
    let mut places = [0; ROWS];
    let mut first_cell = 0;
    for (place, multiplier) in places.iter_mut().zip(ROW_MULTIPLIERS) {
        *place = first_cell + row_of(flow.bits(), multiplier, columns);
        first_cell += columns;
    }
    places
}

/// Finds the cells of sights, and asks the cache for them.
#[inline]
pub(super) fn place<const ROWS: usize, C>(
    cells: &[C],
    columns: u32,
    sights: &[Sight],
    places: &mut [[u32; ROWS]],
) {
    for (places, sight) in places.iter_mut().zip(sights) {
        *places = places_of(FlowId::of(sight), columns);
        for &place in &*places {
            prefetch(cells, place as usize);
        }
    }
}

/// Adds sights to the cells that were found for them.
#[inline]
pub(super) fn add_at<const ROWS: usize, C>(
    cells: &mut [C],
    sights: &[Sight],
    places: &[[u32; ROWS]],
    add: impl Fn(&mut C, &Sight),
) {
    for (places, sight) in places.iter().zip(sights) {
        for &place in places {
            if let Some(cell) = cells.get_mut(place as usize) {
                add(cell, sight);
            }
        }
    }
}
