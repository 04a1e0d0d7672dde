//! All changes while packets flow take the same way: the control side prepares a generation (allocated,
//! touched, filled), a worker switches to it at a rollover by moving pointers, and the old parts return in
//! the same box, to be freed by the control side.

use std::fmt;

use contract::config::Config;
use contract::ids::{GenerationId, PortIndex};
use measure::time::Epoch;
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::decide::Decide;
use crate::egress::Lane;
use crate::meter::Plan;
use crate::packet_io::{PacketIo, PortHandles};
use crate::wire::WireChange;

/// A change of measuring.
#[derive(Debug, Default)]
pub enum Measuring {
    /// No change.
    #[default]
    Unchanged,
    /// Another plan, or none to switch measuring off.
    Changed(Option<Box<Plan>>),
}

/// Changes of one worker from an epoch on. Absent parts stay as they are.
pub struct Generation<I: PacketIo> {
    /// Its number, from 1; the initial configuration is generation 0.
    pub number: GenerationId,
    /// The worker switches to it at the rollover to this epoch, or to the first later one that it sees.
    pub from: Epoch,
    /// Ports to return, each with [room](PortHandles::room) that the worker fills.
    pub gone: Vec<I::Handles>,
    /// Ports to take over after that; the worker empties them.
    pub come: Vec<I::Handles>,
    /// Forwarding and classes.
    pub decide: Option<Box<Decide>>,
    /// Lanes by port; packets queued in an old lane move to the new one. A lane past the last port is a new
    /// port.
    pub lanes: Vec<(usize, Lane<I::Packet>)>,
    /// Measuring.
    pub measuring: Measuring,
    /// Wires by port: another wire, or none.
    pub wires: Vec<WireChange<I::Packet>>,
}

impl<I: PacketIo> Generation<I> {
    /// A generation that changes nothing.
    pub fn unchanged(number: GenerationId) -> Self {
        Self {
            number,
            from: Epoch(0),
            gone: Vec::new(),
            come: Vec::new(),
            decide: None,
            lanes: Vec::new(),
            measuring: Measuring::Unchanged,
            wires: Vec::new(),
        }
    }

    /// A generation that only returns the ports `gone` of `config`.
    pub fn giving_back(number: GenerationId, config: &Config, gone: &[PortIndex]) -> Self {
        Self {
            gone: Self::room(config, gone),
            ..Self::unchanged(number)
        }
    }

    /// Room for the ports `gone` of `config`.
    pub fn room(config: &Config, gone: &[PortIndex]) -> Vec<I::Handles> {
        let room =
            |&port: &PortIndex| I::Handles::room(port, config.rx_queues(port.index()).into());
        gone.iter().map(room).collect()
    }
}

impl<I: PacketIo> fmt::Debug for Generation<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation")
            .field("number", &self.number)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// The worker's end: receives generations, and returns old ones.
#[derive(Debug)]
pub struct WorkerGenerations<I: PacketIo> {
    coming: Consumer<Box<Generation<I>>>,
    gone: Producer<Box<Generation<I>>>,
}

/// The control side's end.
#[derive(Debug)]
pub struct Generations<I: PacketIo> {
    coming: Producer<Box<Generation<I>>>,
    gone: Consumer<Box<Generation<I>>>,
}

/// Makes both ends. One generation is in transit at a time.
pub fn generations<I: PacketIo>() -> (Generations<I>, WorkerGenerations<I>) {
    let (coming, worker_coming) = RingBuffer::new(1);
    let (worker_gone, gone) = RingBuffer::new(1);
    let worker = WorkerGenerations {
        coming: worker_coming,
        gone: worker_gone,
    };
    (Generations { coming, gone }, worker)
}

impl<I: PacketIo> Generations<I> {
    /// Sends a generation.
    ///
    /// # Errors
    /// The generation itself, while another is waiting.
    pub fn send(&mut self, generation: Box<Generation<I>>) -> Result<(), Box<Generation<I>>> {
        (self.coming.push(generation)).map_err(|PushError::Full(generation)| generation)
    }

    /// The old parts of a generation that is in effect, to be freed.
    pub fn take_gone(&mut self) -> Option<Box<Generation<I>>> {
        self.gone.pop().ok()
    }
}

/// The control side's ends to all workers, which switch to one generation at a time.
#[derive(Debug)]
pub struct WorkerEnds<I: PacketIo> {
    ends: Vec<Generations<I>>,
    /// Number of workers that have returned the old parts of the current generation.
    returned: Option<usize>,
}

impl<I: PacketIo> WorkerEnds<I> {
    /// Ends to workers without a generation in transit.
    pub fn new(ends: Vec<Generations<I>>) -> Self {
        Self {
            ends,
            returned: None,
        }
    }

    /// Number of workers.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Whether some worker has not returned its old parts yet.
    pub fn are_busy(&self) -> bool {
        self.returned.is_some()
    }

    /// Sends each worker its generation.
    ///
    /// # Panics
    /// If another one is in transit.
    pub fn send(&mut self, generations: impl IntoIterator<Item = Generation<I>>) {
        assert!(!self.are_busy(), "one generation is under way at a time");
        for (worker, generation) in self.ends.iter_mut().zip(generations) {
            let sent = worker.send(Box::new(generation));
            assert!(sent.is_ok(), "all generations before have come back");
        }
        self.returned = Some(0);
    }

    /// Frees returned parts, without waiting; returns whether nothing is in transit any more.
    pub fn collect(&mut self) -> bool {
        if let Some(returned) = &mut self.returned {
            let back = self.ends.iter_mut().filter_map(Generations::take_gone);
            *returned += back.count();
            if *returned == self.ends.len() {
                self.returned = None;
            }
        }
        !self.are_busy()
    }
}

impl<I: PacketIo> WorkerGenerations<I> {
    /// The next generation, if `epoch` has reached its first epoch.
    #[inline]
    pub fn due(&mut self, epoch: Epoch) -> Option<Box<Generation<I>>> {
        if self.coming.peek().is_ok_and(|next| next.from <= epoch) {
            self.coming.pop().ok()
        } else {
            None
        }
    }

    /// Returns the old parts. The control side sends nothing new before it has them, so there is room.
    pub fn give_back(&mut self, generation: Box<Generation<I>>) {
        // Freed here if the other end is gone, because the switch stops.
        let _ = self.gone.push(generation);
    }
}
