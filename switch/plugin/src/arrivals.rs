//! What happens to packets as a receive queue gives them.

use std::sync::Arc;

use contract::counters::{PortCounters, WorkerCounters};
use contract::ids::PortIndex;
use dpdk_bindings::{PassingMbuf, StampField, Tap, tsc};
use measure::packet::{Census, Hasher, Parsed, kind};
use measure::time::Ticks;
use switch::classify::Classifier;
use switch::packet_io::ClassIndex;

use crate::ports::Home;
use crate::stamp;

/// What all receive queues do alike.
#[derive(Debug, Clone)]
pub struct Stamper {
    pub field: StampField,
    pub hasher: Hasher,
    pub classifier: Arc<Classifier>,
    /// Whether there is more than one class.
    pub has_classes: bool,
    /// Whether the clock is read for every packet.
    pub stamps_packets: bool,
    /// Whether anybody asks which flow and packet it is: an LDA alone does not.
    pub hashes: bool,
}

/// One receive queue, parsing, hashing and stamping.
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
        for mbuf in &*burst {
            mbuf.prefetch_header();
        }
        let now = Ticks(tsc::now());
        self.counters.burst(burst.len());
        for part in burst.chunks_mut(Census::FRAMES_MAX) {
            if self.stamper.hashes {
                self.stamp::<true>(part, port, counters, now);
            } else {
                self.stamp::<false>(part, port, counters, now);
            }
        }
    }
}

impl Arrivals {
    #[inline]
    fn stamp<const HASHES: bool>(
        &self,
        burst: &mut [PassingMbuf<'_>],
        port: PortIndex,
        counters: &PortCounters,
        now: Ticks,
    ) {
        let Stamper { field, hasher, .. } = &self.stamper;
        let shared = self.stamper.shared_word(port, now);
        let mut bytes = 0;
        let mut census = Census::default();
        if let Some(word) = shared
            && !HASHES
        {
            // One loop for each: both at once want more registers than there are.
            bytes = field.set_last_of(burst, word);
            for mbuf in &*burst {
                census.add(kind(mbuf.head(), mbuf.len_bytes()));
            }
        } else {
            for mbuf in &mut *burst {
                let (len_bytes, head) = (mbuf.len_bytes(), mbuf.head());
                bytes += u64::from(len_bytes);
                let word = shared.unwrap_or_else(|| self.stamper.word(port, head, now));
                let kind = if HASHES {
                    let Parsed { flow, packet, kind } = hasher.parse(head, len_bytes);
                    field.set(mbuf, [flow.0, packet.0, word]);
                    kind
                } else {
                    let kind = kind(head, len_bytes);
                    field.set_last(mbuf, word);
                    kind
                };
                census.add(kind);
            }
        }
        counters.rx_packets.add(burst.len() as u64);
        counters.rx_bytes.add(bytes);
        for (counter, n) in counters.kinds.iter().zip(census.counts()) {
            counter.add(n);
        }
    }
}

impl Stamper {
    /// The last word of all packets received at `now`, where they have one in common.
    fn shared_word(&self, port: PortIndex, now: Ticks) -> Option<u64> {
        let is_shared = !self.has_classes && !self.stamps_packets;
        is_shared.then(|| stamp::last_word(port, ClassIndex(0), now))
    }

    /// The last word of a packet, received at `now` unless the clock is read for every one.
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
