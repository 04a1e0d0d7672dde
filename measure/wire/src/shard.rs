//! The data that one end of a wire accumulates over one epoch.

use std::collections::{HashMap, VecDeque};

use super::{WireFlows, WireLayout};
use crate::frame::Stashed;
use measure::lda::{LdaLayout, LdaPair};
use measure::lds::LdsPair;
use measure::observation::{End, Observation, SegmentIndex};
use measure::packet::{FlowHash, PacketHash};
use measure::rli::SegmentDelay;
use measure::shard::Tally;
use measure::synopsis::Synopsis;
use measure::time::{Epoch, EpochTag};

/// One segment of a wire, as counted by one end.
#[derive(Debug, Clone)]
pub struct WireSegment {
    /// Packets and bytes.
    pub tally: Tally,
    /// This end's halves of its LDA.
    pub lda: LdaPair,
    /// At the receiver's end, the mean from references.
    pub rli: SegmentDelay,
}

/// Further properties of an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// It was not seen from its beginning, because a session began or a rollover was missed.
    pub is_partial: bool,
    /// Rollovers to later epochs that were missed before the one that ended it.
    pub turns_missed: u64,
    /// References that arrived.
    pub references: u32,
    /// The least delay of a reference, in nanoseconds.
    pub least_delay_ns: Option<i64>,
    /// Intervals between references in which more packets arrived than were sent, or different ones.
    /// Packets overtake each other, so means by references, which assume order, are wrong.
    pub disordered_intervals: u32,
    /// The clock was set during it.
    pub is_clock_set: bool,
    /// The link went down during it.
    pub is_link_lost: bool,
    /// At the receiver's end: packets sent between the rollover to this epoch and the first copy of its
    /// marker that arrived.
    pub late_marker_packets: u32,
}

impl Marks {
    /// Notes that the rollover to `begins` ends an epoch, and how many rollovers between the two were
    /// missed. An epoch that ends late contains several.
    pub(super) fn end(&mut self, ended: Epoch, begins: Epoch) {
        self.turns_missed = begins.0.saturating_sub(ended.0).saturating_sub(1);
        self.is_partial |= self.turns_missed > 0;
    }
}

/// The data that one end of a wire accumulates over one epoch of the sender.
#[derive(Debug, Clone)]
pub struct WireShard {
    layout: WireLayout,
    /// By [`SegmentIndex`](measure::observation::SegmentIndex).
    pub segments: Vec<WireSegment>,
    /// This end's halves of the sketch.
    pub lds: Option<LdsPair>,
    /// Packets around the rollovers.
    pub stash: StashList,
    /// At the receiver's end, flow by flow.
    pub flows: WireFlows,
    /// Further properties.
    pub marks: Marks,
}

impl WireShard {
    /// An empty shard; allocates and touches all memory. The sender's end has no flows.
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

    /// Whether packets and references arrived in the order in which they were sent, as far as references
    /// show.
    pub fn is_fifo(&self) -> bool {
        self.marks.disordered_intervals == 0
    }

    /// Its layout.
    pub fn layout(&self) -> &WireLayout {
        &self.layout
    }

    /// Adds packets seen at `end`, in order. Times are nanoseconds of TAI, segments those of the wire.
    /// Never allocates, never fails.
    pub fn record(&mut self, end: End, observations: &[Observation]) {
        self.count(end, observations);
        self.stash.record(observations);
    }

    /// Adds packets to everything but the lists.
    pub(super) fn count(&mut self, end: End, observations: &[Observation]) {
        self.each_run(observations, |segment, run| {
            segment.tally.record(end, run);
            segment.lda.record(end, run);
        });
        if let Some(lds) = &mut self.lds {
            lds.record(end, observations);
        }
    }

    /// Removes packets that were counted here from everything but the lists: the exact inverse.
    pub(super) fn uncount(&mut self, end: End, observations: &[Observation]) {
        self.each_run(observations, |segment, run| {
            segment.tally.unrecord(end, run);
            segment.lda.unrecord(end, run);
        });
        if let Some(lds) = &mut self.lds {
            lds.unrecord(end, observations);
        }
    }

