//! Options of a receiver.

use super::link::Link;
use super::reference::StreamId;
use crate::labelled_enum;

labelled_enum! {
    /// How a packet's delay is computed from the references around it.
    #[derive(PartialOrd, Ord)]
    pub enum Method {
        /// RLI-L (Lee et al. 2010, section 3.3): the delay of the previous reference. Nothing is buffered.
        Left = "rli-l",
        /// RLI (eq. 1): on the line between the references before and after it.
        Linear = "rli",
        /// RLI-S: on a curve between them, bent so that the interval's mean is exact if no packet was lost.
        Sums = "rli-s",
        /// RLI-AS: on a curve that also passes through the ends of idle times. Needs every packet of the
        /// link, including those of other streams ([`Receiver::cross`](super::Receiver::cross)), each with
        /// its own stamp. If stamps are per burst, or jitter exceeds the serialisation of a minimum frame,
        /// use [`Method::Sums`].
        AnchoredSums = "rli-as",
    }
}

impl Method {
    /// Factor by which the raw bound of a flow in this many [effective
    /// intervals](super::FlowDelay::effective_intervals) becomes a nominal 98 % bound: the factor needed in
    /// the worst of eight simulated queues, rounded up (`make accuracy`, table "RLI: bounds").
    ///
    /// Errors of the curves of RLI-S and RLI-AS have long tails, which average out over intervals. The raw
    /// bound's two standard errors are then more than the normal distribution requires, because no packet
    /// of an interval is likely to be off by as much as its delays differ. Errors of RLI-L and RLI are
    /// correlated over longer times, and average out less.
    pub fn bound_calibration(self, intervals: f64) -> f64 {
        let (one, many) = match self {
            Self::Left => (1.3, 1.3),
            Self::Linear => (1.6, 1.6),
            Self::Sums => (1.25, 0.6),
            Self::AnchoredSums => (1.0, 0.5),
        };
        many + (one - many) / intervals
    }
}

/// Options of a receiver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceiverConfig {
    /// The stream that it receives.
    pub stream: StreamId,
    /// Its method.
    pub method: Method,
    /// The link that drains the queue.
    pub link: Link,
    /// Packets that the interpolation buffer holds for each of two intervals, 1 to
    /// [`Self::BUFFER_PACKETS_MAX`]. The paper's rule: n for 1-in-n, else as many packets of minimum size
    /// as the link carries between two references. Further packets are estimated by RLI-L and counted.
    pub buffer_packets: usize,
    /// RLI-AS: whether idle times are [given](super::Receiver::idle), instead of inferred from packets.
    pub idle_is_told: bool,
}

impl ReceiverConfig {
    /// Most packets that a buffer can hold for an interval.
    pub const BUFFER_PACKETS_MAX: usize = 1 << 20;

    /// RLI-AS: a service that starts this much later than the previous departure follows an idle time. Must
    /// exceed the stamps' resolution.
    pub(super) const IDLE_TOLERANCE_NS: f64 = 2.0;

    /// Packets that are actually buffered.
    pub(super) fn room(&self) -> usize {
        match self.method {
            Method::Left => 0,
            Method::Linear | Method::Sums | Method::AnchoredSums => self.buffer_packets,
        }
    }

    /// A receiver of `stream` behind `link`, with room for 4,096 packets between two references.
    pub fn new(stream: StreamId, method: Method, link: Link) -> Self {
        Self {
            stream,
            method,
            link,
            buffer_packets: 4_096,
            idle_is_told: false,
        }
    }
}
