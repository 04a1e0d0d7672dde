//! The sender's part: lists and synopses of sealed epochs as frames, paced, and once more on request.

use std::collections::VecDeque;
use std::ops::Range;

use measure::cell::Cell;
use measure::codec::{
    Element, FragmentError, HEADER_BYTES, Request, SealError, Sealer, Shape, Side, SketchShape,
    Stash, Stashed, Subject, TAG_BYTES, fragments,
};
use measure::shard::Tally;
use measure::sight::End;
use measure::time::Epoch;
use measure::wire::{SealedWire, WireShard};

use super::settings::{Moment, Settings};
use super::status::ExchangeCounters;
use crate::wire::handover::WireControlEnd;

/// Epochs that are kept to answer requests. With the one that the worker fills and an empty one for
/// the next turn that is all there are.
const KEPT: usize = 2;

/// Frames of the worker's ring that are left to hellos and the like.
const RING_RESERVE: usize = 16;

/// What may be sent at once, as time: what a poll that comes late may catch up with.
const BURST_NS: u64 = 20_000_000;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    First,
    Last,
    Tally(u16),
    Lda(u16),
    Lds,
}

/// A frame to be sent.
#[derive(Debug, Clone)]
struct Piece {
    epoch: Epoch,
    what: What,
    range: Range<u32>,
    bytes: usize,
}

/// An epoch that is kept.
#[derive(Debug)]
struct Held {
    epoch: Epoch,
    shard: Box<WireShard>,
    first: Vec<Stashed>,
    last: Vec<Stashed>,
    /// Its synopses are not to be believed, and not sent.
    is_withheld: bool,
    /// Requests that were answered.
    answered: Vec<What>,
}

/// Everything that is still to be sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    held: VecDeque<Held>,
    pieces: VecDeque<Piece>,
    repeated: VecDeque<Piece>,
    /// Bytes that may be sent now; under 0 after a hello that could not wait.
    allowance: f64,
    bytes_per_s: f64,
    filled_ns: u64,
}

impl Outgoing {
    /// Takes a sealed epoch.
    pub fn take(
        &mut self,
        sealed: SealedWire,
        settings: &Settings,
        end: &mut WireControlEnd,
        counters: &mut ExchangeCounters,
    ) {
        while self.held.len() >= KEPT {
            self.forget(end, counters);
        }
        let SealedWire { epoch, shard } = sealed;
        let held = Held {
            epoch,
            first: shard
                .stash
                .first()
                .iter()
                .map(|one| one.stashed())
                .collect(),
            last: shard.stash.last().map(|one| one.stashed()).collect(),
            is_withheld: shard.marks.is_partial || shard.marks.is_clock_set,
            answered: Vec::new(),
            shard,
        };
        if held.is_withheld {
            counters.withheld_epochs += 1;
        }
        // What decides where misplaced packets belong is needed first.
        for what in [What::First, What::Last] {
            self.pieces.extend(held.stash_pieces(what, settings));
        }
        for what in held.synopses() {
            let all = std::iter::once(0..u32::MAX);
            self.pieces.extend(held.pieces(what, all, settings));
        }
        self.held.push_back(held);
        self.pace(settings, 2);
    }

    /// Answers a request, each once.
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
            Some(held.pieces(what, request.ranges().iter().cloned(), settings))
        });
        let Some(pieces) = asked else {
            counters.requests_ignored += 1;
            return;
        };
        counters.requests_answered += 1;
        self.repeated.extend(pieces);
        self.pace(settings, 4);
    }

    /// Sends what is waiting in a part of an epoch, if the link's share allows.
    fn pace(&mut self, settings: &Settings, part: u64) {
        let waiting: usize = self
            .repeated
            .iter()
            .chain(&self.pieces)
            .map(|one| one.bytes)
            .sum();
        let within_s = (settings.epoch_ns / part).max(1) as f64 / 1e9;
        let wanted = (waiting as f64 / within_s).max(self.bytes_per_s);
        self.bytes_per_s = wanted.min(settings.bytes_per_s as f64);
    }

    /// A frame of so many bytes goes, whatever is waiting.
    pub fn spend(&mut self, bytes: usize) {
        self.allowance -= bytes as f64;
    }

    /// Lets time pass.
    pub fn refill(&mut self, now: Moment, settings: &Settings) {
        let elapsed_ns = now.monotonic_ns.saturating_sub(self.filled_ns);
        self.filled_ns = now.monotonic_ns;
        let per_s = self.bytes_per_s;
        let most = (per_s * BURST_NS as f64 / 1e9)
            .max((settings.frame_bytes + settings.overhead_bytes) as f64);
        let more = per_s * elapsed_ns.min(1_000_000_000) as f64 / 1e9;
        self.allowance = (self.allowance + more).min(most);
    }

    /// Gives the worker as many frames as may go now.
    pub fn send(
        &mut self,
        now: Moment,
        settings: &Settings,
        sealer: &mut Sealer,
        end: &mut WireControlEnd,
        counters: &mut ExchangeCounters,
    ) {
        while end.room() > RING_RESERVE {
            let queue = if self.repeated.is_empty() {
                &mut self.pieces
            } else {
                &mut self.repeated
            };
            let Some(piece) = queue.front() else {
                self.bytes_per_s = 0.0;
                return;
            };
            if self.allowance < piece.bytes as f64 {
                return;
            }
            let Some(piece) = queue.pop_front() else {
                return;
            };
            let Some(held) = self.held.iter().find(|held| held.epoch == piece.epoch) else {
                counters.fragments_unsent += 1;
                continue;
            };
            self.allowance -= piece.bytes as f64;
            let mut length = None;
            let is_sent = end.send(piece.segment(), |buffer| {
                length = held.seal(&piece, now, settings, sealer, buffer);
                length
            });
            match length {
                Some(_) if is_sent => counters.bulk_sent += 1,
                _ => counters.fragments_unsent += 1,
            }
        }
    }

    /// Gives the oldest epoch back; what was to be sent of it is not.
    fn forget(&mut self, end: &mut WireControlEnd, counters: &mut ExchangeCounters) {
        let Some(held) = self.held.pop_front() else {
            return;
        };
        let before = self.pieces.len() + self.repeated.len();
        self.pieces.retain(|piece| piece.epoch != held.epoch);
        self.repeated.retain(|piece| piece.epoch != held.epoch);
        let dropped = before - self.pieces.len() - self.repeated.len();
        counters.fragments_unsent += dropped as u64;
        end.give_back(End::Sender, held.shard);
    }

    /// Gives everything back: there is no one to send it to.
    pub fn reset(&mut self, end: &mut WireControlEnd, counters: &mut ExchangeCounters) {
        while !self.held.is_empty() {
            self.forget(end, counters);
        }
        self.pieces.clear();
        self.repeated.clear();
    }
}

