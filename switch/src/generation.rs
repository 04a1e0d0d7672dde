//! Everything that changes while packets flow changes in one way: the control side prepares a
//! generation (allocated, touched, filled), a worker takes it up at an epoch's rollover by moving
//! pointers, and the old parts go back in the same box, to be freed by the control side.

use std::fmt;

use contract::ids::GenerationId;
use measure::time::Epoch;
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::decide::Decide;
use crate::egress::Lane;
use crate::meter::Plan;
use crate::packet_io::PacketIo;
use crate::wire::WireChange;

/// What becomes of measuring.
#[derive(Debug, Default)]
pub enum Measuring {
    /// It stays as it is.
    #[default]
    Unchanged,
    /// Another plan, or none: off.
    Changed(Option<Box<Plan>>),
}

/// What one worker does differently from an epoch on. Parts that are absent stay as they are.
pub struct Generation<I: PacketIo> {
    /// Its number, from 1 on; the configuration at start is generation 0.
    pub number: GenerationId,
    /// It is taken up at the rollover to this epoch, or to the first one after it that the worker
    /// sees.
    pub from: Epoch,
    /// Ports that come and go.
    pub ports: Option<I::Change>,
    /// Forwarding and classes.
    pub decide: Option<Box<Decide>>,
    /// Lanes by port; what waits in an old one moves to the new one. A lane past the last port is
    /// a new port.
    pub lanes: Vec<(usize, Lane<I::Packet>)>,
    /// Measuring.
    pub measuring: Measuring,
    /// Wires by port: another one, or none.
    pub wires: Vec<WireChange<I::Packet>>,
}

impl<I: PacketIo> fmt::Debug for Generation<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation")
            .field("number", &self.number)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// The worker's end: generations to come in, old ones out.
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

/// Both ends. One generation is under way at a time.
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
    /// Sends a generation on its way.
    ///
    /// # Errors
    /// The generation itself while another waits to be taken up.
    pub fn send(&mut self, generation: Box<Generation<I>>) -> Result<(), Box<Generation<I>>> {
        (self.coming.push(generation)).map_err(|PushError::Full(generation)| generation)
    }

    /// The old parts of a generation that was taken up, to be freed.
    pub fn take_gone(&mut self) -> Option<Box<Generation<I>>> {
        self.gone.pop().ok()
    }
}

impl<I: PacketIo> WorkerGenerations<I> {
    /// The next generation, if `epoch` is one that it is meant for.
    #[inline]
    pub fn due(&mut self, epoch: Epoch) -> Option<Box<Generation<I>>> {
        if self.coming.peek().is_ok_and(|next| next.from <= epoch) {
            self.coming.pop().ok()
        } else {
            None
        }
    }

    /// Gives the old parts back. The control side sends nothing new before it has them, so there
    /// is room.
    pub fn give_back(&mut self, generation: Box<Generation<I>>) {
        // Freed here if the other end is gone: the switch stops.
        let _ = self.gone.push(generation);
    }
}
