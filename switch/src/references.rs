//! Reference latency interpolation inside the switch: both ends of every stream.
//!
//! ```text
//!  queued ── sums, policy ── reference? ──> egress queue ──> driver ──> departed: estimates, means
//!                 │                                                        │
//!                 └── what the reference says waits in the switch ─────────┘
//! ```
//!
//! A stream is a segment at one egress side, and both of its ends are there: its sender's end in
//! front of the queue, counting by when packets were first seen, its receiver's end behind the
//! driver. So what packets of a stream have in common is a queue, whichever worker received them;
//! nothing of RLI travels between workers, and what a queue refused is on neither side of a sum.
//!
//! A reference is a [position in the queue](QueuedReference), of no bytes, with the number of what it
//! says. One that is lost only lengthens an interval.
//!
//! The first packet of an epoch has a reference before it, so that intervals do not go from one
//! epoch into another and the mean of a segment speaks for the packets of its epoch. A stream that
//! falls silent gets its reference from [`References::overdue`]; what has none by the time its
//! epoch is sealed is estimated by the reference before it.

mod clock;
mod flight;
mod layout;
mod stream;

use std::ops::Range;

use arrayvec::ArrayVec;
use contract::counters::{ReferenceCounters, ReferenceReading};
use contract::ids::{GenerationId, PortIndex};
use measure::InvalidArgument;
use measure::batch::Batch;
use measure::flows::Slot;
use measure::observation::SegmentIndex;
use measure::rli::Estimates;
use measure::shard::Shard;
use measure::time::{EpochTag, Ticks};

use crate::departing::Departing;
use crate::egress::{PortEgress, QueuedReference, Refused};
use crate::packet_io::Tag;

use clock::{LinkClock, Units};
pub use layout::{ReferencesLayout, StreamLayout};
use stream::{Queued, Stream};

/// Most references that one burst brings.
pub const DUE_MAX: usize = 16;

/// References to put into an egress queue, in order: each with the number of packets before it.
pub type Due = ArrayVec<(usize, QueuedReference), DUE_MAX>;

/// Streams that [`References::overdue`] looks at in a call.
const OVERDUE_STREAMS: usize = 32;

/// Where estimates are recorded: the epochs that a worker has open.
pub trait OpenShards {
    /// The shard of an epoch; `None` where it is sealed, or goes unmeasured.
    fn shard(&mut self, epoch: EpochTag) -> Option<&mut Shard>;

    /// The same for what has waited since `queued`: a tag tells epochs apart for a while only.
    fn shard_since(&mut self, epoch: EpochTag, queued: Ticks) -> Option<&mut Shard>;
}

/// All streams of one worker.
#[derive(Debug)]
pub struct References {
    streams: Vec<Stream>,
    /// By segment; the number of streams where there is none.
    stream_of: Vec<u32>,
    links: Vec<LinkClock>,
    units: Units,
    generation: GenerationId,
    sweep: Sweep,
    late_estimates: u64,
    /// What has been shown of the counters.
    shown: ReferenceReading,
}

/// A round over all streams in search of references that are overdue.
#[derive(Debug)]
struct Sweep {
    next: usize,
    next_at: Ticks,
    epoch: EpochTag,
    period_ticks: u64,
}

impl References {
    /// Streams as `layout` says. All memory is taken here.
    ///
    /// # Errors
    /// Where policy or buffers are out of range.
    pub fn new(layout: &ReferencesLayout) -> Result<Self, InvalidArgument> {
        let units = Units { rate: layout.rate };
        let mut stream_of = vec![u32::MAX; layout.segments];
        let mut links = Vec::new();
        let mut streams = Vec::with_capacity(layout.streams.len());
        for (index, of) in (0_u32..).zip(&layout.streams) {
            if let Some(stream) = stream_of.get_mut(usize::from(of.segment.0)) {
                *stream = index;
            }
            if of.is_anchored() {
                let port = of.port.index();
                links.resize_with(links.len().max(port + 1), LinkClock::default);
                links[port].streams.push(streams.len());
                links[port].link = Some(of.link);
            }
            streams.push(Stream::new(of, layout, units)?);
        }
        Ok(Self {
            streams,
            stream_of,
            links,
            units,
            generation: layout.generation,
            sweep: Sweep {
                next: usize::MAX,
                next_at: Ticks(0),
                epoch: EpochTag::default(),
                period_ticks: layout.rate.ticks_in(layout.sweep_period()),
            },
            late_estimates: 0,
            shown: ReferenceReading::default(),
        })
    }

    #[inline]
    fn stream(&mut self, SegmentIndex(segment): SegmentIndex) -> Option<&mut Stream> {
        let index = *self.stream_of.get(usize::from(segment))?;
        self.streams.get_mut(index as usize)
    }

