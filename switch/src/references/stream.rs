//! One stream: its sender's end, what is under way, its receiver's end.

use std::ops::Range;

use contract::counters::ReferenceReading;
use contract::ids::{GenerationId, PortIndex};
use measure::InvalidArgument;
use measure::flows::Slot;
use measure::observation::SegmentIndex;
use measure::rli::{Estimates, Injector, Receiver, ReferenceSender, Run, SegmentDelay};
use measure::time::{EpochTag, Ticks};

use super::flight::Flight;
use super::{Due, ReferencesLayout, StreamLayout, Units};
use crate::egress::QueuedReference;
use crate::packet_io::ClassIndex;

/// Both ends count the same packets one by one: none comes to the other end that was not counted at the first.
const DIGEST: u64 = 0;

/// Packets of a stream that were queued together: of one time and one epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queued {
    pub arrived: Ticks,
    pub epoch: EpochTag,
    pub packets: usize,
    /// Packets ahead of them in their burst.
    pub before: usize,
}

/// Both ends of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    segment: SegmentIndex,
    class: ClassIndex,
    port: PortIndex,
    units: Units,
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
    pub(super) fn new(
        of: &StreamLayout,
        layout: &ReferencesLayout,
        units: Units,
    ) -> Result<Self, InvalidArgument> {
        Ok(Self {
            segment: of.segment,
            class: of.class,
            port: of.port,
            units,
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

    pub(super) fn port(&self) -> PortIndex {
        self.port
    }

    /// The reference before a packet that is about to be queued, if that is the first of its epoch.
    #[inline]
    pub(super) fn opening(&mut self, arrived: Ticks, epoch: EpochTag) -> Option<QueuedReference> {
        if self.epoch == Some(epoch) {
            return None;
        }
        let reference = self.reference(arrived, self.units.ns(arrived), epoch);
        self.epoch = Some(epoch);
        reference
    }

    /// Packets were queued; `bytes` gives those of some of them, by their numbers.
    #[inline]
    pub(super) fn queued(
        &mut self,
        queued: Queued,
        bytes: impl Fn(Range<usize>) -> u64,
        due: &mut Due,
    ) {
        let Queued {
            arrived,
            epoch,
            packets,
            before,
        } = queued;
        let now_ns = self.units.ns(arrived);
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
    pub(super) fn overdue(&mut self, now: Ticks, present: EpochTag) -> Option<QueuedReference> {
        let epoch = self.epoch?;
        if self.injector.packets_since() == 0 {
            return None;
        }
        let now_ns = self.units.ns(now);
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

    /// The port had nothing to send from one time to the other.
    pub(super) fn idle(&mut self, from_ns: u64, to_ns: u64) {
        self.receiver.idle(from_ns, to_ns);
    }

    /// Packets of one epoch left together.
    #[inline]
    pub(super) fn departed(
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
    pub(super) fn reference_departed(
        &mut self,
        sequence: u32,
        departed_ns: u64,
        sink: &mut impl FnMut(Estimates<'_, Slot>),
    ) -> Option<SegmentDelay> {
        let reference = self.flight.receive(sequence)?;
        self.receiver.reference(&reference, 0, departed_ns, sink);
        Some(self.receiver.take_segment())
    }

    pub(super) fn flush_epoch(
        &mut self,
        epoch: EpochTag,
        sink: &mut impl FnMut(Estimates<'_, Slot>),
    ) {
        self.receiver.flush_epoch(epoch, sink);
    }

    /// Adds what happened here.
    pub(super) fn count(&self, sum: &mut ReferenceReading) {
        let receiver = self.receiver.counters();
        sum.injected += self.sent;
        sum.left_out += self.left_out;
        sum.received += receiver.references;
        sum.overflowed_packets += receiver.overflowed_packets;
    }
}
