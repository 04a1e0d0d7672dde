//! A switch in a test tube: ports that are queues in memory, a clock that the test turns by hand.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Burst, PacketIo, PortIndex, Stamp};

/// Counts the packets that exist, so that none is lost or made up.
#[derive(Debug, Default)]
struct Live(Arc<AtomicUsize>);

impl Live {
    fn another(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

/// A packet in memory.
#[derive(Debug)]
pub struct MemoryPacket {
    bytes: Vec<u8>,
    ingress: PortIndex,
    stamp: Option<Stamp>,
    live: Live,
}

impl MemoryPacket {
    /// The whole frame.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The port it came in by.
    pub fn ingress(&self) -> PortIndex {
        self.ingress
    }
}

impl Drop for MemoryPacket {
    fn drop(&mut self) {
        self.live.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct MemoryPort {
    arrivals: VecDeque<MemoryPacket>,
    departures: Vec<(u64, MemoryPacket)>,
    /// Packets that the port still takes before it refuses; none: all.
    room: Option<usize>,
}

/// Ports in memory and a clock.
#[derive(Debug)]
pub struct MemoryIo {
    now: u64,
    ports: Vec<MemoryPort>,
    live: Live,
    copies_left: usize,
}

impl MemoryIo {
    /// `ports` ports at time 0.
    pub fn new(ports: usize) -> Self {
        let port = || MemoryPort {
            arrivals: VecDeque::new(),
            departures: Vec::new(),
            room: None,
        };
        Self {
            now: 0,
            ports: std::iter::repeat_with(port).take(ports).collect(),
            live: Live::default(),
            copies_left: usize::MAX,
        }
    }

    /// Turns the clock to `now` ticks.
    pub fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// Lets a frame wait at `port`.
    pub fn arrive(&mut self, port: PortIndex, bytes: Vec<u8>) {
        let live = self.live.another();
        let packet = MemoryPacket {
            bytes,
            ingress: port,
            stamp: None,
            live,
        };
        self.ports[usize::from(port.0)].arrivals.push_back(packet);
    }

    /// Takes what `port` has sent so far, each with its time.
    pub fn departed(&mut self, port: PortIndex) -> Vec<(u64, MemoryPacket)> {
        std::mem::take(&mut self.ports[usize::from(port.0)].departures)
    }

    /// Lets `port` take `room` more packets and refuse the rest; `None`: it takes all.
    pub fn set_room(&mut self, port: PortIndex, room: Option<usize>) {
        self.ports[usize::from(port.0)].room = room;
    }

    /// Lets memory suffice for `copies` more copies.
    pub fn set_copies_left(&mut self, copies: usize) {
        self.copies_left = copies;
    }

    /// Packets that exist anywhere.
    pub fn live_packets(&self) -> usize {
        self.live.0.load(Ordering::Relaxed)
    }
}

impl PacketIo for MemoryIo {
    type Packet = MemoryPacket;

    fn now(&self) -> u64 {
        self.now
    }

    fn receive(&mut self, port: PortIndex, burst: &mut Burst<MemoryPacket>) {
        let arrivals = &mut self.ports[usize::from(port.0)].arrivals;
        let n = arrivals.len().min(burst.remaining_capacity());
        burst.extend(arrivals.drain(..n));
    }

    fn transmit(&mut self, port: PortIndex, burst: &mut Burst<MemoryPacket>) -> usize {
        let port = &mut self.ports[usize::from(port.0)];
        let n = burst.len().min(port.room.unwrap_or(usize::MAX));
        if let Some(room) = &mut port.room {
            *room -= n;
        }
        port.departures
            .extend(burst.drain(..n).map(|packet| (self.now, packet)));
        n
    }

    fn copy(&mut self, packet: &MemoryPacket) -> Option<MemoryPacket> {
        self.copies_left = self.copies_left.checked_sub(1)?;
        let MemoryPacket {
            ref bytes, ingress, ..
        } = *packet;
        Some(MemoryPacket {
            bytes: bytes.clone(),
            ingress,
            stamp: None,
            live: self.live.another(),
        })
    }

    fn head<'p>(&self, packet: &'p MemoryPacket) -> &'p [u8] {
        &packet.bytes
    }

    fn len_bytes(&self, packet: &MemoryPacket) -> u32 {
        u32::try_from(packet.bytes.len()).unwrap_or(u32::MAX)
    }

    fn ingress(&self, packet: &MemoryPacket) -> PortIndex {
        packet.ingress
    }

    fn stamp(&self, packet: &MemoryPacket) -> Option<Stamp> {
        packet.stamp
    }

    fn set_stamp(&self, packet: &mut MemoryPacket, stamp: &Stamp) {
        packet.stamp = Some(*stamp);
    }
}
