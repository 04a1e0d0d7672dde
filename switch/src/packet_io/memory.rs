//! A switch in memory: ports that are queues, and a clock set by the test.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contract::ids::PortIndex;
use measure::packet::header::{ethernet, ethertype, vlan};
use measure::time::Ticks;

use super::{Burst, PacketIo, PortHandles};

/// Position of a VLAN tag: behind the addresses.
const TAG_AT: usize = ethernet::field::ETHERTYPE.start;

/// Counts existing packets, so that tests notice lost and invented ones.
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
    number: Option<u64>,
    received: Ticks,
    live: Live,
}

/// A numbered packet received by a worker, and the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub number: u64,
    /// Its ingress port.
    pub port: PortIndex,
    /// Time by the worker's clock.
    pub at: Ticks,
}

impl MemoryPacket {
    /// The number given by the test; copies have the same number, packets made here none.
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// When a worker received it, by its clock.
    pub fn received(&self) -> Ticks {
        self.received
    }

    /// The whole frame.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its ingress port.
    pub fn ingress(&self) -> PortIndex {
        self.ingress
    }
}

impl Drop for MemoryPacket {
    fn drop(&mut self) {
        self.live.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct MemoryPort {
    departures: Vec<(Ticks, MemoryPacket)>,
    /// Number of packets that the port still accepts; `None` for all.
    room: Option<usize>,
    outlet: Option<Outlet>,
}

/// One worker's view of ports in memory, and its clock.
#[derive(Debug)]
pub struct MemoryIo {
    now: Cell<Ticks>,
    /// Ticks that pass with each reading of the clock.
    step_ticks: u64,
    inlets: Vec<PortIndex>,
    /// Frames queued at each inlet.
    arrivals: Vec<VecDeque<MemoryPacket>>,
    ports: Vec<MemoryPort>,
    live: Live,
    /// Counts packets made here, instead of copied.
    made: Live,
    copies_left: usize,
    /// Numbered packets received and not yet taken.
    received: Vec<Received>,
}

/// Shows whether a port is in use: each worker with a way out has a copy.
pub type Outlet = Arc<()>;

/// A worker's part of a port in memory.
#[derive(Debug)]
pub struct MemoryHandles {
    /// The port.
    pub port: PortIndex,
    /// Frames queued at each receive queue that the worker serves.
    pub inlets: Vec<VecDeque<MemoryPacket>>,
    /// Its way out; frames also leave without one.
    pub outlet: Option<Outlet>,
}

impl PortHandles for MemoryHandles {
    fn room(port: PortIndex, inlets: usize) -> Self {
        Self {
            port,
            inlets: Vec::with_capacity(inlets),
            outlet: None,
        }
    }
}

impl Default for MemoryIo {
    /// No ports yet, at time 0.
    fn default() -> Self {
        Self {
            now: Cell::new(Ticks(0)),
            step_ticks: 0,
            arrivals: Vec::new(),
            inlets: Vec::new(),
            ports: Vec::new(),
            live: Live::default(),
            made: Live::default(),
            copies_left: usize::MAX,
            received: Vec::new(),
        }
    }
}

impl MemoryIo {
    /// Sets the clock.
    pub fn set_now(&mut self, now: Ticks) {
        self.now.set(now);
    }

    /// Sets the ticks that pass with each reading of the clock.
    pub fn set_tick(&mut self, ticks: u64) {
        self.step_ticks = ticks;
    }

    /// Queues a frame at the first receive queue of `port`; it is lost if none is served here.
    pub fn arrive(&mut self, port: PortIndex, bytes: Vec<u8>) {
        self.arrive_as(port, bytes, None);
    }

    /// Queues a frame with this number; returns whether a receive queue of `port` is served here.
    pub fn arrive_as(&mut self, port: PortIndex, bytes: Vec<u8>, number: Option<u64>) -> bool {
        let inlet = self.inlets.iter().position(|&inlet| inlet == port);
        let Some(waiting) = inlet.and_then(|inlet| self.arrivals.get_mut(inlet)) else {
            return false;
        };
        waiting.push_back(MemoryPacket {
            bytes,
            ingress: port,
            number,
            received: Ticks(0),
            live: self.live.another(),
        });
        true
    }

    /// Takes the numbered packets received since the last call, in order.
    pub fn take_received(&mut self) -> Vec<Received> {
        std::mem::take(&mut self.received)
    }

    /// Takes the packets that `port` has sent, each with its time.
    pub fn departed(&mut self, port: PortIndex) -> Vec<(Ticks, MemoryPacket)> {
        std::mem::take(&mut self.ports[port.index()].departures)
    }

    /// Makes `port` accept `room` more packets and refuse the rest; `None` for all.
    pub fn set_room(&mut self, port: PortIndex, room: Option<usize>) {
        self.ports[port.index()].room = room;
    }

    /// Limits memory to `copies` more packets that are copied or made here.
    pub fn set_copies_left(&mut self, copies: usize) {
        self.copies_left = copies;
    }

    /// Whether there is such a port yet.
    pub fn has_port(&self, port: PortIndex) -> bool {
        port.index() < self.ports.len()
    }

    /// Packets waiting to be received.
    pub fn waiting(&self) -> usize {
        self.arrivals.iter().map(VecDeque::len).sum()
    }

    /// Existing packets that were made here.
    pub fn live_packets(&self) -> usize {
        self.live.0.load(Ordering::Relaxed) + self.made_packets()
    }

    /// Of these, packets made from bytes: control frames.
    pub fn made_packets(&self) -> usize {
        self.made.0.load(Ordering::Relaxed)
    }
}

impl PacketIo for MemoryIo {
    type Packet = MemoryPacket;
    type Handles = MemoryHandles;

    fn now(&self) -> Ticks {
        self.now.replace(self.now.get().plus(self.step_ticks))
    }

    fn inlets(&self) -> &[PortIndex] {
        &self.inlets
    }

    fn receive(&mut self, inlet: usize, burst: &mut Burst<MemoryPacket>) {
        let arrivals = &mut self.arrivals[inlet];
        let n = arrivals.len().min(burst.remaining_capacity());
        let at = self.now.get();
        for mut packet in arrivals.drain(..n) {
            packet.received = at;
            if let Some(number) = packet.number {
                let port = packet.ingress;
                self.received.push(Received { number, port, at });
            }
            burst.push(packet);
        }
    }

    fn transmit(&mut self, port: PortIndex, burst: &mut Burst<MemoryPacket>) -> usize {
        let port = &mut self.ports[port.index()];
        let n = burst.len().min(port.room.unwrap_or(usize::MAX));
        if let Some(room) = &mut port.room {
            *room -= n;
        }
        port.departures
            .extend(burst.drain(..n).map(|packet| (self.now.get(), packet)));
        n
    }

    fn copy(&mut self, packet: &MemoryPacket) -> Option<MemoryPacket> {
        self.copies_left = self.copies_left.checked_sub(1)?;
        Some(MemoryPacket {
            bytes: packet.bytes.clone(),
            ingress: packet.ingress,
            number: packet.number,
            received: packet.received,
            live: self.live.another(),
        })
    }

    fn make(&mut self, bytes: &[u8]) -> Option<MemoryPacket> {
        self.copies_left = self.copies_left.checked_sub(1)?;
        Some(MemoryPacket {
            bytes: bytes.to_vec(),
            ingress: PortIndex(u8::MAX),
            number: None,
            received: self.now.get(),
            live: self.made.another(),
        })
    }

    fn head<'p>(&self, packet: &'p MemoryPacket) -> &'p [u8] {
        &packet.bytes
    }

