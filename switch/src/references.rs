//! Reference latency interpolation inside the switch: both ends of every stream.
//!
//! ```text
//!  queued ── sums, policy ── reference? ──> egress queue ──> driver ──> departed: estimates, means
//!                 │                                                        │
//!                 └── the reference's contents stay in the switch ─────────┘
//! ```
//!
//! A stream is a segment at one egress side, where both of its ends are: its sender's end in front of the
//! queue, counting by the times at which packets were first seen, its receiver's end behind the driver. So
//! all packets of a stream share a queue, whichever worker received them; nothing of RLI travels between
//! workers, and packets refused by a queue are on neither side of a sum.
//!
//! A reference is a [position in the queue](QueuedReference), of no bytes, with the number of its contents.
//! A lost one only lengthens an interval.
//!
//! The first packet of an epoch is preceded by a reference, so that intervals do not cross epochs and the
//! mean of a segment covers the packets of its epoch. A stream that falls silent gets its reference from
//! [`References::overdue`]; packets without one when their epoch is sealed are estimated from the reference
//! before them.

use std::ops::Range;
use std::time::Duration;

use arrayvec::ArrayVec;
use contract::config::Config;
use contract::counters::{ReferenceCounters, ReferenceReading};
use contract::ids::{GenerationId, PortIndex, WorkerIndex};
use measure::InvalidArgument;
use measure::batch::Batch;
use measure::flows::Slot;
use measure::observation::SegmentIndex;
use measure::rli::{
    Estimates, Injector, Link, Method, Policy, Receiver, ReceiverConfig, Reference,
    ReferenceSender, Run, SegmentDelay, StreamId,
};
use measure::shard::Shard;
use measure::time::{EpochTag, TickRate, Ticks};

use crate::departing::Departing;
use crate::egress::{PortEgress, QueuedReference, Refused, WIRE_OVERHEAD_BYTES};
use crate::packet_io::{ClassIndex, Tag};

/// Most references caused by one burst.
pub const DUE_MAX: usize = 16;

/// References to put into an egress queue, in order, each with the number of packets before it.
pub type Due = ArrayVec<(usize, QueuedReference), DUE_MAX>;

/// Streams checked by one call of [`References::overdue`].
const OVERDUE_STREAMS: usize = 32;

/// Destination of estimates: a worker's open epochs.
pub trait OpenShards {
    /// The shard of an epoch; `None` if it is sealed, or not measured.
    fn shard(&mut self, epoch: EpochTag) -> Option<&mut Shard>;

    /// The same for packets queued since `queued`, because a tag identifies an epoch for a while only.
    fn shard_since(&mut self, epoch: EpochTag, queued: Ticks) -> Option<&mut Shard>;
}

/// All streams of one worker.
#[derive(Debug)]
pub struct References {
    streams: Vec<Stream>,
    /// By segment; the number of streams if it has none.
    stream_of: Vec<u32>,
    links: Vec<LinkClock>,
    rate: TickRate,
    generation: GenerationId,
    sweep: Sweep,
    late_estimates: u64,
    /// Counters published so far.
    shown: ReferenceReading,
}

/// A round over all streams in search of overdue references.
#[derive(Debug)]
struct Sweep {
    next: usize,
    next_at: Ticks,
    epoch: EpochTag,
    period_ticks: u64,
}

