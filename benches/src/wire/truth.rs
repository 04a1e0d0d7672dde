//! Both switches' stamps joined: what really happened to each packet of a wire.
//!
//! A packet is found again by its hash. Where several packets have the same (a retransmission may,
//! and a duplicate does), they are distinguished by time: as many received as sent are taken in their
//! order; else each one received belongs to the last one sent before it that is not taken yet.

use std::collections::{BTreeMap, HashMap};

use measure::observation::End;

use super::stamps::Stamp;

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
    /// Flow by flow.
    pub flows: HashMap<u64, FlowTruth>,
}

impl Truth {
    /// Packets that never arrived.
    pub fn lost(&self) -> u64 {
        self.sent - self.received
    }
}

/// What happened to the packets of a flow in one epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FlowTruth {
    /// Packets sent.
    pub sent: u64,
    /// Delays of those that arrived.
    pub delays: Delays,
}

/// Delays, summed up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Delays {
    /// How many.
    pub count: u64,
    /// Their sum, ns.
    pub sum_ns: i128,
    /// The sum of their squares, ns^2.
    pub squares: f64,
}

impl Delays {
    fn add(&mut self, delay_ns: i64) {
        self.count += 1;
        self.sum_ns += i128::from(delay_ns);
        self.squares += (delay_ns as f64) * (delay_ns as f64);
    }

    /// Their mean, ns; `None` of none.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Their standard deviation, ns; `None` of none.
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
    /// Packets that arrived more often than they were sent.
    pub duplicates: u64,
    /// Packets that arrived and were never sent: changed on the way, or made up.
    pub strangers: u64,
    /// Packets with the hash of another that was sent, too, where not all arrived: which one did
    /// is a guess.
    pub guesses: u64,
}

impl Joined {
    /// Joins what one switch sent by `from` (its port) with what the other received by `to`.
    pub fn new(sending: &[Stamp], from: u8, receiving: &[Stamp], to: u8) -> Self {
        let sent = of(sending, End::Sender, from);
        let received = of(receiving, End::Receiver, to);
        let mut joined = Self::default();
        let sent_as = joined.matches(&sent, &received);

        // The place of each packet that arrived, by its place in the order of sending.
        let mut arrivals = vec![None; sent.len()];
        let mut latest = None;
        let mut reordered = vec![false; sent.len()];
        for (stamp, place) in received.iter().zip(&sent_as) {
            let Some(place) = *place else { continue };
            if let (Some(arrival), Some(late)) = (arrivals.get_mut(place), reordered.get_mut(place))
            {
                *arrival = Some(stamp.tai_ns);
                *late = latest.is_some_and(|latest| place < latest);
            }
            latest = latest.max(Some(place));
        }
        for ((stamp, arrival), late) in sent.iter().zip(arrivals).zip(reordered) {
            let truth = joined
                .epochs
                .entry((stamp.epoch, stamp.segment))
                .or_default();
            let flow = truth.flows.entry(stamp.flow).or_default();
            truth.sent += 1;
            flow.sent += 1;
            if let Some(arrival) = arrival {
                let delay_ns = arrival.wrapping_sub(stamp.tai_ns).cast_signed();
                truth.received += 1;
                truth.reordered += u64::from(late);
                truth.delays.add(delay_ns);
                flow.delays.add(delay_ns);
            }
        }
        joined
    }

    /// For each packet received, which one sent it is.
    fn matches(&mut self, sent: &[Stamp], received: &[Stamp]) -> Vec<Option<usize>> {
        let mut sent_as = vec![None; received.len()];
        let (sent_by_hash, received_by_hash) = (by_hash(sent), by_hash(received));
        let mut rest = sent_by_hash.as_slice();
        for arrived in received_by_hash.chunk_by(|a, b| a.0 == b.0) {
            let hash = arrived.first().map_or(0, |first| first.0);
            rest = rest.split_at(rest.partition_point(|&(h, _)| h < hash)).1;
            let (same, others) = rest.split_at(rest.partition_point(|&(h, _)| h == hash));
            rest = others;
            let surplus = arrived.len().saturating_sub(same.len()) as u64;
            match same {
                [] => self.strangers += surplus,
                _ => self.duplicates += surplus,
            }
            if same.len() == arrived.len() {
                for (&(_, from), &(_, to)) in same.iter().zip(arrived) {
                    put(&mut sent_as, to, from);
                }
                continue;
            }
            if arrived.len() < same.len() {
                self.guesses += arrived.len() as u64;
            }
            let mut left: Vec<usize> = same.iter().map(|&(_, place)| place).collect();
            for &(_, to) in arrived {
                let Some(until) = received.get(to).map(|stamp| stamp.tai_ns) else {
                    continue;
                };
                let before = left.partition_point(|&place| {
                    sent.get(place).is_some_and(|stamp| stamp.tai_ns <= until)
                });
                if let Some(last) = before.checked_sub(1) {
                    put(&mut sent_as, to, left.remove(last));
                }
            }
        }
        sent_as
    }
}

