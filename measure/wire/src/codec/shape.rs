//! The shape of a synopsis, by which both ends compare theirs.
//!
//! A synopsis is a sequence of elements of one size. Its shape says which synopsis it is, how many elements
//! it has, and what else must agree:
//!
//! | synopsis | shape | element |
//! |---|---|---|
//! | 1 LDA | banks (1 byte, 1 to 16); for each, in the layout's order, rows (4) and sampled share in 2^-32 (8) | [`Cell`]: sum (8), count (4), digest (4) |
//! | 2 LDS | columns (4), cells of a flow in a row (4), bytes counted (1: 0 or 1), check of the weights (8), rows (1, 1 to 4), sampled share of each in 2^-32 (8) | [`Cell`], with bytes (8) where they are counted |
//! | 6 tally | nothing | sent, bytes, received, bytes, dropped, late (8 each) |
//!
//! Other numbers are not assigned. A switch sends no cells with bytes.
//!
//! Weights may be as numerous as segments, too many for every fragment. The check is SipHash-2-4 under key
//! 0 of all weights, 4 bytes each; 0 if all are 1.

use arrayvec::ArrayVec;
use siphasher::sip::SipHasher24;

use super::{Element, ParseError, Put, Reader, Slot};
use measure::cell::Cell;
use measure::lda::LdaLayout;
use measure::lds::{LdsLayout, ROWS_MAX};
use measure::shard::Tally;

/// Which synopsis, its size, and what else must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// One half of an LDA.
    Lda(LdaLayout),
    /// One half of an LDS.
    Lds(SketchShape),
    /// Plain counts.
    Tally,
}

const _: () = assert!(ROWS_MAX == 4, "as the protocol has it");

/// The shape of a sketch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SketchShape {
    /// C, 1 to [`LdsLayout::COLUMNS_MAX`].
    pub columns: u32,
    /// k, 1 to C and [`LdsLayout::VIRTUAL_CELLS_MAX`].
    pub virtual_cells: u32,
    /// Whether bytes are counted as well.
    pub counts_bytes: bool,
    /// [`weights_check`](Self::weights_check) of the weights.
    pub weights_check: u64,
    /// Sampled share of each row in 2^-32: 1 to 2^32.
    pub shares: ArrayVec<u64, ROWS_MAX>,
}

impl SketchShape {
    /// The shape of sketches with this layout.
    pub fn new(layout: &LdsLayout) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, 1 to 2^32"
        )]
        let share = |row| (layout.row_probability(row) * 4_294_967_296.0) as u64;
        Self {
            columns: layout.columns(),
            virtual_cells: layout.virtual_cells(),
            counts_bytes: false,
            weights_check: Self::weights_check(layout.weights()),
            shares: (0..layout.rows()).map(share).collect(),
        }
    }

    /// A hash that distinguishes lists of weights; 0 if all weights are 1.
    pub fn weights_check(weights: &[u32]) -> u64 {
        let Some(last) = weights.iter().rposition(|&weight| weight != 1) else {
            return 0;
        };
        let bytes: Vec<u8> = weights
            .iter()
            .take(last + 1)
            .flat_map(|weight| weight.to_be_bytes())
            .collect();
        SipHasher24::new_with_keys(0, 0).hash(&bytes).max(1)
    }

    fn elements(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "4 at most")]
        let rows = self.shares.len() as u32;
        self.columns.saturating_mul(rows)
    }

    fn element_bytes(&self) -> usize {
        let bytes = if self.counts_bytes { 8 } else { 0 };
        Cell::BYTES + bytes
    }

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.columns);
        out.put_number(self.virtual_cells);
        out.put_number(u8::from(self.counts_bytes));
        out.put_number(self.weights_check);
        #[expect(clippy::cast_possible_truncation, reason = "4 at most")]
        out.put_number(self.shares.len() as u8);
        for &share in &self.shares {
            out.put_number(share);
        }
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let columns_max = LdsLayout::COLUMNS_MAX;
        let columns = reader.number_in("columns of a sketch", 1..=columns_max, "1 to 2^24")?;
        let virtual_cells = reader.number_in(
            "cells of a flow in a row",
            1..=columns.min(LdsLayout::VIRTUAL_CELLS_MAX),
            "1 to 1,024 and the columns",
        )?;
        let counts_bytes = reader.place("bytes counted", &[false, true], "0 or 1")?;
        let weights_check = reader.number("check of the weights")?;
        let rows: u8 = reader.number_in("rows of a sketch", 1..=4, "1 to 4")?;
        let shares = (0..rows).map(|_| share(reader)).collect::<Result<_, _>>()?;
        Ok(Self {
            columns,
            virtual_cells,
            counts_bytes,
            weights_check,
            shares,
        })
    }
}

