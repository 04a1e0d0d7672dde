//! The sender's part: sends lists and synopses of sealed epochs as frames, paced, and retransmits on
//! request.

use std::collections::VecDeque;
use std::ops::Range;

use super::{ExchangeCounters, Moment, Outbox, Settings};
use crate::codec::{Element, Shape, SketchShape, fragments};
use crate::frame::{
    HEADER_BYTES, Request, Sealer, Side, Stash, Stashed, Subject, TAG_BYTES, body_room,
};
use crate::{Placed, SealedWire, WireShard};
use measure::cell::Cell;
use measure::observation::End;
use measure::shard::Tally;
use measure::time::Epoch;

/// Epochs kept to answer requests. The other two shards are the one that the worker fills and an empty one
/// for the next rollover.
const KEPT: usize = 2;

/// Frames of the worker's ring reserved for hellos and the like.
const RING_RESERVE: usize = 16;

/// Most that may be sent at once, as time, so that a late poll can catch up.
const BURST_NS: u64 = 20_000_000;

/// Everything still to be sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    held: VecDeque<Held>,
    pieces: VecDeque<Piece>,
    repeated: VecDeque<Piece>,
    /// Bytes that may be sent now; negative after a hello that could not wait.
    allowance: f64,
    bytes_per_s: f64,
    filled_ns: u64,
}

impl Outgoing {
    /// Takes a sealed epoch.
    pub fn take(&mut self, sealed: SealedWire, settings: &Settings, outbox: &mut Outbox) {
        while self.held.len() >= KEPT {
            self.forget(outbox);
        }
        let held = Held::new(sealed);
        if held.is_withheld {
            outbox.counters.withheld_epochs += 1;
        }
        // The lists that show where misplaced packets belong are needed first. They are never requested;
        // instead they are sent twice, some time apart.
        let lists = [What::First, What::Last].into_iter();
        let lists: Vec<Piece> = lists
            .flat_map(|what| held.stash_pieces(what, settings))
            .collect();
        let frames = |what| held.pieces(what, std::iter::once(0..u32::MAX), settings);
        let (sketches, others): (Vec<What>, Vec<What>) =
            (held.synopses().into_iter()).partition(|what| *what == What::Lds);
        self.pieces.extend(lists.iter().cloned());
        self.pieces.extend(others.into_iter().flat_map(frames));
        self.pieces.extend(lists);
        self.pieces.extend(sketches.into_iter().flat_map(frames));
        self.held.push_back(held);
        self.pace(settings, 2);
    }

    /// Answers a request, once for each synopsis. Pieces of it that were never sent are moved to the front of the queue:
    /// sending them twice would keep a sender that is behind from catching up.
    pub fn answer(
        &mut self,
        (epoch, segment): (Epoch, u16),
        request: &Request,
        settings: &Settings,
        counters: &mut ExchangeCounters,
    ) {
        let held = self.held.iter_mut().find(|held| held.epoch == epoch);
        let asked = held.and_then(|held| {
            let what = held.asked(segment, request)?;
            held.answered.push(what);
            let is_asked = |piece: &Piece| piece.epoch == epoch && piece.what == what;
            let (unsent, others): (VecDeque<Piece>, _) = self.pieces.drain(..).partition(is_asked);
            self.pieces = others;
            let sent_to = unsent.front().map_or(u32::MAX, |piece| piece.range.start);
            let ranges = request.ranges().iter();
            let lost = ranges.map(|range| range.start..range.end.min(sent_to));
            let lost = lost.filter(|range| !range.is_empty());
            let mut pieces = held.pieces(what, lost, settings);
            pieces.extend(unsent);
            Some(pieces)
        });
        let Some(pieces) = asked else {
            counters.requests_ignored += 1;
            return;
        };
        counters.requests_answered += 1;
        self.repeated.extend(pieces);
        self.pace(settings, 4);
    }

    /// Spreads queued frames over a part of an epoch, if the link's share allows.
    fn pace(&mut self, settings: &Settings, part: u64) {
        let waiting: usize = self
            .repeated
            .iter()
            .chain(&self.pieces)
            .map(|one| one.bytes)
            .sum();
        let within_s = (settings.epoch_ns / part).max(1) as f64 / 1e9;
        let wanted = (waiting as f64 / within_s).max(self.bytes_per_s);
        self.bytes_per_s = wanted.min(settings.frames.bytes_per_s as f64);
    }

    /// Counts a frame of this size that is sent regardless of the queue.
    pub fn spend(&mut self, bytes: usize) {
        self.allowance -= bytes as f64;
    }