fn put(places: &mut [Option<usize>], at: usize, value: usize) {
    if let Some(place) = places.get_mut(at) {
        *place = Some(value);
    }
}

fn of(stamps: &[Stamp], end: End, port: u8) -> Vec<Stamp> {
    let ours = |stamp: &&Stamp| stamp.end == end && stamp.port == port;
    stamps.iter().filter(ours).copied().collect()
}

/// Hashes with their places, in order of hash and then of place.
fn by_hash(stamps: &[Stamp]) -> Vec<(u64, usize)> {
    let mut places: Vec<_> = stamps
        .iter()
        .enumerate()
        .map(|(place, stamp)| (stamp.packet, place))
        .collect();
    places.sort_unstable();
    places
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
    fn losses_and_order_are_those_of_the_epoch_of_sending() {
        let sender = [sent(10, 10), sent(11, 20), sent(12, 990), sent(13, 1_010)];
        // The first is overtaken, the second lost, one is a stranger.
        let receiver = [
            received(12, 1_500),
            received(10, 1_600),
            received(99, 1_700),
            received(13, 1_800),
        ];
        let joined = Joined::new(&sender, 1, &receiver, 1);
        assert_eq!(joined.strangers, 1);
        let first = &joined.epochs[&(0, 0)];
        assert_eq!((first.sent, first.received, first.lost()), (3, 2, 1));
        assert_eq!(first.reordered, 1);
        assert_eq!(first.delays.mean_ns(), Some(f64::midpoint(510.0, 1_590.0)));
        assert_eq!(first.delays.deviation_ns(), Some(540.0));
        assert_eq!(first.flows[&(11 % 3)].delays.mean_ns(), None);
        let second = &joined.epochs[&(1, 0)];
        assert_eq!((second.sent, second.reordered), (1, 0));
        // Another port's are not ours.
        assert!(Joined::new(&sender, 2, &receiver, 1).epochs.is_empty());
    }

    #[test]
    fn packets_that_hash_alike_are_told_apart_by_time() {
        // The first was lost, and sent once more.
        let sender = [sent(7, 100), sent(7, 5_000)];
        let joined = Joined::new(&sender, 1, &[received(7, 5_100)], 1);
        assert_eq!(joined.guesses, 1);
        assert_eq!(joined.epochs[&(0, 0)].lost(), 1);
        assert_eq!(joined.epochs[&(5, 0)].delays.mean_ns(), Some(100.0));
        // Both arrived.
        let both = [received(7, 150), received(7, 5_100)];
        let joined = Joined::new(&sender, 1, &both, 1);
        assert_eq!(joined.guesses, 0);
        assert_eq!(joined.epochs[&(0, 0)].delays.mean_ns(), Some(50.0));
        // One of them twice.
        let thrice = [received(7, 150), received(7, 160), received(7, 5_100)];
        let joined = Joined::new(&sender, 1, &thrice, 1);
        assert_eq!((joined.duplicates, joined.strangers), (1, 0));
        assert_eq!(joined.epochs[&(0, 0)].delays.mean_ns(), Some(50.0));
        assert_eq!(joined.epochs[&(5, 0)].delays.mean_ns(), Some(100.0));
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
            prop_assert_eq!((joined.strangers, joined.duplicates, joined.guesses), (0, 0, 0));
            let sum: i128 = joined.epochs.values().map(|truth| truth.delays.sum_ns).sum();
            let expected = fates.iter().filter(|(is_lost, _)| !is_lost);
            prop_assert_eq!(sum, expected.map(|(_, delay)| i128::from(*delay)).sum::<i128>());
            let place = |stamp: &Stamp| sender.iter().position(|sent| sent.packet == stamp.packet);
            let places: Vec<_> = receiver.iter().map(place).collect();
            let overtaken = (0..places.len()).filter(|&at| places[..at].iter().any(|before| *before > places[at]));
            prop_assert_eq!(total(|truth| truth.reordered), overtaken.count() as u64);
            for truth in joined.epochs.values() {
                let flows = truth.flows.values();
                prop_assert_eq!(flows.clone().map(|flow| flow.sent).sum::<u64>(), truth.sent);
                prop_assert_eq!(flows.map(|flow| flow.delays.sum_ns).sum::<i128>(), truth.delays.sum_ns);
            }
        }
    }
}
