//! What happens to packets as a receive queue gives them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use control::counters::WorkerCounters;
use dpdk_bindings::{Mbuf, StampField, Tap, tsc};
use measure::packet::{Hasher, Kind};
use switch::classify::Classifier;
use switch::packet_io::PortIndex;

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
        let port = PortIndex(self.place.load(Ordering::Relaxed));
        let Some(counters) = self.counters.ports.get(usize::from(port.0)) else {
            return;
        };
        let Stamper {
            field,
            hasher,
            classifier,
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
            let parsed = hasher.parse(head, len_bytes);
            let class = classifier.classify(port, head);
            let at = if *stamps_packets { tsc::now() } else { now };
            field.set(mbuf, stamp::words(&parsed, port, class, at));
            bytes += u64::from(len_bytes);
            kinds[parsed.kind as usize] += 1;
        }
        self.counters.burst(burst.len());
        counters.rx_packets.add(burst.len() as u64);
        counters.rx_bytes.add(bytes);
        for (counter, n) in counters.kinds.iter().zip(kinds) {
            counter.add(n);
        }
    }
}