    /// Packets grouped by consecutive segment.
    #[inline]
    fn each_run(
        &mut self,
        observations: &[Observation],
        mut record: impl FnMut(&mut WireSegment, &[Observation]),
    ) {
        for run in observations.chunk_by(|one, other| one.segment == other.segment) {
            let index = run.first().map(|one| usize::from(one.segment.0));
            if let Some(segment) = index.and_then(|index| self.segments.get_mut(index)) {
                record(segment, run);
            }
        }
    }

    /// Changes how packets are spread over the LDAs' banks, without allocating. The shard must be empty.
    /// Returns `false`, and changes nothing, if `lda` has other banks or rows.
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

    /// Clears all counts; the shape stays.
    pub fn clear(&mut self) {
        for segment in &mut self.segments {
            segment.tally = Tally::default();
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

/// A shard that accepts no more packets.
#[derive(Debug)]
pub struct SealedWire {
    /// The sender's epoch.
    pub epoch: Epoch,
    /// Its counts.
    pub shard: Box<WireShard>,
}

/// A packet near a rollover, as counted by this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Its flow.
    pub flow: FlowHash,
    /// Its full hash.
    pub packet: PacketHash,
    /// Its time: nanoseconds of TAI.
    pub tai_ns: u64,
    /// Length of the frame in bytes.
    pub bytes: u32,
    /// Its segment.
    pub segment: SegmentIndex,
}

impl From<&Observation> for Placed {
    fn from(observation: &Observation) -> Self {
        Self {
            flow: observation.flow,
            packet: observation.packet,
            tai_ns: observation.time,
            bytes: observation.bytes,
            segment: observation.segment,
        }
    }
}

impl Placed {
    /// Distinguishes packets of one list.
    fn key(&self) -> (FlowHash, PacketHash, u64) {
        (self.flow, self.packet, self.tai_ns)
    }

    /// Its form in lists on the wire.
    pub fn stashed(&self) -> Stashed {
        Stashed::new(self.flow, self.packet, self.tai_ns)
    }

    /// Its observation.
    pub fn observation(&self) -> Observation {
        Observation {
            flow: self.flow,
            packet: self.packet,
            time: self.tai_ns,
            delay: 0,
            bytes: self.bytes,
            segment: self.segment,
            epoch: EpochTag::default(),
        }
    }
}

/// The first and last packets of an epoch, as many of each as there is room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StashList {
    room: usize,
    first: Vec<Placed>,
    last: VecDeque<Placed>,
}

impl StashList {
    /// Makes room for `packets` at each end; allocates all memory.
    pub fn new(packets: u16) -> Self {
        let room = usize::from(packets);
        Self {
            room,
            first: Vec::with_capacity(room),
            last: VecDeque::with_capacity(room),
        }
    }

    /// Adds packets in order.
    #[inline]
    pub fn record(&mut self, observations: &[Observation]) {
        let (early, _) =
            observations.split_at(observations.len().min(self.room - self.first.len()));
        self.first.extend(early.iter().map(Placed::from));
        let late = observations.len().saturating_sub(self.room);
        for observation in observations.get(late..).unwrap_or_default() {
            if self.last.len() == self.room {
                self.last.pop_front();
            }
            self.last.push_back(Placed::from(observation));
        }
    }

    /// The first packets of the epoch, in order: those after its rollover.
    pub fn first(&self) -> &[Placed] {
        &self.first
    }

    /// The last packets of the epoch, in order: those before the next rollover.
    pub fn last(&self) -> impl DoubleEndedIterator<Item = &Placed> + ExactSizeIterator + Clone {
        self.last.iter()
    }

    /// Removes packets from both lists, each as often as it is given.
    pub(super) fn remove(&mut self, packets: &[Placed]) {
        let mut left: HashMap<(FlowHash, PacketHash, u64), (usize, usize)> = HashMap::new();
        for packet in packets {
            let times = left.entry(packet.key()).or_default();
            *times = (times.0 + 1, times.1 + 1);
        }
        let mut stays = |packet: &Placed, is_first: bool| {
            let Some((first, last)) = left.get_mut(&packet.key()) else {
                return true;
            };
            let times = if is_first { first } else { last };
            let stays = *times == 0;
            *times = times.saturating_sub(1);
            stays
        };
        self.first.retain(|packet| stays(packet, true));
        self.last.retain(|packet| stays(packet, false));
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.first.clear();
        self.last.clear();
    }
}
