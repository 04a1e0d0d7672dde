//! The receiver's end of a stream: packets and references in, estimates out.

use super::busy::BusyPeriods;
use super::config::{Method, ReceiverConfig, ReceiverError};
use super::curve::CurvePoint;
use super::delay_sum::DelaySum;
use super::interval::{Buffered, Interval, Latest, Mark};
use super::learnt::Learnt;
use super::reference::{Reference, StreamSums};
use super::segment::SegmentDelay;
use super::since_ns;
use crate::packet::PacketHash;

/// The estimated delay of one packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate<F> {
    /// Its flow, as it was given with the packet.
    pub flow: F,
    /// When it was received.
    pub received_ns: u64,
    /// Its delay, serialisation and propagation included; negative where clocks disagree.
    pub delay_ns: f64,
    /// Squared error that the references show around it, in nanoseconds squared.
    pub squared_error_ns2: f64,
    /// Number of the interval between two references, from 1 on, modulo 2^32: errors within one
    /// interval go together.
    pub interval: u32,
}

/// What happened to packets and references.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// References taken.
    pub references: u64,
    /// References that did not arrive, by their sequence numbers.
    pub lost_references: u64,
    /// References of another stream, come twice, or overtaken: not taken.
    pub stale_references: u64,
    /// Regular packets received.
    pub packets: u64,
    /// Regular packets that came before any reference: no estimate.
    pub early_packets: u64,
    /// Packets for which the buffer had no room: estimated by RLI-L.
    pub overflowed_packets: u64,
    /// Intervals between references.
    pub intervals: u64,
    /// Intervals over which both ends counted the same packets.
    pub exact_intervals: u64,
}

/// The receiver's end of one stream.
///
/// Give it what arrives, in the order of arrival. Estimates come out two references late (RLI-L: at
/// once), since a reference's neighbours tell how far to trust it. `F` is what the caller knows a
/// flow by: a slot, a hash.
#[derive(Debug)]
pub struct Receiver<F> {
    config: ReceiverConfig,
    counters: ReceiverCounters,
    segment: SegmentDelay,
    /// What has been received of the stream.
    received: StreamSums,
    busy: BusyPeriods,
    learnt: Learnt,
    /// The latest reference taken.
    last: Option<Latest>,
    /// Packets since then, at most `room`.
    open: Vec<Buffered<F>>,
    room: usize,
    /// Whether some of them are not in `open`, and have their estimates already.
    incomplete: bool,
    interval: u32,
    /// The interval before, complete but for the error of its right reference.
    closed: Option<Interval<F>>,
    /// A buffer not in use.
    spare: Vec<Buffered<F>>,
    points: Vec<CurvePoint>,
}

impl<F: Copy> Receiver<F> {
    /// A receiver that has seen nothing; all memory is taken here.
    ///
    /// # Errors
    /// Where the configuration is out of range.
    pub fn new(config: ReceiverConfig) -> Result<Self, ReceiverError> {
        let packets = config.buffer_packets;
        if !(1..=ReceiverConfig::BUFFER_PACKETS_MAX).contains(&packets) {
            return Err(ReceiverError::Buffer { packets });
        }
        let tolerance_ns = config.idle_tolerance_ns;
        if tolerance_ns > ReceiverConfig::IDLE_TOLERANCE_NS_MAX {
            return Err(ReceiverError::IdleTolerance { tolerance_ns });
        }
        let room = match config.method {
            Method::Left => 0,
            Method::Linear | Method::Sums | Method::AnchoredSums => packets,
        };
        Ok(Self {
            config,
            counters: ReceiverCounters::default(),
            segment: SegmentDelay::default(),
            received: StreamSums::default(),
            busy: BusyPeriods::default(),
            learnt: Learnt::new(config.base_delay_ns),
            last: None,
            open: Vec::with_capacity(room),
            room,
            incomplete: false,
            interval: 1,
            closed: None,
            spare: Vec::with_capacity(room),
            points: Vec::with_capacity(room),
        })
    }

    /// What it was made for.
    pub fn config(&self) -> &ReceiverConfig {
        &self.config
    }

    /// What happened so far.
    pub fn counters(&self) -> &ReceiverCounters {
        &self.counters
    }

