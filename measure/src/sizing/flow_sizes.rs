//! How flows' packets are distributed.

use super::{SizingError, check, positive};

/// Distribution of the packets of a flow in an epoch: P\[flow > x\] = (least / x)^shape from `least` to `most`, where the
/// rest is.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSizes {
    least: f64,
    shape: f64,
    most: f64,
}

impl FlowSizes {
    /// Pareto from `least` packets on, with the given shape (1 to 2 is usual; the smaller, the
    /// heavier the tail), cut at `most`: flows over it count as of it.
    ///
    /// # Errors
    /// [`SizingError::Argument`].
    pub fn pareto(least: f64, shape: f64, most: f64) -> Result<Self, SizingError> {
        positive("the least flow size", least)?;
        positive("the shape of flow sizes", shape)?;
        let is_fine = most >= least && most.is_finite();
        check(
            is_fine,
            "the greatest flow size",
            most,
            "the least at least",
        )?;
        Ok(Self { least, shape, most })
    }

    /// Share of flows of more than `packets` packets: P\[flow > x\].
    pub fn share_over(&self, packets: f64) -> f64 {
        if packets >= self.most {
            return 0.0;
        }
        (self.least / packets.max(self.least)).powf(self.shape)
    }

    /// Packets of a flow in the mean, where those of flows of more than `packets` do not count:
    /// E\[flow; flow <= x\].
    pub fn mean_up_to(&self, packets: f64) -> f64 {
        let &Self { least, shape, most } = self;
        let to = packets.clamp(least, most);
        let power = 1.0 - shape;
        // The integral of x times the density from `least` to `to`.
        let below = if power.abs() < 1e-9 {
            least * (to / least).ln()
        } else {
            shape * least / power * ((to / least).powf(power) - 1.0)
        };
        let at_most = if packets >= most {
            most * (least / most).powf(shape)
        } else {
            0.0
        };
        below + at_most
    }

    /// The size that a `share` of flows (over 0 to 1) attains or exceeds.
    pub fn attained_by(&self, share: f64) -> f64 {
        (self.least * share.powf(-1.0 / self.shape)).min(self.most)
    }
}