    /// Updates the allowance for elapsed time.
    pub fn refill(&mut self, now: Moment, settings: &Settings) {
        let elapsed_ns = now.monotonic_ns.saturating_sub(self.filled_ns);
        self.filled_ns = now.monotonic_ns;
        let per_s = self.bytes_per_s;
        let most = (per_s * BURST_NS as f64 / 1e9)
            .max((settings.frames.bytes_max + settings.frames.overhead_bytes) as f64);
        let more = per_s * elapsed_ns.min(1_000_000_000) as f64 / 1e9;
        self.allowance = (self.allowance + more).min(most);
    }

    /// Writes the next frame that may be sent now. The worker has room for `room` frames.
    pub fn next(
        &mut self,
        now: Moment,
        room: usize,
        settings: &Settings,
        sealer: &mut Sealer,
        counters: &mut ExchangeCounters,
        buffer: &mut [u8],
    ) -> Option<(u16, usize)> {
        if room <= RING_RESERVE {
            return None;
        }
        loop {
            let queue = if self.repeated.is_empty() {
                &mut self.pieces
            } else {
                &mut self.repeated
            };
            let Some(piece) = queue.front() else {
                self.bytes_per_s = 0.0;
                return None;
            };
            if self.allowance < piece.bytes as f64 {
                return None;
            }
            let piece = queue.pop_front()?;
            if let Some(held) = self.held.iter().find(|held| held.epoch == piece.epoch) {
                self.allowance -= piece.bytes as f64;
                let length = held.seal(&piece, now, settings, sealer, buffer);
                if let Some(length) = length {
                    return Some((piece.segment(), length));
                }
            }
            counters.fragments_unsent += 1;
        }
    }

    /// Returns the oldest epoch; the rest of it is not sent.
    fn forget(&mut self, outbox: &mut Outbox) {
        let Some(held) = self.held.pop_front() else {
            return;
        };
        let before = self.pieces.len() + self.repeated.len();
        self.pieces.retain(|piece| piece.epoch != held.epoch);
        self.repeated.retain(|piece| piece.epoch != held.epoch);
        let dropped = before - self.pieces.len() - self.repeated.len();
        outbox.counters.fragments_unsent += dropped as u64;
        outbox.shards.push_back((End::Sender, held.shard));
    }

    /// Returns everything: there is no peer to send it to.
    pub fn reset(&mut self, outbox: &mut Outbox) {
        while !self.held.is_empty() {
            self.forget(outbox);
        }
        self.pieces.clear();
        self.repeated.clear();
    }
}

/// Contents of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    First,
    Last,
    Tally(u16),
    Lda(u16),
    Lds,
}

/// A frame to send.
#[derive(Debug, Clone)]
struct Piece {
    pub epoch: Epoch,
    pub what: What,
    pub range: Range<u32>,
    pub bytes: usize,
}

/// A kept epoch.
#[derive(Debug)]
struct Held {
    pub epoch: Epoch,
    pub shard: Box<WireShard>,
    first: Vec<Stashed>,
    last: Vec<Stashed>,
    /// Whether its synopses are invalid, and not sent.
    pub is_withheld: bool,
    /// Answered requests.
    pub answered: Vec<What>,
}

impl Piece {
    /// The segment with whose DSCP it is sent.
    pub fn segment(&self) -> u16 {
        match self.what {
            What::Tally(segment) | What::Lda(segment) => segment,
            What::First | What::Last | What::Lds => 0,
        }
    }
}

impl Held {
    /// An epoch that was just sealed.
    pub fn new(SealedWire { epoch, shard }: SealedWire) -> Self {
        Self {
            epoch,
            first: shard.stash.first().iter().map(Placed::stashed).collect(),
            last: shard.stash.last().map(Placed::stashed).collect(),
            is_withheld: shard.marks.is_partial || shard.marks.is_clock_set,
            answered: Vec::new(),
            shard,
        }
    }

    /// The parts of the epoch to send.
    pub fn synopses(&self) -> Vec<What> {
        if self.is_withheld {
            return Vec::new();
        }
        let segments = || (0..).take(self.shard.segments.len());
        segments()
            .map(What::Tally)
            .chain(segments().map(What::Lda))
            .chain(self.shard.lds.as_ref().map(|_| What::Lds))
            .collect()
    }

    fn shape(&self, what: What) -> Option<Shape> {
        let segment = |index: u16| self.shard.segments.get(usize::from(index));
        match what {
            What::First | What::Last => None,
            What::Tally(index) => segment(index).map(|_| Shape::Tally),
            What::Lda(index) => segment(index).map(|one| Shape::Lda(one.lda.layout().clone())),
            What::Lds => {
                let lds = self.shard.lds.as_ref()?;
                Some(Shape::Lds(SketchShape::new(lds.layout())))
            }
        }
    }

