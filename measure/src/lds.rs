//! Lossy Difference Sketch: the delay of every flow from sums at both ends.

mod decode;
mod delays;
mod layout;
mod sketch;

pub use decode::{
    COMPONENTS_MAX, DecodeError, DecodeOptions, Decoded, FEATURES_MAX, Fallback, FlowDelay,
    FlowTable, KnownMean, Source, Warning, decode,
};
pub use delays::{DelayCell, DelayCells, FlowEstimate};
pub use layout::{LdsLayout, ROWS_MAX};
pub use sketch::LdsPair;

#[cfg(test)]
mod tests;
