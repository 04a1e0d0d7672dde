//! Lossy Difference Aggregator: mean, deviation and loss from two sets of sums.
//!
//! Kompella, Levchenko, Snoeren, Varghese: "Every microsecond counts" (SIGCOMM 2009) and
//! "Router support for fine-grained latency measurements" (2012), section III.
//!
//! ```text
//!             bank 0: p smallest        bank n-1
//!            +--------------------+    +--------------------+
//! packet --> | row 0   sum n xor  |    | row 0   sum n xor  |   sender's half
//!  hash      |         sum n xor  | .. |         sum n xor  |   receiver's half
//!            | row m-1            |    | row m-1            |
//!            +--------------------+    +--------------------+
//! ```
//!
//! Both ends add a packet's time to the cell that its hash names. A cell in which both ends
//! counted the same packets is *usable*: its difference of sums is the sum of these packets'
//! delays. A lost packet spoils one cell and nothing else; banks that sample less survive more
//! loss. Times are in ticks, relative to the epoch's start at both ends; sums wrap modulo 2^64
//! and their differences are signed.
//!
//! Where both ends' halves of a cell come together they lie side by side ([`CellPair`]). Inside a
//! switch one worker owns both ends and knows what it lost, so that a cell holds the difference
//! alone ([`PassedCell`]). A worker that sees one end only records that
//! end, and merging completes it. [`LdaLayout::estimate`] takes halves from anywhere.

pub mod adaptive;
mod estimate;
mod layout;

pub use estimate::{LdaEstimate, eq1_half_width_ticks};
pub(crate) use layout::prepare_banks;
use layout::row;
pub use layout::{Bank, LdaLayout};

use crate::batch::Batch;
use crate::cell::{BothEnds, CellPair, PassedCell};
use crate::observation::{End, Observation};
use crate::packet::{PacketHash, RandomHashes};
use crate::synopsis::{ShapeMismatch, Synopsis};

/// An LDA with both ends in one place.
#[derive(Debug, Clone, PartialEq)]
pub struct LdaPair<C = CellPair> {
    layout: LdaLayout,
    cells: Vec<C>,
}

impl LdaPair {
    /// An empty LDA of 32 bytes a row.
    pub fn new(layout: &LdaLayout) -> Self {
        Self::empty(layout)
    }

    /// Takes packets out again that were recorded at one end: the exact inverse.
    pub fn unrecord(&mut self, end: End, observations: &[Observation]) {
        self.record_at(observations, |cell, observation| {
            cell.unrecord(end, observation, 1);
        });
    }
}

impl LdaPair<PassedCell> {
    /// Adds packets that passed both ends, by their `hashes`; by chance where there are none, which will do
    /// where both ends are one point: others would not find them again.
    #[inline]
    pub fn pass(&mut self, batch: &Batch, hashes: &[PacketHash], spread: &mut RandomHashes) {
        let Self { layout, cells } = self;
        let mut add = |cell: usize| {
            if let Some(cell) = cells.get_mut(cell) {
                cell.pass_all(1, batch.delay);
            }
        };
        match layout.only_bank_rows() {
            Some(rows) if hashes.is_empty() => {
                for _ in 0..batch.packets {
                    add(spread.next_row(rows));
                }
            }
            Some(rows) => hashes.iter().for_each(|&hash| add(row(hash, rows))),
            None if hashes.is_empty() => (0..batch.packets)
                .filter_map(|_| layout.cell_of(spread.next_hash()))
                .for_each(add),
            None => hashes
                .iter()
                .filter_map(|&hash| layout.cell_of(hash))
                .for_each(add),
        }
    }
}

impl<C: BothEnds> LdaPair<C> {
    /// An empty LDA of one cell a row, of whatever kind.
    pub fn empty(layout: &LdaLayout) -> Self {
        Self {
            layout: layout.clone(),
            cells: vec![C::default(); layout.cells()],
        }
    }

    /// How packets are spread over its cells.
    pub fn layout(&self) -> &LdaLayout {
        &self.layout
    }

    /// Spreads packets otherwise from now on, over the same banks and rows; the memory stays. For
    /// an LDA that is empty: what was recorded before would lie in wrong cells. `false`, and nothing
    /// is changed, where `layout` has other sizes.
    pub fn relay(&mut self, layout: &LdaLayout) -> bool {
        let fits = self.layout.has_sizes_of(layout);
        if fits {
            self.layout.clone_from(layout);
        }
        fits
    }

    /// Its cells, bank by bank in the order of [`LdaLayout::banks`].
    pub fn cells(&self) -> &[C] {
        &self.cells
    }

    /// What the cells say, given the number of packets that reached the receiver's end.
    pub fn estimate(&self, received: u64) -> LdaEstimate {
        self.layout
            .estimate(self.cells.iter().map(C::halves), received)
    }

    #[inline]
    fn record_at(&mut self, observations: &[Observation], record: impl Fn(&mut C, &Observation)) {
        let cells = self.cells.as_mut_slice();
        let mut add = |cell: usize, observation: &Observation| {
            if let Some(cell) = cells.get_mut(cell) {
                record(cell, observation);
            }
        };
        if let Some(rows) = self.layout.only_bank_rows() {
            for observation in observations {
                add(row(observation.packet, rows), observation);
            }
            return;
        }
        for observation in observations {
            if let Some(cell) = self.layout.cell_of(observation.packet) {
                add(cell, observation);
            }
        }
    }

    /// Adds packets that passed both ends, as they were seen at the receiver's: what recording
    /// them there, and at the sender's end at `time - delay`, comes to.
    #[inline]
    pub fn record_passed(&mut self, observations: &[Observation]) {
        self.record_at(observations, |cell, observation| cell.pass(observation, 1));
    }

    pub(crate) fn same_shape(&self, other: &Self) -> Result<(), ShapeMismatch> {
        self.layout.same_shape(&other.layout)
    }
}

impl<C: BothEnds> Synopsis for LdaPair<C> {
    type Item = Observation;

    #[inline]
    fn record(&mut self, end: End, observations: &[Observation]) {
        match end {
            End::Sender => self.record_at(observations, |cell, observation| {
                cell.record(End::Sender, observation, 1);
            }),
            End::Receiver => self.record_at(observations, |cell, observation| {
                cell.record(End::Receiver, observation, 1);
            }),
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.same_shape(other)?;
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            mine.merge(theirs);
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.cells.fill(C::default());
    }
}

#[cfg(test)]
mod tests;
