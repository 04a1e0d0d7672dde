//! Where packets come from and go to: a small trait, two implementations, statically dispatched.
//!
//! [`dpdk`] drives real ports; [`memory`] is a switch in a test tube, with a clock that the test
//! sets.

use contract::ids::PortIndex;
use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, PacketHash};
use measure::time::{EpochTag, Ticks};

pub mod dpdk;
pub mod memory;

/// Most packets that travel together: what a burst costs once is spread over so many, and no packet
/// ever waits for a burst to fill.
pub const BURST: usize = measure::batch::BURST_MAX;

/// Packets that travel together.
pub type Burst<P> = arrayvec::ArrayVec<P, BURST>;

/// A traffic class by its index in the configuration, 0 to 7.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassIndex(pub u8);

/// Where no measured segment leads.
pub const NO_SEGMENT: SegmentIndex = SegmentIndex(u16::MAX);

/// What the switch knows of a packet, kept beside it from arrival to departure: 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Tag {
    /// Hash of its flow.
    pub flow: FlowHash,
    /// Hash of the packet.
    pub packet: PacketHash,
    /// When it was first seen.
    pub arrived: Ticks,
    /// Length of the frame in bytes as it will leave.
    pub len_bytes: u32,
    /// The segment it is on, or [`NO_SEGMENT`].
    pub segment: SegmentIndex,
    /// The epoch it counts in.
    pub epoch: EpochTag,
    /// Its class.
    pub class: ClassIndex,
}

const _: () = assert!(size_of::<Tag>() == 32, "two tags to a cache line");

/// Tags of packets that travel together, in their order.
pub type Tags = arrayvec::ArrayVec<Tag, BURST>;

/// What one worker has of a port: its receive queues, and a way out.
pub trait PortHandles {
    /// Room for what a worker gives back of `port`.
    fn room(port: PortIndex, inlets: usize) -> Self;
}

/// Packet input and output for one worker: the receive queues that it serves, and a way out by
/// every port.
pub trait PacketIo {
    /// A packet, owned: dropping it gives its memory back.
    type Packet;

    /// What it has of one port.
    type Handles: PortHandles;

    /// The present time.
    fn now(&self) -> Ticks;

    /// The port of each receive queue that is served.
    fn inlets(&self) -> &[PortIndex];

    /// Fills what room `burst` has with packets that wait at receive queue `inlet`.
    fn receive(&mut self, inlet: usize, burst: &mut Burst<Self::Packet>);

    /// Sends packets by `port` from the front of `burst` and removes those that it accepted;
    /// returns how many.
    fn transmit(&mut self, port: PortIndex, burst: &mut Burst<Self::Packet>) -> usize;

    /// A copy with memory of its own; `None` when there is no memory.
    fn copy(&mut self, packet: &Self::Packet) -> Option<Self::Packet>;

    /// A packet of these bytes, made here; `None` when there is no memory.
    fn make(&mut self, bytes: &[u8]) -> Option<Self::Packet>;

    /// The packet's bytes, as far as its first segment goes.
    fn head<'p>(&self, packet: &'p Self::Packet) -> &'p [u8];

    /// Length of the whole frame in bytes, without frame check sequence.
    fn len_bytes(&self, packet: &Self::Packet) -> u32;

    /// Puts an 802.1Q tag (TPID 0x8100) behind the addresses; false, and nothing done, where there
    /// is no room for it.
    fn push_vlan(&mut self, packet: &mut Self::Packet, tci: u16) -> bool;

    /// Takes the outer 802.1Q tag off; false, and nothing done, where there is none.
    fn pop_vlan(&mut self, packet: &mut Self::Packet) -> bool;

    /// Moves all that `handles` holds of a new port here.
    fn take_over(&mut self, handles: &mut Self::Handles);

    /// Moves all that is here of a port to `handles`, whose [room](PortHandles::room) is enough.
    fn give_back(&mut self, handles: &mut Self::Handles);
}
