//! Where the worker that owns a wire port and the control core meet: bounded lock-free rings, as in
//! [`crate::handover`], one pair of ends for each wire and each generation of it.
//!
//! ```text
//!  worker                                          control core
//!  take_empty(end)  <------ empty shards ---------  give_back
//!  give_sealed(end) ------- sealed shards ------->  take_sealed
//!  heard            ------- believed frames ----->  next_heard
//!  next_to_send     <------ frames to send -------  send
//!  next_order       <------ sessions -------------  order
//! ```
//!
//! Frames travel in boxes that circulate: nobody allocates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use measure::codec::{Frame, Kind, Sessions};
use measure::sight::End;
use measure::wire::{SealedWire, WireLayout, WireShard};
use rtrb::{Consumer, Producer, RingBuffer};

use super::clock::SharedLine;
use crate::counters::WireCounters;

/// Shards in circulation for each end: one open, and three epochs that wait for what belongs to them.
pub const SHARDS_PER_END: usize = 4;

/// Frames in each direction that wait at most.
pub const FRAMES_MAX: usize = 256;

/// Most bytes of a control frame between worker and control core: the payload of an Ethernet frame.
pub const FRAME_ROOM: usize = 1_500;

/// A control frame: what follows the Ethernet or UDP header, from magic to tag.
#[derive(Debug, Clone)]
pub struct FrameBox {
    /// Its bytes; the first `len` count.
    pub bytes: [u8; FRAME_ROOM],
    /// How many.
    pub len: usize,
    /// When it was received: nanoseconds of TAI.
    pub tai_ns: u64,
    /// The wire's segment whose DSCP it is to be sent with; a direct link has only 0.
    pub segment: u16,
}

impl FrameBox {
    fn empty() -> Box<Self> {
        Box::new(Self {
            bytes: [0; FRAME_ROOM],
            len: 0,
            tai_ns: 0,
            segment: 0,
        })
    }

    /// What it is for; `None` where it is no control frame.
    pub fn kind(&self) -> Option<Kind> {
        Frame::parse(self.frame()).ok().map(|frame| frame.kind())
    }

    /// What counts of it.
    pub fn frame(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// What the control core wants of the worker's part of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A session begins: markers and references are sent and believed under it.
    Begin(Sessions),
    /// There is no session any more: nothing but data and hellos.
    End,
}

/// Shards of one end in circulation.
#[derive(Debug)]
struct WorkerShards {
    sealed: Producer<SealedWire>,
    empty: Consumer<Box<WireShard>>,
}

#[derive(Debug)]
struct ControlShards {
    sealed: Consumer<SealedWire>,
    empty: Producer<Box<WireShard>>,
}

/// The worker's end.
#[derive(Debug)]
pub struct WireWorkerEnd {
    sending: WorkerShards,
    receiving: WorkerShards,
    heard: Producer<Box<FrameBox>>,
    heard_empty: Consumer<Box<FrameBox>>,
    to_send: Consumer<Box<FrameBox>>,
    to_send_empty: Producer<Box<FrameBox>>,
    orders: Consumer<Order>,
    /// The clock.
    pub line: Arc<SharedLine>,
    /// What it counts.
    pub counters: Arc<WireCounters>,
    /// Set by the control core while data must not pass: the port is looped.
    pub is_blocked: Arc<AtomicBool>,
}

/// The control core's end.
#[derive(Debug)]
pub struct WireControlEnd {
    sending: ControlShards,
    receiving: ControlShards,
    heard: Consumer<Box<FrameBox>>,
    heard_empty: Producer<Box<FrameBox>>,
    to_send: Producer<Box<FrameBox>>,
    to_send_empty: Consumer<Box<FrameBox>>,
    orders: Producer<Order>,
    /// What the worker counts.
    pub counters: Arc<WireCounters>,
    /// To be set while data must not pass.
    pub is_blocked: Arc<AtomicBool>,
}

fn shards(layout: &WireLayout, end: End) -> (WorkerShards, ControlShards) {
    let (sealed_in, sealed_out) = RingBuffer::new(SHARDS_PER_END);
    let (mut empty_in, empty_out) = RingBuffer::new(SHARDS_PER_END);
    for _ in 0..SHARDS_PER_END {
        // The ring was made for exactly this many.
        let _ = empty_in.push(Box::new(WireShard::new(layout, end)));
    }
    let worker = WorkerShards {
        sealed: sealed_in,
        empty: empty_out,
    };
    let control = ControlShards {
        sealed: sealed_out,
        empty: empty_in,
    };
    (worker, control)
}

fn frames() -> (Producer<Box<FrameBox>>, Consumer<Box<FrameBox>>) {
    RingBuffer::new(FRAMES_MAX)
}

/// Makes both ends of a wire. All memory is allocated and touched by the calling thread.
pub fn wire_handover(
    layout: &WireLayout,
    line: Arc<SharedLine>,
    counters: Arc<WireCounters>,
) -> (WireWorkerEnd, WireControlEnd) {
    let (sending_worker, sending) = shards(layout, End::Sender);
    let (receiving_worker, receiving) = shards(layout, End::Receiver);
    let (heard_in, heard_out) = frames();
    let (mut heard_empty_in, heard_empty_out) = frames();
    let (to_send_in, to_send_out) = frames();
    let (mut to_send_empty_in, to_send_empty_out) = frames();
    for _ in 0..FRAMES_MAX {
        // The rings were made for exactly this many.
        let _ = heard_empty_in.push(FrameBox::empty());
        let _ = to_send_empty_in.push(FrameBox::empty());
    }
    let (orders_in, orders_out) = RingBuffer::new(8);
    let is_blocked = Arc::new(AtomicBool::new(false));
    let worker = WireWorkerEnd {
        sending: sending_worker,
        receiving: receiving_worker,
        heard: heard_in,
        heard_empty: heard_empty_out,
        to_send: to_send_out,
        to_send_empty: to_send_empty_in,
        orders: orders_out,
        line,
        counters: Arc::clone(&counters),
        is_blocked: Arc::clone(&is_blocked),
    };
    let control = WireControlEnd {
        sending,
        receiving,
        heard: heard_out,
        heard_empty: heard_empty_in,
        to_send: to_send_in,
        to_send_empty: to_send_empty_out,
        orders: orders_in,
        counters,
        is_blocked,
    };
    (worker, control)
}

impl WireWorkerEnd {
    fn shards(&mut self, end: End) -> &mut WorkerShards {
        match end {
            End::Sender => &mut self.sending,
            End::Receiver => &mut self.receiving,
        }
    }

