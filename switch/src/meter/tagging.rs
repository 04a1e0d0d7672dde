//! What packets are tagged with as they arrive.

use contract::ids::PortIndex;
use measure::packet::{FlowHash, Hasher, Hashing, PacketHash, Parsed};
use measure::time::{EpochTag, Ticks};

use super::plan::{NO_SEGMENTS, Plan, Segments};
use crate::flows::Flows;
use crate::packet_io::{ClassIndex, NO_SEGMENT, Tag};

/// Tags of the present epoch.
#[derive(Debug, Clone, Copy)]
pub struct Tagging<'m> {
    pub(super) hasher: &'m Hasher,
    pub(super) plan: Option<&'m Plan>,
    pub(super) epoch: EpochTag,
}

impl<'m> Tagging<'m> {
    /// What is to be found out about each packet; `None` where nothing is measured.
    #[inline]
    pub fn hashing(self) -> Option<Hashing> {
        self.plan.map(|plan| plan.hashing)
    }

    /// Whether packets that leave at once need no tags: none is stamped by itself, and references, which are
    /// placed by lengths of frames, find them among what is found out about packets.
    #[inline]
    pub fn takes_batches(self) -> bool {
        self.plan.is_none_or(|plan| {
            let knows_lengths = plan.hashing > Hashing::None;
            !plan.stamps_packets && (knows_lengths || plan.references.is_none())
        })
    }

    /// The epoch that packets count in.
    #[inline]
    pub fn epoch(self) -> EpochTag {
        self.epoch
    }

    /// Whether the clock is read for every packet.
    #[inline]
    pub fn stamps_packets(self) -> bool {
        self.plan.is_some_and(|plan| plan.stamps_packets)
    }

    /// The flows that have counters of their own, where there are any.
    #[inline]
    pub fn flows(self) -> Option<&'m Flows> {
        self.plan?.flows.as_ref()
    }

    /// The segments that lead from one port to another, by class.
    #[inline]
    pub fn segments(self, ingress: PortIndex, egress: PortIndex) -> Segments {
        match self.plan {
            Some(plan) => plan.segments.between(ingress, egress),
            None => NO_SEGMENTS,
        }
    }

    /// The tag of a packet of `class`, first seen at `now`, that is not measured.
    #[inline]
    pub fn blank_tag(self, len_bytes: u32, class: ClassIndex, now: Ticks) -> Tag {
        Tag {
            flow: FlowHash(0),
            packet: PacketHash(0),
            arrived: now,
            len_bytes,
            segment: NO_SEGMENT,
            epoch: self.epoch,
            class,
        }
    }

    /// Parses the frame that begins with `head`, and hashes its flow; unless `PACKET`, the packet's hash means
    /// nothing.
    #[inline]
    pub fn parse<const PACKET: bool>(self, head: &[u8], len_bytes: u32) -> Parsed {
        self.hasher.parse_as::<PACKET>(head, len_bytes)
    }
}
