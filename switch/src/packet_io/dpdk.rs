//! Packet input and output over real DPDK ports, whose packets come from the device or from a
//! [`Source`] of our own.

use dpdk_bindings::{Mbuf, Mempool, RxQueue, TxQueue, tsc};
use measure::time::TickRate;

use super::{Burst, PacketIo, PortIndex};
use crate::source::Source;

/// Type of an 802.1Q tag.
const TPID_VLAN: u16 = 0x8100;

/// Where packets come from.
pub enum Inlet<'pool> {
    /// A receive queue of the device.
    Queue(RxQueue<'pool>),
    /// A replayed capture or generated traffic, counted from the first poll.
    Source {
        /// The frames and their times.
        source: Box<Source>,
        /// When it was polled first, in ticks.
        started: Option<u64>,
    },
}

/// What one worker has of one port.
#[derive(Default)]
pub struct Handles<'pool> {
    /// Receive queues that it serves.
    pub inlets: Vec<Inlet<'pool>>,
    /// Its transmit queue; none where another worker owns the port.
    pub outlet: Option<TxQueue<'pool>>,
}

/// Ports that come and go.
pub struct PortChange<'pool> {
    /// What the worker is to have of each of these ports, or nothing. Taken up, it is what the
    /// worker had of them before.
    pub ports: Vec<(PortIndex, Handles<'pool>)>,
}

/// The ports of one worker.
pub struct DpdkIo<'pool> {
    /// The port of each inlet.
    inlet_ports: Vec<PortIndex>,
    inlets: Vec<Inlet<'pool>>,
    outlets: Vec<Option<TxQueue<'pool>>>,
    pool: &'pool Mempool<'pool>,
    rate: TickRate,
}

impl<'pool> DpdkIo<'pool> {
    /// Ports in the order of the configuration; `pool` gives memory for copies and for frames of
    /// sources.
    pub fn new(ports: Vec<Handles<'pool>>, pool: &'pool Mempool<'pool>, rate: TickRate) -> Self {
        let mut io = Self {
            inlet_ports: Vec::new(),
            inlets: Vec::new(),
            outlets: Vec::new(),
            pool,
            rate,
        };
        for (n, handles) in (0u8..).zip(ports) {
            io.connect(PortIndex(n), handles);
        }
        io
    }

    fn connect(&mut self, port: PortIndex, handles: Handles<'pool>) {
        let Handles { inlets, outlet } = handles;
        self.inlet_ports.extend(inlets.iter().map(|_| port));
        self.inlets.extend(inlets);
        let place = usize::from(port.0);
        if self.outlets.len() <= place {
            self.outlets.resize_with(place + 1, || None);
        }
        self.outlets[place] = outlet;
    }

    fn disconnect(&mut self, port: PortIndex) -> Handles<'pool> {
        let mut handles = Handles {
            inlets: Vec::new(),
            outlet: (self.outlets.get_mut(usize::from(port.0))).and_then(Option::take),
        };
        while let Some(at) = self.inlet_ports.iter().position(|&of| of == port) {
            self.inlet_ports.remove(at);
            handles.inlets.push(self.inlets.remove(at));
        }
        handles
    }

    /// Every source has played its last frame. Ports without a source never end.
    pub fn sources_exhausted(&self) -> bool {
        self.inlets.iter().all(|inlet| match inlet {
            Inlet::Queue(_) => false,
            Inlet::Source { source, .. } => source.exhausted(),
        })
    }
}

impl<'pool> PacketIo for DpdkIo<'pool> {
    type Packet = Mbuf<'pool>;
    type Change = PortChange<'pool>;

    #[inline]
    fn now(&self) -> u64 {
        tsc::now()
    }

    #[inline]
    fn inlets(&self) -> &[PortIndex] {
        &self.inlet_ports
    }

    #[inline]
    fn receive(&mut self, inlet: usize, burst: &mut Burst<Mbuf<'pool>>) {
        match &mut self.inlets[inlet] {
            Inlet::Queue(queue) => {
                queue.receive(burst);
            }
            Inlet::Source { source, started } => {
                let now = tsc::now();
                let elapsed = now.wrapping_sub(*started.get_or_insert(now));
                let room = burst.remaining_capacity();
                source.poll(self.rate.ticks_to_ns(elapsed), room, |frame| {
                    match self.pool.alloc_frame(frame.head, frame.len_bytes) {
                        Some(mbuf) => {
                            burst.push(mbuf);
                            true
                        }
                        None => false,
                    }
                });
            }
        }
    }

    #[inline]
    fn transmit(&mut self, port: PortIndex, burst: &mut Burst<Mbuf<'pool>>) -> usize {
        match &mut self.outlets[usize::from(port.0)] {
            Some(outlet) => outlet.transmit(burst),
            None => 0,
        }
    }

    fn copy(&mut self, packet: &Mbuf<'pool>) -> Option<Mbuf<'pool>> {
        packet.copy(self.pool)
    }

    #[inline]
    fn head<'p>(&self, packet: &'p Mbuf<'pool>) -> &'p [u8] {
        packet.head()
    }

    #[inline]
    fn len_bytes(&self, packet: &Mbuf<'pool>) -> u32 {
        packet.len_bytes()
    }

    fn push_vlan(&mut self, packet: &mut Mbuf<'pool>, tci: u16) -> bool {
        packet.push_vlan(TPID_VLAN, tci).is_ok()
    }

    fn pop_vlan(&mut self, packet: &mut Mbuf<'pool>) -> bool {
        packet.pop_vlan().is_some()
    }

    fn change(&mut self, change: &mut PortChange<'pool>) {
        for (port, handles) in &mut change.ports {
            let old = self.disconnect(*port);
            let new = std::mem::replace(handles, old);
            self.connect(*port, new);
        }
    }
}