impl References {
    /// Streams by `layout`. Allocates all memory.
    ///
    /// # Errors
    /// If policy or buffers are out of range.
    pub fn new(layout: &ReferencesLayout) -> Result<Self, InvalidArgument> {
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
            streams.push(Stream::new(of, layout)?);
        }
        Ok(Self {
            streams,
            stream_of,
            links,
            rate: layout.rate,
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
    /// The packet, if the queue refuses it.
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

    /// Inserts the references around a burst that went [straight to the head](PortEgress::offer_all),
    /// behind `ahead` packets.
    #[inline]
    pub fn joined<P>(&mut self, egress: &mut PortEgress<P>, ahead: usize) {
        let mut due = Due::new_const();
        self.queued(egress.tags.get(ahead..).unwrap_or(&[]), &mut due);
        for (before, reference) in due {
            // Without room, the next one makes up for it.
            let _ = egress.references.try_push((ahead + before, reference));
        }
    }

    /// Counts packets that an egress queue has accepted, in order, and puts the references before, between
    /// or behind them into `due`.
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

    /// The same for a batch that its queue did not keep, with the bytes of each packet.
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

    /// Processes packets that the driver accepted for `port`, in order, and the references of the head that
    /// contained them, each with the number of packets before it; references behind remaining packets are
    /// ignored. Packets of segments without a stream may be among them, and of epochs that are not `mine`:
    /// those of another configuration, with other segments.
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
                    // Neither before the preceding packet, nor after the next one.
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

    /// Processes packets of one batch without references.
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

    /// For streams that use idle times: a packet that arrived when the link had sent all others ended an
    /// idle time.
    #[inline(never)]
    fn end_idle_time(&mut self, port: PortIndex, batch: &Batch, len_bytes: u32) {
        let departed_ns = ns(self.rate, batch.departed());
        let arrived_ns = ns(self.rate, batch.arrived);
        if let Some(link) = self.links.get_mut(port.index())
            && let Some(free_at_ns) = link.sent(arrived_ns, departed_ns, len_bytes)
        {
            for &index in &link.streams {
                if let Some(stream) = self.streams.get_mut(index) {
                    stream.receiver.idle(free_at_ns, departed_ns);
                }
            }
        }
    }

    #[inline]
    fn run_departed(&mut self, batch: &Batch, slots: &[Slot], open: &mut impl OpenShards) {
        let rate = self.rate;
        let mut late = 0;
        if let Some(stream) = self.stream(batch.segment) {
            let departed_ns = ns(rate, batch.departed());
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
        let rate = self.rate;
        let mut late = 0;
        if reference.generation == self.generation
            && let Some(stream) = self.stream(reference.segment)
        {
            let mean = stream.reference_departed(
                reference.sequence,
                ns(rate, departed),
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

    /// References of streams that have been silent for long, or since an epoch has ended, to be appended to
    /// the queues of their ports. Called once in each pass; checks a bounded number of streams. `epoch` is
    /// the current one.
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
                put(stream.port, reference);
            }
        }
        self.sweep.next += OVERDUE_STREAMS;
        if self.sweep.next >= self.streams.len() {
            self.sweep.next_at = now.plus(self.sweep.period_ticks);
        }
    }

    /// Emits the packets of `epoch` that still wait for a reference; called before its shard is sealed.
    #[cold]
    pub fn sealing(&mut self, epoch: EpochTag, open: &mut impl OpenShards) {
        let mut late = 0;
        for stream in &mut self.streams {
            stream.receiver.flush_epoch(epoch, &mut |estimates| {
                late += record(open, &estimates);
            });
        }
        self.late_estimates += late;
    }

    /// Counters over all streams.
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

    /// Adds what happened since the last call to the worker's counters.
    pub fn show(&mut self, counters: &ReferenceCounters) {
        let now = self.counters();
        counters.add_since(&now, &std::mem::replace(&mut self.shown, now));
    }
}

fn bytes_of(tags: &[Tag]) -> u64 {
    tags.iter().map(|tag| u64::from(tag.len_bytes)).sum()
}

/// Adds estimates to the flows of their epoch; returns how many were too late.
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

// Times of stamps, and of a link.

/// Nanoseconds of an instant.
#[inline]
fn ns(rate: TickRate, instant: Ticks) -> u64 {
    rate.ticks_to_ns(instant.0)
}

/// When a port's link has sent all that it took, for streams that take idle times into account.
#[derive(Debug, Default)]
struct LinkClock {
    link: Option<Link>,
    free_at_ns: Option<u64>,
    streams: Vec<usize>,
}

impl LinkClock {
    /// A packet was sent. If the link had nothing to send when it arrived: since when.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a float to an integer saturates"
    )]
    fn sent(&mut self, arrived_ns: u64, departed_ns: u64, len_bytes: u32) -> Option<u64> {
        let busy_ns = self.link?.serialisation_ns(len_bytes) as u64;
        let begins_ns = self
            .free_at_ns
            .map_or(departed_ns, |free_at_ns| free_at_ns.max(departed_ns));
        let free_at_ns = self.free_at_ns.replace(begins_ns.saturating_add(busy_ns));
        free_at_ns.filter(|free_at_ns| *free_at_ns <= arrived_ns)
    }
}

// What references say, while they are under way in a queue.

/// Most references of one stream that are under way.
const FLIGHT_MAX: usize = 64;

/// References under way, by sequence number.
#[derive(Debug)]
struct Flight {
    /// The reference of sequence number n at n modulo its length.
    said: Box<[Option<Reference>]>,
    /// The oldest that may come, and the next to be sent.
    oldest: u32,
    next: u32,
}

impl Flight {
    /// After this long in a queue, a reference is lost.
    const LOST_NS: i64 = 1_000_000_000;