/// A sampled share in units of 2^-32.
fn share(reader: &mut Reader<'_>) -> Result<u64, ParseError> {
    reader.number_in("sampled share", 1..=1 << 32, "1 to 2^32")
}

impl Shape {
    /// Numbers of synopses.
    pub(crate) const SYNOPSES: [u8; 3] = [1, 2, 6];

    /// Number of the synopsis.
    pub(crate) fn synopsis(&self) -> u8 {
        match self {
            Self::Lda(_) => 1,
            Self::Lds(_) => 2,
            Self::Tally => 6,
        }
    }

    /// Number of elements.
    pub fn elements(&self) -> u32 {
        match self {
            // At most 16 banks of 65,536 rows.
            Self::Lda(layout) => u32::try_from(layout.cells()).unwrap_or(u32::MAX),
            Self::Lds(sketch) => sketch.elements(),
            Self::Tally => 1,
        }
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> usize {
        match self {
            Self::Lda(_) => Cell::BYTES,
            Self::Lds(sketch) => sketch.element_bytes(),
            Self::Tally => Tally::BYTES,
        }
    }

    /// Whether two shapes agree in all but what changes between epochs: an LDA's probabilities.
    pub fn same_sizes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lda(mine), Self::Lda(theirs)) => mine.has_sizes_of(theirs),
            _ => self == other,
        }
    }

    /// Writes the synopsis' number and the shape's length (two bytes), then `between`, then the shape.
    pub(crate) fn emit_around(&self, between: &[u8], out: &mut impl Put) {
        out.put_number(self.synopsis());
        #[expect(clippy::cast_possible_truncation, reason = "194 at most")]
        out.put_number(self.bytes() as u16);
        out.put(between);
        self.emit(out);
    }

    /// Bytes of the shape itself.
    pub(super) fn bytes(&self) -> usize {
        let mut count = Slot::new(&mut []);
        self.emit(&mut count);
        count.len()
    }

    fn emit(&self, out: &mut impl Put) {
        match self {
            Self::Lda(layout) => emit_lda(layout, out),
            Self::Lds(sketch) => sketch.emit(out),
            Self::Tally => {}
        }
    }

    /// Reads what [`emit_around`](Self::emit_around) writes with nothing between.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let synopsis = reader.number("synopsis")?;
        let bytes: u16 = reader.number("shape's length")?;
        Self::parse(synopsis, reader.bytes("shape", bytes.into())?)
    }

    /// Reads the shape of a synopsis from all of `bytes`.
    pub(super) fn parse(synopsis: u8, bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let shape = match synopsis {
            1 => Self::Lda(parse_lda(&mut reader)?),
            2 => Self::Lds(SketchShape::parse(&mut reader)?),
            6 => Self::Tally,
            other => return Err(ParseError::value("synopsis", other, "1, 2 or 6")),
        };
        reader.end("shape")?;
        Ok(shape)
    }
}

/// Banks, then each one's rows and share.
pub(crate) fn emit_lda(layout: &LdaLayout, out: &mut impl Put) {
    #[expect(clippy::cast_possible_truncation, reason = "16 at most")]
    out.put_number(layout.bank_shares().count() as u8);
    for (rows, share) in layout.bank_shares() {
        out.put_number(rows);
        out.put_number(share);
    }
}

pub(crate) fn parse_lda(reader: &mut Reader<'_>) -> Result<LdaLayout, ParseError> {
    let count: u8 = reader.number("banks of an LDA")?;
    let mut banks = ArrayVec::<_, { LdaLayout::BANKS_MAX }>::new();
    for _ in 0..count {
        let rows = reader.number("rows of a bank")?;
        banks
            .try_push((rows, share(reader)?))
            .map_err(|_| ParseError::value("banks of an LDA", count, "1 to 16"))?;
    }
    LdaLayout::from_bank_shares(&banks).ok_or(ParseError::value(
        "banks of an LDA",
        count,
        "as an LDA is laid out: 1 to 16 of 1 to 65,536 rows, shares rising to 1 in all at most",
    ))
}