    /// An empty shard for the coming epoch at an end; `None`: that epoch goes unmeasured.
    pub fn take_empty(&mut self, end: End) -> Option<Box<WireShard>> {
        self.shards(end).empty.pop().ok()
    }

    /// Gives a sealed shard away. Cannot fail: the ring holds as many as circulate.
    pub fn give_sealed(&mut self, end: End, sealed: SealedWire) {
        let _ = self.shards(end).sealed.push(sealed);
    }

    /// Passes a believed frame on; `false` when there is no room: it is as good as lost.
    pub fn hear(&mut self, frame: &[u8], tai_ns: u64) -> bool {
        let Some(room) = frame
            .len()
            .checked_sub(1)
            .filter(|_| frame.len() <= FRAME_ROOM)
        else {
            return false;
        };
        let Ok(mut boxed) = self.heard_empty.pop() else {
            return false;
        };
        boxed.len = room + 1;
        boxed.tai_ns = tai_ns;
        for (to, from) in boxed.bytes.iter_mut().zip(frame) {
            *to = *from;
        }
        self.heard.push(boxed).is_ok()
    }

    /// The next frame to be sent, left where it is until [`sent`](Self::sent).
    pub fn to_send(&self) -> Option<&FrameBox> {
        self.to_send.peek().ok().map(Box::as_ref)
    }

    /// The frame that [`to_send`](Self::to_send) gave has gone.
    pub fn sent(&mut self) {
        if let Ok(boxed) = self.to_send.pop() {
            let _ = self.to_send_empty.push(boxed);
        }
    }

    /// What the control core wants next.
    pub fn next_order(&mut self) -> Option<Order> {
        self.orders.pop().ok()
    }
}

impl WireControlEnd {
    fn shards(&mut self, end: End) -> &mut ControlShards {
        match end {
            End::Sender => &mut self.sending,
            End::Receiver => &mut self.receiving,
        }
    }

    /// The next sealed shard of an end, in order of epochs.
    pub fn take_sealed(&mut self, end: End) -> Option<SealedWire> {
        self.shards(end).sealed.pop().ok()
    }

    /// Empties a shard and gives it back to the worker.
    pub fn give_back(&mut self, end: End, mut shard: Box<WireShard>) {
        shard.clear();
        let _ = self.shards(end).empty.push(shard);
    }

    /// Looks at the next frame that was heard, and lets go of it.
    pub fn next_heard<T>(&mut self, look: impl FnOnce(&FrameBox) -> T) -> Option<T> {
        let boxed = self.heard.pop().ok()?;
        let seen = look(&boxed);
        let _ = self.heard_empty.push(boxed);
        Some(seen)
    }

    /// Frames that can be given to the worker at once.
    pub fn room(&self) -> usize {
        self.to_send_empty.slots()
    }

    /// Gives the worker a frame to send, which `write` writes into the room for it, returning how
    /// long it is; `None` from `write` sends nothing. `false` when there is no room.
    pub fn send(
        &mut self,
        segment: u16,
        write: impl FnOnce(&mut [u8; FRAME_ROOM]) -> Option<usize>,
    ) -> bool {
        let Ok(mut boxed) = self.to_send_empty.pop() else {
            return false;
        };
        boxed.segment = segment;
        boxed.len = write(&mut boxed.bytes).unwrap_or(0);
        self.to_send.push(boxed).is_ok()
    }

    /// Orders; `false` when there is no room: again later.
    pub fn order(&mut self, order: Order) -> bool {
        self.orders.push(order).is_ok()
    }

    /// Lets data pass, or not.
    pub fn block(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// Whether the worker has dropped its end.
    pub fn is_over(&self) -> bool {
        self.heard.is_abandoned()
    }
}
