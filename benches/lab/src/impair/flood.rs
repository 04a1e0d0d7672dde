//! One recorded hello, sent again as fast as the port takes it.

use crate::frames::{Class, HELLO};
use arrayvec::ArrayVec;
use dpdk_bindings::{Mbuf, Mempool, TxQueue};

use crate::impair::bridge::BURST;
use crate::impair::impairment::Replay;
use crate::impair::pipeline::whole;

/// The first hello that passed, and when it is replayed.
#[derive(Debug)]
pub struct Flood<'pool> {
    replay: Option<Replay>,
    hello: Option<Hello>,
    burst: ArrayVec<Mbuf<'pool>, BURST>,
}

#[derive(Debug)]
struct Hello {
    frame: Vec<u8>,
    from_ns: u64,
    until_ns: u64,
}

impl<'pool> Flood<'pool> {
    /// As configured; without `replay` nothing is sent.
    pub fn new(replay: Option<Replay>) -> Self {
        Self {
            replay,
            hello: None,
            burst: ArrayVec::new(),
        }
    }

    /// Keeps the first hello.
    pub fn see(&mut self, frame: &[u8], class: Class, now_ns: u64) {
        if let Some(replay) = &self.replay
            && self.hello.is_none()
            && class.kind == HELLO
        {
            let from_ns = now_ns + whole(replay.after_s * 1e9);
            let until_ns = from_ns + whole(replay.for_s * 1e9);
            self.hello = Some(Hello {
                frame: frame.to_vec(),
                from_ns,
                until_ns,
            });
        }
    }

    /// Sends copies while it is time for them; how many the port took.
    pub fn send(
        &mut self,
        tx: &mut TxQueue<'pool>,
        pool: &'pool Mempool<'pool>,
        now_ns: u64,
    ) -> u64 {
        let Some(hello) = &self.hello else {
            return 0;
        };
        if !(hello.from_ns..hello.until_ns).contains(&now_ns) {
            self.burst.clear();
            return 0;
        }
        while !self.burst.is_full()
            && let Some(mbuf) = pool.alloc_frame(&hello.frame, 0)
        {
            self.burst.push(mbuf);
        }
        tx.transmit(&mut self.burst) as u64
    }
}