impl Piece {
    /// The segment with whose mark it goes.
    fn segment(&self) -> u16 {
        match self.what {
            What::Tally(segment) | What::Lda(segment) => segment,
            What::First | What::Last | What::Lds => 0,
        }
    }
}

impl Held {
    /// What is to be sent of the epoch.
    fn synopses(&self) -> Vec<What> {
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

    /// What a request asks for; `None` where there is no such thing, or it was answered before.
    fn asked(&self, segment: u16, request: &Request) -> Option<What> {
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

    /// Frames that ranges of a synopsis make.
    fn pieces(
        &self,
        what: What,
        ranges: impl Iterator<Item = Range<u32>>,
        settings: &Settings,
    ) -> Vec<Piece> {
        let Some(shape) = self.shape(what) else {
            return Vec::new();
        };
        let frame_bytes = settings.frame_bytes;
        let cut = match what {
            What::Tally(_) => cut::<Tally>(&shape, ranges, frame_bytes),
            _ => cut::<Cell>(&shape, ranges, frame_bytes),
        };
        let around = frame_bytes + settings.overhead_bytes;
        let piece = |range: Range<u32>| Piece {
            epoch: self.epoch,
            what,
            // As large as it may be: the last one of a synopsis is less.
            bytes: around.min(fragment_bytes(&shape, &range) + settings.overhead_bytes),
            range,
        };
        cut.unwrap_or_default().into_iter().map(piece).collect()
    }

    fn stash_pieces(&self, what: What, settings: &Settings) -> Vec<Piece> {
        let (side, list) = self.list(what);
        let parts = Stash::parts(side, list, settings.frame_bytes).zip(0..);
        let bytes = settings.frame_bytes + settings.overhead_bytes;
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

    fn seal(
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
        let shape = self.shape(piece.what);
        let ranges = std::iter::once(piece.range.clone());
        let (frame_bytes, end) = (settings.frame_bytes, End::Sender);
        let segment = |index: u16| self.shard.segments.get(usize::from(index));
        let sealed: Result<usize, SealError> = match piece.what {
            What::First | What::Last => {
                if piece.what == What::Last {
                    // The epoch that begins at this turn.
                    subject.epoch = Epoch(self.epoch.0.wrapping_add(1));
                }
                let (side, list) = self.list(piece.what);
                let mut parts = Stash::parts(side, list, frame_bytes);
                let part = parts.nth(piece.range.start as usize)?;
                sealer.seal(subject, &part, buffer)
            }
            What::Tally(index) => {
                let tally = segment(index)?.tally;
                let shape = shape?;
                let cut = fragments(&shape, end, ranges, frame_bytes, |_| tally);
                sealer.seal(subject, &cut.ok()?.next()?, buffer)
            }
            What::Lda(index) => {
                let cells = segment(index)?.lda.cells();
                let cell = |at: u32| cells.get(at as usize).map_or(Cell::default(), |c| c.sender);
                let shape = shape?;
                let cut = fragments(&shape, end, ranges, frame_bytes, cell);
                sealer.seal(subject, &cut.ok()?.next()?, buffer)
            }
            What::Lds => {
                let cells = self.shard.lds.as_ref()?.cells();
                let cell = |at: u32| cells.get(at as usize).map_or(Cell::default(), |c| c.sender);
                let shape = shape?;
                let cut = fragments(&shape, end, ranges, frame_bytes, cell);
                sealer.seal(subject, &cut.ok()?.next()?, buffer)
            }
        };
        sealed.ok()
    }
}

/// The ranges of single frames.
fn cut<E: Element + Default>(
    shape: &Shape,
    ranges: impl Iterator<Item = Range<u32>>,
    frame_bytes: usize,
) -> Result<Vec<Range<u32>>, FragmentError> {
    let cut = fragments(shape, End::Sender, ranges, frame_bytes, |_| E::default())?;
    Ok(cut.map(|fragment| fragment.range()).collect())
}

/// About as many bytes as a fragment's frame has, its shape being small.
fn fragment_bytes(shape: &Shape, range: &Range<u32>) -> usize {
    let elements = range.end.saturating_sub(range.start) as usize;
    HEADER_BYTES + TAG_BYTES + 256 + elements * shape.element_bytes()
}
