//! A burst on its way into a shard.

use crate::flows::{FlowObservation, FlowSlots, Slot};
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
    /// The greatest slot of the flows, where that is known.
    greatest: Option<Slot>,
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
            greatest: None,
        }
    }

    #[inline]
    pub(super) fn with_cells(self, cells: &'b BurstCells) -> Self {
        Self {
            cells: Some(cells),
            ..self
        }
    }

    /// The same, with the greatest slot of its flows found.
    #[inline]
    pub(super) fn with_greatest(self) -> Self {
        // Gathered, not looked for: without a branch a packet.
        let slots = self.flows.iter().map(|flow| flow.slot.0);
        Self {
            greatest: Some(Slot(slots.fold(0, u32::max))),
            ..self
        }
    }

    /// Whether it is known that the flows of all packets have counters among `slots`.
    #[inline]
    pub(super) fn are_all_in(self, slots: &FlowSlots) -> bool {
        self.flows.len() == self.observations.len()
            && self.greatest.is_some_and(|greatest| slots.has(greatest))
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
            greatest,
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
                greatest,
            };
            (observations[0].epoch, run)
        })
    }
}
