//! Receive and transmit queues: the fast path's ends.

use std::sync::atomic::Ordering;

use arrayvec::ArrayVec;

use crate::mbuf::{FRAME_BYTES_MAX, Mbuf};
use crate::port::Port;

/// One receive queue, for one thread at a time; also a handle that keeps its [`Port`] going.
/// Dropping it lets another take it.
#[derive(Debug)]
pub struct RxQueue<'pool> {
    place: Place<'pool>,
}

/// One transmit queue, for one thread at a time; also a handle that keeps its [`Port`] going.
/// Dropping it lets another take it.
#[derive(Debug)]
pub struct TxQueue<'pool> {
    place: Place<'pool>,
    /// Longest chain of segments that may be sent, bytes; 0 for none.
    chain_bytes_max: u32,
}

/// Which way packets go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Direction {
    Receive,
    Transmit,
}

/// A queue that is taken.
#[derive(Debug)]
struct Place<'pool> {
    port_id: u16,
    queue: u16,
    direction: Direction,
    port: Port<'pool>,
}

impl<'pool> Place<'pool> {
    fn take(port: &Port<'pool>, direction: Direction, queue: u16) -> Option<Self> {
        let taken = port.marks(direction).get(usize::from(queue))?;
        let free = !taken.swap(true, Ordering::Acquire);
        free.then(|| Self {
            port_id: port.id(),
            queue,
            direction,
            port: port.clone(),
        })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.port.marks(self.direction).get(usize::from(self.queue)) {
            taken.store(false, Ordering::Release);
        }
    }
}

impl<'pool> RxQueue<'pool> {
    pub(crate) fn take(port: &Port<'pool>, number: u16) -> Option<Self> {
        Place::take(port, Direction::Receive, number).map(|place| Self { place })
    }

    /// Its port.
    pub fn port(&self) -> &Port<'pool> {
        &self.place.port
    }

    /// Its number on its port.
    pub fn number(&self) -> u16 {
        self.place.queue
    }

    /// Appends packets that wait, as far as there is room in `burst`; returns how many. Some drivers
    /// give nothing unless there is room for 4 or more.
    #[inline]
    pub fn receive<const N: usize>(&mut self, burst: &mut ArrayVec<Mbuf<'pool>, N>) -> usize {
        // SAFETY: the port is started while it has handles, and this queue is ours alone.
        unsafe { receive(self.place.port_id, self.place.queue, burst) }
    }
}

/// Appends packets that wait at a queue.
///
/// # Safety
/// The port is started, has the queue, nobody else polls it, and the pools of what it gives
/// outlive the packets' lifetime.
#[inline]
pub(crate) unsafe fn receive<const N: usize>(
    port_id: u16,
    queue: u16,
    burst: &mut ArrayVec<Mbuf<'_>, N>,
) -> usize {
    let len = burst.len();
    let room = u16::try_from(N - len).unwrap_or(u16::MAX);
    // SAFETY: the caller vouches for the queue. Mbuf is a transparent pointer, room of them fit
    // behind the first len, and the driver writes the received first ones of these, giving up
    // ownership (rte_ethdev.h, rte_eth_rx_burst).
    unsafe {
        let free = burst.as_mut_ptr().add(len).cast();
        let received = usize::from(dpdk_sys::vernier_rx_burst(port_id, queue, free, room));
        burst.set_len(len + received);
        received
    }
}

impl<'pool> TxQueue<'pool> {
    pub(crate) fn take(port: &Port<'pool>, number: u16) -> Option<Self> {
        Place::take(port, Direction::Transmit, number).map(|place| Self {
            place,
            chain_bytes_max: if port.transmits_chains() {
                FRAME_BYTES_MAX
            } else {
                0
            },
        })
    }

    /// Its port.
    pub fn port(&self) -> &Port<'pool> {
        &self.place.port
    }

    /// Its number on its port.
    pub fn number(&self) -> u16 {
        self.place.queue
    }

    /// Hands packets to the driver from the front of `burst`, removes exactly those that it accepted
    /// (they are the driver's now) and returns how many; the rest stays in order.
    ///
    /// Drop frames over the port's MTU before. A chain of segments that would harm a driver (over
    /// 65,535 bytes, or any on a port that [transmits none](Port::transmits_chains), where it is over
    /// the MTU) counts as accepted and in [`PortStats::tx_errors`](crate::PortStats::tx_errors), as
    /// drivers count a frame that they cannot send.
    #[inline]
    pub fn transmit<const N: usize>(&mut self, burst: &mut ArrayVec<Mbuf<'pool>, N>) -> usize {
        let len = burst.len();
        let fit = self.fit(burst);
        if fit == 0 && len > 0 {
            return self.swallow(burst);
        }
        let offered = u16::try_from(fit).unwrap_or(u16::MAX);
        let Place { port_id, queue, .. } = self.place;
        // SAFETY: the port is started while it has handles, and this queue is ours alone. Mbuf is a
        // transparent pointer, so the burst is an array of owned packets whose pools outlive the
        // port; the first sent of them pass to the driver (rte_ethdev.h, rte_eth_tx_burst), so they
        // are overwritten by the rest without being dropped.
        unsafe {
            let mbufs = burst.as_mut_ptr();
            let sent = usize::from(dpdk_sys::vernier_tx_burst(
                port_id,
                queue,
                mbufs.cast(),
                offered,
            ));
            if sent < len {
                mbufs.copy_from(mbufs.add(sent), len - sent);
            }
            burst.set_len(len - sent);
            sent
        }
    }

    /// How many packets from the front may be shown to the driver. Not every driver looks whether a
    /// packet is a chain: `net_af_xdp` would read past its first segment. And the length of a longer
    /// chain may be false, see [`FRAME_BYTES_MAX`].
    #[inline]
    fn fit(&self, burst: &[Mbuf<'_>]) -> usize {
        let unfit =
            |mbuf: &Mbuf<'_>| mbuf.segments() > 1 && mbuf.len_bytes() > self.chain_bytes_max;
        burst.iter().position(unfit).unwrap_or(burst.len())
    }

    /// Drops the chain at the front.
    #[cold]
    fn swallow<const N: usize>(&mut self, burst: &mut ArrayVec<Mbuf<'pool>, N>) -> usize {
        drop(burst.pop_at(0));
        self.place.port.count_chain();
        1
    }
}