    /// Offers a packet to its egress queue at `now`, with the references that belong around it.
    ///
    /// # Errors
    /// The packet, where the queue refuses it.
    pub fn offer<P>(
        &mut self,
        egress: &mut PortEgress<P>,
        packet: P,
        tag: Tag,
        now: Ticks,
    ) -> Result<(), Refused<P>> {
        let stream = self.stream(tag.segment);
        let opening = stream.and_then(|stream| stream.opening(tag.arrived, tag.epoch));
        if let Some(reference) = opening {
            egress.offer_reference(reference, now);
        }
        egress.offer(packet, tag, now)?;
        let mut due = Due::new_const();
        self.queued(&[tag], &mut due);
        for (_, reference) in due {
            egress.offer_reference(reference, now);
        }
        Ok(())
    }

    /// Puts the references that belong around a burst that has just gone [straight to the
    /// head](PortEgress::offer_all), behind `ahead` packets, where they belong.
    #[inline]
    pub fn joined<P>(&mut self, egress: &mut PortEgress<P>, ahead: usize) {
        let mut due = Due::new_const();
        self.queued(egress.tags.get(ahead..).unwrap_or(&[]), &mut due);
        for (before, reference) in due {
            // Where there is no room, the next one makes up for it.
            let _ = egress.references.try_push((ahead + before, reference));
        }
    }

    /// Counts packets that an egress queue has just taken, in their order, and puts the references
    /// that go before, between or behind them into `due`.
    #[inline]
    pub fn queued(&mut self, tags: &[Tag], due: &mut Due) {
        let is_alike =
            |a: &Tag, b: &Tag| (a.segment, a.arrived, a.epoch) == (b.segment, b.arrived, b.epoch);
        let mut before = 0;
        for run in tags.chunk_by(is_alike) {
            let (first, packets) = (run[0], run.len());
            let queued = Queued {
                arrived: first.arrived,
                epoch: first.epoch,
                packets,
                before,
            };
            let bytes = |part| run.get::<Range<usize>>(part).map_or(0, bytes_of);
            if let Some(stream) = self.stream(first.segment) {
                stream.queued(queued, bytes, due);
            }
            before += packets;
        }
    }

    /// The same of a batch that its queue did not keep, with the bytes of each packet.
    #[inline]
    pub fn batch_queued(&mut self, batch: &Batch, bytes: &[u32], due: &mut Due) {
        let queued = Queued {
            arrived: batch.arrived,
            epoch: batch.epoch,
            packets: batch.packets,
            before: 0,
        };
        let bytes = |part: Range<usize>| {
            let bytes = bytes.get(part).unwrap_or(&[]);
            bytes.iter().copied().map(u64::from).sum()
        };
        if let Some(stream) = self.stream(batch.segment) {
            stream.queued(queued, bytes, due);
        }
    }

    /// Packets that the driver has just taken by `port`, in order, and the references of the head
    /// that they were taken from, each with the number of packets before it: those behind packets
    /// that are left stay out. Packets of segments without a stream may be among them, and of epochs
    /// that are not `mine`: of another configuration, with segments of its own.
    #[inline]
    pub fn departed(
        &mut self,
        port: PortIndex,
        packets: &Departing,
        references: &[(usize, QueuedReference)],
        now: Ticks,
        mine: impl Fn(EpochTag) -> bool + Copy,
        open: &mut impl OpenShards,
    ) {
        let mut references = references.iter().peekable();
        let (mut gone, mut last) = (0, None);
        for batch in &packets.batches {
            let end = gone + batch.packets;
            while gone < end {
                while let Some((_, reference)) = references.next_if(|(before, _)| *before <= gone) {
                    // Neither before the packet ahead of it, nor after the one behind it.
                    let departed = last.unwrap_or_else(|| batch.departed());
                    self.reference_departed(reference, departed, open);
                }
                let next = references
                    .peek()
                    .map_or(end, |(before, _)| end.min(*before));
                if mine(batch.epoch) {
                    self.part_departed(port, packets, batch, gone..next, open);
                }
                (gone, last) = (next, Some(batch.departed()));
            }
        }
        while let Some((_, reference)) = references.next_if(|(before, _)| *before <= gone) {
            self.reference_departed(reference, last.unwrap_or(now), open);
        }
    }

    /// Packets of one batch, with no reference among them.
    #[inline]
    fn part_departed(
        &mut self,
        port: PortIndex,
        packets: &Departing,
        batch: &Batch,
        numbers: Range<usize>,
        open: &mut impl OpenShards,
    ) {
        let members = packets.members.part(numbers);
        let link = self.links.get(port.index());
        if link.is_none_or(|link| link.streams.is_empty()) {
            return self.run_departed(batch, members.slots, open);
        }
        for (bytes, slot) in members.bytes.iter().zip(members.slots) {
            self.end_idle_time(port, batch, *bytes);
            self.run_departed(batch, std::slice::from_ref(slot), open);
        }
    }

