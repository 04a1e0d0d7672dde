//! A burst on its way into a shard.

use crate::flows::FlowObservation;
use crate::lds::BurstCells;
use crate::observation::Observations;
use crate::time::EpochTag;

/// Packets that are about to leave, with their flows and with the cells that the cache was asked for:
/// what belongs together from [`prepare`](super::Shard::prepare) to [`passed`](super::Shard::passed).
#[derive(Debug, Clone, Copy)]
pub struct Prepared<'b> {
    observations: Observations<'b>,
    flows: &'b [FlowObservation],
    cells: Option<&'b BurstCells>,
    are_tracked: bool,
}

impl<'b> Prepared<'b> {
    /// A burst whose cells are found as it is recorded. `flows` are the same packets with their flows'
    /// slots; empty where no flows are tracked.
    #[inline]
    pub fn without_cells(
        observations: impl Into<Observations<'b>>,
        flows: &'b [FlowObservation],
    ) -> Self {
        let observations = observations.into();
        debug_assert!(
            flows.is_empty() || flows.len() == observations.len(),
            "flows of another burst"
        );
        Self {
            observations,
            flows,
            cells: None,
            are_tracked: false,
        }
    }

    #[inline]
    pub(super) fn with_cells(self, cells: &'b BurstCells) -> Self {
        Self {
            cells: Some(cells),
            ..self
        }
    }

    /// With nothing for sketches: the slot of each packet's flow counts for them.
    #[inline]
    pub(super) fn tracked(self) -> Self {
        Self {
            are_tracked: true,
            ..self
        }
    }

    #[inline]
    pub(super) fn are_tracked(self) -> bool {
        self.are_tracked
    }

    /// The packets, as they leave.
    #[inline]
    pub fn observations(self) -> Observations<'b> {
        self.observations
    }

    /// Their flows; empty where no flows are tracked.
    #[inline]
    pub fn flows(self) -> &'b [FlowObservation] {
        self.flows
    }

    #[inline]
    pub(super) fn cells(self) -> Option<&'b BurstCells> {
        self.cells
    }

    /// The first so many packets: those that the driver took.
    #[must_use]
    #[inline]
    pub fn first(self, packets: usize) -> Self {
        Self {
            observations: self.observations.cut(packets).0,
            flows: &self.flows[..packets.min(self.flows.len())],
            ..self
        }
    }

    /// Runs of packets of one epoch, each with its epoch; none is empty.
    #[inline]
    pub fn by_epoch(self) -> impl Iterator<Item = (EpochTag, Self)> {
        let Self {
            observations,
            mut flows,
            mut cells,
            are_tracked,
        } = self;
        let runs = observations.split_by(|a, b| a.epoch == b.epoch);
        runs.map(move |observations| {
            let (these, rest) = flows.split_at(observations.len().min(flows.len()));
            flows = rest;
            let run = Self {
                observations,
                flows: these,
                // They are numbered from the first packet of the burst.
                cells: cells.take(),
                are_tracked,
            };
            (observations[0].epoch, run)
        })
    }
}
