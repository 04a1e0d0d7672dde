//! Packets of flows that are missing from the list.
//!
//! In a cell that takes every packet they are what is left of its count. Left in, they would be
//! charged to the flows that are listed. Elsewhere coefficients are scaled to the cell's count, which
//! absorbs them.

use super::system::Equation;

/// What the plain cells hold of unlisted flows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unlisted {
    cells: f64,
    sum: f64,
    squares: f64,
    packets: f64,
}

impl Unlisted {
    /// Adds a usable cell of `packets`, `unlisted` of them of no listed flow.
    pub fn add(&mut self, unlisted: f64, packets: f64) {
        self.cells += 1.0;
        self.sum += unlisted;
        self.squares += unlisted * unlisted;
        self.packets += packets;
    }

    /// Their share of all packets.
    pub fn share(&self) -> f64 {
        if self.packets > 0.0 {
            self.sum / self.packets
        } else {
            0.0
        }
    }

    /// Gives an equation the noise of its unlisted packets: they come in flows of the size g that the
    /// scatter of `n_u` tells, one at least, all of them at most.
    pub fn spread(&self, equation: &mut Equation) {
        let unlisted = equation.unlisted;
        if unlisted <= 0.0 {
            return;
        }
        let mean = self.sum / self.cells;
        let variance = (self.squares / self.cells - mean * mean).max(0.0);
        let size = (variance / mean).min(unlisted.max(1.0)).max(1.0);
        equation.between += unlisted * size;
        equation.within += unlisted;
    }
}