    /// For streams that take idle times into account: a packet that came when the link had sent all others
    /// ended one.
    #[inline(never)]
    fn end_idle_time(&mut self, port: PortIndex, batch: &Batch, len_bytes: u32) {
        let departed_ns = self.units.ns(batch.departed());
        let arrived_ns = self.units.ns(batch.arrived);
        if let Some(link) = self.links.get_mut(port.index())
            && let Some(free_at_ns) = link.sent(arrived_ns, departed_ns, len_bytes)
        {
            for &index in &link.streams {
                if let Some(stream) = self.streams.get_mut(index) {
                    stream.idle(free_at_ns, departed_ns);
                }
            }
        }
    }

    #[inline]
    fn run_departed(&mut self, batch: &Batch, slots: &[Slot], open: &mut impl OpenShards) {
        let units = self.units;
        let mut late = 0;
        if let Some(stream) = self.stream(batch.segment) {
            let departed_ns = units.ns(batch.departed());
            stream.departed(slots, departed_ns, batch.epoch, &mut |estimates| {
                late += record(open, &estimates);
            });
        }
        self.late_estimates += late;
    }

    fn reference_departed(
        &mut self,
        reference: &QueuedReference,
        departed: Ticks,
        open: &mut impl OpenShards,
    ) {
        let units = self.units;
        let mut late = 0;
        if reference.generation == self.generation
            && let Some(stream) = self.stream(reference.segment)
        {
            let mean = stream.reference_departed(
                reference.sequence,
                units.ns(departed),
                &mut |estimates| {
                    late += record(open, &estimates);
                },
            );
            if let Some(mean) = mean
                && let Some(segment) = (open.shard_since(reference.epoch, reference.arrived))
                    .and_then(|shard| shard.segment_mut(reference.segment))
            {
                segment.rli.merge(&mean);
            }
        }
        self.late_estimates += late;
    }

    /// References of streams that have been silent for long, or since an epoch has ended: to be
    /// put behind all that waits at their ports. To be called once a pass; looks at a bounded
    /// number of streams. `epoch` is the present one.
    #[inline]
    pub fn overdue(
        &mut self,
        now: Ticks,
        epoch: EpochTag,
        put: &mut impl FnMut(PortIndex, QueuedReference),
    ) {
        let is_due = now.signed_since(self.sweep.next_at) >= 0;
        if is_due || self.sweep.epoch != epoch {
            self.sweep(now, epoch, put);
        }
    }

    #[inline(never)]
    fn sweep(
        &mut self,
        now: Ticks,
        epoch: EpochTag,
        put: &mut impl FnMut(PortIndex, QueuedReference),
    ) {
        if self.sweep.epoch != epoch || self.sweep.next >= self.streams.len() {
            self.sweep.epoch = epoch;
            self.sweep.next = 0;
        }
        let streams = self.streams.iter_mut().skip(self.sweep.next);
        for stream in streams.take(OVERDUE_STREAMS) {
            if let Some(reference) = stream.overdue(now, epoch) {
                put(stream.port(), reference);
            }
        }
        self.sweep.next += OVERDUE_STREAMS;
        if self.sweep.next >= self.streams.len() {
            self.sweep.next_at = now.plus(self.sweep.period_ticks);
        }
    }

    /// Lets go of the packets of `epoch` that still wait for a reference: to be called before its
    /// shard is sealed.
    #[cold]
    pub fn sealing(&mut self, epoch: EpochTag, open: &mut impl OpenShards) {
        let mut late = 0;
        for stream in &mut self.streams {
            stream.flush_epoch(epoch, &mut |estimates| {
                late += record(open, &estimates);
            });
        }
        self.late_estimates += late;
    }

    /// What happened so far, over all streams.
    pub fn counters(&self) -> ReferenceReading {
        let mut sum = ReferenceReading {
            late_estimates: self.late_estimates,
            ..ReferenceReading::default()
        };
        for stream in &self.streams {
            stream.count(&mut sum);
        }
        sum
    }

    /// Adds what happened since the last time to what the worker counts over all generations.
    pub fn show(&mut self, counters: &ReferenceCounters) {
        let now = self.counters();
        counters.add_since(&now, &std::mem::replace(&mut self.shown, now));
    }
}

fn bytes_of(tags: &[Tag]) -> u64 {
    tags.iter().map(|tag| u64::from(tag.len_bytes)).sum()
}

/// Adds estimates to the flows of their epoch; how many came too late.
#[inline]
fn record(open: &mut impl OpenShards, estimates: &Estimates<'_, Slot>) -> u64 {
    let Some(shard) = open.shard(estimates.estimate.epoch) else {
        return estimates.flows.len() as u64;
    };
    if let Some(flows) = shard.flows_mut() {
        flows.record_estimates(estimates);
    }
    0
}

#[cfg(test)]
mod tests;
