//! Both ends of RLI around a simulated link.

use anyhow::Result;
use measure::observation::SegmentIndex;
use measure::packet::PacketHash;
use measure::rli::{
    Estimates, FlowDelay, FlowDelays, Injector, Link, Method, Policy, Receiver, ReceiverConfig,
    ReceiverCounters, Reference, ReferenceSender, SegmentDelay, StreamId,
};

use crate::queue::{Crossing, LinkConfig, cross};
use crate::traffic::mix;
use crate::traffic::{Kind, PS_PER_NS, Traffic};

/// A reference frame as the wire form has it: Ethernet, header, RLI-S's sums and tag.
#[expect(clippy::cast_possible_truncation, reason = "of a hundred bytes or so")]
pub const REFERENCE_BYTES: u32 = measure::wire::frame::REFERENCE_FRAME_BYTES as u32;

const STREAM: StreamId = StreamId {
    worker: 0,
    segment: SegmentIndex(0),
    queue: 0,
};

/// Traffic that has crossed a link together with references.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Every packet, references among them.
    pub crossings: Vec<Crossing>,
    /// What the references said, in the order of sending.
    references: Vec<Reference>,
    link: Link,
    flows: u32,
}

/// What the receiver's end says.
#[derive(Debug, Clone)]
pub struct Received {
    /// Estimates, by number of flow.
    pub flows: FlowDelays,
    /// The mean over all of them, from the sums that references carry.
    pub segment: SegmentDelay,
    /// What happened.
    pub counters: ReceiverCounters,
}

impl Received {
    /// Estimated mean delays in nanoseconds, by flow; for a flow without estimate (all its packets
    /// came before the first reference) the mean of all estimates.
    pub fn means_ns(&self) -> impl Iterator<Item = f64> + '_ {
        let slots = self.flows.slots();
        let packets: u64 = slots.iter().map(FlowDelay::packets).sum();
        let sum_ns: f64 = slots.iter().map(FlowDelay::sum_ns).sum();
        let overall_ns = sum_ns / packets as f64;
        slots
            .iter()
            .map(move |slot| slot.mean_ns().unwrap_or(overall_ns))
    }

    /// Estimated standard deviations in nanoseconds, by flow; 0 for a flow without estimate.
    pub fn stddevs_ns(&self) -> impl Iterator<Item = f64> + '_ {
        let slots = self.flows.slots();
        slots.iter().map(|slot| slot.stddev_ns().unwrap_or(0.0))
    }
}

impl Exchange {
    /// Sends traffic and, as the policy has it, references.
    ///
    /// # Errors
    /// A policy or a link that cannot be.
    pub fn send(traffic: &Traffic, link: &LinkConfig, policy: Policy, seed: u64) -> Result<Self> {
        let rli_link = Link::new(link.capacity_bps, 0)?;
        let mut injector = Injector::new(policy, rli_link)?;
        let mut sender = ReferenceSender::new(STREAM);
        let mut references = Vec::new();
        let mut sent = 0;
        let crossings = cross(traffic, link, seed, |arrival| {
            let now_ns = arrival.at_ps / PS_PER_NS;
            sender.record(packet_hash(sent), now_ns);
            sent += 1;
            let due = injector.packet(arrival.bytes, now_ns);
            due.then(|| {
                injector.injected(now_ns);
                references.push(sender.reference(now_ns));
                REFERENCE_BYTES
            })
        });
        Ok(Self {
            crossings,
            references,
            link: rli_link,
            flows: traffic.flows,
        })
    }

    /// References sent.
    pub fn references(&self) -> usize {
        self.references.len()
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

    /// What a receiver makes of the packets that arrived.
    ///
    /// # Errors
    /// A receiver that cannot be.
    pub fn receive(&self, method: Method) -> Result<Received> {
        let mut receiver = Receiver::new(ReceiverConfig::new(STREAM, method, self.link))?;
        let mut flows = FlowDelays::new(self.flows as usize);
        let mut sink = |estimates: Estimates<'_, u32>| flows.add(&estimates);
        let mut references = self.references.iter();
        let mut sent = 0;
        for crossing in &self.crossings {
            let received_ns = crossing.received_ps.map(|at_ps| at_ps / PS_PER_NS);
            let bytes = crossing.bytes;
            match crossing.kind {
                Kind::Regular => {
                    let packet = packet_hash(sent);
                    sent += 1;
                    if let Some(at_ns) = received_ns {
                        receiver.regular(crossing.flow, packet, bytes, at_ns, &mut sink);
                    }
                }
                Kind::Cross => {
                    if let Some(at_ns) = received_ns {
                        receiver.cross(bytes, at_ns);
                    }
                }
                Kind::Reference => {
                    if let (Some(reference), Some(at_ns)) = (references.next(), received_ns) {
                        receiver.reference(reference, bytes, at_ns, &mut sink);
                    }
                }
            }
        }
        receiver.flush(&mut sink);
        Ok(Received {
            flows,
            segment: receiver.take_segment(),
            counters: *receiver.counters(),
        })
    }
}

/// The hash of the `number`-th regular packet.
pub fn packet_hash(number: u64) -> PacketHash {
    PacketHash(mix(number))
}
