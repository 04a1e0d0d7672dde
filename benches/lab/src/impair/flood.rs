//! One recorded hello, sent again as fast as the port takes it.

use std::ops::Range;

use arrayvec::ArrayVec;
use clap::Args;
use dpdk_bindings::{Mbuf, Mempool, TxQueue};

use crate::frames::HELLO;
use crate::impair::pipeline::whole;
use crate::ports::BURST;

/// Replays the first hello that passes as fast as the port accepts it, in addition to packets that are due.
#[derive(Debug, Clone, Default, Args)]
pub struct Replay {
    /// Seconds for which to replay the first hello to the right, as fast as the port accepts it
    #[arg(long, value_name = "SECONDS")]
    pub replay_right: Option<f64>,
    /// Seconds after that hello until the replay begins
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub replay_after: f64,
}

/// The first hello that passed, and the time of its replay.
#[derive(Debug, Default)]
pub struct Flood<'pool> {
    replay: Replay,
    hello: Option<(Vec<u8>, Range<u64>)>,
    burst: ArrayVec<Mbuf<'pool>, BURST>,
}

impl<'pool> Flood<'pool> {
    pub fn new(replay: Replay) -> Self {
        Self {
            replay,
            ..Self::default()
        }
    }

    /// Keeps the first hello.
    pub fn see(&mut self, frame: &[u8], kind: u8, now_ns: u64) {
        if let Some(for_s) = self.replay.replay_right
            && self.hello.is_none()
            && kind == HELLO
        {
            let from_ns = now_ns + whole(self.replay.replay_after * 1e9);
            self.hello = Some((frame.to_vec(), from_ns..from_ns + whole(for_s * 1e9)));
        }
    }

    /// Sends copies during the replay; returns how many the port accepted.
    pub fn send(
        &mut self,
        tx: &mut TxQueue<'pool>,
        pool: &'pool Mempool<'pool>,
        now_ns: u64,
    ) -> u64 {
        let Some((frame, times_ns)) = &self.hello else {
            return 0;
        };
        if !times_ns.contains(&now_ns) {
            self.burst.clear();
            return 0;
        }
        while !self.burst.is_full()
            && let Some(mbuf) = pool.alloc_frame(frame, 0)
        {
            self.burst.push(mbuf);
        }
        tx.transmit(&mut self.burst) as u64
    }
}
