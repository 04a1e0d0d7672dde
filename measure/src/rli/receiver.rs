//! The receiver's end of a stream: packets and references in, estimates out.

use super::config::{Method, ReceiverConfig};
use super::curve::CurvePoint;
use super::delay_sum::{DelaySum, SegmentDelay};
use super::interval::{Buffer, BufferedRun, Error, Interval, Latest, Mark};
use super::learnt::{BusyPeriods, Idle, Learnt};
use super::reference::{Reference, StreamSums};
use super::since_ns;
use crate::argument::{InvalidArgument, ensure};
use crate::packet::PacketHash;
use crate::time::EpochTag;

/// Regular packets of a stream that were received together, as a burst leaves a switch at one time, or a
/// single packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run<'a, F> {
    /// The flow of each packet, in order.
    pub flows: &'a [F],
    /// Exclusive or of the packets' hashes.
    pub digest: u64,
    /// Length of each packet; packets of other lengths are in another run.
    pub bytes: u32,
    /// When they were received.
    pub received_ns: u64,
    /// The epoch that they count in, as identified by the caller.
    pub epoch: EpochTag,
}

/// The estimated delay of a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The epoch that it counts in, as given with the packet.
    pub epoch: EpochTag,
    /// Time of reception.
    pub received_ns: u64,
    /// Its delay, including serialisation and propagation; negative if clocks disagree.
    pub delay_ns: f64,
    /// Its squared error, in nanoseconds squared.
    pub squared_error_ns2: f64,
    /// Its share of the exact sum of its interval's delays, 1 / n for n packets; 0 if the sum is unknown.
    /// The errors of all n add up to 0.
    pub share_of_sum: f64,
    /// Number of the interval between two references, from 1, modulo 2^32; errors within one interval are
    /// correlated.
    pub interval: u32,
}

/// The estimated delay of packets that were received together, the same for each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates<'a, F> {
    /// The flow of each, in order.
    pub flows: &'a [F],
    /// The estimate for each.
    pub estimate: Estimate,
}

/// Counters of packets and references.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// References used.
    pub references: u64,
    /// References that did not arrive, by their sequence numbers.
    pub lost_references: u64,
    /// References of another stream, duplicates, or overtaken ones: not used.
    pub stale_references: u64,
    /// Regular packets received.
    pub packets: u64,
    /// Regular packets before any reference, without an estimate.
    pub early_packets: u64,
    /// Packets without room in the buffer: estimated by RLI-L.
    pub overflowed_packets: u64,
    /// Intervals between references.
    pub intervals: u64,
    /// Intervals over which both ends counted the same packets.
    pub exact_intervals: u64,
    /// Intervals in which more packets arrived than were sent, or as many but not the same: packets
    /// overtook a reference or were duplicated, so the stream is not FIFO. Losses alone never count here.
    pub disordered_intervals: u64,
}

/// The receiver's end of one stream.
///
/// Pass it everything that arrives, in the order of arrival. Estimates are delayed by two references (not
/// for RLI-L), because a reference's neighbours show how accurate it is. `F` identifies a flow for the
/// caller: a slot, a hash.
#[derive(Debug)]
pub struct Receiver<F> {
    config: ReceiverConfig,
    counters: ReceiverCounters,
    segment: SegmentDelay,
    /// Sums of what was received.
    received: StreamSums,
    busy: BusyPeriods,
    learnt: Learnt,
    /// The latest reference used.
    last: Option<Latest>,
    /// Packets since then.
    open: Buffer<F>,
    /// Whether some of them were not stored in `open`, and are already estimated.
    incomplete: bool,
    interval: u32,
    /// The previous interval, complete except for the error of its right reference.
    closed: Option<Interval<F>>,
    /// An unused buffer.
    spare: Buffer<F>,
    points: Vec<CurvePoint>,
}

impl<F: Copy> Receiver<F> {
    /// A new receiver; allocates all memory.
    ///
    /// # Errors
    /// If the configuration is out of range.
    pub fn new(config: ReceiverConfig) -> Result<Self, InvalidArgument> {
        let packets = config.buffer_packets;
        let most = ReceiverConfig::BUFFER_PACKETS_MAX;
        ensure((1..=most).contains(&packets), || {
            format!("an interpolation buffer of {packets} packets; give it 1 to {most}")
        })?;
        let room = config.room();
        Ok(Self {
            config,
            counters: ReceiverCounters::default(),
            segment: SegmentDelay::default(),
            received: StreamSums::default(),
            busy: BusyPeriods::default(),
            learnt: Learnt::default(),
            last: None,
            open: Buffer::with_room(room),
            incomplete: false,
            interval: 1,
            closed: None,
            spare: Buffer::with_room(room),
            points: Vec::with_capacity(room),
        })
    }

