//! What a worker's references are made for.

use std::time::Duration;

use contract::config::Config;
use contract::ids::{GenerationId, PortIndex, WorkerIndex};
use measure::InvalidArgument;
use measure::observation::SegmentIndex;
use measure::rli::{Link, Method, Policy, ReceiverConfig, StreamId};
use measure::time::TickRate;

use crate::egress::layout::WIRE_OVERHEAD_BYTES;
use crate::packet_io::ClassIndex;

/// The rate assumed of a port without a capacity; only adaptive injection goes by it, which needs
/// one.
const UNPACED_BPS: u64 = 10_000_000_000;

/// What a worker's references are made for.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferencesLayout {
    /// Tells references of one configuration from those of another that are still queued.
    pub generation: GenerationId,
    /// Of the counter that stamps are read from.
    pub rate: TickRate,
    /// When references are injected.
    pub policy: Policy,
    /// Packets that a stream buffers between references.
    pub buffer_packets: usize,
    /// How many segments the switch has.
    pub segments: usize,
    /// Whether flows are kept; without them, nothing is estimated but the means of segments.
    pub keeps_flows: bool,
    /// Those that this worker sends.
    pub streams: Vec<StreamLayout>,
}

/// One stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamLayout {
    /// The segment that it is the part of that this worker sends.
    pub segment: SegmentIndex,
    /// The port by which it leaves.
    pub port: PortIndex,
    /// Its class.
    pub class: ClassIndex,
    /// What drains its queue.
    pub link: Link,
    /// How it is estimated.
    pub method: Method,
}

impl StreamLayout {
    pub(super) fn is_anchored(&self) -> bool {
        self.method == Method::AnchoredSums
    }

    pub(super) fn id(&self) -> StreamId {
        StreamId {
            worker: 0,
            segment: self.segment,
            queue: self.class.0,
        }
    }
}

impl ReferencesLayout {
    /// What `config` asks of `worker`; `None` where it asks for no references.
    pub fn from_config(
        config: &Config,
        worker: WorkerIndex,
        rate: TickRate,
        generation: GenerationId,
    ) -> Option<Self> {
        let rli = config.measurement.rli.as_ref()?;
        let resolved = config.resolve();
        let is_sent = |(_, segment): &(u16, &contract::config::Segment)| {
            resolved.sends(worker.index(), segment)
        };
        let numbered: Vec<_> = (0_u16..).zip(&resolved.segments).filter(is_sent).collect();
        let stream = |(number, segment): &(u16, &contract::config::Segment)| {
            let capacity_bps = config.ports.get(segment.egress)?.egress.capacity_bps;
            Some(StreamLayout {
                segment: SegmentIndex(*number),
                port: PortIndex::new(segment.egress),
                class: ClassIndex(u8::try_from(segment.class).ok()?),
                link: Link::new(capacity_bps.unwrap_or(UNPACED_BPS), WIRE_OVERHEAD_BYTES).ok()?,
                method: resolved.rli_methods[segment.egress]?,
            })
        };
        Some(Self {
            generation,
            rate,
            policy: rli.policy.into(),
            buffer_packets: rli.policy.buffer_packets(),
            segments: resolved.segments.len(),
            keeps_flows: config.measurement.flows.is_some(),
            streams: numbered.iter().filter_map(stream).collect(),
        })
    }

    /// What one stream's receiver is made for.
    pub(super) fn receiver(&self, of: &StreamLayout) -> Result<ReceiverConfig, InvalidArgument> {
        // A stamped delay ends as a packet begins to be sent: no serialisation is in it.
        let link = Link::new(of.link.capacity_bps(), 0)?;
        Ok(ReceiverConfig {
            // All methods agree on the mean of a segment, and this one keeps nothing for flows.
            method: if self.keeps_flows {
                of.method
            } else {
                Method::Left
            },
            buffer_packets: self.buffer_packets,
            idle_is_told: true,
            ..ReceiverConfig::new(of.id(), of.method, link)
        })
    }

    /// How often silent streams are looked for.
    pub(super) fn sweep_period(&self) -> Duration {
        let usual = Duration::from_millis(1);
        match self.policy {
            Policy::Time { interval_ns } | Policy::Either { interval_ns, .. } => {
                let half = Duration::from_nanos(interval_ns.get() / 2);
                half.clamp(Duration::from_micros(10), usual)
            }
            Policy::Count { .. } | Policy::Adaptive(_) => usual,
        }
    }
}
