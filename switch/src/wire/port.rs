//! One wire, at the worker that owns its port.

use std::sync::atomic::Ordering;

use arrayvec::ArrayVec;
use contract::config::CLASSES_MAX;
use contract::counters::Rejection;
use contract::ids::PortIndex;
use contract::wire::clock::TaiLine;
use contract::wire::handover::{FRAME_ROOM, WireWorkerEnd};
use measure::batch::Member;
use measure::observation::{End, Observation, SegmentIndex};
use measure::time::{Epoch, EpochSchedule, EpochTag, Ticks};
use wire::exchange::Order;
use wire::frame::{Claim, FRAME_BYTES_DEFAULT, Kind};
use wire::{Control, Receiver, Refusal, SealedWire, Sender, Shards, WireShard};

use super::recorder::Recorder;
use super::{Envelope, HelloGate, Share};
use crate::egress::wire_bytes;
use crate::packet_io::{BURST, Burst, ClassIndex, PacketIo, Tag};

/// Room for the largest envelope (Ethernet, IPv6, UDP) and a control frame.
const ROOM: usize = 14 + 40 + 8 + FRAME_BYTES_DEFAULT;

/// Most frames of the control core sent in one pass.
const BULK_MAX: usize = 4;

/// The segment of each class; packets without one are not measured.
pub type WireClasses = [Option<u16>; CLASSES_MAX];

/// Parts of a wire.
#[derive(Debug)]
pub struct WireSetup {
    /// Its port.
    pub port: PortIndex,
    /// The sender's end.
    pub sender: Sender,
    /// The receiver's end.
    pub receiver: Receiver,
    /// The rings to the control core.
    pub end: WireWorkerEnd,
    /// The segment of each packet.
    pub classes: WireClasses,
    /// Envelope of control frames.
    pub envelope: Envelope,
    /// Their share of the link.
    pub share: Share,
    /// Selects the hellos to check.
    pub hellos: HelloGate,
    /// Times of rollovers.
    pub schedule: EpochSchedule,
    /// Records every packet, for tests.
    pub recorder: Option<Recorder>,
}

/// One wire, in both directions.
#[derive(Debug)]
pub struct WirePort<P> {
    setup: WireSetup,
    /// The sender's current epoch; `None` before the clock is known.
    epoch: Option<Epoch>,
    next_turn: Ticks,
    /// The clock, and its version.
    line: (u64, TaiLine),
    /// Number of clock steps.
    steps: u64,
    /// A control frame that the driver refused: nothing may precede it.
    held: Option<P>,
    observations: ArrayVec<Observation, BURST>,
    buffer: Box<[u8; ROOM]>,
    is_up: bool,
}

impl<P> WirePort<P> {
    /// A wire without a session.
    pub fn new(setup: WireSetup) -> Self {
        Self {
            setup,
            epoch: None,
            next_turn: Ticks(0),
            line: (0, TaiLine::default()),
            steps: 0,
            held: None,
            observations: ArrayVec::new(),
            buffer: Box::new([0; ROOM]),
            is_up: true,
        }
    }

