//! Two ports, one for each side.

use std::borrow::Cow;

use arrayvec::ArrayVec;
use dpdk_bindings::{Mbuf, Mempool};

use crate::pktgen::frames::Frame;
use crate::ports::{BURST, Clock, Queues};

/// The connection to the switch.
pub trait Wire {
    /// A monotonic clock.
    fn now_ns(&mut self) -> u64;
    /// Sends frames on a side, [`BURST`] at most; returns how many the port took.
    fn send(&mut self, side: usize, frames: &[Cow<'_, Frame>]) -> usize;
    /// Calls `each` with the first bytes of each frame received on a side; returns their number.
    fn receive(&mut self, side: usize, each: &mut dyn FnMut(&[u8])) -> usize;
}

/// Two DPDK ports.
#[derive(Debug)]
pub struct Ports<'pool> {
    pool: &'pool Mempool<'pool>,
    clock: Clock,
    sides: [Queues<'pool>; 2],
    burst: ArrayVec<Mbuf<'pool>, BURST>,
}

impl<'pool> Ports<'pool> {
    pub fn new(sides: [Queues<'pool>; 2], pool: &'pool Mempool<'pool>) -> Self {
        Self {
            pool,
            clock: Clock::default(),
            sides,
            burst: ArrayVec::new(),
        }
    }
}

impl Wire for Ports<'_> {
    fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }

    fn send(&mut self, side: usize, frames: &[Cow<'_, Frame>]) -> usize {
        let frames = frames.iter().take(BURST);
        let mbufs = frames.map_while(|frame| self.pool.alloc_frame(&frame.head, frame.len_bytes));
        self.burst.extend(mbufs);
        let sent = self.sides[side].1.transmit(&mut self.burst);
        dpdk_bindings::free_bulk(&mut self.burst);
        sent
    }

    fn receive(&mut self, side: usize, each: &mut dyn FnMut(&[u8])) -> usize {
        let received = self.sides[side].0.receive(&mut self.burst);
        for mbuf in &self.burst {
            each(mbuf.head());
        }
        dpdk_bindings::free_bulk(&mut self.burst);
        received
    }
}

#[cfg(test)]
pub mod model {
    //! A model of a switch: one queue and one server for each direction.

    use std::borrow::Cow;
    use std::collections::VecDeque;

    use super::{Frame, Wire};

    /// Swaps both sides' traffic at a capacity, through queues of a length.
    #[derive(Debug)]
    pub struct Model {
        now_ns: u64,
        step_ns: u64,
        service_ns: f64,
        delay_ns: u64,
        room: usize,
        free_ns: [f64; 2],
        /// Frames in flight to a side, and when they come out.
        under_way: [VecDeque<(u64, Frame)>; 2],
        /// Frames that found its queue full.
        pub lost: u64,
    }

    impl Model {
        /// `capacity_pps` each way; each look at the clock takes `step_ns`.
        pub fn new(capacity_pps: f64, room: usize, delay_ns: u64, step_ns: u64) -> Self {
            Self {
                now_ns: 0,
                step_ns,
                service_ns: 1e9 / capacity_pps,
                delay_ns,
                room,
                free_ns: [0.0; 2],
                under_way: [VecDeque::new(), VecDeque::new()],
                lost: 0,
            }
        }
    }

    impl Wire for Model {
        fn now_ns(&mut self) -> u64 {
            self.now_ns += self.step_ns;
            self.now_ns
        }

        fn send(&mut self, side: usize, frames: &[Cow<'_, Frame>]) -> usize {
            let to = 1 - side;
            for frame in frames {
                let start = self.free_ns[to].max(self.now_ns as f64);
                let waiting = (start - self.now_ns as f64) / self.service_ns;
                if waiting >= self.room as f64 {
                    self.lost += 1;
                    continue;
                }
                self.free_ns[to] = start + self.service_ns;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a short test"
                )]
                let out_ns = self.free_ns[to] as u64 + self.delay_ns;
                self.under_way[to].push_back((out_ns, frame.clone().into_owned()));
            }
            frames.len()
        }

        fn receive(&mut self, side: usize, each: &mut dyn FnMut(&[u8])) -> usize {
            let mut received = 0;
            while let Some((out_ns, frame)) = self.under_way[side].front() {
                if *out_ns > self.now_ns {
                    break;
                }
                each(&frame.head);
                self.under_way[side].pop_front();
                received += 1;
            }
            received
        }
    }
}
