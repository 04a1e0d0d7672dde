//! Receive and transmit queues: the fast path's ends.

use std::sync::atomic::Ordering;

use arrayvec::ArrayVec;

use crate::mbuf::{FRAME_BYTES_MAX, Mbuf};
use crate::port::{Direction, Port, receive};

/// A receive queue, for one thread at a time; also a handle that keeps its [`Port`] open. Dropping it
/// releases the queue.
#[derive(Debug)]
pub struct RxQueue<'pool> {
    taken: Taken<'pool>,
}

/// A transmit queue, for one thread at a time; also a handle that keeps its [`Port`] open. Dropping it
/// releases the queue.
#[derive(Debug)]
pub struct TxQueue<'pool> {
    taken: Taken<'pool>,
    /// Longest chain of segments that may be sent, in bytes; 0 for none.
    chain_bytes_max: u32,
}

/// An owned queue.
#[derive(Debug)]
struct Taken<'pool> {
    port_id: u16,
    queue: u16,
    direction: Direction,
    port: Port<'pool>,
}

impl<'pool> Taken<'pool> {
    fn take(port: &Port<'pool>, direction: Direction, queue: u16) -> Option<Self> {
        let mark = port.marks(direction).get(usize::from(queue))?;
        let free = !mark.swap(true, Ordering::Acquire);
        free.then(|| Self {
            port_id: port.id(),
            queue,
            direction,
            port: port.clone(),
        })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(mark) = self.port.marks(self.direction).get(usize::from(self.queue)) {
            mark.store(false, Ordering::Release);
        }
    }
}

impl<'pool> Port<'pool> {
    /// Takes receive queue `number`, from 0; `None` if it does not exist or is owned.
    pub fn rx_queue(&self, number: u16) -> Option<RxQueue<'pool>> {
        let taken = Taken::take(self, Direction::Receive, number)?;
        Some(RxQueue { taken })
    }

    /// Takes transmit queue `number`, from 0; `None` if it does not exist or is owned.
    pub fn tx_queue(&self, number: u16) -> Option<TxQueue<'pool>> {
        let taken = Taken::take(self, Direction::Transmit, number)?;
        let chain_bytes_max = if self.transmits_chains() {
            FRAME_BYTES_MAX
        } else {
            0
        };
        Some(TxQueue {
            taken,
            chain_bytes_max,
        })
    }
}

impl<'pool> RxQueue<'pool> {
    /// Its port.
    pub fn port(&self) -> &Port<'pool> {
        &self.taken.port
    }

    /// Its number on its port.
    pub fn number(&self) -> u16 {
        self.taken.queue
    }

    /// Appends received packets, as far as there is room in `burst`; returns their number. Some drivers
    /// return nothing unless there is room for at least 4.
    #[inline]
    pub fn receive<const N: usize>(&mut self, burst: &mut ArrayVec<Mbuf<'pool>, N>) -> usize {
        // SAFETY: the port is started while it has handles, and this queue is ours alone.
        unsafe { receive(self.taken.port_id, self.taken.queue, burst) }
    }
}

impl<'pool> TxQueue<'pool> {
    /// Its port.
    pub fn port(&self) -> &Port<'pool> {
        &self.taken.port
    }

    /// Its number on its port.
    pub fn number(&self) -> u16 {
        self.taken.queue
    }

    /// Passes packets from the front of `burst` to the driver, removes exactly those that it accepted (they
    /// belong to the driver now) and returns their number; the rest stays in order.
    ///
    /// Drop frames over the port's MTU before. A chain of segments that would harm a driver (over 65,535
    /// bytes, or over the MTU on a port that [transmits none](Port::transmits_chains)) counts as accepted
    /// and in [`PortStats::tx_errors`](crate::PortStats::tx_errors), like a frame that a driver cannot
    /// send.
    #[inline]
    pub fn transmit<const N: usize>(&mut self, burst: &mut ArrayVec<Mbuf<'pool>, N>) -> usize {
        const { assert!(N <= u16::MAX as usize, "DPDK counts a burst in 16 bits") };
        let len = burst.len();
        let fit = self.fit(burst);
        if fit == 0 && len > 0 {
            return self.drop_chain(burst);
        }
        #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
        let offered = fit as u16;
        let Taken { port_id, queue, .. } = self.taken;
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

    /// Number of packets from the front that may be passed to the driver. Some drivers do not check for
    /// chains: `net_af_xdp` would read past the first segment. And the length of a longer chain may be
    /// wrong, see [`FRAME_BYTES_MAX`].
    #[inline]
    fn fit(&self, burst: &[Mbuf<'_>]) -> usize {
        // Chains are rare, and a loop over every packet takes fewer instructions than one that may end early.
        if burst.iter().fold(0, |all, mbuf| all | mbuf.segments()) <= 1 {
            return burst.len();
        }
        let unfit =
            |mbuf: &Mbuf<'_>| mbuf.segments() > 1 && mbuf.len_bytes() > self.chain_bytes_max;
        burst.iter().position(unfit).unwrap_or(burst.len())
    }

    /// Drops the chain at the front.
    #[cold]
    fn drop_chain<const N: usize>(&mut self, burst: &mut ArrayVec<Mbuf<'pool>, N>) -> usize {
        drop(burst.pop_at(0));
        self.taken.port.count_chain();
        1
    }
}