    /// Whether data must not pass.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.setup.end.is_blocked.load(Ordering::Relaxed)
    }

    /// Processes orders of the control core, checks the clock and the link, and rolls over. Called once in
    /// each pass.
    pub fn tick(&mut self, now: Ticks, is_up: bool) {
        while let Some(order) = self.setup.end.next_order() {
            match order {
                Order::Begin(sessions) => {
                    self.setup.sender.begin(sessions.sending);
                    self.setup.receiver.begin(sessions.receiving);
                }
                Order::Hear(session) => self.setup.receiver.renew(session),
                Order::Send(session) => self.setup.sender.renew(session),
                Order::Forget => self.setup.receiver.forget(),
                Order::End => {
                    self.setup.sender.end();
                    self.setup.receiver.end();
                }
                Order::Spread(lda) => {
                    let is_set = self.setup.sender.set_coming(&lda);
                    debug_assert!(is_set, "the control core has the sizes");
                }
                Order::Keys { keys, key } => {
                    let is_set = self.setup.sender.set_key(&keys, key);
                    debug_assert!(is_set.is_ok(), "the control core has the key");
                    self.setup.receiver.set_keys(keys);
                }
            }
        }
        self.setup.end.line.renew(&mut self.line);
        if self.line.0 == 0 {
            return;
        }
        let steps = self.setup.end.line.steps();
        if steps != self.steps {
            self.steps = steps;
            self.setup.sender.clock_set();
            self.setup.receiver.clock_set();
        }
        if self.is_up != is_up {
            self.is_up = is_up;
            self.setup.sender.link_lost();
            self.setup.receiver.link_lost();
        }
        self.turn_at(now);
    }

    /// Rolls over if due. Called before data is sent.
    #[inline]
    pub fn turn_at(&mut self, now: Ticks) {
        if self.line.0 != 0 && (now >= self.next_turn || self.epoch.is_none()) {
            self.turn(now);
        }
    }

    #[cold]
    fn turn(&mut self, now: Ticks) {
        let epoch = self.setup.schedule.epoch_at(now);
        self.next_turn = self.setup.schedule.start_of(epoch.next());
        if self.epoch == Some(epoch) {
            return;
        }
        self.epoch = Some(epoch);
        let empty = self.setup.end.take_empty(End::Sender);
        if empty.is_none() {
            self.setup.end.counters.unmeasured_epochs[0].add(1);
        }
        let tai_ns = self.line.1.tai_ns(now);
        if let Some(sealed) = self.setup.sender.turn(epoch, tai_ns, empty) {
            self.setup.end.give_sealed(End::Sender, sealed);
        }
    }

    /// Removes packets from `burst` that must wait for a reference due among them.
    #[inline]
    pub fn behind_reference(&mut self, burst: &mut Burst<P>, now: Ticks) -> Burst<P> {
        if self.line.0 == 0 || !self.is_up {
            return Burst::new_const();
        }
        let ahead = self
            .setup
            .sender
            .packets_to_reference(self.line.1.tai_ns(now));
        let ahead = usize::try_from(ahead).unwrap_or(usize::MAX);
        burst.drain(ahead.min(burst.len())..).collect()
    }

    /// Counts packets that the driver has just accepted, at their departure times inside the switch, so
    /// that the delays of a path add up.
    pub fn sent(&mut self, tags: &[Tag], departures: impl Iterator<Item = Ticks>, now: Ticks) {
        if self.line.0 == 0 {
            return;
        }
        let (line, classes) = (self.line.1, self.setup.classes);
        let mut bytes = 0;
        self.observations.clear();
        // All times of a burst are equal, unless each packet is stamped.
        let mut last = (now, line.tai_ns(now));
        // If nothing else is measured, there are no departures.
        let departures = departures.chain(std::iter::repeat(now));
        for (tag, left) in tags.iter().zip(departures) {
            bytes += u64::from(wire_bytes(tag.len_bytes));
            let Some(segment) = classes[usize::from(tag.class.0) % CLASSES_MAX] else {
                continue;
            };
            if left != last.0 {
                last = (left, line.tai_ns(left));
            }
            let member = Member {
                flow: tag.flow,
                packet: tag.packet,
                bytes: tag.len_bytes,
            };
            let observation = observation(member, segment, last.1);
            if self.observations.try_push(observation).is_err() {
                break;
            }
        }
        self.setup.end.counters.data_bytes.add(bytes);
        for run in self
            .observations
            .chunk_by(|one, other| one.time == other.time)
        {
            self.setup.sender.sent(run);
        }
        if let (Some(recorder), Some(epoch)) = (&mut self.setup.recorder, self.epoch) {
            recorder.record(End::Sender, epoch.0, &self.observations);
        }
    }

    /// Counts data that has just arrived, each packet in the class that it was classified into.
    pub fn received(&mut self, seen: impl Iterator<Item = (ClassIndex, Member)>, now: Ticks) {
        if self.line.0 == 0 {
            return;
        }
        let tai_ns = self.line.1.tai_ns(now);
        self.observations.clear();
        for (class, packet) in seen {
            let Some(segment) = self.setup.classes[usize::from(class.0) % CLASSES_MAX] else {
                continue;
            };
            let observation = observation(packet, segment, tai_ns);
            if self.observations.try_push(observation).is_err() {
                break;
            }
        }
        self.setup.receiver.received(&self.observations);
        if let Some(recorder) = &mut self.setup.recorder {
            // Without a session they belong to no epoch.
            let epoch = self
                .setup
                .receiver
                .epoch()
                .map_or(u64::MAX, |epoch| epoch.0);
            recorder.record(End::Receiver, epoch, &self.observations);
        }
    }

    /// The control frame in a received frame; `None` if it is data.
    #[inline]
    pub fn control_in<'f>(&self, frame: &'f [u8]) -> Option<&'f [u8]> {
        self.setup.envelope.open(frame)
    }

    /// Processes a control frame that arrived at `now`, in a frame of `len_bytes`.
    pub fn control(&mut self, frame: &[u8], len_bytes: u32, now: Ticks) {
        let accepted = self.accept(frame, len_bytes, now);
        let counters = &self.setup.end.counters;
        match accepted {
            Ok(kind) => counters.accepted[kind.index()].add(1),
            Err(why) => counters.rejected[why as usize].add(1),
        }
    }

    fn accept(&mut self, frame: &[u8], len_bytes: u32, now: Ticks) -> Result<Kind, Rejection> {
        let tai_ns = self.line.1.tai_ns(now);
        let hello = Claim::of(frame);
        if let Some(claim) = hello {
            let is_kept = self.setup.end.is_clock_kept.load(Ordering::Relaxed);
            self.setup
                .hellos
                .admit(claim, is_kept.then_some(tai_ns), now)?;
        }
        let WireSetup { receiver, end, .. } = &mut self.setup;
        match receiver.control(frame, len_bytes, tai_ns, &mut Receiving(end)) {
            Control::Taken(kind) => Ok(kind),
            Control::Pass(kind) => {
                if let Some(claim) = hello {
                    self.setup.hellos.accepted(claim);
                }
                let is_heard = self.setup.end.hear(frame, kind, tai_ns);
                is_heard.then_some(kind).ok_or(Rejection::Overflow)
            }
            Control::Refused(refusal) => Err(match refusal {
                Refusal::Malformed => Rejection::Malformed,
                Refusal::Version(version) => {
                    end.counters.other_version.set(version.into());
                    Rejection::Version
                }
                Refusal::UnknownKey => Rejection::UnknownKey,
                Refusal::Tag => Rejection::Tag,
                Refusal::Session => Rejection::Session,
                Refusal::Replayed => Rejection::Replayed,
            }),
        }
    }

    /// Sends the markers and references that are due exactly here among the data; returns false if the
    /// driver accepts no more, so that no data may precede them.
    pub fn send_due<I: PacketIo<Packet = P>>(&mut self, io: &mut I, now: Ticks) -> bool {
        if !self.send_held(io) {
            return false;
        }
        if self.line.0 == 0 || !self.is_up {
            return true;
        }
        let tai_ns = self.line.1.tai_ns(now);
        loop {
            let share = self.setup.share.of_references(now);
            let room = self.setup.envelope.bytes();
            let Some(body) = self.buffer.get_mut(room..) else {
                return true;
            };
            let Some(due) = self.setup.sender.due(tai_ns, share, body) else {
                let withheld = self.setup.sender.take_withheld();
                self.setup.end.counters.references_withheld.add(withheld);
                return true;
            };
            if !self.send_frame(io, due.kind, due.segment, due.len) {
                return false;
            }
        }
    }

    /// Sends frames of the control core, as far as the link's share allows.
    pub fn send_bulk<I: PacketIo<Packet = P>>(&mut self, io: &mut I, now: Ticks) {
        if !self.send_held(io) || !self.is_up {
            return;
        }
        for _ in 0..BULK_MAX {
            if !self.setup.share.allows(now) {
                return;
            }
            let room = self.setup.envelope.bytes();
            let Some(boxed) = self.setup.end.to_send() else {
                return;
            };
            let (len, segment) = (boxed.len.min(FRAME_ROOM), boxed.segment);
            let kind = boxed.kind();
            if let Some(body) = self.buffer.get_mut(room..room + len) {
                body.copy_from_slice(boxed.frame());
            }
            self.setup.end.sent();
            if let Some(kind) = kind
                && !self.send_frame(io, kind, segment, len)
            {
                return;
            }
        }
    }

    /// Sends the control frame in the buffer; returns false if it is held.
    fn send_frame<I: PacketIo<Packet = P>>(
        &mut self,
        io: &mut I,
        kind: Kind,
        segment: u16,
        len: usize,
    ) -> bool {
        let Some(whole) = self
            .setup
            .envelope
            .close(segment, len, &mut self.buffer[..])
        else {
            return true;
        };
        let Some(packet) = self.buffer.get(..whole).and_then(|bytes| io.make(bytes)) else {
            // No memory: equivalent to a loss on the way.
            return true;
        };
        let link_bytes = wire_bytes(u32::try_from(whole).unwrap_or(u32::MAX));
        let counters = &self.setup.end.counters;
        counters.sent[kind.index()].add(1);
        counters.sent_bytes.add(link_bytes.into());
        if kind == Kind::Reference {
            counters.reference_bytes.add(link_bytes.into());
            self.setup.share.spend_reference(link_bytes);
        } else {
            self.setup.share.spend(link_bytes);
        }
        self.held = Some(packet);
        self.send_held(io)
    }

    fn send_held<I: PacketIo<Packet = P>>(&mut self, io: &mut I) -> bool {
        let Some(packet) = self.held.take() else {
            return true;
        };
        let mut burst = Burst::new_const();
        burst.push(packet);
        io.transmit(self.setup.port, &mut burst);
        self.held = burst.pop();
        self.held.is_none()
    }
}

/// The receiver's shards.
struct Receiving<'e>(&'e mut WireWorkerEnd);

impl Shards for Receiving<'_> {
    fn take_empty(&mut self) -> Option<Box<WireShard>> {
        let empty = self.0.take_empty(End::Receiver);
        if empty.is_none() {
            self.0.counters.unmeasured_epochs[1].add(1);
        }
        empty
    }

    fn give(&mut self, sealed: SealedWire) {
        self.0.give_sealed(End::Receiver, sealed);
    }
}

fn observation(packet: Member, segment: u16, tai_ns: u64) -> Observation {
    Observation {
        flow: packet.flow,
        packet: packet.packet,
        time: tai_ns,
        delay: 0,
        bytes: packet.bytes,
        segment: SegmentIndex(segment),
        epoch: EpochTag::default(),
    }
}
