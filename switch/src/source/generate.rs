//! Seeded traffic: flows of uneven popularity, in Poisson arrivals of geometric bursts.
//!
//! All that is random comes from one PCG generator, and flows are drawn with integers alone, so
//! that the same seed gives the same packets on every machine.

use contract::config::device::{self, FrameSize};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::Exp1;
use rand_pcg::Pcg64Mcg;

use super::{ETHERNET_HEADER_BYTES, Frame, SourceError};

mod headers;
mod popularity;

use headers::{Flow, HEAD_BYTES_MAX, mix64};
use popularity::Popularity;

/// Frame lengths of the simple IMIX in the ratio 7 : 4 : 1, without frame check sequence.
const IMIX_BYTES: [u32; 12] = [60, 60, 60, 60, 60, 60, 60, 590, 590, 590, 590, 1514];

/// An endless source of seeded traffic.
#[derive(Debug)]
pub struct Generator {
    rng: Pcg64Mcg,
    seed: u64,
    macs: u32,
    side: u8,
    size: FrameSize,
    popularity: Popularity,
    /// Payload bytes that each flow has sent: what its TCP sequence numbers advance by.
    sent_bytes: Vec<u32>,
    /// Packets made.
    packets: u64,
    /// A packet ends its burst when 32 random bits are below this.
    burst_end_threshold: u64,
    mean_burst_gap_ns: f64,
    /// When the packet in `head` is due, in nanoseconds, and the fraction beyond.
    due_ns: u64,
    due_fraction_ns: f64,
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: usize,
    len_bytes: u32,
}

impl Generator {
    /// Sets up traffic for a port whose MTU is `mtu_bytes`.
    ///
    /// Flow `i` has the quantile `(i + 1/2) / flows` of a Pareto distribution for its weight. A
    /// packet's flow and size are drawn independently; one in eight flows is IPv6, one in four is
    /// UDP, the rest TCP, all with valid checksums. IPv6 frames are at least 70 (UDP) or 82 bytes
    /// (TCP) long, since a shorter one has no room for their headers. Both sides of one seed have
    /// the same flows, with addresses and ports swapped, and arrivals of their own.
    ///
    /// Values outside the ranges that the configuration states are taken as the nearest within.
    ///
    /// # Errors
    /// [`SourceError::FrameSize`] when frames would be longer than the MTU and an Ethernet header.
    pub fn new(spec: &device::Generate, mtu_bytes: u16) -> Result<Self, SourceError> {
        let limit_bytes = u32::from(mtu_bytes) + ETHERNET_HEADER_BYTES;
        let size_bytes = match spec.size {
            FrameSize::Imix => IMIX_BYTES[11],
            FrameSize::Fixed(bytes) => bytes.into(),
        };
        if size_bytes > limit_bytes {
            return Err(SourceError::FrameSize {
                size_bytes,
                limit_bytes,
            });
        }
        let flows = spec.flows.clamp(1, 10_000_000);
        let burst = spec.burst.max(1.0);
        let mut generator = Self {
            rng: Pcg64Mcg::seed_from_u64(mix64(spec.seed) ^ u64::from(spec.side)),
            seed: spec.seed,
            macs: spec.macs.clamp(1, 65_536),
            side: spec.side,
            size: spec.size,
            popularity: Popularity::pareto(flows, spec.pareto),
            sent_bytes: vec![0; flows as usize],
            packets: 0,
            burst_end_threshold: burst_end_threshold(burst),
            mean_burst_gap_ns: burst / spec.rate_pps * 1e9,
            due_ns: 0,
            due_fraction_ns: 0.0,
            head: [0; HEAD_BYTES_MAX],
            head_bytes: 0,
            len_bytes: 0,
        };
        generator.wait_for_burst();
        generator.make_packet();
        Ok(generator)
    }

    /// See [`super::Source::poll`].
    #[inline]
    pub fn poll(
        &mut self,
        elapsed_ns: u64,
        room: usize,
        mut emit: impl FnMut(Frame<'_>) -> bool,
    ) -> usize {
        let mut emitted = 0;
        while emitted < room && self.due_ns <= elapsed_ns {
            let head = &self.head[..self.head_bytes];
            if !emit(Frame {
                head,
                len_bytes: self.len_bytes,
            }) {
                break;
            }
            emitted += 1;
            if u64::from(self.rng.next_u32()) < self.burst_end_threshold {
                self.wait_for_burst();
            }
            self.make_packet();
        }
        emitted
    }

    /// Moves the due time on by the gap to the next burst: exponential, hence Poisson arrivals.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and the cast saturates; the fraction is kept"
    )]
    fn wait_for_burst(&mut self) {
        let gap_ns = self.rng.sample::<f64, _>(Exp1) * self.mean_burst_gap_ns;
        self.due_fraction_ns += gap_ns;
        let whole_ns = self.due_fraction_ns as u64;
        self.due_ns = self.due_ns.saturating_add(whole_ns);
        self.due_fraction_ns -= whole_ns as f64;
    }

    fn make_packet(&mut self) {
        let index = self.popularity.draw(self.rng.next_u64());
        let len_bytes = match self.size {
            FrameSize::Imix => IMIX_BYTES[self.rng.random_range(0..IMIX_BYTES.len())],
            FrameSize::Fixed(bytes) => bytes.into(),
        };
        let flow = Flow::new(self.seed, index, self.macs, self.side);
        self.len_bytes = len_bytes.max(flow.frame_bytes_min());
        let sent_bytes = &mut self.sent_bytes[index as usize];
        self.head_bytes = flow.write(&mut self.head, self.len_bytes, *sent_bytes, self.packets);
        *sent_bytes = sent_bytes.wrapping_add(flow.payload_bytes(self.len_bytes));
        self.packets += 1;
    }
}

/// A burst of geometric length with mean `burst` ends after each packet with probability
/// `1 / burst`; this is that probability times 2^32.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 2^32"
)]
fn burst_end_threshold(burst: f64) -> u64 {
    (4_294_967_296.0 / burst) as u64
}

#[cfg(test)]
mod tests;
