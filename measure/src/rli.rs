//! Reference Latency Interpolation: the delay of every flow from a few stamped packets.
//!
//! Lee, Duffield, Kompella: "Not all microseconds are equal: fine-grained per-flow measurements
//! with reference latency interpolation" (SIGCOMM 2010).
//!
//! ```text
//! sender                                          receiver
//! regular packets ------------------------------> interpolation buffer
//!   | bytes, time                                   |   ^ delays between two references
//!   v                                               |   |
//! Injector: now? --> ReferenceSender: Reference --> Receiver --> Estimate --> FlowDelay
//!                    (send time, sums so far)           |
//!                                                       +------> SegmentDelay
//! ```
//!
//! The sender injects small frames that carry their send time. The delay of a regular packet is close to
//! that of the references around it, because all of them waited in the same queue. Four methods
//! ([`Method`]) differ in how they interpolate; two of them are the paper's:
//!
//! | method | a packet's delay | requires at the receiver |
//! |---|---|---|
//! | RLI-L | that of the reference before it | nothing |
//! | RLI | on the line between the references around it (eq. 1) | a buffer for two intervals |
//! | RLI-S | on a curve between them, bent so that the interval's sums are exact | the same |
//! | RLI-AS | on a curve that also touches the ends of idle times, where no packet waits | every packet of the link |
//!
//! Beyond the paper, a reference carries the sums over all packets that the stream sent before it
//! ([`StreamSums`], 32 bytes). The receiver takes differences to the last reference that arrived, so a lost
//! one only lengthens an interval. If no packet was lost, they give the sum of the delays between two
//! references, and the sum with each delay multiplied by the packet's rank. If packets were lost, they give
//! only the first of these, with an error that depends on their positions.
//!
//! # Assumptions
//!
//! - FIFO: packets of one stream leave in the order of their arrival, so that the packets between two
//!   references are the same at both ends. A stream ([`StreamId`]) is one class queue of one worker and
//!   segment; references of another queue or path do not apply to it.
//! - Times are nanoseconds of synchronised clocks (inside a switch the TSC, on the wire TAI), modulo 2^64.
//!   Their differences are signed: if one clock is behind the other, delays may be negative.
//! - A receive time is the time when the last bit has left the queue: a delay is wait, serialisation
//!   ([`Link`]) and a constant.

mod config;
mod curve;
mod delay_sum;
mod flows;
mod inject;
mod interval;
mod learnt;
mod link;
mod receiver;
mod reference;

pub use config::{Method, ReceiverConfig};
pub use delay_sum::SegmentDelay;
pub use flows::{FlowDelay, FlowDistribution};
pub use inject::{Adaptive, Injector, Policy};
pub use link::Link;
pub use receiver::{Estimate, Estimates, Receiver, ReceiverCounters, Run};
pub use reference::{Reference, ReferenceSender, StreamId, StreamSums};

/// Nanoseconds from `earlier` to `later`; negative if the order is reversed.
pub(crate) fn since_ns(later: u64, earlier: u64) -> f64 {
    later.wrapping_sub(earlier).cast_signed() as f64
}

#[cfg(test)]
mod tests;
