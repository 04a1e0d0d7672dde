//! The first and last packets of an epoch, one by one.

use std::collections::VecDeque;

use crate::codec::Stashed;
use crate::packet::{FlowHash, PacketHash};
use crate::sight::{SegmentIndex, Sight};

/// A packet near a turn, as this end counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Its flow.
    pub flow: FlowHash,
    /// Its full hash.
    pub packet: PacketHash,
    /// When it was seen: nanoseconds of TAI.
    pub tai_ns: u64,
    /// Length of the frame in bytes.
    pub bytes: u32,
    /// Its segment.
    pub segment: SegmentIndex,
}

impl From<&Sight> for Placed {
    fn from(sight: &Sight) -> Self {
        Self {
            flow: sight.flow,
            packet: sight.packet,
            tai_ns: sight.time,
            bytes: sight.bytes,
            segment: sight.segment,
        }
    }
}

impl Placed {
    /// As it is listed on the wire.
    pub fn stashed(&self) -> Stashed {
        Stashed::new(self.flow, self.packet, self.tai_ns)
    }

    /// As it was seen.
    pub fn sight(&self) -> Sight {
        Sight {
            flow: self.flow,
            packet: self.packet,
            time: self.tai_ns,
            delay: 0,
            bytes: self.bytes,
            segment: self.segment,
            epoch: crate::time::EpochTag::default(),
        }
    }
}

/// The first and the last packets of an epoch, as many of each as there is room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StashList {
    room: usize,
    first: Vec<Placed>,
    last: VecDeque<Placed>,
}

impl StashList {
    /// Room for `packets` at each end; all memory is taken here.
    pub fn new(packets: u16) -> Self {
        let room = usize::from(packets);
        Self {
            room,
            first: Vec::with_capacity(room),
            last: VecDeque::with_capacity(room),
        }
    }

    /// Adds packets in their order.
    #[inline]
    pub fn record(&mut self, sights: &[Sight]) {
        let (early, _) = sights.split_at(sights.len().min(self.room - self.first.len()));
        self.first.extend(early.iter().map(Placed::from));
        let late = sights.len().saturating_sub(self.room);
        for sight in sights.get(late..).unwrap_or_default() {
            if self.last.len() == self.room {
                self.last.pop_front();
            }
            self.last.push_back(Placed::from(sight));
        }
    }

    /// The first packets of the epoch, in order: those after the turn to it.
    pub fn first(&self) -> &[Placed] {
        &self.first
    }

    /// The last packets of the epoch, in order: those before the turn to the next.
    pub fn last(&self) -> impl ExactSizeIterator<Item = &Placed> + Clone {
        self.last.iter()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.first.clear();
        self.last.clear();
    }
}
