//! What waits to leave by a port: packets that the driver refused, in order, then a bounded queue
//! that a shaper empties at the port's capacity.

use std::collections::VecDeque;

use measure::time::TickRate;

use crate::packet_io::Burst;

pub mod layout;
pub mod port;
pub mod queue;
pub mod red;
pub mod scheduler;
pub mod shaper;

/// What a frame takes on the wire besides its bytes: preamble and start delimiter 8, frame check
/// sequence 4, gap 12 (IEEE 802.3 clauses 3.1.1 and 4.4.2).
pub const WIRE_OVERHEAD_BYTES: u32 = 24;

/// Paces departures to a capacity in bit/s: a frame may start when the frame before it has ended.
#[derive(Debug, Clone)]
pub struct Shaper {
    /// Ticks that a byte takes, as a fixed-point number with 32 fractional bits.
    ticks_per_byte_q32: u128,
    /// When the link falls free: whole ticks, and 2^-32 of them.
    free_at: u64,
    free_at_fraction: u32,
}

impl Shaper {
    /// A link of `capacity_bps` bit/s (raised to 1).
    pub fn new(capacity_bps: u64, rate: TickRate) -> Self {
        let ticks_per_byte_q32 =
            ((8 * u128::from(rate.hz())) << 32) / u128::from(capacity_bps.max(1));
        Self {
            ticks_per_byte_q32,
            free_at: 0,
            free_at_fraction: 0,
        }
    }

    /// A packet came to an empty queue at `now`: an idle link does not save up time.
    fn wake(&mut self, now: u64) {
        if self.free_at < now {
            (self.free_at, self.free_at_fraction) = (now, 0);
        }
    }

    fn is_free(&self, now: u64) -> bool {
        self.free_at <= now
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "split into whole ticks and fraction"
    )]
    fn occupy(&mut self, frame_bytes: u32) {
        let bytes = u128::from(frame_bytes + WIRE_OVERHEAD_BYTES);
        let span = self.ticks_per_byte_q32 * bytes + u128::from(self.free_at_fraction);
        self.free_at = self.free_at.saturating_add((span >> 32) as u64);
        self.free_at_fraction = span as u32;
    }
}

/// The egress side of a port.
#[derive(Debug)]
pub struct Egress<P> {
    /// What goes to the driver next: ready, or refused before and held in order.
    pub head: Burst<P>,
    queue: VecDeque<P>,
    queue_packets_max: usize,
    shaper: Option<Shaper>,
}

impl<P> Egress<P> {
    /// A queue of `queue_packets_max` packets, emptied by `shaper` or, without one, as fast as the
    /// driver takes them.
    pub fn new(queue_packets_max: usize, shaper: Option<Shaper>) -> Self {
        Self {
            head: Burst::new_const(),
            queue: VecDeque::with_capacity(queue_packets_max),
            queue_packets_max,
            shaper,
        }
    }

    /// Queues a packet at `now`.
    ///
    /// # Errors
    /// The packet itself, when the queue is full (tail drop).
    #[inline]
    pub fn offer(&mut self, packet: P, now: u64) -> Result<(), P> {
        // Nothing ahead of it and nothing to pace it: straight to the driver.
        if self.shaper.is_none() && self.queue.is_empty() && !self.head.is_full() {
            self.head.push(packet);
            return Ok(());
        }
        self.wait(packet, now)
    }

    /// Takes a whole burst straight to the driver if nothing is ahead of it and nothing paces it;
    /// otherwise leaves it as it is.
    #[inline]
    pub fn offer_all(&mut self, burst: &mut Burst<P>) -> bool {
        let is_free = self.shaper.is_none() && self.queue.is_empty();
        if !is_free || burst.len() > self.head.remaining_capacity() {
            return false;
        }
        if self.head.is_empty() {
            std::mem::swap(&mut self.head, burst);
        } else {
            self.head.extend(burst.drain(..));
        }
        true
    }

    #[inline(never)]
    fn wait(&mut self, packet: P, now: u64) -> Result<(), P> {
        if let Some(shaper) = &mut self.shaper
            && self.queue.is_empty()
        {
            shaper.wake(now);
        }
        if self.queue.len() >= self.queue_packets_max {
            return Err(packet);
        }
        self.queue.push_back(packet);
        Ok(())
    }