    /// The mean over the whole stream since this was last asked, from what references carry.
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
        sink: &mut impl FnMut(Estimate<F>),
    ) {
        self.counters.packets += 1;
        self.received.add(packet, received_ns);
        self.cross(bytes, received_ns);
        let Some(last) = self.last else {
            self.counters.early_packets += 1;
            return;
        };
        let mut packet = Buffered {
            flow,
            received_ns,
            bytes,
            idle: None,
        };
        if self.open.len() < self.room {
            packet.idle = self.busy.take_idle();
            self.open.push(packet);
            return;
        }
        if self.config.method != Method::Left {
            self.counters.overflowed_packets += 1;
            self.incomplete = true;
        }
        sink(last.estimate(&packet, &self.config.link, self.interval));
    }

    /// A packet on the link that is not of the stream. Only RLI-AS must know.
    #[inline]
    pub fn cross(&mut self, bytes: u32, received_ns: u64) {
        if self.config.method == Method::AnchoredSums {
            let serialisation_ns = self.config.link.serialisation_ns(bytes);
            let tolerance_ns = f64::from(self.config.idle_tolerance_ns);
            self.busy
                .packet(received_ns, serialisation_ns, tolerance_ns);
        }
    }

    /// A reference of the stream, a frame of `bytes`, with what estimates it brings.
    pub fn reference(
        &mut self,
        reference: &Reference,
        bytes: u32,
        received_ns: u64,
        sink: &mut impl FnMut(Estimate<F>),
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
        let first_idle = self.busy.take_first();
        let mark = Mark {
            sent_ns: reference.sent_ns,
            received_ns,
            delay_ns: since_ns(received_ns, reference.sent_ns),
            serialisation_ns: self.config.link.serialisation_ns(bytes),
            sent: reference.sums,
            received: self.received,
            idle: self.busy.take_idle(),
            busy_since_ns: self.busy.since_ns(),
            squared_error_ns2: None,
        };
        if first_idle.is_some() {
            let tolerance_ns = f64::from(self.config.idle_tolerance_ns);
            self.learnt.base_delay(&mark, tolerance_ns);
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

    /// Lets go of all packets that still wait for a reference: those behind the last one by RLI-L.
    pub fn flush(&mut self, sink: &mut impl FnMut(Estimate<F>)) {
        self.emit_closed(sink);
        let Some(last) = self.last else { return };
        for packet in self.open.drain(..) {
            sink(last.estimate(&packet, &self.config.link, self.interval));
        }
        self.incomplete = true;
    }

    /// Begins anew with another session of the sender, whose sums and sequence numbers start at 0:
    /// [`flush`](Self::flush)es, and forgets everything but counters and the segment's mean.
    pub fn restart(&mut self, sink: &mut impl FnMut(Estimate<F>)) {
        self.flush(sink);
        self.received = StreamSums::default();
        self.busy = BusyPeriods::default();
        self.learnt = Learnt::new(self.config.base_delay_ns);
        self.last = None;
        self.incomplete = false;
    }

    /// The interval from `left` to `right` is complete; the one before it, now that the error of
    /// `left` is known, can be estimated.
    fn close(&mut self, left: Mark, right: Mark, sink: &mut impl FnMut(Estimate<F>)) {
        let delay_sum = DelaySum::between(&left, &right);
        self.segment
            .add_interval(&right.sent.since(&left.sent), &delay_sum);
        self.counters.intervals += 1;
        self.counters.exact_intervals += u64::from(matches!(delay_sum, DelaySum::Exact { .. }));
        if let Some(closed) = &mut self.closed {
            closed.right.squared_error_ns2 = left.squared_error_ns2;
        }
        self.emit_closed(sink);
        let packets = std::mem::replace(&mut self.open, std::mem::take(&mut self.spare));
        self.closed = Some(Interval {
            left,
            right,
            number: self.interval,
            delay_sum: (!self.incomplete).then_some(delay_sum),
            packets,
        });
        self.incomplete = false;
        self.interval = self.interval.wrapping_add(1);
    }

    /// Estimates the packets of the closed interval.
    fn emit_closed(&mut self, sink: &mut impl FnMut(Estimate<F>)) {
        let Some(mut interval) = self.closed.take() else {
            return;
        };
        let link = &self.config.link;
        let squared_error_ns2 = interval.squared_error_ns2();
        let mut emit = |packet: &Buffered<F>, delay_ns: f64| {
            sink(Estimate {
                flow: packet.flow,
                received_ns: packet.received_ns,
                delay_ns,
                squared_error_ns2,
                interval: interval.number,
            });
        };
        match self.config.method {
            // Nothing is buffered by RLI-L.
            Method::Left | Method::Linear => {
                for packet in &interval.packets {
                    emit(packet, interval.linear_delay_ns(packet, link));
                }
            }
            Method::Sums | Method::AnchoredSums => {
                interval.curve(link, self.learnt.base_ns(), &mut self.points);
                let (c, rest_ns) = interval.bend(&self.points, link, self.learnt.bend());
                for (packet, point) in interval.packets.iter().zip(&self.points) {
                    let serialisation_ns = link.serialisation_ns(packet.bytes);
                    emit(packet, point.wait_ns(c) + rest_ns + serialisation_ns);
                }
            }
        }
        interval.packets.clear();
        self.spare = interval.packets;
    }
}
