//! A generation of what is measured, as long as its shards are read.

use measure::shard::{Complete, ShardLayout};
use measure::time::Epoch;

use super::segments::Segments;
use crate::flows::{Directory, FlowSums, SlotTable, Upkeep};
use contract::change::{Change, ChangeError};
use contract::config::FlowSelection;
use contract::handover::{ControlEnd, SealedShard};
use contract::ids::{GenerationId, WorkerIndex};

/// A generation.
#[derive(Debug)]
pub(super) struct Generation {
    pub number: GenerationId,
    /// Without flow slots, which are read worker by worker.
    sums: ShardLayout,
    /// By worker; `None`, or nothing, for one that measures nothing.
    links: Vec<Option<Link>>,
}

/// One worker's shards and slots.
#[derive(Debug)]
pub(super) struct Link {
    pub end: ControlEnd,
    table: SlotTable,
}

impl Generation {
    /// Whether a change can follow generation `present`, with so many workers.
    pub fn check(
        change: &Change,
        present: Option<GenerationId>,
        workers: usize,
    ) -> Result<(), ChangeError> {
        let number = change.number;
        if let Some(present) = present.filter(|&present| number <= present) {
            return Err(ChangeError::Stale { number, present });
        }
        let ends = change.ends.len();
        if ends > workers {
            return Err(ChangeError::Ends { ends, workers });
        }
        let configured = change.config.segments().len();
        let laid_out = change.layout.segments();
        if configured != laid_out {
            return Err(ChangeError::Segments {
                configured,
                laid_out,
            });
        }
        Ok(())
    }

    pub fn new(change: Change) -> Self {
        let slots = change.layout.flow_slots;
        let upkeep = upkeep(&change);
        let link = |end: Option<ControlEnd>| {
            end.map(|end| Link {
                end,
                table: SlotTable::new(slots, upkeep),
            })
        };
        Self {
            number: change.number,
            sums: change.layout.without_flows(),
            links: change.ends.into_iter().map(link).collect(),
        }
    }

    /// Its number, the layout of its sums, and every worker that measures, by index.
    pub fn parts(
        &mut self,
    ) -> (
        GenerationId,
        &ShardLayout,
        impl Iterator<Item = (WorkerIndex, &mut Link)>,
    ) {
        let links = (0..).map(WorkerIndex).zip(&mut self.links);
        let links = links.filter_map(|(worker, link)| Some((worker, link.as_mut()?)));
        (self.number, &self.sums, links)
    }

    /// Sends commands to the workers' flow tables.
    pub fn command(&mut self) {
        for Link { end, table } in self.links.iter_mut().flatten() {
            table.command(end);
        }
    }

    /// The directory of flows begins anew: lets the workers forget all flows.
    pub fn forget_flows(&mut self) {
        for link in self.links.iter_mut().flatten() {
            link.table.start_anew();
        }
    }

    /// Whether every worker has left it and all is read.
    pub fn is_over(&self) -> bool {
        let mut links = self.links.iter().flatten();
        links.all(|link| link.end.is_over())
    }

    /// Forgets its slots.
    pub fn end(self, flows: &mut Directory) {
        for link in self.links.into_iter().flatten() {
            link.table.end(flows);
        }
    }

    /// Flow slots of all workers.
    pub fn slots(&self) -> usize {
        let links = self.links.iter().flatten();
        links.map(|link| link.table.slots()).sum()
    }

    /// Epochs for which a worker found no empty shard.
    pub fn missed_epochs(&self, worker: WorkerIndex) -> u64 {
        let link = self.links.get(worker.index()).and_then(Option::as_ref);
        link.map_or(0, |link| link.end.missed_epochs())
    }
}

impl Link {
    /// Enters flows that the worker has reported.
    pub fn take_reports(
        &mut self,
        flows: &mut Directory,
        segments: &Segments,
        generation: GenerationId,
        present: Epoch,
    ) {
        while let Some(new) = self.end.next_report() {
            if let Some(segment) = segments.number_of(generation, new.segment) {
                self.table.report(flows, &new, segment, present);
            }
        }
    }

    /// Gives a shard back, in which flows with series of their own have histograms.
    pub fn give_back(&mut self, sealed: SealedShard) {
        self.end.give_back(sealed, self.table.named());
    }

    /// Adds what a shard counted of flows, and completes it with them.
    pub fn read_flows<'s>(
        &mut self,
        flows: &mut Directory,
        segments: &Segments,
        generation: GenerationId,
        sealed: &'s mut SealedShard,
    ) -> Complete<'s> {
        let commands_before = sealed.commands_before();
        if let Some(slots) = sealed.flows() {
            for (index, segment) in sealed.numbered_segments() {
                let tally = &segment.tally;
                let sums =
                    FlowSums::of_segment(&segment.moments, tally.received_bytes, tally.dropped);
                if sums != FlowSums::default()
                    && let Some(number) = segments.number_of(generation, index)
                {
                    flows.add_segment(number, &sums);
                }
            }
            self.table.read(flows, sealed.epoch(), slots);
        }
        let complete = sealed.complete(self.table.flows());
        self.table.settle(flows, commands_before);
        complete
    }
}

fn upkeep(change: &Change) -> Upkeep {
    let measurement = &change.config.measurement;
    let flows = measurement.flows.as_ref();
    Upkeep {
        idle_epochs: measurement.idle_epochs(),
        keeps_top: flows.is_some_and(|flows| flows.select == FlowSelection::Top),
    }
}