    fn new() -> Self {
        Self {
            said: vec![None; FLIGHT_MAX].into_boxed_slice(),
            oldest: 0,
            next: 0,
        }
    }

    fn slot(&mut self, sequence: u32) -> Option<&mut Option<Reference>> {
        self.said.get_mut(sequence as usize % FLIGHT_MAX)
    }

    /// Whether one more may be sent at `now_ns`. Where none seems to come any more, the oldest is
    /// given up.
    fn has_room(&mut self, now_ns: u64) -> bool {
        if (self.next.wrapping_sub(self.oldest) as usize) < FLIGHT_MAX {
            return true;
        }
        let oldest = self.oldest;
        let is_lost = match self.slot(oldest) {
            Some(Some(said)) => now_ns.wrapping_sub(said.sent_ns).cast_signed() > Self::LOST_NS,
            _ => true,
        };
        if is_lost {
            self.oldest = oldest.wrapping_add(1);
        }
        is_lost
    }

    /// Keeps what the newest reference says.
    fn send(&mut self, said: Reference) {
        let sequence = said.sequence;
        if let Some(slot) = self.slot(sequence) {
            *slot = Some(said);
        }
        self.next = sequence.wrapping_add(1);
    }

    /// What the reference of that number says; those before it are not to be expected any more.
    fn receive(&mut self, sequence: u32) -> Option<Reference> {
        let ahead = sequence.wrapping_sub(self.oldest);
        if ahead >= self.next.wrapping_sub(self.oldest) {
            return None;
        }
        self.oldest = sequence.wrapping_add(1);
        self.slot(sequence)?.take()
    }
}

// One stream: its sender's end, what is under way, its receiver's end.

/// Both ends count the same packets one by one: none reaches the other end that was not counted at the first.
const DIGEST: u64 = 0;

/// Packets of a stream that were queued together: of one time and one epoch.
#[derive(Debug, Clone, Copy)]
struct Queued {
    pub arrived: Ticks,
    pub epoch: EpochTag,
    pub packets: usize,
    /// Packets ahead of them in their burst.
    pub before: usize,
}

/// Both ends of a stream.
#[derive(Debug)]
struct Stream {
    segment: SegmentIndex,
    class: ClassIndex,
    port: PortIndex,
    rate: TickRate,
    generation: GenerationId,
    injector: Injector,
    sender: ReferenceSender,
    /// Of the latest packet.
    epoch: Option<EpochTag>,
    flight: Flight,
    sent: u64,
    left_out: u64,
    receiver: Receiver<Slot>,
}

impl Stream {
    fn new(of: &StreamLayout, layout: &ReferencesLayout) -> Result<Self, InvalidArgument> {
        Ok(Self {
            segment: of.segment,
            class: of.class,
            port: of.port,
            rate: layout.rate,
            generation: layout.generation,
            injector: Injector::new(layout.policy, of.link)?,
            sender: ReferenceSender::new(of.id()),
            epoch: None,
            flight: Flight::new(),
            sent: 0,
            left_out: 0,
            receiver: Receiver::new(layout.receiver(of)?)?,
        })
    }

    /// The reference before a packet that is about to be queued, if that is the first of its epoch.
    #[inline]
    fn opening(&mut self, arrived: Ticks, epoch: EpochTag) -> Option<QueuedReference> {
        if self.epoch == Some(epoch) {
            return None;
        }
        let reference = self.reference(arrived, ns(self.rate, arrived), epoch);
        self.epoch = Some(epoch);
        reference
    }

