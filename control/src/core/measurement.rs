//! What is measured: generations, the epochs under assembly, and segments.

use std::collections::VecDeque;

use measure::shard::{Complete, Shard, ShardLayout};
use measure::time::{Epoch, TickRate};

use super::generation::Generation;
use super::segments::Segments;
use super::workers::Workers;
use crate::contain::{Part, contain};
use crate::flows::Directory;
use crate::merge::Assembly;
use contract::change::{Change, ChangeError};
use contract::ids::{GenerationId, WorkerIndex};

#[derive(Debug)]
pub(super) struct Measurement {
    /// The newest is the last; there are two while the one before is still being read.
    generations: VecDeque<Generation>,
    assembly: Assembly<Shard>,
    pub segments: Segments,
}

/// What came of all that the workers sealed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    /// The last epoch that closed.
    pub closed: Option<Epoch>,
    /// No panic has left flows half read.
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

    /// Whether a change can be taken, with so many workers.
    pub fn check(&self, change: &Change, workers: usize) -> Result<(), ChangeError> {
        if let (Some(older), true) = (self.generations.front(), self.is_busy()) {
            return Err(ChangeError::Busy {
                number: older.number,
            });
        }
        Generation::check(change, self.newest(), workers)
    }

    /// Takes a change that was checked.
    pub fn begin(&mut self, change: Change) {
        self.segments.begin(&change);
        let is_measuring = change.ends.iter().map(Option::is_some);
        self.assembly.begin(change.from, is_measuring.collect());
        self.generations.push_back(Generation::new(change));
    }

    /// Whether the generation before the newest is still being read.
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

    /// Epochs that a worker missed in generations that are alive.
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
            let (number, sums, links) = generation.parts();
            for (worker, link) in links {
                loop {
                    // The shard first: all reports of flows that count in it are there by then.
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
                    link.give_back(sealed);
                }
            }
        }
        taken
    }

    /// Sends commands to the workers' flow tables.
    pub fn command(&mut self) {
        self.generations.iter_mut().for_each(Generation::command);
    }

    /// The directory was emptied: workers are to forget the flows that they have, and report them with
    /// their next packets.
    pub fn forget_flows(&mut self, flows: &mut Directory) {
        for generation in &mut self.generations {
            flows.reserve(generation.slots());
            generation.forget_flows();
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
            older.end(flows);
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
