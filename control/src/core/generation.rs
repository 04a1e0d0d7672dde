//! A generation of what is measured, as long as its shards are read.

use measure::shard::{Complete, Shard, ShardLayout};
use measure::time::Epoch;

use super::segments::Segments;
use crate::contain::{Part, contain};
use crate::data_plane::{Change, ChangeError};
use crate::flows::{Directory, FlowSums, SlotTable, Upkeep};
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
struct Link {
    end: ControlEnd,
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

    /// Takes all that the workers gave: `take` gets each worker's shard, with what makes a sum
    /// of its kind. `false` after a panic in what concerns flows, which have to begin anew.
    pub fn take(
        &mut self,
        flows: &mut Directory,
        segments: &mut Segments,
        present: Epoch,
        mut take: impl FnMut(&mut Segments, WorkerIndex, &Complete<'_>, &dyn Fn() -> Shard),
    ) -> bool {
        let mut are_flows_whole = true;
        for (worker, link) in (0..).map(WorkerIndex).zip(&mut self.links) {
            let Some(Link { end, table }) = link else {
                continue;
            };
            loop {
                // The shard first: all reports of flows that count in it are there by then.
                let mut sealed = end.take_sealed();
                let taken = sealed.as_mut();
                let done = contain(Part::Flows, || {
                    while let Some(new) = end.next_report() {
                        if let Some(segment) = segments.number_of(self.number, new.segment) {
                            table.report(flows, &new, segment, present);
                        }
                    }
                    taken.map(|sealed| read_flows(table, flows, segments, self.number, sealed))
                });
                are_flows_whole &= done.is_some();
                // One whose flows could not be read is as if it had not come.
                if let Some(complete) = done.flatten() {
                    take(segments, worker, &complete, &|| Shard::new(&self.sums));
                }
                let Some(sealed) = sealed else {
                    break;
                };
                end.give_back(sealed);
            }
        }
        are_flows_whole
    }

    /// Sends commands to the workers' flow tables.
    pub fn tend(&mut self) {
        for Link { end, table } in self.links.iter_mut().flatten() {
            table.tend(end);
        }
    }

    /// The directory of flows begins anew: lets the workers forget all flows.
    pub fn forget_flows(&mut self) {
        for Link { table, .. } in self.links.iter_mut().flatten() {
            table.start_anew();
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

    /// By worker: epochs for which it found no empty shard.
    pub fn missed_epochs(&self) -> impl Iterator<Item = u64> {
        let missed = |link: &Link| link.end.missed_epochs();
        let links = self.links.iter();
        links.map(move |link| link.as_ref().map_or(0, missed))
    }
}

/// Adds what a shard counted of flows, and completes it with them.
fn read_flows<'s>(
    table: &mut SlotTable,
    flows: &mut Directory,
    segments: &Segments,
    generation: GenerationId,
    sealed: &'s mut SealedShard,
) -> Complete<'s> {
    let commands_before = sealed.commands_before();
    if let Some(slots) = sealed.flows() {
        for (index, segment) in sealed.numbered_segments() {
            let tally = &segment.tally;
            let sums = FlowSums::of_segment(&segment.moments, tally.received_bytes, tally.dropped);
            if sums != FlowSums::default()
                && let Some(number) = segments.number_of(generation, index)
            {
                flows.add_segment(number, &sums);
            }
        }
        table.read(flows, sealed.epoch(), slots);
    }
    let complete = sealed.complete(table.flows());
    table.settle(flows, commands_before);
    complete
}

fn upkeep(change: &Change) -> Upkeep {
    let measurement = &change.config.measurement;
    let Some(flows) = &measurement.flows else {
        return Upkeep {
            idle_epochs: u64::MAX,
            keeps_top: false,
        };
    };
    let idle_ms = u64::from(flows.idle_s) * 1_000;
    Upkeep {
        idle_epochs: idle_ms.div_ceil(u64::from(measurement.interval_ms.max(1))),
        keeps_top: flows.select == FlowSelection::Top,
    }
}
