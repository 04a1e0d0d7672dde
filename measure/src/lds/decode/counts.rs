//! Packets of each flow: as given, or decoded from the cells' counts.

use super::DecodeError;
use super::shape::Shape;

/// n_f of all flows.
pub(super) struct Packets {
    /// One entry a flow, in the flows' own order.
    pub counts: Vec<f64>,
    /// Posterior variances, likewise; empty where all counts are known.
    variances: Vec<f64>,
    /// All were given.
    pub known: bool,
}

impl Packets {
    /// Posterior variance of a flow's count.
    pub fn variance(&self, flow: usize) -> f64 {
        self.variances.get(flow).copied().unwrap_or(0.0)
    }
}

/// As given.
pub(super) fn packets(
    shape: &Shape<'_>,
    _cancelled: &mut impl FnMut() -> bool,
) -> Result<Packets, DecodeError> {
    let counts = (0..shape.flows)
        .map(|flow| shape.packets(flow).unwrap_or(1.0))
        .collect();
    Ok(Packets {
        counts,
        variances: Vec::new(),
        known: true,
    })
}
