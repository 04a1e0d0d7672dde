//! What one end of a wire accumulates over one epoch.

use super::{StashList, WireFlows, WireLayout};
use measure::lda::{LdaLayout, LdaPair};
use measure::lds::LdsPair;
use measure::observation::{End, Observation};
use measure::rli::SegmentDelay;
use measure::shard::Tally;
use measure::synopsis::Synopsis;
use measure::time::Epoch;

/// One segment of a wire, as one end counted it.
#[derive(Debug, Clone)]
pub struct WireSegment {
    /// Packets and bytes.
    pub tally: Tally,
    /// This end's halves of its LDA.
    pub lda: LdaPair,
    /// At the receiver's end, what references say of the mean.
    pub rli: SegmentDelay,
}

/// What else there is to know of an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// It was not seen from its beginning: a session began, or a turn went unseen.
    pub is_partial: bool,
    /// Turns to later epochs that went unseen before the one that ended it.
    pub turns_missed: u64,
    /// References that arrived.
    pub references: u32,
    /// The least delay of a reference, in nanoseconds.
    pub least_delay_ns: Option<i64>,
    /// Intervals between references in which more packets came than were sent, or others: packets
    /// overtake each other, and means by references, which suppose that none does, are off.
    pub disordered_intervals: u32,
    /// The clock was set in it.
    pub is_clock_set: bool,
    /// The link went down in it.
    pub is_link_lost: bool,
    /// At the receiver's end: packets that had been sent since the turn to it when the first copy of
    /// its marker to arrive was.
    pub late_marker_packets: u32,
}

impl Marks {
    /// The turn to `begins` ends an epoch: how many turns between the two went unseen. An epoch
    /// that ends late holds more than one.
    pub(super) fn end(&mut self, ended: Epoch, begins: Epoch) {
        self.turns_missed = begins.0.saturating_sub(ended.0).saturating_sub(1);
        self.is_partial |= self.turns_missed > 0;
    }
}

/// What one end of a wire accumulates over one epoch of the sender's.
#[derive(Debug, Clone)]
pub struct WireShard {
    layout: WireLayout,
    /// By [`SegmentIndex`](measure::observation::SegmentIndex).
    pub segments: Vec<WireSegment>,
    /// This end's halves of the sketch.
    pub lds: Option<LdsPair>,
    /// Packets around the turns.
    pub stash: StashList,
    /// At the receiver's end, flow by flow.
    pub flows: WireFlows,
    /// What else there is to know.
    pub marks: Marks,
}

impl WireShard {
    /// An empty shard; all memory is taken and touched here. The sender's end has no flows.
    pub fn new(layout: &WireLayout, end: End) -> Self {
        let segment = WireSegment {
            tally: Tally::default(),
            lda: LdaPair::new(&layout.lda),
            rli: SegmentDelay::default(),
        };
        let (flows, named) = match end {
            End::Sender => (0, 0),
            End::Receiver => (layout.flows, layout.named_flows()),
        };
        Self {
            segments: vec![segment; usize::from(layout.segments)],
            lds: layout.lds.as_ref().map(LdsPair::new),
            stash: StashList::new(layout.stash_packets),
            flows: WireFlows::new(flows, named),
            marks: Marks::default(),
            layout: layout.clone(),
        }
    }

    /// Whether packets and references came in the order in which they were sent, as far as
    /// references show.
    pub fn is_fifo(&self) -> bool {
        self.marks.disordered_intervals == 0
    }

    /// What it was made for.
    pub fn layout(&self) -> &WireLayout {
        &self.layout
    }
}

impl WireShard {
    /// Adds packets seen at `end`, in their order: their times are nanoseconds of TAI, their
    /// segments those of the wire. Never allocates, never fails.
    pub fn record(&mut self, end: End, observations: &[Observation]) {
        self.count(end, observations);
        self.stash.record(observations);
    }

    /// Adds packets to all but the lists.
    pub(super) fn count(&mut self, end: End, observations: &[Observation]) {
        for run in observations.chunk_by(|one, other| one.segment == other.segment) {
            let segment = run
                .first()
                .map(|observation| usize::from(observation.segment.0));
            if let Some(segment) = segment.and_then(|index| self.segments.get_mut(index)) {
                segment.tally.record(end, run);
                segment.lda.record(end, run);
            }
        }
        if let Some(lds) = &mut self.lds {
            lds.record(end, observations);
        }
    }

    /// Takes packets out again that were counted here, of all but the lists: the exact inverse.
    pub(super) fn uncount(&mut self, end: End, observations: &[Observation]) {
        for run in observations.chunk_by(|one, other| one.segment == other.segment) {
            let segment = run
                .first()
                .map(|observation| usize::from(observation.segment.0));
            if let Some(segment) = segment.and_then(|index| self.segments.get_mut(index)) {
                segment.tally.unrecord(end, run);
                segment.lda.unrecord(end, run);
            }
        }
        if let Some(lds) = &mut self.lds {
            lds.unrecord(end, observations);
        }
    }

    /// Spreads packets otherwise over the LDAs' banks from now on; the memory stays. For an empty
    /// shard. `false`, and nothing is changed, where `lda` has other banks or rows.
    pub fn relay(&mut self, lda: &LdaLayout) -> bool {
        let fits = self.layout.lda.has_sizes_of(lda);
        if fits {
            self.layout.lda.clone_from(lda);
            for segment in &mut self.segments {
                segment.lda.relay(lda);
            }
        }
        fits
    }

    /// Forgets everything recorded; the shape stays.
    pub fn clear(&mut self) {
        for segment in &mut self.segments {
            segment.tally.clear();
            segment.lda.clear();
            segment.rli = SegmentDelay::default();
        }
        if let Some(lds) = &mut self.lds {
            lds.clear();
        }
        self.stash.clear();
        self.flows.clear();
        self.marks = Marks::default();
    }
}

/// A shard that takes no more packets.
#[derive(Debug)]
pub struct SealedWire {
    /// The sender's epoch.
    pub epoch: Epoch,
    /// What was counted in it.
    pub shard: Box<WireShard>,
}
