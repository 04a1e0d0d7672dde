//! What happens to packets as a receive queue gives them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use control::counters::WorkerCounters;
use dpdk_bindings::{Mbuf, StampField, Tap, tsc};
use measure::packet::{Hasher, Kind, kind};
use switch::classify::Classifier;
use switch::packet_io::{ClassIndex, PortIndex};

use crate::stamp;

/// No port: what comes by it is not measured.
pub const NOWHERE: u8 = u8::MAX;

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
    stamper: Stamper,
    /// The port's place, or [`NOWHERE`].
    place: AtomicU8,
    counters: Arc<WorkerCounters>,
}

impl Arrivals {
    pub fn new(stamper: Stamper, counters: Arc<WorkerCounters>) -> Self {
        Self {
            stamper,
            place: AtomicU8::new(NOWHERE),
            counters,
        }
    }

    /// From now on it is a queue of the port at `place`, or of none that is measured.
    pub fn belongs_to(&self, place: Option<PortIndex>) {
        let place = place.map_or(NOWHERE, |place| place.0);
        self.place.store(place, Ordering::Relaxed);
    }
}

impl Tap for Arrivals {
    #[inline]
    fn pass(&self, burst: &mut [Mbuf<'_>]) {
        if self.stamper.hashes {
            self.stamp::<true>(burst);
        } else {
            self.stamp::<false>(burst);
        }
    }
}

impl Arrivals {
    #[inline]
    fn stamp<const HASHES: bool>(&self, burst: &mut [Mbuf<'_>]) {
        let port = PortIndex(self.place.load(Ordering::Relaxed));
        let Some(counters) = self.counters.ports.get(usize::from(port.0)) else {
            return;
        };
        let Stamper {
            field,
            hasher,
            classifier,
            has_classes,
            stamps_packets,
            ..
        } = &self.stamper;
        for mbuf in &*burst {
            mbuf.prefetch_header();
        }
        let now = tsc::now();
        let mut bytes = 0;
        let mut kinds = [0_u64; Kind::COUNT];
        for mbuf in &mut *burst {
            let len_bytes = mbuf.len_bytes();
            let head = mbuf.head();
            let class = if *has_classes {
                classifier.classify(port, head)
            } else {
                ClassIndex(0)
            };
            let at = if *stamps_packets { tsc::now() } else { now };
            bytes += u64::from(len_bytes);
            let kind = if HASHES {
                let parsed = hasher.parse(head, len_bytes);
                field.set(mbuf, stamp::words(&parsed, port, class, at));
                parsed.kind
            } else {
                let kind = kind(head, len_bytes);
                field.set_last(mbuf, stamp::last_word(port, class, at));
                kind
            };
            kinds[kind as usize] += 1;
        }
        self.counters.burst(burst.len());
        counters.rx_packets.add(burst.len() as u64);
        counters.rx_bytes.add(bytes);
        for (counter, n) in counters.kinds.iter().zip(kinds) {
            counter.add(n);
        }
    }
}
