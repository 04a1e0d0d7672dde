//! Both switches' stamps joined: what happened to each packet of a wire.
//!
//! A packet is found again by its hash. Several packets may have the same hash: a retransmission may, a
//! duplicate does. If as many were received as sent, they are matched in order; else each one received is
//! matched with the last one sent before it that has no match yet.

use std::collections::{BTreeMap, HashMap};

use measure::observation::End;

use crate::stamps::Stamp;

/// What happened to the packets of one epoch and segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Truth {
    /// Packets sent.
    pub sent: u64,
    /// Packets of these that arrived.
    pub received: u64,
    /// Packets of these that arrived behind one that was sent later (RFC 4737 section 3.3).
    pub reordered: u64,
    /// Delays of those that arrived.
    pub delays: Delays,
    /// Delays by flow; a flow that lost all its packets has none.
    pub flows: HashMap<u64, Delays>,
}

impl Truth {
    /// Packets that never arrived.
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
            if let Some((arrival_ns, is_late)) = arrival {
                let delay_ns = arrival_ns.wrapping_sub(stamp.tai_ns).cast_signed();
                truth.received += 1;
                truth.reordered += u64::from(is_late);
                truth.delays.add(delay_ns);
                truth.flows.entry(stamp.flow).or_default().add(delay_ns);
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stamp(end: End, packet: u64, tai_ns: u64) -> Stamp {
        Stamp {
            packet,
            flow: packet % 3,
            tai_ns,
            epoch: u32::try_from(tai_ns / 1_000).unwrap(),
            end,
            port: 1,
            segment: 0,
        }
    }

    fn sent(packet: u64, tai_ns: u64) -> Stamp {
        stamp(End::Sender, packet, tai_ns)
    }

    fn received(packet: u64, tai_ns: u64) -> Stamp {
        stamp(End::Receiver, packet, tai_ns)
    }

    #[test]
    fn losses_and_order_belong_to_the_epoch_of_sending() {
        let sender = [sent(10, 10), sent(11, 20), sent(12, 990), sent(13, 1_010)];
        // The first is overtaken, the second lost; 99 was never sent.
        let receiver = [
            received(12, 1_500),
            received(10, 1_600),
            received(99, 1_700),
            received(13, 1_800),
        ];
        let joined = Joined::new(&sender, 1, &receiver, 1);
        let first = &joined.epochs[&(0, 0)];
        assert_eq!((first.sent, first.received, first.lost()), (3, 2, 1));
        assert_eq!(first.reordered, 1);
        assert_eq!(first.delays.mean_ns(), Some(f64::midpoint(510.0, 1_590.0)));
        assert_eq!(first.delays.deviation_ns(), Some(540.0));
        assert_eq!(first.flows.get(&(11 % 3)), None);
        let second = &joined.epochs[&(1, 0)];
        assert_eq!((second.sent, second.reordered), (1, 0));
        assert!(Joined::new(&sender, 2, &receiver, 1).epochs.is_empty());
    }

    #[test]
    fn packets_with_the_same_hash_are_matched_by_time() {
        let sender = [sent(7, 100), sent(7, 5_000)];
        let means = |receiver: &[Stamp]| {
            let joined = Joined::new(&sender, 1, receiver, 1);
            [0, 5].map(|epoch| joined.epochs[&(epoch, 0)].delays.mean_ns())
        };
        // The first was lost; then none; then one arrives twice.
        assert_eq!(means(&[received(7, 5_100)]), [None, Some(100.0)]);
        let both = [received(7, 150), received(7, 5_100)];
        assert_eq!(means(&both), [Some(50.0), Some(100.0)]);
        let thrice = [received(7, 150), received(7, 160), received(7, 5_100)];
        assert_eq!(means(&thrice), [Some(50.0), Some(100.0)]);
    }

    proptest! {
        /// Against the plain way: a map from packet to its fate, where all hashes differ.
        #[test]
        fn sums_are_those_of_every_packet(fates in prop::collection::vec((any::<bool>(), 1..5_000_u64), 0..200)) {
            let sender: Vec<_> = (0..).zip(&fates).map(|(i, _)| sent(i * 7_919 % 1_009, i * 40)).collect();
            let mut receiver: Vec<_> = sender
                .iter()
                .zip(&fates)
                .filter(|(_, (is_lost, _))| !is_lost)
                .map(|(stamp, (_, delay))| received(stamp.packet, stamp.tai_ns + delay))
                .collect();
            receiver.sort_by_key(|stamp| stamp.tai_ns);
            let joined = Joined::new(&sender, 1, &receiver, 1);
            let total = |of: fn(&Truth) -> u64| joined.epochs.values().map(of).sum::<u64>();
            prop_assert_eq!(total(|truth| truth.sent), fates.len() as u64);
            prop_assert_eq!(total(|truth| truth.received), receiver.len() as u64);
            let sum: i128 = joined.epochs.values().map(|truth| truth.delays.sum_ns).sum();
            let expected = fates.iter().filter(|(is_lost, _)| !is_lost);
            prop_assert_eq!(sum, expected.map(|(_, delay)| i128::from(*delay)).sum::<i128>());
            let index = |stamp: &Stamp| sender.iter().position(|sent| sent.packet == stamp.packet);
            let order: Vec<_> = receiver.iter().map(index).collect();
            let overtaken = (0..order.len()).filter(|&at| order[..at].iter().any(|before| *before > order[at]));
            prop_assert_eq!(total(|truth| truth.reordered), overtaken.count() as u64);
            for truth in joined.epochs.values() {
                let flows = truth.flows.values();
                prop_assert_eq!(flows.clone().map(|flow| flow.count).sum::<u64>(), truth.received);
                prop_assert_eq!(flows.map(|flow| flow.sum_ns).sum::<i128>(), truth.delays.sum_ns);
            }
        }
    }
}
