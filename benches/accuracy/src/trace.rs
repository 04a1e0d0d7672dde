//! A trace with exact truth: packets flow by flow, each with its delay.
//!
//! ```text
//!  Scenario + seed --> generate ---+                            +--> LDS, LDA, hybrid
//!                                  +--> Trace --- Losses -------+
//!  crossings of a capture ---------+    flows, packets,         +--> Truth (exact means, counts)
//!                                       references
//! ```
//!
//! Sums commute, so packets need no order in time, and all configurations of a sketch share one
//! trace of a seed: 16 bytes a packet.

mod draw;
mod losses;
mod scenario;
#[cfg(test)]
mod tests;
mod truth;

use std::collections::HashMap;

use measure::packet::{FlowHash, PacketHash};

use crate::queue::Crossing;
use crate::traffic::mix;
pub use losses::{LossMask, Losses};
pub use scenario::Scenario;
pub use truth::Truth;

/// Epoch of the acceptance trace in nanoseconds: 287 s (LDS paper, section 5: 7.76 million packets
/// at 27,000 a second).
const DURATION_NS: u64 = 287_000_000_000;

/// A packet with its delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// When the sender's end saw it, in nanoseconds since the epoch's start.
    pub sent_ns: u64,
    /// Its delay in nanoseconds, under [`DROPPED`]; that mark where the queue dropped it.
    delay_ns: u32,
    /// Bytes on the wire.
    pub bytes: u32,
}

/// The mark of a packet that has no delay.
pub const DROPPED: u32 = u32::MAX;

impl Packet {
    /// Its delay in nanoseconds; `None`: the queue dropped it.
    #[inline]
    pub fn delay_ns(self) -> Option<u32> {
        (self.delay_ns != DROPPED).then_some(self.delay_ns)
    }
}

/// A reference packet of RLI.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reference {
    /// When the receiver's end saw it, in nanoseconds since the epoch's start.
    pub received_ns: f64,
    /// Its delay in nanoseconds.
    pub delay_ns: f64,
}

/// Packets of one epoch, flow by flow.
#[derive(Debug, Clone)]
pub struct Trace {
    packets: Vec<Packet>,
    /// Where each flow's packets start, and the end of the last: flows + 1 entries.
    starts: Vec<usize>,
    /// References on path 0, in the order of their arrival.
    references: Vec<Reference>,
    /// Flows whose packets all wait in the references' queue; empty: none is known to.
    with_references: Vec<bool>,
    duration_ns: u64,
    seed: u64,
}

impl Trace {
    /// Draws the acceptance trace with the delays of `scenario`. `scale` is 1 for 146,000 flows
    /// over 287 s; less gives fewer flows over less time at the same packet rate.
    pub fn generate(scenario: &Scenario, seed: u64, scale: f64) -> Self {
        draw::trace(scenario, seed, scale, draw::REFERENCE_NS)
    }

    /// The same packets with a reference each `reference_ns`.
    pub fn with_references_each(
        scenario: &Scenario,
        seed: u64,
        scale: f64,
        reference_ns: f64,
    ) -> Self {
        draw::trace(scenario, seed, scale, reference_ns)
    }

    /// Takes packets that a queue let through or dropped, and references in the order of their
    /// arrival. Flows are numbered anew, in the order of their first packets.
    pub fn from_crossings(crossings: &[Crossing], references: Vec<Reference>, seed: u64) -> Self {
        let mut numbers = HashMap::new();
        let mut flows: Vec<Vec<Packet>> = Vec::new();
        for crossing in crossings {
            let number = *numbers.entry(crossing.flow).or_insert(flows.len());
            if number == flows.len() {
                flows.push(Vec::new());
            }
            flows[number].push(Packet::from(crossing));
        }
        let counts: Vec<_> = flows.iter().map(Vec::len).collect();
        let packets = flows.concat();
        let duration_ns = packets.iter().map(|packet| packet.sent_ns + 1).max();
        Self {
            starts: ends_of(&counts),
            packets,
            references,
            with_references: Vec::new(),
            duration_ns: duration_ns.unwrap_or(1),
            seed,
        }
    }

    pub fn flows(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn packets(&self) -> usize {
        self.packets.len()
    }

    /// The epoch's length in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.duration_ns
    }

    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// Whether all packets of a flow wait in the references' queue, as a switch that spreads flows
    /// over queues can tell.
    pub fn shares_reference_queue(&self, flow: usize) -> bool {
        self.with_references.get(flow).copied().unwrap_or(false)
    }

    /// A flow's packets, each with its hash.
    pub fn of_flow(&self, flow: usize) -> impl Iterator<Item = (PacketHash, Packet)> + '_ {
        let bounds = self.starts.get(flow).zip(self.starts.get(flow + 1));
        let range = bounds.map_or(0..0, |(&start, &end)| start..end);
        let seed = self.seed;
        range
            .clone()
            .zip(&self.packets[range])
            .map(move |(n, &packet)| (PacketHash(mix(seed.rotate_left(32) ^ n as u64)), packet))
    }

    pub fn flow_hash(&self, flow: usize) -> FlowHash {
        FlowHash(mix(!self.seed.rotate_left(32) ^ flow as u64))
    }
}

impl From<&Crossing> for Packet {
    fn from(crossing: &Crossing) -> Self {
        let sent_ns = crossing.sent_ns();
        let received_ns = crossing.received_ns();
        Self {
            sent_ns,
            delay_ns: received_ns.map_or(DROPPED, |at_ns| stored(at_ns.saturating_sub(sent_ns))),
            bytes: crossing.bytes,
        }
    }
}

/// A delay that no packet's mark is confused with.
pub fn stored(delay_ns: u64) -> u32 {
    u32::try_from(delay_ns).map_or(DROPPED - 1, |delay_ns| delay_ns.min(DROPPED - 1))
}

/// Running sums of `counts` from 0: one entry more.
fn ends_of(counts: &[usize]) -> Vec<usize> {
    let sums = counts.iter().scan(0, |sum, &count| {
        *sum += count;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}
