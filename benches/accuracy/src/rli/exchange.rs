//! Both ends of RLI around a link.

use anyhow::Result;
use measure::observation::SegmentIndex;
use measure::packet::PacketHash;
use measure::rli::{
    Estimates, FlowDelay, Injector, Link, Method, Policy, Receiver, ReceiverConfig,
    ReceiverCounters, Reference, ReferenceSender, SegmentDelay, StreamId,
};

use crate::queue::{LinkConfig, cross};
use crate::traffic::{Crossing, Kind, PS_PER_S, Traffic, mix};

/// A reference frame as the wire form has it: Ethernet, header, RLI-S's sums and tag.
#[expect(clippy::cast_possible_truncation, reason = "of a hundred bytes or so")]
pub const REFERENCE_BYTES: u32 = wire::frame::REFERENCE_FRAME_BYTES as u32;

/// The one stream of a link.
pub const STREAM: StreamId = StreamId {
    worker: 0,
    segment: SegmentIndex(0),
    queue: 0,
};

/// Events at the receiver's end.
#[derive(Debug, Clone, Copy)]
pub enum Arrival {
    /// A packet of a flow.
    Regular {
        /// The flow's number, from 0.
        flow: u32,
        /// The packet's hash.
        hash: PacketHash,
    },
    /// A packet that is not measured.
    Cross,
    /// A reference.
    Reference(Reference),
}

/// Estimates at the receiver's end.
#[derive(Debug, Clone)]
pub struct Received {
    /// Estimates, by number of flow.
    pub flows: Vec<FlowDelay>,
    /// The mean over all of them, from the sums that references carry.
    pub segment: SegmentDelay,
    pub counters: ReceiverCounters,
}

/// Runs a receiver over what arrives, in that order: when in nanoseconds, how many bytes, and what; with every estimate
/// to `sink`, too.
pub fn receive(
    config: ReceiverConfig,
    flows: usize,
    arrivals: impl IntoIterator<Item = (u64, u32, Arrival)>,
    mut sink: impl FnMut(&Estimates<'_, u32>),
) -> Result<Received> {
    let mut flows = vec![FlowDelay::default(); flows];
    let mut add = |estimates: Estimates<'_, u32>| {
        for &flow in estimates.flows {
            if let Some(delay) = flows.get_mut(flow as usize) {
                delay.add(&estimates.estimate);
            }
        }
        sink(&estimates);
    };
    let mut receiver = Receiver::new(config)?;
    for (at_ns, bytes, arrival) in arrivals {
        match arrival {
            Arrival::Regular { flow, hash } => {
                receiver.regular(flow, hash, bytes, at_ns, &mut add);
            }
            Arrival::Cross => receiver.cross(bytes, at_ns),
            Arrival::Reference(reference) => {
                receiver.reference(&reference, bytes, at_ns, &mut add);
            }
        }
    }
    receiver.flush(&mut add);
    Ok(Received {
        segment: receiver.take_segment(),
        counters: *receiver.counters(),
        flows,
    })
}

impl Received {
    /// Estimated mean delays in nanoseconds, by flow; for a flow without estimate (all its packets
    /// came before the first reference) the mean of all estimates.
    pub fn means_ns(&self) -> impl Iterator<Item = f64> + '_ {
        let slots = &self.flows;
        let packets: u64 = slots.iter().map(FlowDelay::packets).sum();
        let sum_ns: f64 = slots.iter().map(FlowDelay::sum_ns).sum();
        let overall_ns = sum_ns / packets as f64;
        let means = slots.iter().map(FlowDelay::mean_ns);
        means.map(move |mean_ns| mean_ns.unwrap_or(overall_ns))
    }

    /// Estimated standard deviations in nanoseconds, by flow; 0 for a flow without estimate.
    pub fn stddevs_ns(&self) -> impl Iterator<Item = f64> + '_ {
        let slots = self.flows.iter();
        slots.map(|slot| slot.stddev_ns().unwrap_or(0.0))
    }
}

