//! How flows' packets are distributed.

use super::{SizingError, check, positive};

/// Distribution of the packets of a flow in an epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSizes(Kind);

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// P\[flow > x\] = (least / x)^shape from `least` to `most`, where the rest is.
    Pareto { least: f64, shape: f64, most: f64 },
    /// Sizes in rising order, and the sums of the first 0, 1, 2, ..
    Observed { sizes: Vec<u64>, sums: Vec<f64> },
}

impl FlowSizes {
    /// Pareto from `least` packets on, with the given shape (1 to 2 is usual; the smaller, the
    /// heavier the tail), cut at `most`: flows over it count as of it.
    ///
    /// # Errors
    /// [`SizingError::OutOfRange`].
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
        Ok(Self(Kind::Pareto { least, shape, most }))
    }

    /// As observed: the packets of each flow of some epoch.
    ///
    /// # Errors
    /// [`SizingError::OutOfRange`] without flows.
    pub fn observed(mut sizes: Vec<u64>) -> Result<Self, SizingError> {
        check(
            !sizes.is_empty(),
            "the number of flows observed",
            0.0,
            "1 at least",
        )?;
        sizes.sort_unstable();
        let mut sums = vec![0.0];
        let mut sum = 0.0;
        for &size in &sizes {
            sum += size as f64;
            sums.push(sum);
        }
        Ok(Self(Kind::Observed { sizes, sums }))
    }

    /// Share of flows of more than `packets` packets: P\[flow > x\].
    pub fn share_over(&self, packets: f64) -> f64 {
        match &self.0 {
            &Kind::Pareto { most, .. } if packets >= most => 0.0,
            &Kind::Pareto { least, shape, .. } => (least / packets.max(least)).powf(shape),
            Kind::Observed { sizes, .. } => {
                let up_to = sizes.partition_point(|&size| size as f64 <= packets);
                (sizes.len() - up_to) as f64 / sizes.len() as f64
            }
        }
    }

    /// Packets of a flow in the mean, where those of flows of more than `packets` do not count:
    /// E\[flow; flow <= x\].
    pub fn mean_up_to(&self, packets: f64) -> f64 {
        match &self.0 {
            &Kind::Pareto { least, shape, most } => {
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
            Kind::Observed { sizes, sums } => {
                let up_to = sizes.partition_point(|&size| size as f64 <= packets);
                sums[up_to] / sizes.len() as f64
            }
        }
    }

    /// The size that a `share` of flows (over 0 to 1) attains or exceeds.
    pub fn attained_by(&self, share: f64) -> f64 {
        match &self.0 {
            &Kind::Pareto { least, shape, most } => (least * share.powf(-1.0 / shape)).min(most),
            Kind::Observed { sizes, .. } => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a share of a count; casts saturate"
                )]
                let above = (share * sizes.len() as f64) as usize;
                let index = sizes.len().saturating_sub(above.max(1));
                sizes.get(index).map_or(0.0, |&size| size as f64)
            }
        }
    }
}
