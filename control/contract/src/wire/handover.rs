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
//! Frames travel in boxes that circulate, so nothing is allocated.

use std::sync::Arc;

use measure::observation::End;
use wire::exchange::Order;
use wire::frame::{Frame, Kind};
use wire::{FlowOnSegment, SealedWire, WireLayout, WireShard};

use super::clock::SharedLine;
use crate::counters::WireCounters;
use crate::sync::{
    AtomicBool, Consumer, Emptier, Filler, Ordering, Producer, PushError, RingBuffer, circulate,
    put,
};

/// Shards in circulation for each end: one open, and three epochs that wait for further data.
pub const SHARDS_PER_END: usize = 4;

/// Most frames queued in each direction.
pub const FRAMES_MAX: usize = if cfg!(feature = "loom") { 2 } else { 256 };

/// Most received hellos queued. Hellos belong to no session, so an attacker could replay recorded ones;
/// they must not take the room of other frames.
pub const HELLOS_MAX: usize = if cfg!(feature = "loom") { 1 } else { 64 };

/// Most bytes of a control frame between worker and control core: the payload of an Ethernet frame.
pub const FRAME_ROOM: usize = 1_500;

/// A control frame: the bytes after the Ethernet or UDP header, from magic to tag.
#[derive(Debug, Clone)]
pub struct FrameBox {
    /// Its bytes; the first `len` are valid.
    pub bytes: [u8; FRAME_ROOM],
    /// Number of valid bytes.
    pub len: usize,
    /// When it was received: nanoseconds of TAI.
    pub tai_ns: u64,
    /// The segment of the wire whose DSCP it is sent with; always 0 on a direct link.
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

    /// Stores `frame`, or as much of it as fits.
    fn fill(&mut self, frame: &[u8]) {
        self.len = frame.len().min(FRAME_ROOM);
        self.bytes[..self.len].copy_from_slice(&frame[..self.len]);
    }

    /// Its kind; `None` if it is not a control frame.
    pub fn kind(&self) -> Option<Kind> {
        Frame::parse(self.frame()).ok().map(|frame| frame.kind())
    }