    /// Moves what may leave at `now` to the head, as far as it has room.
    #[inline]
    pub fn advance(&mut self, now: u64, len_bytes: impl Fn(&P) -> u32) {
        if !self.queue.is_empty() {
            self.advance_queue(now, len_bytes);
        }
    }

    fn advance_queue(&mut self, now: u64, len_bytes: impl Fn(&P) -> u32) {
        while !self.head.is_full() {
            if self
                .shaper
                .as_ref()
                .is_some_and(|shaper| !shaper.is_free(now))
            {
                return;
            }
            let Some(packet) = self.queue.pop_front() else {
                return;
            };
            if let Some(shaper) = &mut self.shaper {
                shaper.occupy(len_bytes(&packet));
            }
            self.head.push(packet);
        }
    }

    /// Packets that wait, in the queue and at its head.
    #[inline]
    pub fn len(&self) -> usize {
        self.head.len() + self.queue.len()
    }

    /// Nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.queue.is_empty()
    }

    /// Takes out everything that waits, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = P> + '_ {
        self.head.drain(..).chain(self.queue.drain(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet_io::BURST;

    const GHZ: u64 = 1_000_000_000;

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "packets are passed by reference"
    )]
    fn len(_: &u32) -> u32 {
        101
    }

    #[test]
    fn without_a_shaper_packets_go_straight_to_the_head_in_order() {
        let mut egress = Egress::new(4, None);
        let accepted = (0u32..1000).filter(|&n| egress.offer(n, 0).is_ok()).count();
        assert_eq!(accepted, BURST + 4);
        let mut out: Vec<u32> = egress.head.drain(..).collect();
        egress.advance(0, len);
        out.extend(egress.head.drain(..));
        assert_eq!(out.len(), BURST + 4);
        assert!(out.is_sorted());
        assert!(egress.is_empty());
    }

    #[test]
    fn a_shaper_keeps_the_capacity_exactly() {
        // 125 bytes on the wire at 1 Gb/s: one microsecond a frame.
        let mut egress = Egress::new(1000, Some(Shaper::new(GHZ, TickRate::from_hz(GHZ))));
        for n in 0u32..1000 {
            assert!(egress.offer(n, 500).is_ok());
        }
        let mut departures = Vec::new();
        for now in (500..).step_by(100).take(20_000) {
            egress.advance(now, len);
            departures.extend(egress.head.drain(..).map(|n| (n, now)));
        }
        assert_eq!(departures.len(), 1000);
        for (n, now) in departures {
            assert_eq!(now, 500 + 1000 * u64::from(n));
        }
    }

    #[test]
    fn a_coarse_poll_catches_up_but_an_idle_link_saves_nothing() {
        let mut egress = Egress::new(1000, Some(Shaper::new(GHZ, TickRate::from_hz(GHZ))));
        for n in 0u32..20 {
            assert!(egress.offer(n, 0).is_ok());
        }
        egress.advance(4_999, len);
        assert_eq!(
            egress.head.drain(..).count(),
            5,
            "frames that started within 5 us"
        );
        egress.advance(50_000, len);
        assert_eq!(egress.head.drain(..).count(), 15);
        for n in 0u32..5 {
            assert!(egress.offer(n, 1_000_000).is_ok());
        }
        egress.advance(1_000_000, len);
        assert_eq!(
            egress.head.drain(..).count(),
            1,
            "no credit from the idle time"
        );
    }

    #[test]
    fn odd_capacities_do_not_drift() {
        // 3 bit/s short of 1 Gb/s: fractions of a tick must add up over a million frames.
        let mut shaper = Shaper::new(999_999_997, TickRate::from_hz(2_700_000_000));
        for _ in 0..1_000_000 {
            shaper.occupy(101);
        }
        let exact = 1e6 * 125.0 * 8.0 * 2.7e9 / 999_999_997.0;
        assert!(
            (shaper.free_at as f64 - exact).abs() < 2.0,
            "{} for {exact}",
            shaper.free_at
        );
    }
}
