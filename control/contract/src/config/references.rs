//! What RLI inside the switch comes to: which worker has which streams, and what they take.

use measure::flows::Slot;
use measure::rli::{Method, Receiver, ReceiverConfig};

use super::{Config, Rli, RliMethod, RliPolicy, Segment, Stamps};

/// What a stream takes besides its buffers: both ends' figures, and 64 references under way.
const STREAM_BYTES: usize = 8 << 10;

/// Packets between references where time alone says when they come.
const TIMED_PACKETS: usize = 2_048;

/// The same by utilisation: at the least rate.
const ADAPTIVE_PACKETS: usize = 300;

/// Packets of a burst at either end of an interval.
const BURST_PACKETS: usize = 64;

/// Most streams of a port that take its idle times into account: each one costs them all.
const ANCHORED_STREAMS_MAX: usize = 8;

impl RliPolicy {
    /// Packets that a stream buffers between two references: room for two intervals, should a
    /// reference go astray, and for a burst. More are estimated by RLI-L.
    pub fn buffer_packets(&self) -> usize {
        let between = match *self {
            Self::Count { packets } => packets as usize,
            Self::Time { .. } => TIMED_PACKETS,
            Self::Either { packets, .. } => (packets as usize).min(2 * TIMED_PACKETS),
            Self::Adaptive => ADAPTIVE_PACKETS,
        };
        (2 * between + BURST_PACKETS).min(ReceiverConfig::BUFFER_PACKETS_MAX)
    }
}

impl Config {
    /// Whether a worker sends packets of a segment: all of them by a port that it owns, by others
    /// those that it received.
    pub fn sends(&self, worker: usize, segment: &Segment) -> bool {
        match self.owner(segment.egress) {
            _ if !segment.is_inside() => false,
            Some(owner) => owner == worker,
            None => (self.assignment().get(worker))
                .is_some_and(|served| served.iter().any(|&(port, _)| port == segment.ingress)),
        }
    }

    /// How delays of packets that leave by a port are estimated from references; `None` where there are none.
    /// [`RliMethod::AnchoredSums`] becomes RLI-S where no worker sends all of the port's packets with stamps of their
    /// own.
    pub fn rli_method(&self, port: usize) -> Option<Method> {
        let configured = self.measurement.rli.as_ref()?.method;
        let is_by_it = |segment: &&Segment| segment.egress == port && segment.is_inside();
        let streams = || self.segments().iter().filter(is_by_it).count();
        let can_anchor = (self.workers.len() < 2 || self.owner(port).is_some())
            && self.measurement.stamps == Stamps::Packet
            && self.ports.get(port)?.egress.capacity_bps.is_some()
            && streams() <= ANCHORED_STREAMS_MAX;
        Some(match configured {
            RliMethod::Left => Method::Left,
            RliMethod::Linear => Method::Linear,
            RliMethod::Auto | RliMethod::AnchoredSums if can_anchor => Method::AnchoredSums,
            RliMethod::Auto | RliMethod::AnchoredSums | RliMethod::Sums => Method::Sums,
        })
    }

    /// Streams of references over all workers, and bytes of each.
    pub(crate) fn reference_streams(&self) -> (usize, usize) {
        let Some(Rli { policy, method }) = &self.measurement.rli else {
            return (0, 0);
        };
        let segments = self.segments();
        let of_worker = |worker| (segments.iter()).filter(move |one| self.sends(worker, one));
        let streams = (0..self.workers.len()).flat_map(of_worker).count();
        let is_buffered = self.measurement.flows.is_some() && *method != RliMethod::Left;
        let buffers = if is_buffered {
            policy.buffer_packets() * Receiver::<Slot>::PACKET_BYTES
        } else {
            0
        };
        (streams, STREAM_BYTES + buffers)
    }
}
