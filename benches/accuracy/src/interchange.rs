//! CSV files that carry sketches, flows and packets to and from other programs.
//!
//! `docs/interchange.md` describes the files. Readers take any [`std::io::Read`] and are bounded:
//! lines of [`LINE_BYTES_MAX`] bytes, [`COLUMNS_MAX`] columns, [`LINES_MAX`] lines; what they read
//! never asks for more memory than a small multiple of its own size.

mod number;
mod packets;
mod sheet;
mod sketch;

pub use number::Time;
pub(super) use number::whole;
pub use packets::{LinkPacket, PairRecord, read_link, read_pairs};
pub use sheet::{COLUMNS_MAX, LINE_BYTES_MAX, LINES_MAX, ReadError};
pub(super) use sketch::known;
pub use sketch::{
    CellRecord, FlowList, Half, SKETCH_COLUMNS_MAX, read_cells, read_flows, read_weights,
    write_cells, write_flows,
};

#[cfg(test)]
mod tests;