/// Traffic that has crossed a simulated link together with references.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Every packet, references among them.
    pub crossings: Vec<Crossing>,
    /// Content of the references, in the order of sending.
    references: Vec<Reference>,
    link: Link,
    capacity_bps: u64,
    flows: u32,
    duration_ps: u64,
}

impl Exchange {
    /// Sends traffic and references according to the policy.
    pub fn send(traffic: &Traffic, link: &LinkConfig, policy: Policy, seed: u64) -> Result<Self> {
        let mut injector = Injector::new(policy, Link::new(link.capacity_bps, 0)?)?;
        Self::send_by(traffic, link, seed, |packet, now_ns| {
            let due = injector.packet(packet.bytes, now_ns);
            if due {
                injector.injected(now_ns);
            }
            due
        })
    }

    /// Likewise, with a reference behind each regular packet for which `is_due`, called with the packet and the time in
    /// nanoseconds, returns true.
    pub fn send_by(
        traffic: &Traffic,
        link: &LinkConfig,
        seed: u64,
        mut is_due: impl FnMut(&Crossing, u64) -> bool,
    ) -> Result<Self> {
        let rli_link = Link::new(link.capacity_bps, 0)?;
        let mut sender = ReferenceSender::new(STREAM);
        let mut references = Vec::new();
        let mut sent = 0;
        let crossings = cross(traffic, link, seed, |arrival| {
            let now_ns = arrival.sent_ns();
            sender.record(packet_hash(sent), now_ns);
            sent += 1;
            is_due(arrival, now_ns).then(|| {
                references.push(sender.reference(now_ns));
                REFERENCE_BYTES
            })
        });
        Ok(Self {
            crossings,
            references,
            link: rli_link,
            capacity_bps: link.capacity_bps,
            flows: traffic.flows,
            duration_ps: traffic.duration_ps,
        })
    }

    pub fn references(&self) -> usize {
        self.references.len()
    }

    /// Bandwidth of the references in per cent of the link.
    pub fn bandwidth_percent(&self) -> f64 {
        let seconds = self.duration_ps as f64 / PS_PER_S as f64;
        let bits = 8.0 * f64::from(REFERENCE_BYTES) * self.references() as f64;
        100.0 * bits / (seconds * self.capacity_bps as f64)
    }

    /// The packets from the first reference that arrived to the last.
    pub fn between_references(&self) -> &[Crossing] {
        let arrived = |c: &Crossing| c.kind == Kind::Reference && c.received_ps.is_some();
        let first = self.crossings.iter().position(arrived);
        let last = self.crossings.iter().rposition(arrived);
        let range = first
            .zip(last)
            .and_then(|(first, last)| self.crossings.get(first..last));
        range.unwrap_or_default()
    }

    /// A receiver's estimates from the packets that arrived.
    pub fn receive(&self, method: Method) -> Result<Received> {
        self.receive_into(method, |_| ())
    }

    /// Likewise, with every estimate to `sink`.
    pub fn receive_into(
        &self,
        method: Method,
        sink: impl FnMut(&Estimates<'_, u32>),
    ) -> Result<Received> {
        let config = ReceiverConfig::new(STREAM, method, self.link);
        receive(config, self.flows as usize, self.arrivals(), sink)
    }

    /// What arrives, in that order: when in nanoseconds, how many bytes, and what.
    fn arrivals(&self) -> impl Iterator<Item = (u64, u32, Arrival)> + '_ {
        let mut references = self.references.iter();
        let mut sent = 0;
        self.crossings.iter().filter_map(move |crossing| {
            let arrival = match crossing.kind {
                Kind::Regular => {
                    let hash = packet_hash(sent);
                    sent += 1;
                    let flow = crossing.flow;
                    Arrival::Regular { flow, hash }
                }
                Kind::Cross => Arrival::Cross,
                Kind::Reference => Arrival::Reference(*references.next()?),
            };
            Some((crossing.received_ns()?, crossing.bytes, arrival))
        })
    }
}

/// The hash of the `number`-th regular packet.
pub fn packet_hash(number: u64) -> PacketHash {
    PacketHash(mix(number))
}
