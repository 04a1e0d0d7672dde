//! Lossy Difference Sketch: the delay of every flow from sums at both ends.

mod decode;
mod delays;
mod grid;
mod layout;
mod mine;
mod sketch;

pub use decode::{
    COMPONENTS_MAX, Component, DecodeError, DecodeOptions, Decoded, FEATURES_MAX, Fallback,
    FlowDelay, FlowTable, KnownMeans, PacketsSource, Source, Warning, decode,
};
pub use delays::{DelayCell, DelayCells, FlowEstimate};
pub use grid::BytesPair;
pub use layout::{LayoutError, LdsLayout, ROWS_MAX};
pub use mine::Mined;
pub use sketch::LdsPair;

#[cfg(test)]
mod tests;
