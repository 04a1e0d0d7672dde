//! Packet input and output: a small trait, two implementations, statically dispatched.
//!
//! [`dpdk`] drives real ports; [`memory`] is a switch in memory, with a clock set by the test.

use contract::ids::PortIndex;
use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, PacketHash};
use measure::time::{EpochTag, Ticks};

pub mod dpdk;
pub mod memory;

/// Most packets in a burst, over which fixed costs are spread; no packet ever waits for a burst to fill.
pub const BURST: usize = measure::batch::BURST_MAX;

/// A burst of packets.
pub type Burst<P> = arrayvec::ArrayVec<P, BURST>;

/// A traffic class by its index in the configuration, 0 to 7.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassIndex(pub u8);

/// The index for packets without a measured segment.
pub const NO_SEGMENT: SegmentIndex = SegmentIndex(u16::MAX);

/// The switch's data about a packet, kept beside it from arrival to departure: 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Tag {
    /// Hash of its flow.
    pub flow: FlowHash,
    /// Hash of the packet.
    pub packet: PacketHash,
    /// When it was first seen.
    pub arrived: Ticks,
    /// Length of the frame in bytes on departure.
    pub len_bytes: u32,
    /// Its segment, or [`NO_SEGMENT`].
    pub segment: SegmentIndex,
    /// The epoch that counts it.
    pub epoch: EpochTag,
    /// Its class.
    pub class: ClassIndex,
}

const _: () = assert!(size_of::<Tag>() == 32, "two tags to a cache line");

/// Tags of the packets of a burst, in order.
pub type Tags = arrayvec::ArrayVec<Tag, BURST>;

/// A worker's part of a port: its receive queues, and a way out.
pub trait PortHandles {
    /// Room for what a worker returns of `port`.
    fn room(port: PortIndex, inlets: usize) -> Self;
}

/// Packet input and output for one worker: the receive queues that it serves, and a way out by every port.
pub trait PacketIo {
    /// An owned packet, whose memory is freed when it is dropped.
    type Packet;

    /// The worker's part of one port.
    type Handles: PortHandles;

    /// The current time.
    fn now(&self) -> Ticks;

    /// The port of each receive queue that is served.
    fn inlets(&self) -> &[PortIndex];

    /// Fills `burst` with packets from receive queue `inlet`.
    fn receive(&mut self, inlet: usize, burst: &mut Burst<Self::Packet>);

    /// Sends packets by `port` from the front of `burst` and removes those that were accepted; returns
    /// their number.
    fn transmit(&mut self, port: PortIndex, burst: &mut Burst<Self::Packet>) -> usize;

    /// A copy with memory of its own; `None` if there is no memory.
    fn copy(&mut self, packet: &Self::Packet) -> Option<Self::Packet>;

    /// A packet with these bytes; `None` if there is no memory.
    fn make(&mut self, bytes: &[u8]) -> Option<Self::Packet>;

    /// The bytes of the packet's first segment.
    fn head<'p>(&self, packet: &'p Self::Packet) -> &'p [u8];

    /// Length of the whole frame in bytes, without frame check sequence.
    fn len_bytes(&self, packet: &Self::Packet) -> u32;

    /// Inserts an 802.1Q tag (TPID 0x8100) behind the addresses; returns false, and does nothing, if there
    /// is no room.
    fn push_vlan(&mut self, packet: &mut Self::Packet, tci: u16) -> bool;

    /// Removes the outer 802.1Q tag; returns false, and does nothing, if there is none.
    fn pop_vlan(&mut self, packet: &mut Self::Packet) -> bool;

    /// Takes over everything in `handles` of a new port.
    fn take_over(&mut self, handles: &mut Self::Handles);

    /// Moves everything of a port to `handles`, which has enough [room](PortHandles::room).
    fn give_back(&mut self, handles: &mut Self::Handles);
}