    /// Packets were queued; `bytes` gives those of some of them, by their numbers.
    #[inline]
    fn queued(&mut self, queued: Queued, bytes: impl Fn(Range<usize>) -> u64, due: &mut Due) {
        let Queued {
            arrived,
            epoch,
            packets,
            before,
        } = queued;
        let now_ns = ns(self.rate, arrived);
        if !due.is_full()
            && let Some(reference) = self.opening(arrived, epoch)
        {
            due.push((before, reference));
        }
        let mut first = 0;
        while first < packets {
            // Without room for references, packets need not be split.
            let to_go = if due.is_full() {
                u64::MAX
            } else {
                self.injector.packets_to_go(now_ns)
            };
            let part = (packets - first).min(usize::try_from(to_go).unwrap_or(usize::MAX));
            let bytes = bytes(first..first + part);
            first += part;
            #[expect(clippy::cast_possible_truncation, reason = "a burst at most")]
            let part = part as u32;
            self.sender.record_run(part, DIGEST, now_ns);
            if self.injector.run(part, bytes, now_ns)
                && !due.is_full()
                && let Some(reference) = self.reference(arrived, now_ns, epoch)
            {
                due.push((before + first, reference));
            }
        }
    }

    /// A reference for a stream without packets for long, or since its epoch ended.
    fn overdue(&mut self, now: Ticks, present: EpochTag) -> Option<QueuedReference> {
        let epoch = self.epoch?;
        if self.injector.packets_since() == 0 {
            return None;
        }
        let now_ns = ns(self.rate, now);
        let is_due = epoch != present || self.injector.due(now_ns);
        if is_due {
            self.reference(now, now_ns, epoch)
        } else {
            None
        }
    }

    /// A reference behind the packets so far, which are of `epoch`; `None` where too many are under
    /// way.
    fn reference(&mut self, now: Ticks, now_ns: u64, epoch: EpochTag) -> Option<QueuedReference> {
        self.injector.injected(now_ns);
        if !self.flight.has_room(now_ns) {
            self.left_out += 1;
            return None;
        }
        self.sent += 1;
        let reference = self.sender.reference(now_ns);
        self.flight.send(reference);
        Some(QueuedReference {
            sequence: reference.sequence,
            generation: self.generation,
            arrived: now,
            segment: self.segment,
            class: self.class,
            // The packets before it are of the epoch before, where it opens another.
            epoch: self.epoch.unwrap_or(epoch),
        })
    }

    /// Packets of one epoch left together.
    #[inline]
    fn departed(
        &mut self,
        slots: &[Slot],
        departed_ns: u64,
        epoch: EpochTag,
        sink: &mut impl FnMut(Estimates<'_, Slot>),
    ) {
        let run = Run {
            flows: slots,
            digest: DIGEST,
            // It takes no time to send what has begun to be sent: layout.rs.
            bytes: 0,
            received_ns: departed_ns,
            epoch,
        };
        self.receiver.regular_run(&run, sink);
    }

    /// A reference left: the delays of the interval behind it.
    fn reference_departed(
        &mut self,
        sequence: u32,
        departed_ns: u64,
        sink: &mut impl FnMut(Estimates<'_, Slot>),
    ) -> Option<SegmentDelay> {
        let reference = self.flight.receive(sequence)?;
        self.receiver.reference(&reference, 0, departed_ns, sink);
        Some(self.receiver.take_segment())
    }

    /// Adds what happened here.
    fn count(&self, sum: &mut ReferenceReading) {
        let receiver = self.receiver.counters();
        sum.injected += self.sent;
        sum.left_out += self.left_out;
        sum.received += receiver.references;
        sum.overflowed_packets += receiver.overflowed_packets;
    }
}

// What a worker's references are made for.

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
    fn is_anchored(&self) -> bool {
        self.method == Method::AnchoredSums
    }

    fn id(&self) -> StreamId {
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
    fn receiver(&self, of: &StreamLayout) -> Result<ReceiverConfig, InvalidArgument> {
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
    fn sweep_period(&self) -> Duration {
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

#[cfg(test)]
mod tests;
