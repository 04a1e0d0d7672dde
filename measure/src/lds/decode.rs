//! Joint decoding: the delays of all flows at once.

use super::DelayCells;

/// The flows to decode, one entry of each list a flow.
#[derive(Debug, Clone, Copy)]
pub struct FlowTable<'a> {
    /// Base columns, R entries a flow ([`super::LdsLayout::base_columns`], cut to R).
    pub columns: &'a [u32],
    /// Packets of each flow that the receiver's end saw; `None` where they are not known, and
    /// decoded from the cells first.
    pub packets: Option<&'a [f64]>,
    /// Weight of each flow's packets in the sketch; `None`: all 1.
    pub weights: Option<&'a [f64]>,
    /// Features without the constant, `features_per_flow` entries a flow (an RLI mean in ticks,
    /// class columns of 0 and 1); NaN where a flow has none.
    pub features: &'a [f64],
    /// How many features each flow has; 0 for LDS alone.
    pub features_per_flow: usize,
}

/// How to decode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodeOptions {
    /// K, 1 to 3.
    pub components: usize,
    /// Sweeps at most.
    pub sweeps: usize,
    /// Stop where no estimate changes by more than this, relative to the largest.
    pub tolerance: f64,
    /// Seed of what is drawn.
    pub seed: u64,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            components: 1,
            sweeps: 10,
            tolerance: 1e-9,
            seed: 0,
        }
    }
}

/// Flow lists that do not fit the sketch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Cancelled between two sweeps.
    #[error("decoding was cancelled")]
    Cancelled,
}

/// Where a flow's estimate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Joint decoding.
    Joint,
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
    /// Changes grew for three sweeps and the best sweep was outside its cells' range.
    Diverged,
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

/// A component of the prior: x ~ N(z'beta, tau2 + sig2 / n).
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// pi.
    pub share: f64,
    /// beta: the constant, then one entry a feature.
    pub coefficients: Vec<f64>,
    /// tau2, between flows, in ticks squared.
    pub between_ticks2: f64,
    /// sig2, between packets of a flow, in ticks squared.
    pub within_ticks2: f64,
}

/// What decoding gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// One entry a flow, in their order.
    pub flows: Vec<FlowDelay>,
    /// The fitted prior.
    pub components: Vec<Component>,
    /// Sweeps done.
    pub sweeps: usize,
    /// The largest change of an estimate in the last sweep, relative to the largest estimate.
    pub last_change: f64,
    /// Why it is not joint, where it is not.
    pub fallback: Option<Fallback>,
}

/// Decodes; `cancelled` is asked between sweeps.
///
/// # Errors
/// [`DecodeError`].
#[expect(unused_variables, reason = "contract")]
pub fn decode(
    cells: &DelayCells,
    flows: FlowTable<'_>,
    options: &DecodeOptions,
    cancelled: impl FnMut() -> bool,
) -> Result<Decoded, DecodeError> {
    todo!()
}
