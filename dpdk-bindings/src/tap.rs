//! What looks at the packets of a program that is not ours, on their way.

use std::ops::Deref;
use std::slice;

use crate::mbuf::Mbuf;

/// Sees packets that pass a queue, on the thread that moves them, and only one burst of a queue at a
/// time. It must neither wait nor panic: a panic is caught, and turns the plugin off.
pub trait Tap: Sync {
    /// Packets that a receive queue has given, or that a transmit queue is offered.
    fn pass(&self, burst: &mut [PassingMbuf<'_>]);

    /// Packets that a vhost-user device has taken. They were offered to it when the time stamp counter was at `offered_tsc`,
    /// with `refused` more behind them, which it had no room for.
    fn taken(&self, burst: &mut [PassingMbuf<'_>], refused: usize, offered_tsc: u64) {
        let _ = (refused, offered_tsc);
        self.pass(burst);
    }
}

/// A packet of the program's that passes a [`Tap`]: to be read, and to be stamped. Its frame is not ours to
/// write: the program may share its buffer with other mbufs (`rte_pktmbuf_clone`), or the mbuf itself.
///
/// ```compile_fail,E0596
/// # fn pass(burst: &mut [dpdk_bindings::PassingMbuf<'_>]) {
/// burst[0].head_mut()[0] = 0;
/// # }
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct PassingMbuf<'pool>(Mbuf<'pool>);

impl<'pool> PassingMbuf<'pool> {
    /// Packets of one's own as a tap sees a program's: for tests.
    pub fn of<'b>(burst: &'b mut [Mbuf<'pool>]) -> &'b mut [Self] {
        // SAFETY: transparent, and what is borrowed here is not dropped.
        unsafe { slice::from_raw_parts_mut(burst.as_mut_ptr().cast(), burst.len()) }
    }
}

impl<'pool> Deref for PassingMbuf<'pool> {
    type Target = Mbuf<'pool>;

    #[inline]
    fn deref(&self) -> &Mbuf<'pool> {
        &self.0
    }
}
