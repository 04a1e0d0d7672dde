//! Both switches' stamps joined: what happened to each packet of a wire.
//!
//! A packet is found again by its hash. Several packets may have the same hash: a retransmission may, a
//! duplicate does. If as many were received as sent, they are matched in order; else each one received is
//! matched with the last one sent before it that has no match yet.

use std::collections::{BTreeMap, HashMap};

use measure::observation::End;
use reporting::statistics::quantile;

use crate::wire::stamps::Stamp;

/// What happened to the packets of one epoch and segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Truth {
    pub sent: u64,
    /// Packets of these that arrived.
    pub received: u64,
    /// Packets of these that arrived behind one that was sent later (RFC 4737 section 3.3).
    pub reordered: u64,
    /// Delays of those that arrived.
    pub delays: Delays,
    /// By the flow's hash.
    pub flows: HashMap<u64, FlowTruth>,
}

/// What happened to the packets of one flow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowTruth {
    pub sent: u64,
    /// Of those that arrived.
    pub delays: Delays,
    /// Each of them, ns.
    pub delays_ns: Vec<i64>,
}

impl FlowTruth {
    pub fn lost(&self) -> u64 {
        self.sent - self.delays.count
    }

    /// Their 99th percentile, ns; NaN without any.
    pub fn p99_ns(&self) -> f64 {
        quantile(self.delays_ns.iter().map(|&ns| ns as f64), 0.99)
    }
}

impl Truth {
    pub fn lost(&self) -> u64 {
        self.sent - self.received
    }
}

/// Count, sum and sum of squares of delays.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Delays {
    pub count: u64,
    /// Their sum, ns.
    pub sum_ns: i128,
    /// The sum of their squares, ns^2.
    squares: f64,
}

impl Delays {
    fn add(&mut self, delay_ns: i64) {
        self.count += 1;
        self.sum_ns += i128::from(delay_ns);
        self.squares += (delay_ns as f64) * (delay_ns as f64);
    }

    /// Their mean, ns; `None` without any.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Their standard deviation, ns; `None` without any.
    pub fn deviation_ns(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        let variance = self.squares / self.count as f64 - mean * mean;
        Some(variance.max(0.0).sqrt())
    }
}

/// What happened on a wire in one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Joined {
    /// By the sender's epoch (low 32 bits) and segment.
    pub epochs: BTreeMap<(u32, u8), Truth>,
}

impl Joined {
    /// Joins what one switch sent by port `from` with what the other received by port `to`.
    pub fn new(sending: &[Stamp], from: u8, receiving: &[Stamp], to: u8) -> Self {
        let sent = of(sending, End::Sender, from);
        let received = of(receiving, End::Receiver, to);

        // For each packet sent: its time of arrival, and whether one sent later had arrived before.
        let mut arrivals = vec![None; sent.len()];
        let mut latest = None;
        for (stamp, index) in received.iter().zip(matches(&sent, &received)) {
            let Some(index) = index else { continue };
            let is_late = latest.is_some_and(|latest| index < latest);
            arrivals[index] = Some((stamp.tai_ns, is_late));
            latest = latest.max(Some(index));
        }
        let mut joined = Self::default();
        for (stamp, arrival) in sent.iter().zip(arrivals) {
            let epoch = joined.epochs.entry((stamp.epoch, stamp.segment));
            let truth = epoch.or_default();
            truth.sent += 1;
            let flow = truth.flows.entry(stamp.flow).or_default();
            flow.sent += 1;
            if let Some((arrival_ns, is_late)) = arrival {
                let delay_ns = arrival_ns.wrapping_sub(stamp.tai_ns).cast_signed();
                truth.received += 1;
                truth.reordered += u64::from(is_late);
                truth.delays.add(delay_ns);
                flow.delays.add(delay_ns);
                flow.delays_ns.push(delay_ns);
            }
        }
        joined
    }
}

/// For each packet received, the index of its packet among those sent.
fn matches(sent: &[Stamp], received: &[Stamp]) -> Vec<Option<usize>> {
    let mut matches = vec![None; received.len()];
    let (sent_by_hash, received_by_hash) = (by_hash(sent), by_hash(received));
    let mut rest = sent_by_hash.as_slice();
    for arrived in received_by_hash.chunk_by(|a, b| a.0 == b.0) {
        let (hash, _) = arrived[0];
        rest = &rest[rest.partition_point(|&(other, _)| other < hash)..];
        let (same, others) = rest.split_at(rest.partition_point(|&(other, _)| other == hash));
        rest = others;
        let mut unmatched: Vec<usize> = same.iter().map(|&(_, index)| index).collect();
        if same.len() == arrived.len() {
            for (&(_, to), from) in arrived.iter().zip(unmatched) {
                matches[to] = Some(from);
            }
            continue;
        }
        for &(_, to) in arrived {
            let until_ns = received[to].tai_ns;
            let before = unmatched.partition_point(|&from| sent[from].tai_ns <= until_ns);
            if let Some(last) = before.checked_sub(1) {
                matches[to] = Some(unmatched.remove(last));
            }
        }
    }
    matches
}

fn of(stamps: &[Stamp], end: End, port: u8) -> Vec<Stamp> {
    let ours = |stamp: &&Stamp| stamp.end == end && stamp.port == port;
    stamps.iter().filter(ours).copied().collect()
}

/// Hashes with their indices, ordered by both.
fn by_hash(stamps: &[Stamp]) -> Vec<(u64, usize)> {
    let hashes = stamps.iter().map(|stamp| stamp.packet).zip(0..);
    let mut hashes: Vec<_> = hashes.collect();
    hashes.sort_unstable();
    hashes
}

#[cfg(test)]
mod tests;
