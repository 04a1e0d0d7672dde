//! What a point accumulates.

use super::grid::Grid;
use super::{BytesPair, DelayCells, LdsLayout};
use crate::cell::CellPair;
use crate::sight::{End, Sight};
use crate::synopsis::{ShapeMismatch, Synopsis};

/// An LDS with both ends in one place.
#[derive(Debug, Clone, PartialEq)]
pub struct LdsPair {
    grid: Grid<CellPair>,
}

impl LdsPair {
    /// An empty sketch of 32 bytes a cell, and 16 more where bytes are counted.
    pub fn new(layout: &LdsLayout) -> Self {
        Self {
            grid: Grid::new(layout),
        }
    }

    /// Its layout.
    pub fn layout(&self) -> &LdsLayout {
        &self.grid.layout
    }

    /// Cells, row by row.
    pub fn cells(&self) -> &[CellPair] {
        &self.grid.cells
    }

    /// Bytes of each cell, where they are counted.
    pub fn bytes(&self) -> Option<&[BytesPair]> {
        let counted = self.grid.layout.counts_bytes();
        counted.then_some(self.grid.bytes.as_slice())
    }

    /// Adds packets that passed both ends, as they were seen at the receiver's: what recording
    /// them there, and at the sender's end at `time - delay`, comes to, for half of the work.
    ///
    /// For a worker that owns both ends of a burst. What was lost in between has to be recorded
    /// at the sender's end.
    #[inline]
    pub fn record_passed(&mut self, sights: &[Sight]) {
        self.grid.record(
            sights,
            |pair, sight, weight| {
                let sent = sight.time.wrapping_sub(sight.delay);
                pair.sender.add_weighted(sight.packet, sent, weight);
                pair.receiver.add_weighted(sight.packet, sight.time, weight);
            },
            |pair, bytes| {
                pair.sender = pair.sender.wrapping_add(bytes);
                pair.receiver = pair.receiver.wrapping_add(bytes);
            },
        );
    }

    /// The difference of both ends.
    pub fn delays(&self) -> DelayCells {
        let halves = self.grid.cells.iter();
        let halves = halves.map(|pair| (pair.sender, pair.receiver));
        DelayCells {
            bytes: self.grid.bytes.clone(),
            ..DelayCells::from_halves(&self.grid.layout, halves)
        }
    }
}

impl Synopsis for LdsPair {
    type Item = Sight;

    #[inline]
    fn record(&mut self, end: End, sights: &[Sight]) {
        match end {
            End::Sender => self.grid.record(
                sights,
                |pair, sight, weight| {
                    pair.sender.add_weighted(sight.packet, sight.time, weight);
                },
                |pair, bytes| pair.sender = pair.sender.wrapping_add(bytes),
            ),
            End::Receiver => self.grid.record(
                sights,
                |pair, sight, weight| {
                    pair.receiver.add_weighted(sight.packet, sight.time, weight);
                },
                |pair, bytes| pair.receiver = pair.receiver.wrapping_add(bytes),
            ),
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.grid.merge(&other.grid, CellPair::merge)
    }

    fn clear(&mut self) {
        self.grid.clear();
    }

    /// Rows, columns, cells of a flow in a row, 1 or 0 for bytes (u32 each); sampled share of each
    /// row in 2^-32 (u64 each); number of weights and weights (u32 each); then for each cell the
    /// sender's and the receiver's sum (u64), count (u32) and digest (u32); where bytes are
    /// counted, for each cell the sender's and the receiver's (u64).
    fn encode(&self, out: &mut Vec<u8>) {
        self.grid.encode(out, |pair, out| {
            for half in [pair.sender, pair.receiver] {
                out.extend_from_slice(&half.sum.to_le_bytes());
                out.extend_from_slice(&half.count.to_le_bytes());
                out.extend_from_slice(&half.digest.to_le_bytes());
            }
        });
    }
}
