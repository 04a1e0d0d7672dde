//! The first and last packets of an epoch, one by one.

use std::collections::{HashMap, VecDeque};

use crate::frame::Stashed;
use measure::observation::{Observation, SegmentIndex};
use measure::packet::{FlowHash, PacketHash};

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
    /// Tells packets of one list apart.
    fn key(&self) -> (FlowHash, PacketHash, u64) {
        (self.flow, self.packet, self.tai_ns)
    }

    /// As it is listed on the wire.
    pub fn stashed(&self) -> Stashed {
        Stashed::new(self.flow, self.packet, self.tai_ns)
    }

    /// As it was seen.
    pub fn observation(&self) -> Observation {
        Observation {
            flow: self.flow,
            packet: self.packet,
            time: self.tai_ns,
            delay: 0,
            bytes: self.bytes,
            segment: self.segment,
            epoch: measure::time::EpochTag::default(),
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

    /// The first packets of the epoch, in order: those after the turn to it.
    pub fn first(&self) -> &[Placed] {
        &self.first
    }

    /// The last packets of the epoch, in order: those before the turn to the next.
    pub fn last(&self) -> impl DoubleEndedIterator<Item = &Placed> + ExactSizeIterator + Clone {
        self.last.iter()
    }

    /// Takes packets off both lists, each as often as it is given.
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

    /// Forgets all.
    pub fn clear(&mut self) {
        self.first.clear();
        self.last.clear();
    }
}