    fn len_bytes(&self, packet: &MemoryPacket) -> u32 {
        u32::try_from(packet.bytes.len()).unwrap_or(u32::MAX)
    }

    fn push_vlan(&mut self, packet: &mut MemoryPacket, tci: u16) -> bool {
        if packet.bytes.len() < TAG_AT {
            return false;
        }
        let tag = [ethertype::VLAN, tci].map(u16::to_be_bytes);
        packet
            .bytes
            .splice(TAG_AT..TAG_AT, tag.as_flattened().iter().copied());
        true
    }

    fn pop_vlan(&mut self, packet: &mut MemoryPacket) -> bool {
        let header = ethernet::Header::of(&packet.bytes);
        let is_tagged = header.is_some_and(|header| header.ethertype() == ethertype::VLAN)
            && packet.bytes.len() >= TAG_AT + vlan::BYTES;
        if is_tagged {
            packet.bytes.drain(TAG_AT..TAG_AT + vlan::BYTES);
        }
        is_tagged
    }

    fn take_over(&mut self, handles: &mut MemoryHandles) {
        for inlet in handles.inlets.drain(..) {
            self.inlets.push(handles.port);
            self.arrivals.push(inlet);
        }
        let index = handles.port.index();
        while self.ports.len() <= index {
            self.ports.push(MemoryPort::default());
        }
        std::mem::swap(&mut self.ports[index].outlet, &mut handles.outlet);
    }

    /// Packets queued at a receive queue that is no longer served are lost with it.
    fn give_back(&mut self, handles: &mut MemoryHandles) {
        while let Some(index) = self.inlets.iter().position(|&port| port == handles.port) {
            self.inlets.remove(index);
            let mut inlet = self.arrivals.remove(index);
            inlet.clear();
            handles.inlets.push(inlet);
        }
        if let Some(port) = self.ports.get_mut(handles.port.index()) {
            std::mem::swap(&mut port.outlet, &mut handles.outlet);
        }
    }
}
