//! Packet input and output over real DPDK ports, with packets from the device or from one of our own
//! [`Source`]s.

use std::fmt;

use contract::config::PORTS_MAX;
use contract::ids::PortIndex;
use dpdk_bindings::{Mbuf, Mempool, RxQueue, TxQueue, tsc};
use measure::packet::header::ethertype;
use measure::time::{TickRate, Ticks};

use super::{Burst, PacketIo, PortHandles};
use crate::source::Source;

/// Most receive queues that one worker serves.
pub const INLETS_MAX: usize = 1024;

/// An origin of packets.
#[derive(Debug)]
pub enum Inlet<'pool> {
    /// A receive queue of the device.
    Queue(RxQueue<'pool>),
    /// A replayed capture or generated traffic, timed from the first poll.
    Source {
        /// The frames and their times.
        source: Box<Source>,
        /// Time of the first poll.
        started: Option<Ticks>,
    },
}

impl From<Source> for Inlet<'_> {
    fn from(source: Source) -> Self {
        Self::Source {
            source: Box::new(source),
            started: None,
        }
    }
}

/// A worker's part of a port. The handles keep the port open.
#[derive(Debug)]
pub struct Handles<'pool> {
    /// The port.
    pub port: PortIndex,
    /// The receive queues that the worker serves.
    pub inlets: Vec<Inlet<'pool>>,
    /// Its way out; `None` if another worker transmits for all.
    pub outlet: Option<TxQueue<'pool>>,
}

impl PortHandles for Handles<'_> {
    fn room(port: PortIndex, inlets: usize) -> Self {
        Self {
            port,
            inlets: Vec::with_capacity(inlets),
            outlet: None,
        }
    }
}

/// The ports of one worker.
pub struct DpdkIo<'pool> {
    /// The port of each inlet.
    ports: Vec<PortIndex>,
    inlets: Vec<Inlet<'pool>>,
    /// By port.
    outlets: Vec<Option<TxQueue<'pool>>>,
    pool: &'pool Mempool<'pool>,
    rate: TickRate,
}

impl<'pool> DpdkIo<'pool> {
    /// Uses these ports, with room for all possible ones; `pool` provides memory for copies and for frames
    /// of sources.
    pub fn new(handles: Vec<Handles<'pool>>, pool: &'pool Mempool<'pool>, rate: TickRate) -> Self {
        let mut io = Self {
            ports: Vec::with_capacity(INLETS_MAX),
            inlets: Vec::with_capacity(INLETS_MAX),
            outlets: std::iter::repeat_with(|| None).take(PORTS_MAX).collect(),
            pool,
            rate,
        };
        for mut handles in handles {
            io.take_over(&mut handles);
        }
        io
    }
}

impl fmt::Debug for DpdkIo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpdkIo")
            .field("inlets", &self.ports)
            .finish_non_exhaustive()
    }
}

impl<'pool> PacketIo for DpdkIo<'pool> {
    type Packet = Mbuf<'pool>;
    type Handles = Handles<'pool>;

    #[inline]
    fn now(&self) -> Ticks {
        Ticks(tsc::now())
    }

    #[inline]
    fn inlets(&self) -> &[PortIndex] {
        &self.ports
    }

    #[inline]
    fn receive(&mut self, inlet: usize, burst: &mut Burst<Mbuf<'pool>>) {
        match &mut self.inlets[inlet] {
            Inlet::Queue(queue) => {
                queue.receive(burst);
            }
            Inlet::Source { source, started } => {
                let now = Ticks(tsc::now());
                let elapsed = now.saturating_since(*started.get_or_insert(now));
                let room = burst.remaining_capacity();
                source.poll(self.rate.ticks_to_ns(elapsed), room, |frame| {
                    let mbuf = self.pool.alloc_frame(frame.head, frame.len_bytes);
                    mbuf.map(|mbuf| burst.push(mbuf)).is_some()
                });
            }
        }
    }

    #[inline]
    fn transmit(&mut self, port: PortIndex, burst: &mut Burst<Mbuf<'pool>>) -> usize {
        match self.outlets.get_mut(port.index()) {
            Some(Some(outlet)) => outlet.transmit(burst),
            _ => 0,
        }
    }

    fn copy(&mut self, packet: &Mbuf<'pool>) -> Option<Mbuf<'pool>> {
        packet.copy(self.pool)
    }

    fn make(&mut self, bytes: &[u8]) -> Option<Mbuf<'pool>> {
        self.pool.alloc_frame(bytes, 0)
    }

    #[inline]
    fn head<'p>(&self, packet: &'p Mbuf<'pool>) -> &'p [u8] {
        packet.head()
    }

    #[inline]
    fn len_bytes(&self, packet: &Mbuf<'pool>) -> u32 {
        packet.len_bytes()
    }

    #[inline]
    fn push_vlan(&mut self, packet: &mut Mbuf<'pool>, tci: u16) -> bool {
        packet.push_vlan(ethertype::VLAN, tci).is_ok()
    }

    #[inline]
    fn pop_vlan(&mut self, packet: &mut Mbuf<'pool>) -> bool {
        packet.pop_vlan().is_some()
    }

    fn take_over(&mut self, handles: &mut Handles<'pool>) {
        for inlet in handles.inlets.drain(..) {
            self.ports.push(handles.port);
            self.inlets.push(inlet);
        }
        if let Some(outlet) = self.outlets.get_mut(handles.port.index()) {
            std::mem::swap(outlet, &mut handles.outlet);
        }
    }

    fn give_back(&mut self, handles: &mut Handles<'pool>) {
        while let Some(index) = self.ports.iter().position(|&port| port == handles.port) {
            self.ports.remove(index);
            handles.inlets.push(self.inlets.remove(index));
        }
        if let Some(outlet) = self.outlets.get_mut(handles.port.index()) {
            std::mem::swap(outlet, &mut handles.outlet);
        }
    }
}
