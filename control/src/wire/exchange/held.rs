//! An epoch that this end has sealed and sends, frame by frame.

use std::ops::Range;

use measure::cell::Cell;
use measure::observation::End;
use measure::shard::Tally;
use measure::time::Epoch;
use wire::codec::{Element, FragmentError, Shape, SketchShape, fragments};
use wire::frame::{
    HEADER_BYTES, Request, Sealer, Side, Stash, Stashed, Subject, TAG_BYTES, body_room,
};
use wire::{Placed, SealedWire, WireShard};

use super::settings::{Moment, Settings};

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    First,
    Last,
    Tally(u16),
    Lda(u16),
    Lds,
}

/// A frame to be sent.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub epoch: Epoch,
    pub what: What,
    pub range: Range<u32>,
    pub bytes: usize,
}

/// An epoch that is kept.
#[derive(Debug)]
pub(super) struct Held {
    pub epoch: Epoch,
    pub shard: Box<WireShard>,
    first: Vec<Stashed>,
    last: Vec<Stashed>,
    /// Its synopses are not valid, and not sent.
    pub is_withheld: bool,
    /// Requests that were answered.
    pub answered: Vec<What>,
}

impl Piece {
    /// The segment with whose mark it goes.
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

    /// What is to be sent of the epoch.
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

    /// The synopsis that a request asks for; `None` where there is none, or it was answered before.
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

    /// Ranges of a synopsis as frames.
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
            // Its greatest size: the last one of a synopsis is smaller.
            bytes: around.min(fragment_bytes(&shape, &range) + settings.frames.overhead_bytes),
            range,
        };
        cut.unwrap_or_default().into_iter().map(piece).collect()
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
                let mut cut = fragments(&shape, end, ranges, room, |_| tally).ok()?;
                sealer.seal(subject, &cut.next()?, buffer)
            }
            What::Lda(_) | What::Lds => {
                let cells = match piece.what {
                    What::Lda(index) => segment(index)?.lda.cells(),
                    _ => self.shard.lds.as_ref()?.cells(),
                };
                let cell = |at: u32| cells.get(at as usize).map_or(Cell::default(), |c| c.sender);
                let shape = shape?;
                let mut cut = fragments(&shape, end, ranges, room, cell).ok()?;
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
) -> Result<Vec<Range<u32>>, FragmentError> {
    let cut = fragments(shape, End::Sender, ranges, room, |_| E::default())?;
    Ok(cut.map(|fragment| fragment.range()).collect())
}

/// About as many bytes as a fragment's frame has; its shape is small.
fn fragment_bytes(shape: &Shape, range: &Range<u32>) -> usize {
    let elements = range.end.saturating_sub(range.start) as usize;
    HEADER_BYTES + TAG_BYTES + 256 + elements * shape.element_bytes()
}
