//! Joint decoding: the delays of all flows at once.
//!
//! The usable cells are one sparse linear system in the flow means x: s_c = sum a_cf x_f + e_c. The
//! paper reads each flow from its emptiest cells as if the others in there did not exist; here every
//! flow is an unknown, all are solved together, and what the cells leave open is filled by a prior
//! that the cells themselves teach:
//!
//! ```text
//! DelayCells --+                                                       +-- until it settles --+
//!              +--> counts ----> system -----> prior fit --> sweep --> sweep (learn) --> guard --> Decoded
//! FlowTable ---+    where not    a, s, e_c     K = 1, from   belief propagation,        within
//!                   known        unlisted      the cells     large flows first          range?
//! ```
//!
//! With fewer flows than about three quarters of a row triple's cells, sweeps peel the sketch and
//! every flow comes out exact; above, each estimate carries its posterior variance.

mod types;

pub use types::{
    Component, DecodeError, DecodeOptions, Decoded, Fallback, FlowDelay, FlowTable, Source, Warning,
};

use super::DelayCells;

/// Most components of the prior.
pub const COMPONENTS_MAX: usize = 3;
/// Most features a flow, without the constant.
pub const FEATURES_MAX: usize = 8;

/// Decodes; `cancelled` is asked between sweeps.
///
/// # Errors
/// [`DecodeError`] when the lists fit neither each other nor the sketch, or when cancelled.
#[expect(unused_variables, reason = "contract")]
pub fn decode(
    cells: &DelayCells,
    flows: FlowTable<'_>,
    options: &DecodeOptions,
    cancelled: impl FnMut() -> bool,
) -> Result<Decoded, DecodeError> {
    todo!()
}
