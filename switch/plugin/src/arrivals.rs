//! Stamps packets when a receive queue returns them.

use std::sync::Arc;

use contract::counters::{PortCounters, WorkerCounters};
use contract::ids::PortIndex;
use dpdk_bindings::{PassingMbuf, StampField, Tap, tsc};
use measure::packet::{Census, Hasher, Hashing, Parsed};
use measure::time::Ticks;
use switch::classify::Classifier;
use switch::packet_io::ClassIndex;

use crate::ports::Home;
use crate::stamp;

/// Settings common to all receive queues.
#[derive(Debug, Clone)]
pub struct Stamper {
    pub field: StampField,
    pub hasher: Hasher,
    pub classifier: Arc<Classifier>,
    /// Whether there is more than one class.
    pub has_classes: bool,
    /// Whether the clock is read for every packet.
    pub stamps_packets: bool,
    /// Which hashes of each packet to compute.
    pub hashing: Hashing,
}

/// One receive queue: parses, hashes and stamps its packets.
#[derive(Debug)]
pub struct Arrivals {
    pub home: Home,
    stamper: Stamper,
    counters: Arc<WorkerCounters>,
}

impl Arrivals {
    pub fn new(stamper: Stamper, counters: Arc<WorkerCounters>) -> Self {
        Self {
            home: Home::nowhere(),
            stamper,
            counters,
        }
    }
}

impl Tap for Arrivals {
    #[inline]
    fn pass(&self, burst: &mut [PassingMbuf<'_>]) {
        let port = self.home.port();
        let Some(counters) = self.counters.ports.get(port.index()) else {
            return;
        };
        if self.stamper.hashing > Hashing::None {
            for mbuf in &*burst {
                mbuf.prefetch_data();
            }
        }
        let now = Ticks(tsc::now());
        self.counters.burst(burst.len());
        for part in burst.chunks_mut(Census::FRAMES_MAX) {
            let bytes = match self.stamper.hashing {
                Hashing::None => self.stamper.stamp(part, port, now),
                Hashing::Flow => self
                    .stamper
                    .stamp_hashed::<false>(part, port, counters, now),
                Hashing::Packet => self.stamper.stamp_hashed::<true>(part, port, counters, now),
            };
            counters.rx_packets.add(part.len() as u64);
            counters.rx_bytes.add(bytes);
        }
    }
}

impl Stamper {
    /// Stamps packets with time and port of arrival; returns the bytes of their frames.
    #[inline]
    fn stamp(&self, burst: &mut [PassingMbuf<'_>], port: PortIndex, now: Ticks) -> u64 {
        if let Some(word) = self.shared_word(port, now) {
            return self.field.set_last_of(burst, word);
        }
        let mut bytes = 0;
        for mbuf in burst {
            bytes += u64::from(mbuf.len_bytes());
            let word = self.word(port, mbuf.head(), now);
            self.field.set_last(mbuf, word);
        }
        bytes
    }

    /// Stamps packets also with hashes, and counts them by kind; returns the bytes of their frames.
    #[inline]
    fn stamp_hashed<const PACKET: bool>(
        &self,
        burst: &mut [PassingMbuf<'_>],
        port: PortIndex,
        counters: &PortCounters,
        now: Ticks,
    ) -> u64 {
        let shared = self.shared_word(port, now);
        let mut bytes = 0;
        let mut census = Census::default();
        for mbuf in burst {
            let (len_bytes, head) = (mbuf.len_bytes(), mbuf.head());
            bytes += u64::from(len_bytes);
            let word = shared.unwrap_or_else(|| self.word(port, head, now));
            let Parsed { flow, packet, kind } = self.hasher.parse_as::<PACKET>(head, len_bytes);
            census.add(kind);
            self.field.set(mbuf, [flow.0, packet.0, word]);
        }
        for (counter, n) in counters.kinds.iter().zip(census.counts()) {
            counter.add(n);
        }
        bytes
    }

    /// Returns the last word of all packets received at `now`, if it is the same for all.
    fn shared_word(&self, port: PortIndex, now: Ticks) -> Option<u64> {
        let is_shared = !self.has_classes && !self.stamps_packets;
        is_shared.then(|| stamp::last_word(port, ClassIndex(0), now))
    }

    /// Returns the last word of a packet, received at `now` unless the clock is read for each packet.
    #[inline(never)]
    fn word(&self, port: PortIndex, head: &[u8], now: Ticks) -> u64 {
        let class = if self.has_classes {
            self.classifier.classify(port, head)
        } else {
            ClassIndex(0)
        };
        let at = if self.stamps_packets {
            Ticks(tsc::now())
        } else {
            now
        };
        stamp::last_word(port, class, at)
    }
}
