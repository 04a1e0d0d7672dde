//! Where the observations of a burst go in a plain sketch, found out a while before they are added.

use std::ops::Range;

use super::{LdsLayout, ROWS_MAX};
use crate::flows::FlowId;
use crate::observation::{Observation, SegmentIndex};
use crate::packet::{FlowHash, ROW_MULTIPLIERS, row_of};
use crate::prefetch::prefetch;

/// Observations hashed before any is added: as many as a word has bits.
pub(super) const CHUNK: usize = 64;

/// The cells of a burst, or of some of it, in the sketches that it goes to: 1 KiB, to be kept and used
/// again for each burst.
///
/// A place follows from the observation's flow and the sketch's sizes, whatever sketch of these sizes it
/// is. Places say whose they are: for sketches of other sizes, for other observations of the burst, or for
/// observations that begin with another flow they are of no use.
#[derive(Debug, Clone)]
pub struct Places {
    /// Of each observation one a row, without gaps.
    cells: [u32; CHUNK * ROWS_MAX],
    /// Observations of the burst.
    observations: usize,
    /// By number of the observation, from the lowest bit on: whether its places are here.
    kept: u64,
    /// R of the sketches, 1 to [`ROWS_MAX`].
    rows: usize,
    /// C of the sketches.
    columns: u32,
    /// Of the first observation.
    flow: FlowId,
}

impl Default for Places {
    fn default() -> Self {
        Self::new()
    }
}

impl Places {
    /// Of no observations.
    pub const fn new() -> Self {
        Self {
            cells: [0; CHUNK * ROWS_MAX],
            observations: 0,
            kept: 0,
            rows: 1,
            columns: 0,
            flow: FlowId::new(FlowHash(0), SegmentIndex(0)),
        }
    }

    /// Forgets all.
    #[inline]
    pub const fn clear(&mut self) {
        self.observations = 0;
        self.kept = 0;
    }

    /// Forgets all, and begins with a burst that goes to sketches of that layout; `false` where no
    /// places are kept of it.
    #[inline]
    pub(crate) fn begin(&mut self, layout: &LdsLayout, observations: &[Observation]) -> bool {
        self.clear();
        let Some(first) = observations.first() else {
            return false;
        };
        self.rows = layout.rows();
        self.columns = layout.columns();
        self.flow = FlowId::of(first);
        let keeps = observations.len() <= CHUNK && layout.is_plain();
        if keeps {
            self.observations = observations.len();
        }
        keeps
    }

    /// Keeps the places of observations that are number `first` of the burst and the next ones, and asks the
    /// cache for those of `cells` that they will be added to.
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
        let (places, _) = self.cells.as_chunks_mut::<ROWS>();
        if numbers.end <= self.observations
            && let Some(places) = places.get_mut(numbers.clone())
        {
            place(cells, self.columns, observations, places);
            self.kept |= bits(&numbers);
        }
    }

    /// Whether the burst begins with these observations.
    #[inline]
    pub(crate) fn begin_with(&self, observations: &[Observation]) -> bool {
        let first = observations.first().map(FlowId::of);
        observations.len() <= self.observations && first == Some(self.flow)
    }

    /// Whether they are places in sketches of that layout.
    #[inline]
    pub(super) fn fit(&self, layout: &LdsLayout) -> bool {
        (self.rows, self.columns) == (layout.rows(), layout.columns()) && layout.is_plain()
    }

    /// Adds observations; the first is number `first` of the burst; `false`, and nothing is added,
    /// where not all of them have places.
    #[inline]
    pub(super) fn add<const ROWS: usize, C>(
        &self,
        cells: &mut [C],
        observations: &[Observation],
        first: usize,
        add: impl Fn(&mut C, &Observation),
    ) -> bool {
        let numbers = first..first + observations.len();
        let (places, _) = self.cells.as_chunks::<ROWS>();
        let Some(places) = places.get(numbers.clone()) else {
            return false;
        };
        let wanted = bits(&numbers);
        if self.kept & wanted != wanted {
            return false;
        }
        debug_assert!(
            places
                .iter()
                .zip(observations)
                .all(|(places, observation)| {
                    *places == places_of::<ROWS>(FlowId::of(observation), self.columns)
                }),
            "places of other observations"
        );
        add_at(cells, observations, places, add);
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
pub(super) fn places_of<const ROWS: usize>(flow: FlowId, columns: u32) -> [u32; ROWS] {
    // Plain loops over arrays: they are unrolled over rows, which iterators are not.
    let mut places = [0; ROWS];
    let mut first_cell = 0;
    for (place, multiplier) in places.iter_mut().zip(ROW_MULTIPLIERS) {
        *place = first_cell + row_of(flow.bits(), multiplier, columns);
        first_cell += columns;
    }
    places
}

/// Finds the cells of observations, and asks the cache for them.
#[inline]
pub(super) fn place<const ROWS: usize, C>(
    cells: &[C],
    columns: u32,
    observations: &[Observation],
    places: &mut [[u32; ROWS]],
) {
    for (places, observation) in places.iter_mut().zip(observations) {
        *places = places_of(FlowId::of(observation), columns);
        for &place in &*places {
            prefetch(cells, place as usize);
        }
    }
}

/// Adds observations to the cells that were found for them.
#[inline]
pub(super) fn add_at<const ROWS: usize, C>(
    cells: &mut [C],
    observations: &[Observation],
    places: &[[u32; ROWS]],
    add: impl Fn(&mut C, &Observation),
) {
    for (places, observation) in places.iter().zip(observations) {
        for &place in places {
            if let Some(cell) = cells.get_mut(place as usize) {
                add(cell, observation);
            }
        }
    }
}
