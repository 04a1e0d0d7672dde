//! Packet input and output over real DPDK ports, whose packets come from the device or from a
//! [`Source`] of our own.

use dpdk_bindings::{Mbuf, Mempool, RxQueue, StampField, TxQueue, tsc};
use measure::packet::{FlowHash, PacketHash};
use measure::time::{EpochTag, TickRate};

use super::{Burst, PacketIo, PortIndex, Stamp};
use crate::source::Source;

const TICKS_BITS: u32 = 48;

/// Where a port's packets come from.
pub enum Inlet<'pool> {
    /// The device.
    Queue(RxQueue<'pool>),
    /// A replayed capture or generated traffic, counted from the first poll.
    Source {
        /// The frames and their times.
        source: Box<Source>,
        /// When it was polled first, in ticks.
        started: Option<u64>,
    },
}

/// One port as one worker drives it.
pub struct PortIo<'pool> {
    /// Where its packets come from.
    pub inlet: Inlet<'pool>,
    /// Where its packets go to.
    pub outlet: TxQueue<'pool>,
    /// DPDK's number for the port.
    pub dpdk_port: u16,
}

/// The ports of one worker.
pub struct DpdkIo<'pool> {
    ports: Vec<PortIo<'pool>>,
    pool: &'pool Mempool<'pool>,
    field: StampField,
    rate: TickRate,
    /// Our index of each DPDK port.
    index_of: Vec<PortIndex>,
}

impl<'pool> DpdkIo<'pool> {
    /// Ports in the order of the configuration; `pool` gives memory for copies and for frames of
    /// sources.
    pub fn new(
        ports: Vec<PortIo<'pool>>,
        pool: &'pool Mempool<'pool>,
        field: StampField,
        rate: TickRate,
    ) -> Self {
        let numbers = ports
            .iter()
            .map(|port| usize::from(port.dpdk_port) + 1)
            .max()
            .unwrap_or(0);
        let mut index_of = vec![PortIndex(0); numbers];
        for (n, port) in (0u8..).zip(&ports) {
            index_of[usize::from(port.dpdk_port)] = PortIndex(n);
        }
        Self {
            ports,
            pool,
            field,
            rate,
            index_of,
        }
    }

    /// Every source has played its last frame. Ports without a source never end.
    pub fn sources_exhausted(&self) -> bool {
        self.ports.iter().all(|port| match &port.inlet {
            Inlet::Queue(_) => false,
            Inlet::Source { source, .. } => source.exhausted(),
        })
    }
}

impl<'pool> PacketIo for DpdkIo<'pool> {
    type Packet = Mbuf<'pool>;

    #[inline]
    fn now(&self) -> u64 {
        tsc::now()
    }

    #[inline]
    fn receive(&mut self, port: PortIndex, burst: &mut Burst<Mbuf<'pool>>) {
        let port = &mut self.ports[usize::from(port.0)];
        match &mut port.inlet {
            Inlet::Queue(queue) => {
                queue.receive(burst);
            }
            Inlet::Source { source, started } => {
                let now = tsc::now();
                let elapsed = now.wrapping_sub(*started.get_or_insert(now));
                let room = burst.remaining_capacity();
                source.poll(self.rate.ticks_to_ns(elapsed), room, |frame| {
                    let Some(mut mbuf) = self.pool.alloc_frame(frame.head, frame.len_bytes) else {
                        return false;
                    };
                    mbuf.set_port(port.dpdk_port);
                    burst.push(mbuf);
                    true
                });
            }
        }
    }

    #[inline]
    fn transmit(&mut self, port: PortIndex, burst: &mut Burst<Mbuf<'pool>>) -> usize {
        self.ports[usize::from(port.0)].outlet.transmit(burst)
    }

    fn copy(&mut self, packet: &Mbuf<'pool>) -> Option<Mbuf<'pool>> {
        let mut copy = packet.copy(self.pool)?;
        self.field.clear(&mut copy);
        Some(copy)
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
    fn ingress(&self, packet: &Mbuf<'pool>) -> PortIndex {
        self.index_of
            .get(usize::from(packet.port()))
            .copied()
            .unwrap_or(PortIndex(u8::MAX))
    }

    #[inline]
    fn stamp(&self, packet: &Mbuf<'pool>) -> Option<Stamp> {
        let [flow, hash, time] = self.field.get(packet)?;
        let [worker, epoch, ..] = time.to_be_bytes();
        Some(Stamp {
            flow: FlowHash(flow),
            packet: PacketHash(hash),
            ticks: time & ((1 << TICKS_BITS) - 1),
            epoch: EpochTag(epoch),
            worker,
        })
    }

    #[inline]
    fn set_stamp(&self, packet: &mut Mbuf<'pool>, stamp: &Stamp) {
        let time = stamp.ticks & ((1 << TICKS_BITS) - 1)
            | u64::from(stamp.epoch.0) << TICKS_BITS
            | u64::from(stamp.worker) << (TICKS_BITS + 8);
        self.field.set(packet, [stamp.flow.0, stamp.packet.0, time]);
    }
}