    /// Memory for each packet of the buffers' capacity; RLI-L has no buffers.
    pub const PACKET_BYTES: usize = 2 * Buffer::<F>::PACKET_BYTES + size_of::<CurvePoint>();

    /// Its configuration.
    pub fn config(&self) -> &ReceiverConfig {
        &self.config
    }

    /// Its counters.
    pub fn counters(&self) -> &ReceiverCounters {
        &self.counters
    }

    /// Takes the mean over the whole stream since the last call, from the references' sums.
    pub fn take_segment(&mut self) -> SegmentDelay {
        std::mem::take(&mut self.segment)
    }

    /// A regular packet of the stream.
    #[inline]
    pub fn regular(
        &mut self,
        flow: F,
        packet: PacketHash,
        bytes: u32,
        received_ns: u64,
        sink: &mut impl FnMut(Estimates<'_, F>),
    ) {
        let run = Run {
            flows: &[flow],
            digest: packet.0,
            bytes,
            received_ns,
            epoch: EpochTag::default(),
        };
        self.regular_run(&run, sink);
    }

    /// Adds regular packets of the stream that were received together. Costs as much as one packet, and a
    /// copy of their flows.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "as many packets as the buffer has room for, or as come together"
    )]
    pub fn regular_run(&mut self, run: &Run<'_, F>, sink: &mut impl FnMut(Estimates<'_, F>)) {
        let (bytes, received_ns) = (run.bytes, run.received_ns);
        self.counters.packets += run.flows.len() as u64;
        self.received
            .add_run(run.flows.len() as u32, run.digest, received_ns);
        if self.config.method == Method::AnchoredSums {
            run.flows
                .iter()
                .for_each(|_| self.cross(bytes, received_ns));
        }
        let Some(last) = &self.last else {
            self.counters.early_packets += run.flows.len() as u64;
            return;
        };
        let (buffered, rest) = run.flows.split_at(run.flows.len().min(self.open.room()));
        let mut buffer = BufferedRun {
            received_ns,
            idle: None,
            packets: buffered.len() as u32,
            bytes,
            epoch: run.epoch,
        };
        if !buffered.is_empty() {
            buffer.idle = self.busy.idle.take();
            self.open.push(buffer, buffered);
        }
        if rest.is_empty() {
            return;
        }
        if self.config.method != Method::Left {
            self.counters.overflowed_packets += rest.len() as u64;
            self.incomplete = true;
        }
        sink(Estimates {
            flows: rest,
            estimate: last.estimate(&buffer, &self.config.link, self.interval),
        });
    }

    /// Notes a packet on the link that is not part of the stream. Only RLI-AS needs it.
    #[inline]
    pub fn cross(&mut self, bytes: u32, received_ns: u64) {
        if self.config.method == Method::AnchoredSums && !self.config.idle_is_told {
            let serialisation_ns = self.config.link.serialisation_ns(bytes);
            self.busy.packet(received_ns, serialisation_ns);
        }
    }

    /// Notes that the link had nothing to send from `from_ns` to `to_ns`, when service of the next packet
    /// or reference began. For callers that know the queue; others leave it to [`cross`](Self::cross).
    #[inline]
    pub fn idle(&mut self, from_ns: u64, to_ns: u64) {
        self.busy.idle(Idle { from_ns, to_ns });
    }

    /// Adds a reference of the stream, a frame of `bytes`, and emits the resulting estimates.
    pub fn reference(
        &mut self,
        reference: &Reference,
        bytes: u32,
        received_ns: u64,
        sink: &mut impl FnMut(Estimates<'_, F>),
    ) {
        self.cross(bytes, received_ns);
        let ahead = self
            .last
            .map(|last| reference.sequence.wrapping_sub(last.sequence));
        if reference.stream != self.config.stream
            || ahead.is_some_and(|ahead| ahead == 0 || ahead >= 1 << 31)
        {
            self.counters.stale_references += 1;
            return;
        }
        self.counters.references += 1;
        self.counters.lost_references += ahead.map_or(0, |ahead| u64::from(ahead) - 1);
        let first_idle = self.busy.first.take();
        let mark = Mark {
            sent_ns: reference.sent_ns,
            received_ns,
            delay_ns: since_ns(received_ns, reference.sent_ns),
            serialisation_ns: self.config.link.serialisation_ns(bytes),
            sent: reference.sums,
            received: self.received,
            idle: self.busy.idle.take(),
            busy_since_ns: self.busy.since_ns,
            squared_error_ns2: None,
        };
        if first_idle.is_some() {
            self.learnt.base_delay(&mark);
        }
        let squared_step_ns2 = match self.last {
            Some(mut last) => {
                if let Some(closed) = &self.closed {
                    self.learnt
                        .leave_out(&closed.left, &mut last.mark, &mark, first_idle);
                }
                let step_ns = mark.delay_ns - last.mark.delay_ns;
                self.close(last.mark, mark, sink);
                last.with_step(step_ns)
            }
            None => 0.0,
        };
        self.last = Some(Latest {
            mark,
            sequence: reference.sequence,
            squared_step_ns2,
        });
    }

    /// Emits all packets that still wait for a reference; those after the last one by RLI-L.
    pub fn flush(&mut self, sink: &mut impl FnMut(Estimates<'_, F>)) {
        self.emit_closed(sink);
        let Some(last) = &self.last else { return };
        for (run, flows) in self.open.iter() {
            sink(Estimates {
                flows,
                estimate: last.estimate(run, &self.config.link, self.interval),
            });
        }
        self.open.clear();
        self.incomplete = true;
    }

    /// Emits the packets of `epoch`, which will soon accept no more estimates, and those that wait for the
    /// same reference.
    pub fn flush_epoch(&mut self, epoch: EpochTag, sink: &mut impl FnMut(Estimates<'_, F>)) {
        if self.open.holds(epoch) {
            self.flush(sink);
        } else if let Some(closed) = &self.closed
            && closed.buffer.holds(epoch)
        {
            self.emit_closed(sink);
        }
    }

    /// Starts again for another session of the sender, whose sums and sequence numbers start at 0:
    /// [`flush`](Self::flush)es, and forgets everything but counters and the segment's mean.
    pub fn restart(&mut self, sink: &mut impl FnMut(Estimates<'_, F>)) {
        self.flush(sink);
        self.received = StreamSums::default();
        self.busy = BusyPeriods::default();
        self.learnt = Learnt::default();
        self.last = None;
        self.incomplete = false;
    }

    /// Closes the interval from `left` to `right`. Now that the error of `left` is known, the previous
    /// interval can be estimated.
    fn close(&mut self, left: Mark, right: Mark, sink: &mut impl FnMut(Estimates<'_, F>)) {
        let delay_sum = DelaySum::between(&left, &right);
        let sent = right.sent.since(&left.sent);
        let received = right.received.since(&left.received);
        self.segment.add_interval(&sent, &delay_sum);
        let is_exact = matches!(delay_sum, DelaySum::Exact { .. });
        self.counters.intervals += 1;
        self.counters.exact_intervals += u64::from(is_exact);
        let is_disordered = !is_exact && received.count >= sent.count;
        self.counters.disordered_intervals += u64::from(is_disordered);
        if let Some(closed) = &mut self.closed {
            closed.right.squared_error_ns2 = left.squared_error_ns2;
        }
        self.emit_closed(sink);
        let buffer = std::mem::replace(&mut self.open, std::mem::take(&mut self.spare));
        self.closed = Some(Interval {
            left,
            right,
            number: self.interval,
            delay_sum: (!self.incomplete).then_some(delay_sum),
            buffer,
        });
        self.incomplete = false;
        self.interval = self.interval.wrapping_add(1);
    }

    /// Emits the packets of the closed interval.
    fn emit_closed(&mut self, sink: &mut impl FnMut(Estimates<'_, F>)) {
        let Some(mut interval) = self.closed.take() else {
            return;
        };
        let link = &self.config.link;
        let number = interval.number;
        let mut emit = |run: &BufferedRun, flows: &[F], delay_ns: f64, error: &Error| {
            let estimate = Estimate {
                epoch: run.epoch,
                received_ns: run.received_ns,
                delay_ns,
                squared_error_ns2: error.squared_ns2,
                share_of_sum: error.share_of_sum,
                interval: number,
            };
            sink(Estimates { flows, estimate });
        };
        match self.config.method {
            // RLI-L buffers nothing.
            Method::Left | Method::Linear => {
                let error = interval.error();
                for (run, flows) in interval.buffer.iter() {
                    emit(run, flows, interval.linear_delay_ns(run, link), &error);
                }
            }
            Method::Sums | Method::AnchoredSums => {
                interval.curve(link, self.learnt.base.known_ns, &mut self.points);
                let (bend, rest_ns) = interval.bend(&self.points, link, self.learnt.bend.value());
                let usual_ns2 = self.learnt.squared_error_ns2;
                let error = interval.error_of_curve(&self.points, bend, rest_ns, usual_ns2);
                for ((run, flows), point) in interval.buffer.iter().zip(&self.points) {
                    let serialisation_ns = link.serialisation_ns(run.bytes);
                    let delay_ns = point.wait_ns(bend) + rest_ns + serialisation_ns;
                    emit(run, flows, delay_ns, &error);
                }
            }
        }
        interval.buffer.clear();
        self.spare = interval.buffer;
    }
}
