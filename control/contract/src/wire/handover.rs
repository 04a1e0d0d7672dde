//! Where the worker that owns a wire port and the control core meet: bounded lock-free rings, as in
//! [`crate::handover`], one pair of ends for each wire and each generation of it.
//!
//! ```text
//!  worker                                          control core
//!  take_empty(end)  <------ empty shards ---------  give_back
//!  give_sealed(end) ------- sealed shards ------->  take_sealed
//!  heard            ------- accepted frames ----->  next_heard
//!  next_to_send     <------ frames to send -------  send
//!  next_order       <------ sessions -------------  order
//! ```
//!
//! Frames travel in boxes that circulate: nobody allocates.

use std::sync::Arc;

use measure::observation::End;
use wire::exchange::Order;
use wire::frame::{Frame, Kind};
use wire::{FlowOnSegment, SealedWire, WireLayout, WireShard};

use super::clock::SharedLine;
use crate::counters::WireCounters;
use crate::sync::{AtomicBool, Consumer, Ordering, Producer, PushError, RingBuffer, put};

/// Shards in circulation for each end: one open, and three epochs that wait for what belongs to them.
pub const SHARDS_PER_END: usize = 4;

/// Frames in each direction that wait at most.
pub const FRAMES_MAX: usize = if cfg!(feature = "loom") { 2 } else { 256 };

/// Of those that were heard, hellos at most: they belong to no session, so that anybody can have
/// recorded them, and must not take the room of frames that do.
pub const HELLOS_MAX: usize = if cfg!(feature = "loom") { 1 } else { 64 };

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
    /// The wire's segment with whose DSCP it is sent; a direct link has only 0.
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

    /// Holds `frame` from now on, or as much of it as there is room for.
    fn fill(&mut self, frame: &[u8]) {
        self.len = frame.len().min(FRAME_ROOM);
        self.bytes[..self.len].copy_from_slice(&frame[..self.len]);
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
    /// Shards that are on this side.
    taken: usize,
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
    /// Set by the control core while this end's clock is kept: hellos from other times are stale.
    pub is_clock_kept: Arc<AtomicBool>,
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
    is_blocked: Arc<AtomicBool>,
    is_clock_kept: Arc<AtomicBool>,
}

fn shards(layout: &WireLayout, end: End) -> (WorkerShards, ControlShards) {
    let (sealed_in, sealed_out) = RingBuffer::new(SHARDS_PER_END);
    let (mut empty_in, empty_out) = RingBuffer::new(SHARDS_PER_END);
    for _ in 0..SHARDS_PER_END {
        put(&mut empty_in, Box::new(WireShard::new(layout, end)));
    }
    let worker = WorkerShards {
        sealed: sealed_in,
        empty: empty_out,
    };
    let control = ControlShards {
        sealed: sealed_out,
        empty: empty_in,
        taken: 0,
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
        put(&mut heard_empty_in, FrameBox::empty());
        put(&mut to_send_empty_in, FrameBox::empty());
    }
    let (orders_in, orders_out) = RingBuffer::new(8);
    let is_blocked = Arc::new(AtomicBool::new(false));
    let is_clock_kept = Arc::new(AtomicBool::new(false));
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
        is_clock_kept: Arc::clone(&is_clock_kept),
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
        is_clock_kept,
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
        put(&mut self.shards(end).sealed, sealed);
    }

    /// Forwards an accepted frame; `false` when there is no room for one of its kind: it is as good as
    /// lost.
    pub fn hear(&mut self, frame: &[u8], kind: Kind, tai_ns: u64) -> bool {
        let kept_free = match kind {
            Kind::Hello => FRAMES_MAX - HELLOS_MAX,
            _ => 0,
        };
        let fits = (1..=FRAME_ROOM).contains(&frame.len());
        if !fits || self.heard_empty.slots() <= kept_free {
            return false;
        }
        let Ok(mut boxed) = self.heard_empty.pop() else {
            return false;
        };
        boxed.tai_ns = tai_ns;
        boxed.fill(frame);
        self.heard.push(boxed).is_ok()
    }

    /// The next frame to be sent, left where it is until [`sent`](Self::sent).
    pub fn to_send(&self) -> Option<&FrameBox> {
        self.to_send.peek().ok().map(Box::as_ref)
    }

    /// The frame that [`to_send`](Self::to_send) gave has gone.
    pub fn sent(&mut self) {
        if let Ok(boxed) = self.to_send.pop() {
            put(&mut self.to_send_empty, boxed);
        }
    }

    /// What the control core wants next.
    pub fn next_order(&mut self) -> Option<Order> {
        self.orders.pop().ok()
    }
}

/// A box on its way to a ring: it gets there, also when what is done with it before panics.
struct Going<'r> {
    boxed: Option<Box<FrameBox>>,
    ring: &'r mut Producer<Box<FrameBox>>,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        if let Some(boxed) = self.boxed.take() {
            // The rings have room for all boxes.
            let _ = self.ring.push(boxed);
        }
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
        let shards = self.shards(end);
        let sealed = shards.sealed.pop().ok()?;
        shards.taken += 1;
        Some(sealed)
    }

    /// Empties a shard and gives it back to the worker, which keeps the distributions of these flows' delays in it.
    pub fn give_back(&mut self, end: End, mut shard: Box<WireShard>, named: &[FlowOnSegment]) {
        shard.clear();
        shard.flows.name(named);
        let shards = self.shards(end);
        shards.taken = shards.taken.saturating_sub(1);
        // One that was replaced in the meantime finds no room, and is freed.
        let _ = shards.empty.push(shard);
    }

    /// Gives the worker new shards for all that were taken and not given back: they are lost, with
    /// what took them. Returns how many these are.
    pub fn replace_taken(&mut self, end: End, layout: &WireLayout) -> u64 {
        let shards = self.shards(end);
        let taken = std::mem::take(&mut shards.taken);
        for _ in 0..taken {
            put(&mut shards.empty, Box::new(WireShard::new(layout, end)));
        }
        taken as u64
    }

    /// Looks at the next frame that was heard, and lets go of it.
    pub fn next_heard<T>(&mut self, look: impl FnOnce(&FrameBox) -> T) -> Option<T> {
        let boxed = self.heard.pop().ok()?;
        let going = Going {
            boxed: Some(boxed),
            ring: &mut self.heard_empty,
        };
        going.boxed.as_deref().map(look)
    }

    /// Frames that can be given to the worker at once.
    pub fn room(&self) -> usize {
        self.to_send_empty.slots()
    }

    /// Gives the worker a frame to send, of [`FRAME_ROOM`] bytes at most; `false` when there is no room.
    pub fn send(&mut self, segment: u16, frame: &[u8]) -> bool {
        let Ok(mut boxed) = self.to_send_empty.pop() else {
            return false;
        };
        boxed.segment = segment;
        boxed.fill(frame);
        put(&mut self.to_send, boxed);
        true
    }

    /// Orders; `Err` gives it back when there is no room: again later.
    ///
    /// # Errors
    /// The order.
    #[expect(clippy::result_large_err, reason = "it is the order, which moves back")]
    pub fn order(&mut self, order: Order) -> Result<(), Order> {
        self.orders
            .push(order)
            .map_err(|PushError::Full(order)| order)
    }

    /// Lets data pass, or not.
    pub fn block(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// Says whether this end's clock is kept.
    pub fn keep_clock(&self, is_kept: bool) {
        self.is_clock_kept.store(is_kept, Ordering::Relaxed);
    }

    /// Whether the worker has dropped its end.
    pub fn is_over(&self) -> bool {
        self.heard.is_abandoned()
    }
}
