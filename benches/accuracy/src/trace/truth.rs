//! What is true of every flow, from its packets one by one.

use std::ops::Range;

use measure::packet::PacketHash;

use super::{LossMask, Packet, Trace};

/// Exact figures of all flows, one entry a flow.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// Mean delay in nanoseconds of the packets that arrived; not a number where none did.
    pub mean_ns: Vec<f64>,
    /// Standard deviation of these packets' delays in nanoseconds; not a number where none did.
    pub stddev_ns: Vec<f64>,
    /// Packets that arrived.
    pub received: Vec<f64>,
    pub sent: Vec<f64>,
}

impl Truth {
    /// Looks at every packet of `trace` that `losses` spare.
    pub fn of(trace: &Trace, losses: &LossMask) -> Self {
        let mut truth = Self::default();
        for flow in 0..trace.flows() {
            let mut sums = Sums::default();
            for (hash, packet) in trace.of_flow(flow) {
                sums.add(hash, packet, losses);
            }
            let received = sums.received as f64;
            let mean_ns = sums.delay_ns as f64 / received;
            // Whole numbers all the way, so that nothing cancels.
            let scatter =
                u128::from(sums.received) * sums.delay_ns2 - u128::from(sums.delay_ns).pow(2);
            truth.mean_ns.push(mean_ns);
            truth.stddev_ns.push((scatter as f64).sqrt() / received);
            truth.received.push(received);
            truth.sent.push(sums.sent as f64);
        }
        truth
    }

    /// Flows with a packet that arrived, by their packets sent.
    pub fn flows(&self, packets: Range<f64>) -> impl Iterator<Item = usize> + '_ {
        let counts = self.sent.iter().zip(&self.received).enumerate();
        counts
            .filter(move |(_, (sent, received))| **received > 0.0 && packets.contains(sent))
            .map(|(flow, _)| flow)
    }
}

#[derive(Default)]
struct Sums {
    sent: u64,
    received: u64,
    delay_ns: u64,
    delay_ns2: u128,
}

impl Sums {
    fn add(&mut self, hash: PacketHash, packet: Packet, losses: &LossMask) {
        self.sent += 1;
        let arrived = packet
            .delay_ns()
            .filter(|_| !losses.takes(hash, packet.sent_ns));
        if let Some(delay_ns) = arrived.map(u64::from) {
            self.received += 1;
            self.delay_ns += delay_ns;
            self.delay_ns2 += u128::from(delay_ns).pow(2);
        }
    }
}
