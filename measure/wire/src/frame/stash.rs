//! Stash: the packets around a turn, one by one, so that misplaced ones can be moved.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | side | 0: the last of the epoch that ended, 1: the first of the one that begins |
//! | 1..3 | total | packets in the whole list |
//! | 3..5 | first | place of the first one here in the list, from 0 |
//! | 5.. | packets | 20 bytes each, in the order of sending |
//!
//! A packet: flow hash (8), time (8), digest (4): the upper half of its packet hash. The frame's
//! epoch is the one that begins.
//!
//! A digest and a flow hash are enough: the other end has the packet's full hash beside its own
//! digest, and moves what it counted itself.

use super::{Body, Kind, body_room};
use crate::codec::{Number, ParseError, Put, Reader};
use measure::packet::{FlowHash, PacketHash};

/// Bytes before the packets.
const FIXED_BYTES: usize = 5;
/// Bytes of a packet.
const PACKET_BYTES: usize = 20;

/// On which side of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The last packets of the epoch that ended.
    Before,
    /// The first packets of the epoch that begins.
    After,
}

/// A packet near the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stashed {
    /// Its flow.
    pub flow: FlowHash,
    /// When it was seen, as in a cell's sum: since the start of its epoch.
    pub time: u64,
    /// As in a cell: the upper half of its packet hash.
    pub digest: u32,
}

impl Stashed {
    /// A packet that was seen.
    pub fn new(flow: FlowHash, PacketHash(hash): PacketHash, time: u64) -> Self {
        Self {
            flow,
            time,
            digest: (hash >> 32) as u32,
        }
    }
}

/// A part of a list, as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stash<'a> {
    side: Side,
    total: u16,
    first: u16,
    packets: &'a [Stashed],
}

impl<'a> Stash<'a> {
    /// Cuts a list (65,535 packets at most, others are left out) into parts for frames of at most
    /// `frame_bytes`; none where not even one packet fits.
    pub fn parts(
        side: Side,
        list: &'a [Stashed],
        frame_bytes: usize,
    ) -> impl Iterator<Item = Self> {
        let capacity = body_room(frame_bytes).saturating_sub(FIXED_BYTES) / PACKET_BYTES;
        let total = u16::try_from(list.len()).unwrap_or(u16::MAX);
        let list = if capacity == 0 { &[] } else { list };
        list.get(..total.into())
            .unwrap_or(list)
            .chunks(capacity.max(1))
            .enumerate()
            .map(move |(part, packets)| Self {
                side,
                total,
                // Under the total.
                first: u16::try_from(part * capacity).unwrap_or(u16::MAX),
                packets,
            })
    }
}

fn emit_head(side: Side, total: u16, first: u16, out: &mut impl Put) {
    let side: u8 = match side {
        Side::Before => 0,
        Side::After => 1,
    };
    out.put_number(side);
    out.put_number(total);
    out.put_number(first);
}

impl Body for Stash<'_> {
    const KIND: Kind = Kind::Stash;

    fn emit(&self, out: &mut impl Put) {
        emit_head(self.side, self.total, self.first, out);
        for packet in self.packets {
            out.put_number(packet.flow.0);
            out.put_number(packet.time);
            out.put_number(packet.digest);
        }
    }
}

/// A view of a part of a list that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StashView<'a> {
    side: Side,
    total: u16,
    first: u16,
    packets: &'a [[u8; PACKET_BYTES]],
}

impl<'a> StashView<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// [`ParseError`] for anything but what [`Stash`] writes.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let side = match reader.number("side of a stash")? {
            0_u8 => Side::Before,
            1 => Side::After,
            other => return Err(ParseError::value("side of a stash", other, "0 or 1")),
        };
        let total = reader.number("packets of a stash")?;
        let first: u16 = reader.number("first packet of a stash")?;
        let (packets, rest) = reader.rest().as_chunks();
        if !rest.is_empty() {
            return Err(ParseError::Trailing {
                what: "packets of a stash",
                left: rest.len(),
            });
        }
        if usize::from(first) + packets.len() > usize::from(total) {
            let allowed = "as many as the list has at least";
            return Err(ParseError::value("packets of a stash", total, allowed));
        }
        Ok(Self {
            side,
            total,
            first,
            packets,
        })
    }

    /// On which side of the turn.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Packets in the whole list.
    pub fn total(&self) -> u16 {
        self.total
    }

    /// Place of the first one in the whole list.
    pub fn first(&self) -> u16 {
        self.first
    }

    /// The packets.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = Stashed> + use<'a> {
        self.packets.iter().map(|bytes| Stashed {
            flow: FlowHash(number(bytes, 0)),
            time: number(bytes, 8),
            digest: number(bytes, 16),
        })
    }
}

impl Body for StashView<'_> {
    const KIND: Kind = Kind::Stash;

    fn emit(&self, out: &mut impl Put) {
        emit_head(self.side, self.total, self.first, out);
        out.put(self.packets.as_flattened());
    }
}

/// The number at a place in a packet, which it does not reach over.
fn number<T: Number<N>, const N: usize>(bytes: &[u8; PACKET_BYTES], at: usize) -> T {
    T::from_bytes(std::array::from_fn(|byte| {
        bytes.get(at + byte).copied().unwrap_or(0)
    }))
}