    /// The valid bytes.
    pub fn frame(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Shards of one end in circulation.
type WorkerShards = Filler<SealedWire, Box<WireShard>>;
type ControlShards = Emptier<SealedWire, Box<WireShard>>;

/// The worker's end.
#[derive(Debug)]
pub struct WireWorkerEnd {
    /// By end of the wire ([`End`]).
    shards: [WorkerShards; 2],
    heard: Filler<Box<FrameBox>, Box<FrameBox>>,
    to_send: Emptier<Box<FrameBox>, Box<FrameBox>>,
    orders: Consumer<Order>,
    /// The clock.
    pub line: Arc<SharedLine>,
    /// The worker's counters.
    pub counters: Arc<WireCounters>,
    /// Set by the control core while data must not pass, because the port is looped.
    pub is_blocked: Arc<AtomicBool>,
    /// Set by the control core while this end's clock is synchronised; hellos from other times are then
    /// stale.
    pub is_clock_kept: Arc<AtomicBool>,
}

/// The control core's end.
#[derive(Debug)]
pub struct WireControlEnd {
    /// By end of the wire ([`End`]).
    shards: [ControlShards; 2],
    /// Shards on this side, by end.
    taken: [usize; 2],
    heard: Emptier<Box<FrameBox>, Box<FrameBox>>,
    to_send: Filler<Box<FrameBox>, Box<FrameBox>>,
    orders: Producer<Order>,
    /// The worker's counters.
    pub counters: Arc<WireCounters>,
    is_blocked: Arc<AtomicBool>,
    is_clock_kept: Arc<AtomicBool>,
}

/// Makes both ends of a wire. All memory is allocated and touched by the calling thread.
pub fn wire_handover(
    layout: &WireLayout,
    line: Arc<SharedLine>,
    counters: Arc<WireCounters>,
) -> (WireWorkerEnd, WireControlEnd) {
    let shards = |end| circulate(SHARDS_PER_END, || Box::new(WireShard::new(layout, end)));
    let (sending_worker, sending) = shards(End::Sender);
    let (receiving_worker, receiving) = shards(End::Receiver);
    let (heard_worker, heard) = circulate(FRAMES_MAX, FrameBox::empty);
    let (to_send, to_send_worker) = circulate(FRAMES_MAX, FrameBox::empty);
    let (orders_in, orders_out) = RingBuffer::new(8);
    let is_blocked = Arc::new(AtomicBool::new(false));
    let is_clock_kept = Arc::new(AtomicBool::new(false));
    let worker = WireWorkerEnd {
        shards: [sending_worker, receiving_worker],
        heard: heard_worker,
        to_send: to_send_worker,
        orders: orders_out,
        line,
        counters: Arc::clone(&counters),
        is_blocked: Arc::clone(&is_blocked),
        is_clock_kept: Arc::clone(&is_clock_kept),
    };
    let control = WireControlEnd {
        shards: [sending, receiving],
        taken: [0; 2],
        heard,
        to_send,
        orders: orders_in,
        counters,
        is_blocked,
        is_clock_kept,
    };
    (worker, control)
}

impl WireWorkerEnd {
    /// Takes an empty shard for the coming epoch at an end; `None` if there is none, and the epoch is not
    /// measured.
    pub fn take_empty(&mut self, end: End) -> Option<Box<WireShard>> {
        self.shards[end as usize].empty.pop().ok()
    }

    /// Returns a sealed shard to the control core. Cannot fail: the ring holds as many as circulate.
    pub fn give_sealed(&mut self, end: End, sealed: SealedWire) {
        put(&mut self.shards[end as usize].full, sealed);
    }

    /// Forwards an accepted frame; returns `false`, and drops it, if there is no room for one of its kind.
    pub fn hear(&mut self, frame: &[u8], kind: Kind, tai_ns: u64) -> bool {
        let kept_free = match kind {
            Kind::Hello => FRAMES_MAX - HELLOS_MAX,
            _ => 0,
        };
        let fits = (1..=FRAME_ROOM).contains(&frame.len());
        if !fits || self.heard.empty.slots() <= kept_free {
            return false;
        }
        let Ok(mut boxed) = self.heard.empty.pop() else {
            return false;
        };
        boxed.tai_ns = tai_ns;
        boxed.fill(frame);
        self.heard.full.push(boxed).is_ok()
    }

    /// The next frame to send, which stays queued until [`sent`](Self::sent).
    pub fn to_send(&self) -> Option<&FrameBox> {
        self.to_send.full.peek().ok().map(Box::as_ref)
    }

    /// Removes the frame that [`to_send`](Self::to_send) returned.
    pub fn sent(&mut self) {
        if let Ok(boxed) = self.to_send.full.pop() {
            put(&mut self.to_send.empty, boxed);
        }
    }

    /// The next order from the control core.
    pub fn next_order(&mut self) -> Option<Order> {
        self.orders.pop().ok()
    }
}

impl WireControlEnd {
    /// The next sealed shard of an end, in order of epochs.
    pub fn take_sealed(&mut self, end: End) -> Option<SealedWire> {
        let sealed = self.shards[end as usize].full.pop().ok()?;
        self.taken[end as usize] += 1;
        Some(sealed)
    }

    /// Empties a shard and returns it to the worker, which records the distributions of these flows' delays in it.
    pub fn give_back(&mut self, end: End, mut shard: Box<WireShard>, named: &[FlowOnSegment]) {
        shard.clear();
        shard.flows.name(named);
        let taken = &mut self.taken[end as usize];
        *taken = taken.saturating_sub(1);
        // A shard that was replaced in the meantime finds no room, and is freed.
        let _ = self.shards[end as usize].empty.push(shard);
    }

    /// Gives the worker new shards for all that were taken and not returned, which were lost with their
    /// holder. Returns their number.
    pub fn replace_taken(&mut self, end: End, layout: &WireLayout) -> u64 {
        let taken = std::mem::take(&mut self.taken[end as usize]);
        let empty = &mut self.shards[end as usize].empty;
        for _ in 0..taken {
            put(empty, Box::new(WireShard::new(layout, end)));
        }
        taken as u64
    }

    /// The next received frame: a copy, so that its box returns in any case.
    pub fn next_heard(&mut self) -> Option<FrameBox> {
        let boxed = self.heard.full.pop().ok()?;
        let heard = FrameBox::clone(&boxed);
        put(&mut self.heard.empty, boxed);
        Some(heard)
    }

    /// Number of frames that can be queued for the worker now.
    pub fn room(&self) -> usize {
        self.to_send.empty.slots()
    }

    /// Queues a frame for the worker to send, at most [`FRAME_ROOM`] bytes; returns `false` if there is no
    /// room.
    pub fn send(&mut self, segment: u16, frame: &[u8]) -> bool {
        let Ok(mut boxed) = self.to_send.empty.pop() else {
            return false;
        };
        boxed.segment = segment;
        boxed.fill(frame);
        put(&mut self.to_send.full, boxed);
        true
    }

    /// Sends an order to the worker.
    ///
    /// # Errors
    /// Returns the order if there is no room; try again later.
    #[expect(clippy::result_large_err, reason = "it is the order, which moves back")]
    pub fn order(&mut self, order: Order) -> Result<(), Order> {
        self.orders
            .push(order)
            .map_err(|PushError::Full(order)| order)
    }

    /// Blocks data, or lets it pass.
    pub fn block(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// Sets whether this end's clock is synchronised.
    pub fn keep_clock(&self, is_kept: bool) {
        self.is_clock_kept.store(is_kept, Ordering::Relaxed);
    }

    /// Whether the worker has dropped its end.
    pub fn is_over(&self) -> bool {
        self.heard.full.is_abandoned()
    }
}
