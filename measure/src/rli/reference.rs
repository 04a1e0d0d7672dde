//! Reference packets, as sent.

use crate::observation::SegmentIndex;
use crate::packet::PacketHash;

/// The stream of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The worker at the sender's end.
    pub worker: u8,
    /// The segment.
    pub segment: SegmentIndex,
    /// The class queue.
    pub queue: u8,
}

/// Sums over a stream's regular packets at one end, since the stream began. All wrap modulo 2^64; 32 bytes
/// on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamSums {
    /// Packets.
    pub count: u64,
    /// Sum of their times in nanoseconds.
    pub time_ns: u64,
    /// Sum of their times, each multiplied by the number of packets before it.
    pub ranked_time_ns: u64,
    /// Exclusive or of their hashes.
    pub digest: u64,
}

impl StreamSums {
    /// Adds one packet.
    #[inline]
    pub fn add(&mut self, PacketHash(hash): PacketHash, time_ns: u64) {
        self.add_run(1, hash, time_ns);
    }

    /// Adds packets that share one time; `digest` is the exclusive or of their hashes.
    #[inline]
    pub fn add_run(&mut self, packets: u32, digest: u64, time_ns: u64) {
        let packets = u64::from(packets);
        // Consecutive packets have consecutive ranks.
        let ranks = packets
            .wrapping_mul(self.count)
            .wrapping_add(packets.wrapping_mul(packets.wrapping_sub(1)) / 2);
        self.ranked_time_ns = self
            .ranked_time_ns
            .wrapping_add(ranks.wrapping_mul(time_ns));
        self.count = self.count.wrapping_add(packets);
        self.time_ns = self.time_ns.wrapping_add(packets.wrapping_mul(time_ns));
        self.digest ^= digest;
    }

    /// The sums added after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let time_ns = self.time_ns.wrapping_sub(earlier.time_ns);
        // Ranks start at 0 again.
        let ranked_before = earlier.count.wrapping_mul(time_ns);
        let ranked_time_ns = self
            .ranked_time_ns
            .wrapping_sub(earlier.ranked_time_ns)
            .wrapping_sub(ranked_before);
        Self {
            count: self.count.wrapping_sub(earlier.count),
            time_ns,
            ranked_time_ns,
            digest: self.digest ^ earlier.digest,
        }
    }

    /// Whether both ends added the same packets.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.count == other.count && self.digest == other.digest
    }
}

/// Contents of a reference packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The stream that it belongs to.
    pub stream: StreamId,
    /// Its number among the stream's references; wraps (RFC 1982 arithmetic).
    pub sequence: u32,
    /// When it was sent, in nanoseconds.
    pub sent_ns: u64,
    /// Sums of the packets that the stream sent before it. The paper's references do not carry them; RLI-S
    /// and RLI-AS depend on them, RLI-L and RLI do not.
    pub sums: StreamSums,
}

/// The sender's end of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceSender {
    stream: StreamId,
    sequence: u32,
    sums: StreamSums,
}

impl ReferenceSender {
    /// A stream without packets so far.
    pub fn new(stream: StreamId) -> Self {
        Self {
            stream,
            sequence: 0,
            sums: StreamSums::default(),
        }
    }

    /// Counts a regular packet, sent at `sent_ns`.
    #[inline]
    pub fn record(&mut self, packet: PacketHash, sent_ns: u64) {
        self.sums.add(packet, sent_ns);
    }

    /// Counts regular packets, all sent at `sent_ns`; `digest` is the exclusive or of their hashes.
    #[inline]
    pub fn record_run(&mut self, packets: u32, digest: u64, sent_ns: u64) {
        self.sums.add_run(packets, digest, sent_ns);
    }

    /// Makes the reference to send at `sent_ns`, behind all packets recorded so far.
    pub fn reference(&mut self, sent_ns: u64) -> Reference {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        Reference {
            stream: self.stream,
            sequence,
            sent_ns,
            sums: self.sums,
        }
    }
}
