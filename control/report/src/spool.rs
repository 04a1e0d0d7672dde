//! Reports that no server has taken yet.

use std::collections::VecDeque;

/// A report as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub id: String,
    pub subject: String,
    pub bytes: Vec<u8>,
}

impl Packet {
    fn size(&self) -> usize {
        size_of::<Self>() + self.id.len() + self.subject.len() + self.bytes.len()
    }
}

/// Packets in order, of at most so many bytes in all. The oldest is dropped first.
#[derive(Debug)]
pub(crate) struct Spool {
    packets: VecDeque<Packet>,
    bytes: usize,
    bytes_max: usize,
}

impl Spool {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            packets: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Adds a packet; how many were dropped for it. One that is larger than the spool is dropped itself.
    pub fn push(&mut self, packet: Packet) -> u64 {
        self.bytes += packet.size();
        self.packets.push_back(packet);
        let mut dropped = 0;
        while self.bytes > self.bytes_max && self.pop().is_some() {
            dropped += 1;
        }
        dropped
    }

    /// The oldest.
    pub fn first(&self) -> Option<&Packet> {
        self.packets.front()
    }

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.size();
        Some(packet)
    }

    /// The packet of this id was taken by a server. If it was dropped meanwhile, nothing changes.
    pub fn take(&mut self, id: &str) -> bool {
        let is_first = self.first().is_some_and(|first| first.id == id);
        is_first && self.pop().is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Bytes stay within the limit; what is neither dropped nor taken is there, in order.
        #[test]
        fn all_are_accounted_for(sizes in prop::collection::vec(0_usize..400, 0..60), take in 0_usize..7) {
            let mut spool = Spool::new(1_000);
            let (mut dropped, mut taken) = (0, 0);
            for (n, &size) in sizes.iter().enumerate() {
                let packet = Packet { id: n.to_string(), subject: String::new(), bytes: vec![0; size] };
                dropped += spool.push(packet);
                prop_assert!(spool.bytes() <= 1_000);
                if take > 0 && n % take == 0 && let Some(id) = spool.first().map(|first| first.id.clone()) {
                    prop_assert!(!spool.take("another"));
                    prop_assert!(spool.take(&id));
                    taken += 1;
                }
            }
            let left: Vec<usize> = spool.packets.iter().map(|packet| packet.id.parse().unwrap()).collect();
            prop_assert_eq!(left.len() as u64 + dropped + taken, sizes.len() as u64);
            prop_assert!(left.iter().copied().eq(sizes.len() - left.len()..sizes.len()));
            let bytes: usize = spool.packets.iter().map(Packet::size).sum();
            prop_assert_eq!(bytes, spool.bytes());
        }
    }
}
