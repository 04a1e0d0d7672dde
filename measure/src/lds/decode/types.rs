//! What goes into decoding and what comes out.

use crate::argument::InvalidArgument;

/// The flows to decode, one entry of each list a flow.
#[derive(Debug, Clone, Copy)]
pub struct FlowTable<'a> {
    /// Base columns, R entries a flow ([`LdsLayout::base_columns`](crate::lds::LdsLayout::base_columns),
    /// cut to R).
    pub columns: &'a [u32],
    /// Packets of each flow that the receiver's end saw, finite and not negative; NaN where a
    /// flow's are not known, `None` where no flow's are: decoded from the cells first.
    pub packets: Option<&'a [f64]>,
    /// Weight of each flow's packets in the sketch, finite and positive; `None`: all 1.
    pub weights: Option<&'a [f64]>,
    /// Features without the constant, `features_per_flow` entries a flow (class columns of 0 and 1,
    /// an RLI mean that may be another queue's); NaN (or infinite) where a flow has none.
    pub features: &'a [f64],
    /// How many features each flow has; 0 for LDS alone, at most [`FEATURES_MAX`](super::FEATURES_MAX), known means
    /// included.
    pub features_per_flow: usize,
    /// What is known of each flow's mean from elsewhere, within its error.
    pub known: Option<KnownMeans<'a>>,
}

/// Estimates of flows' means that do not come from the cells, as RLI's: unlike a feature's, their errors
/// are known, and decoding sets out from them, not from what it learns of them.
#[derive(Debug, Clone, Copy)]
pub struct KnownMeans<'a> {
    /// Mean delay of each flow in ticks, within 2^64; NaN (or beyond) where a flow has none.
    pub mean_ticks: &'a [f64],
    /// Variance of each mean's error in ticks squared, 0 to 2^128; beyond, as if the flow had no mean.
    pub error_ticks2: &'a [f64],
    /// Variance of the delays of the flow's packets in ticks squared, as far as that is known; NaN
    /// where it is not. Cells that take some of the flow's packets may differ from all of them by
    /// that.
    pub packets_ticks2: &'a [f64],
}

/// How to decode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodeOptions {
    /// K, 1 to [`COMPONENTS_MAX`](super::COMPONENTS_MAX).
    pub components: usize,
    /// Sweeps at most. About ten serve K = 1, twenty K = 2 and 3.
    pub sweeps: usize,
    /// Stop where no estimate changes by more than this, relative to the largest.
    pub tolerance: f64,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            components: 1,
            sweeps: 10,
            tolerance: 1e-9,
        }
    }
}

/// Why nothing was decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Options out of range, or flow lists that do not fit the sketch.
    #[error(transparent)]
    Argument(#[from] InvalidArgument),
    /// Cancelled between two sweeps.
    #[error("decoding was cancelled")]
    Cancelled,
}

/// Where a flow's estimate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Joint decoding.
    Joint,
    /// The fitted prior at the flow's features: no usable cell speaks for the flow.
    Prior,
    /// The paper's estimator.
    Paper,
    /// The mean over the segment: no usable cell speaks for the flow.
    SegmentMean,
    /// Nothing at all is known: no cell is usable. The estimate is 0, its variance infinite.
    Nothing,
}

/// Why joint decoding gave way to the paper's estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// The sweeps did not settle: the best of them left the range that its cells allow.
    Diverged,
    /// No cell is usable and filled.
    NoUsableCell,
}

/// What a reader of the estimates should know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warning {
    /// Flows are missing from the list: this share of the packets in the cells is of no listed flow.
    UnlistedPackets {
        /// 0 to 1, the mean over usable cells of rows that take every packet.
        share: f64,
    },
    /// In these cells the flows claim more packets than were counted there: their counts are too
    /// large, and were scaled down to fit.
    ExcessPackets {
        /// Usable cells.
        cells: usize,
    },
    /// The sweeps ended while estimates still moved by a tenth of their own uncertainty.
    NotSettled,
}

/// One flow's estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowDelay {
    /// Mean delay in ticks.
    pub mean_ticks: f64,
    /// Posterior variance in ticks squared; infinite where it is not known. The nominal 98 % bound
    /// is three times its root.
    pub variance_ticks2: f64,
    /// Packets of the flow, as given or as decoded.
    pub packets: f64,
    /// Where it comes from.
    pub source: Source,
}

/// What decoding gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// One entry a flow, in their order.
    pub flows: Vec<FlowDelay>,
    /// Sweeps done; 0 where flows could be peeled one by one from their cells instead.
    pub sweeps: usize,
    /// The largest change of an estimate in the last sweep, relative to the largest estimate.
    pub last_change: f64,
    /// Why it is not joint, where it is not.
    pub fallback: Option<Fallback>,
    /// What else a reader should know.
    pub warnings: Vec<Warning>,
}
