//! An observation: one packet seen at one point.

use crate::packet::{FlowHash, PacketHash};
use crate::time::EpochTag;

/// The segment of an observation: an index into the shard's list of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentIndex(pub u16);

/// An end of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Point where packets enter the segment (inside a switch: the ingress port).
    Sender,
    /// Point where packets leave the segment (inside a switch: the egress port).
    Receiver,
}

/// One packet seen at one point: 40 bytes of plain data, without an mbuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Observation {
    /// Keyed hash of the packet's flow, the same at both ends.
    pub flow: FlowHash,
    /// Keyed hash of the fields that no hop changes, the same at both ends.
    pub packet: PacketHash,
    /// When the point saw it, in ticks since the start of the packet's epoch. May wrap, because synopses
    /// add modulo 2^64.
    pub time: u64,
    /// Ticks since the packet's stamp was set; 0 at the sender's end.
    pub delay: u64,
    /// Length of the frame in bytes, without the frame check sequence.
    pub bytes: u32,
    /// The segment that counts it.
    pub segment: SegmentIndex,
    /// The epoch that counts it.
    pub epoch: EpochTag,
}

const _: () = assert!(
    size_of::<Observation>() == 40,
    "an observation is five words"
);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An observation in which only the delay matters.
    pub(crate) fn observation_with_delay(delay: u64) -> Observation {
        Observation {
            flow: FlowHash(0),
            packet: PacketHash(0),
            time: 0,
            delay,
            bytes: 64,
            segment: SegmentIndex(0),
            epoch: EpochTag(0),
        }
    }
}
