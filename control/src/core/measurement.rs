//! Measurement: generations, epochs under assembly, and segments.

use std::collections::VecDeque;

use contract::change::{Change, ChangeError};
use contract::config::FlowSelection;
use contract::handover::{ControlEnd, SealedShard};
use contract::ids::{GenerationId, WorkerIndex};
use measure::shard::{Complete, Shard, ShardLayout};
use measure::time::{Epoch, TickRate};

use super::segments::Segments;
use super::workers::Workers;
use crate::contain::{Part, contain};
use crate::flows::{Directory, FlowSums, SlotTable, Upkeep};
use crate::merge::Assembly;

#[derive(Debug)]
pub(super) struct Measurement {
    /// The newest is last; there are two while the previous one is still being read.
    generations: VecDeque<Generation>,
    assembly: Assembly<Shard>,
    pub segments: Segments,
}

/// Result of taking the workers' sealed shards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    /// The last epoch that closed.
    pub closed: Option<Epoch>,
    /// Whether no panic has left flows half read.
    pub are_flows_whole: bool,
}

impl Measurement {
    pub fn new(rate: TickRate) -> Self {
        Self {
            generations: VecDeque::new(),
            assembly: Assembly::new(),
            segments: Segments::new(rate),
        }
    }

    /// Whether a change is acceptable with this many workers.
    pub fn check(&self, change: &Change, workers: usize) -> Result<(), ChangeError> {
        if let (Some(older), true) = (self.generations.front(), self.is_busy()) {
            return Err(ChangeError::Busy {
                number: older.number,
            });
        }
        let number = change.number;
        if let Some(present) = self.newest().filter(|&present| number <= present) {
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

    /// Applies a checked change.
    pub fn begin(&mut self, change: Change) {
        self.segments.begin(&change);
        let is_measuring = change.ends.iter().map(Option::is_some);
        self.assembly.begin(change.from, is_measuring.collect());
        self.generations.push_back(Generation::new(change));
    }

    /// Whether the previous generation is still being read.
    pub fn is_busy(&self) -> bool {
        self.generations.len() > 1
    }

    /// The newest generation.
    pub fn newest(&self) -> Option<GenerationId> {
        self.generations.back().map(|newest| newest.number)
    }

    /// Flow slots of all workers in the newest generation.
    pub fn flow_slots(&self) -> usize {
        self.generations.back().map_or(0, Generation::slots)
    }

    /// Epochs that a worker missed in live generations.
    pub fn missed_epochs(&self, worker: WorkerIndex) -> u64 {
        let generations = self.generations.iter();
        generations.map(|one| one.missed_epochs(worker)).sum()
    }

    /// Takes reports and sealed shards of all workers. A shard whose flows could not be read counts as
    /// missing.
    pub fn take(&mut self, flows: &mut Directory, present: Epoch) -> Taken {
        let mut taken = Taken {
            closed: None,
            are_flows_whole: true,
        };
        let Self {
            generations,
            assembly,
            segments,
        } = self;
        for generation in generations {
            let (number, sums) = (generation.number, &generation.sums);
            let links = (0..).map(WorkerIndex).zip(&mut generation.links);
            for (worker, link) in links {
                while let Some(link) = link {
                    // The shard first: then all reports of flows counted in it have arrived.
                    let mut sealed = link.end.take_sealed();
                    let read = contain(Part::Flows, || {
                        link.take_reports(flows, segments, number, present);
                        let sealed = sealed.as_mut()?;
                        Some(link.read_flows(flows, segments, number, sealed))
                    });
                    taken.are_flows_whole &= read.is_some();
                    if let Some(shard) = read.flatten() {
                        let closed = add(assembly, segments, (worker, number), &shard, sums);
                        taken.closed = taken.closed.max(closed);
                    }
                    let Some(sealed) = sealed else { break };
                    link.end.give_back(sealed, link.table.named());
                }
            }
        }
        taken
    }

    /// Sends commands to the workers' flow tables.
    pub fn command(&mut self) {
        let links = self.generations.iter_mut().flat_map(|one| &mut one.links);
        for Link { end, table } in links.flatten() {
            table.command(end);
        }
    }

    /// Commands the workers to forget the flows that they have, because the directory was emptied; they
    /// report them again with the flows' next packets.
    pub fn forget_flows(&mut self, flows: &mut Directory) {
        for generation in &mut self.generations {
            flows.reserve(generation.slots());
            for link in generation.links.iter_mut().flatten() {
                link.table.start_anew();
            }
        }
    }

    /// Drops generations that every worker has left.
    pub fn retire(&mut self, workers: &mut Workers, flows: &mut Directory) {
        while self.is_busy()
            && let Some(older) = self.generations.pop_front_if(|older| older.is_over())
        {
            workers.retire(&older);
            tracing::debug!(generation = older.number.0, "generation is over");
            self.segments.end(older.number);
            for link in older.links.into_iter().flatten() {
                link.table.end(flows);
            }
            flows.forget_segments(|segment| self.segments.is_known(segment));
        }
    }
}

/// Adds a shard to its epoch; returns the last epoch that closed with it.
fn add(
    assembly: &mut Assembly<Shard>,
    segments: &mut Segments,
    (worker, generation): (WorkerIndex, GenerationId),
    shard: &Complete<'_>,
    sums: &ShardLayout,
) -> Option<Epoch> {
    let epoch = shard.epoch();
    let mut last = None;
    let added = contain(Part::Epoch, || {
        assembly.add((worker, generation), epoch, shard, || Shard::new(sums));
        while let Some(closed) = assembly.next_closed() {
            last = last.max(Some(segments.close(&closed)));
        }
    });
    if added.is_none() && !assembly.spoil(epoch) {
        segments.spoil();
    }
    last
}

/// A generation.
#[derive(Debug)]
pub(super) struct Generation {
    pub number: GenerationId,
    /// Without flow slots, which are read worker by worker.
    sums: ShardLayout,
    /// By worker; `None`, or missing, for a worker that measures nothing.
    links: Vec<Option<Link>>,
}

/// One worker's shards and slots.
#[derive(Debug)]
pub(super) struct Link {
    pub end: ControlEnd,
    table: SlotTable,
}

impl Generation {
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

    /// Whether every worker has left it and everything has been read.
    pub fn is_over(&self) -> bool {
        let mut links = self.links.iter().flatten();
        links.all(|link| link.end.is_over())
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
    /// Adds flows reported by the worker.
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

    /// Adds a shard's counts of flows, and completes it with them.
    pub fn read_flows<'s>(
        &mut self,
        flows: &mut Directory,
        segments: &Segments,
        generation: GenerationId,
        sealed: &'s mut SealedShard,
    ) -> Complete<'s> {
        let commands_before = sealed.commands_before;
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