    /// The synopsis requested; `None` if there is none, or it was answered before.
    pub fn asked(&self, segment: u16, request: &Request) -> Option<What> {
        self.synopses().into_iter().find(|what| {
            let is_its = match what {
                What::Tally(index) | What::Lda(index) => *index == segment,
                _ => segment == 0,
            };
            let is_it = self
                .shape(*what)
                .is_some_and(|shape| request.is_for(&shape));
            is_its && is_it && !self.answered.contains(what)
        })
    }

    /// Divides ranges of a synopsis into frames.
    pub fn pieces(
        &self,
        what: What,
        ranges: impl Iterator<Item = Range<u32>>,
        settings: &Settings,
    ) -> Vec<Piece> {
        let Some(shape) = self.shape(what) else {
            return Vec::new();
        };
        let frame_bytes = settings.frames.bytes_max;
        let room = body_room(frame_bytes);
        let cut = match what {
            What::Tally(_) => cut::<Tally>(&shape, ranges, room),
            _ => cut::<Cell>(&shape, ranges, room),
        };
        let around = frame_bytes + settings.frames.overhead_bytes;
        let piece = |range: Range<u32>| Piece {
            epoch: self.epoch,
            what,
            // The greatest size; the last frame of a synopsis is smaller.
            bytes: around.min(fragment_bytes(&shape, &range) + settings.frames.overhead_bytes),
            range,
        };
        cut.into_iter().map(piece).collect()
    }

    pub fn stash_pieces(&self, what: What, settings: &Settings) -> Vec<Piece> {
        let (side, list) = self.list(what);
        let parts = Stash::parts(side, list, settings.frames.bytes_max).zip(0..);
        let bytes = settings.frames.bytes_max + settings.frames.overhead_bytes;
        parts
            .map(|(_, part)| Piece {
                epoch: self.epoch,
                what,
                range: part..part + 1,
                bytes,
            })
            .collect()
    }

    fn list(&self, what: What) -> (Side, &[Stashed]) {
        match what {
            What::First => (Side::After, &self.first),
            _ => (Side::Before, &self.last),
        }
    }

    pub fn seal(
        &self,
        piece: &Piece,
        now: Moment,
        settings: &Settings,
        sealer: &mut Sealer,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let mut subject = Subject {
            segment: piece.segment(),
            epoch: self.epoch,
            tai_ns: now.tai_ns.cast_signed(),
        };
        let (shape, ranges) = (self.shape(piece.what), std::iter::once(piece.range.clone()));
        let (room, end) = (body_room(settings.frames.bytes_max), End::Sender);
        let segment = |index: u16| self.shard.segments.get(usize::from(index));
        let written = match piece.what {
            What::First | What::Last => {
                if piece.what == What::Last {
                    // The epoch that begins at this rollover.
                    subject.epoch = Epoch(self.epoch.0.wrapping_add(1));
                }
                let (side, list) = self.list(piece.what);
                let mut parts = Stash::parts(side, list, settings.frames.bytes_max);
                sealer.seal(subject, &parts.nth(piece.range.start as usize)?, buffer)
            }
            What::Tally(index) => {
                let tally = segment(index)?.tally;
                let shape = shape?;
                let mut cut = fragments(&shape, end, ranges, room, |_| tally);
                sealer.seal(subject, &cut.next()?, buffer)
            }
            What::Lda(_) | What::Lds => {
                let cells = match piece.what {
                    What::Lda(index) => segment(index)?.lda.cells(),
                    _ => self.shard.lds.as_ref()?.cells(),
                };
                let cell = |at: u32| cells.get(at as usize).map_or(Cell::default(), |c| c.sender);
                let shape = shape?;
                let mut cut = fragments(&shape, end, ranges, room, cell);
                sealer.seal(subject, &cut.next()?, buffer)
            }
        };
        written.ok()
    }
}

/// The ranges of single frames.
fn cut<E: Element + Default>(
    shape: &Shape,
    ranges: impl Iterator<Item = Range<u32>>,
    room: usize,
) -> Vec<Range<u32>> {
    let cut = fragments(shape, End::Sender, ranges, room, |_| E::default());
    cut.map(|fragment| fragment.range()).collect()
}

/// Approximate bytes of a fragment's frame; its shape is small.
fn fragment_bytes(shape: &Shape, range: &Range<u32>) -> usize {
    let elements = range.end.saturating_sub(range.start) as usize;
    HEADER_BYTES + TAG_BYTES + 256 + elements * shape.element_bytes()
}
