//! A segment on the wire: two switches measure the path between them, without changing any packet.
//!
//! ```text
//!  sender's worker                                      receiver's worker
//!  Sender ── data, reference, data, marker, data ──────> Receiver
//!    │ a shard each epoch                                   │ a shard each of the sender's epochs
//!  sender's control core ── stash, fragments ──────────> receiver's control core
//!                        <── requests, reports ────────     reconcile ── pair ── estimates
//! ```
//!
//! - All times are nanoseconds of TAI since 1970-01-01, and sums of them wrap modulo 2^64: a difference of
//!   sums is exact whatever the origin. Workers convert once for each burst.
//! - The epochs of a wire are the sender's. A packet's epoch is its position relative to the
//!   [marker](frame::Marker) in the sender's single transmit queue.
//! - A [`WireShard`] contains what one end accumulates over one epoch. Each end records its own halves of
//!   the same synopses; pairing completes them.
#![forbid(unsafe_code)]

use arrayvec::ArrayVec;

use measure::InvalidArgument;
use measure::lda::LdaLayout;
use measure::lds::LdsLayout;
use measure::observation::SegmentIndex;
use measure::rli;

use codec::{Shape, SketchShape};

pub mod codec;
mod decode;
pub mod exchange;
mod floor;
mod flows;
pub mod frame;
mod offset;
mod pair;
mod receiver;
mod reconcile;
mod sender;
pub mod session;
mod shard;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use frame::Refusal;
use frame::{SHAPES_MAX, SealError};

pub use decode::{AskedFlow, DecodeJob, FlowOutcome};
pub use floor::{FloorSample, FloorVerdict, FloorWatch, Step};
pub use flows::{FlowOnSegment, WireFlow, WireFlows};
pub use offset::{OffsetBounds, OffsetWatch, Span};
pub use pair::{
    CellCounts, ClockBound, Estimate, SegmentHalves, SegmentOutcome, SenderHalves, flow_cells, pair,
};
pub use receiver::{Control, Receiver, Shards};
pub use reconcile::{Reconciled, SenderLists, reconcile};
pub use sender::{Due, ReferenceShare, Sender};
pub use shard::{Marks, Placed, SealedWire, StashList, WireSegment, WireShard};

/// Most segments of one wire: one for each class.
pub const SEGMENTS_MAX: u16 = 8;

/// Layout of a wire at one end. Both ends must agree, except on `flows` and `references`.
#[derive(Debug, Clone, PartialEq)]
pub struct WireLayout {
    /// Segments, 1 to [`SEGMENTS_MAX`]: one on a direct link, one for each class of a virtual one.
    pub segments: u16,
    /// The LDA of each segment.
    pub lda: LdaLayout,
    /// The sketch of all segments together, keyed by flow and segment; `None` disables flows.
    pub lds: Option<LdsLayout>,
    /// Packets on each side of a rollover that are listed one by one.
    pub stash_packets: u16,
    /// Flows that the receiving end counts individually in an epoch; further flows are counted together.
    pub flows: u32,
    /// References among the packets; `None` disables RLI.
    pub references: Option<ReferencePlan>,
}

/// How references are sent on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReferencePlan {
    /// When they are injected.
    pub policy: rli::Policy,
    /// How the receiver estimates between them.
    pub method: rli::Method,
    /// The link that the sender's port drains into.
    pub link: rli::Link,
    /// Capacity of the receiver's interpolation buffer in packets.
    pub buffer_packets: usize,
    /// Flows of an epoch for which the receiver keeps a distribution of delays, in slots in addition to
    /// [`WireLayout::flows`].
    pub named_flows: u32,
}

/// Why an end of a wire cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WireError {
    /// Too few segments, or too many.
    #[error("a wire of {segments} segments; give it 1 to {SEGMENTS_MAX}")]
    Segments {
        /// The number given.
        segments: u16,
    },
    /// RLI-AS.
    #[error(
        "RLI-AS needs a stamp of every packet, and packets of a wire are stamped by bursts: take \
         RLI-S"
    )]
    Method,
    /// An impossible rate of references, or size of a buffer.
    #[error(transparent)]
    Argument(#[from] InvalidArgument),
    /// No key to seal with.
    #[error(transparent)]
    Key(#[from] SealError),
}

impl WireLayout {
    /// Flows of an epoch for which the receiver keeps a distribution of delays.
    pub fn named_flows(&self) -> u32 {
        let named = self.references.map_or(0, |plan| plan.named_flows);
        if self.flows > 0 { named } else { 0 }
    }

    /// Checks what both ends have in common.
    fn check(&self) -> Result<(), WireError> {
        let segments = self.segments;
        if !(1..=SEGMENTS_MAX).contains(&segments) {
            return Err(WireError::Segments { segments });
        }
        let method = self.references.map(|plan| plan.method);
        if method == Some(rli::Method::AnchoredSums) {
            return Err(WireError::Method);
        }
        Ok(())
    }

    /// The stream of references of a segment.
    fn stream(segment: u16) -> rli::StreamId {
        // One worker sends through one queue, so receivers need not distinguish streams.
        rli::StreamId {
            worker: 0,
            segment: SegmentIndex(segment),
            queue: 0,
        }
    }

    /// The shapes compared by hellos: LDA, then LDS if there is one.
    pub fn shapes(&self) -> ArrayVec<Shape, SHAPES_MAX> {
        let lda = Shape::Lda(self.lda.clone());
        let lds = self
            .lds
            .as_ref()
            .map(|lds| Shape::Lds(SketchShape::new(lds)));
        std::iter::once(lda).chain(lds).collect()
    }
}

#[cfg(test)]
mod tests;
