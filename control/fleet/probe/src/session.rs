//! One session of a session-sender: when it sends what, how it evaluates replies, and its results.
//!
//! ```text
//!  schedule --> request --> window (packets that may be answered) --> reply: delays --> interval
//!                              \--> time-out: lost                                       |
//!                                        when all its packets are answered or timed out: SessionResult
//! ```
//!
//! It has no socket and no clock: times are passed in. A packet counts for the interval in which it was sent. An
//! interval is closed once none of its packets is under way, so that no packet in flight is taken for lost.

use std::collections::VecDeque;
use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;

use crate::clock::{Least, LocalClock, Watch};
use crate::config::{SessionConfig, Spacing};
use crate::result::{
    ClockQuality, Counts, Delays, Extensions, OneWay, SessionId, SessionResult, StampedBy,
};
use crate::socket::{SendError, Stamped, Stamps, Unreachable};
use crate::wire::{
    self, ErrorEstimate, Format, HEADER_BYTES, INTEGRITY, Integrity, Key, Kind, MALFORMED, Mode,
    Reply, Request, TAG_BYTES, UNRECOGNISED, UnixNs, Walk, append, put, value,
};

/// A request leaves the machine within this time, in ns.
const TRANSMIT_NS_MAX: i64 = 10_000_000_000;

/// Limit of intervals that are open at once: more than the longest time-out spans of the shortest
/// intervals.
const OPEN_MAX: usize = 1 << 12;

/// Settings of one session.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// Its identity; `ssid` is above 0.
    pub id: SessionId,
    /// Its TLVs, length, gaps and time-out.
    pub config: SessionConfig,
    /// The key of base packets; if set, they are authenticated.
    pub key: Option<Key>,
    /// The key of TLVs; if `None`, they have no HMAC.
    pub tlv_key: Option<Key>,
    /// Number of requests to send; `None`: no limit.
    pub count: Option<u64>,
    /// The sender's clock.
    pub error: ErrorEstimate,
}

/// When intervals begin; the same for all sessions of a program.
#[derive(Debug, Clone, Copy)]
pub struct Intervals {
    /// Length of an interval, above 0.
    pub length: Duration,
    /// Start of the first, in ns since 1970.
    pub start: UnixNs,
}

impl Intervals {
    /// The interval that contains a time since the start of the first one.
    pub fn at(&self, now: Duration) -> u64 {
        let number = now.as_nanos() / self.length.as_nanos().max(1);
        u64::try_from(number).unwrap_or(u64::MAX)
    }

    fn end(&self, number: u64) -> Duration {
        let factor = u32::try_from(number.saturating_add(1)).unwrap_or(u32::MAX);
        self.length.saturating_mul(factor)
    }

    /// Start of an interval, in ms since 1970.
    pub fn start_unix_ms(&self, number: u64) -> u64 {
        let since_ms = u128::from(number) * self.length.as_millis();
        let since_ms = u64::try_from(since_ms).unwrap_or(u64::MAX);
        (self.start.0 / 1_000_000).saturating_add(since_ms)
    }
}

/// A running session.
#[derive(Debug)]
pub struct Session {
    settings: SessionSettings,
    mode: Mode,
    tail: Tail,
    packet: Vec<u8>,
    schedule: Schedule,
    random: Pcg64Mcg,
    window: Window,
    intervals: Intervals,
    /// Open intervals, the oldest first.
    open: VecDeque<Interval>,
    /// Number of the first open one.
    first_open: u64,
    watch: Watch,
    clock_steps_seen: u32,
    greatest_answered: Option<u32>,
    /// Requests that were sent, or that the system refused to send.
    tried: u64,
    /// Why the system refused the last request.
    send_error: Option<SendError>,
    /// The last interval of an ended session.
    last: Option<u64>,
}

impl Session {
    /// Starts a session at `now`, a time since the start of the first interval. `seed` determines gaps and padding.
    pub fn new(settings: SessionSettings, intervals: Intervals, now: Duration, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mode = Mode::of(settings.key.is_some());
        let mut packet = vec![0; mode.bytes()];
        let tail = Tail::build(&settings, mode, &mut packet, &mut random);
        let config = &settings.config;
        let schedule = Schedule::new(config.schedule, config.gap(), now, &mut random);
        Self {
            mode,
            tail,
            packet,
            schedule,
            random,
            window: Window::default(),
            intervals,
            open: VecDeque::new(),
            first_open: intervals.at(now),
            watch: Watch::default(),
            clock_steps_seen: 0,
            greatest_answered: None,
            tried: 0,
            send_error: None,
            last: None,
            settings,
        }
    }

    /// The settings.
    pub fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// Whether its base packets have an HMAC.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// When the next packet is due; `None`: all are sent.
    pub fn due(&self) -> Option<Duration> {
        let is_over =
            self.last.is_some() || (self.settings.count).is_some_and(|count| self.tried >= count);
        (!is_over).then_some(self.schedule.next)
    }

    /// Stops sending; the interval of `now` is the last.
    pub fn end(&mut self, now: Duration) {
        self.last.get_or_insert(self.intervals.at(now));
    }

    /// Whether the session was ended and its last interval is closed.
    pub fn has_left(&self) -> bool {
        self.last.is_some_and(|last| self.first_open > last)
    }

    /// The first open interval.
    pub fn first_open(&self) -> u64 {
        self.first_open
    }

    /// Whether all packets are sent, and answered or timed out.
    pub fn is_over(&self) -> bool {
        self.due().is_none() && self.open.iter().all(Interval::is_settled)
    }

    /// The next request, with the time `wall` in it. `None` if too many packets are under way; the request is counted
    /// as not sent.
    pub fn request(&mut self, now: Duration, wall: UnixNs) -> Option<&[u8]> {
        if self.window.is_full() {
            self.leave_out(now);
            return None;
        }
        let sequence = self.window.next_sequence();
        let request = Request {
            sequence,
            timestamp: self.settings.error.format.encode(wall),
            error: self.settings.error,
            ssid: self.settings.id.ssid,
        };
        request.write(self.mode, &mut self.packet);
        if let Some(key) = &self.settings.key {
            wire::sign_base(key, &mut self.packet);
        }
        let (base, tail) = self.packet.split_at_mut(self.mode.bytes());
        // The count includes this packet, so it is one more than its number.
        self.tail.finish(
            tail,
            &base[..4],
            sequence.wrapping_add(1),
            self.settings.tlv_key.as_ref(),
        );
        Some(&self.packet)
    }

    /// Records that the request was sent at `now` with the time `wall` in it; returns its sequence number.
    pub fn was_sent(&mut self, now: Duration, wall: UnixNs, clock: LocalClock) -> u32 {
        let sequence = self.window.next_sequence();
        let number = self.intervals.at(now);
        let interval = self.interval(number);
        interval.counts.sent += 1;
        interval.outstanding += 1;
        self.window.push(Sent {
            written: wall,
            stamps: Stamps {
                system: wall,
                ..Stamps::now()
            },
            at: now,
            interval: number,
            clock_steps: clock.steps,
            is_answered: false,
        });
        self.tried += 1;
        self.send_error = None;
        self.go_on(now);
        sequence
    }

    /// Records that the system refused to send the request. It counts as an attempt, so that a session with a `count`
    /// ends.
    pub fn was_refused(&mut self, now: Duration, error: SendError) {
        self.tried += 1;
        if !error.is_passing() {
            self.send_error = Some(error);
        }
        self.present(now).not_sent_for = Some(error);
        self.leave_out(now);
    }

    /// Why requests cannot be sent now; `None`: no failure is known.
    pub fn send_error(&self) -> Option<SendError> {
        self.send_error
    }

    /// Records an ICMP message that a request of this session was not delivered.
    pub fn was_unreachable(&mut self, now: Duration, why: Unreachable) {
        self.present(now).unreachable = Some(why);
    }

    /// Skips a request for which there is no room, or that the system refused.
    fn leave_out(&mut self, now: Duration) {
        self.present(now).counts.not_sent += 1;
        self.go_on(now);
    }

    fn go_on(&mut self, now: Duration) {
        let left_out = self.schedule.advance(now, &mut self.random);
        if left_out > 0 {
            self.present(now).counts.not_sent += left_out;
        }
    }

    /// Records when a request actually left. A time before it was written, or long after, belongs to
    /// another packet.
    pub fn transmitted(&mut self, sequence: u32, stamps: Stamps) {
        let Some(sent) = self.window.get(sequence) else {
            return;
        };
        sent.stamps.hardware = stamps.hardware;
        let after_ns = stamps.system.since(sent.written);
        if stamps.by == Stamped::Kernel && (0..TRANSMIT_NS_MAX).contains(&after_ns) {
            sent.stamps = stamps;
        }
    }

    /// Evaluates a reply that arrived at this time, by both clocks.
    pub fn answered(&mut self, packet: &[u8], came: Stamps, clock: LocalClock, now: Duration) {
        let reply = match self.verified(packet) {
            Ok(reply) => reply,
            Err(why) => return self.present(now).reject(why),
        };
        let sequence = reply.sender_sequence;
        let format = self.settings.error.format;
        let is_past = self.window.is_past(sequence);
        let Some(sent) = self.window.get(sequence) else {
            let interval = self.present(now);
            if is_past {
                interval.counts.late += 1;
            } else {
                interval.reject(Rejection::UnknownSequence(sequence));
            }
            return;
        };
        if reply.sender_timestamp != format.encode(sent.written) {
            return self.present(now).reject(Rejection::OtherTimestamp);
        }
        if sent.is_answered {
            self.present(now).counts.duplicates += 1;
            return;
        }
        sent.is_answered = true;
        let sent = *sent;
        let is_reordered = (self.greatest_answered)
            .is_some_and(|greatest| sequence.wrapping_sub(greatest).cast_signed() < 0);
        if !is_reordered {
            self.greatest_answered = Some(sequence);
        }
        // The clock here may have been set in between.
        let sample = Sample::of(&reply, &sent, came).filter(|_| sent.clock_steps == clock.steps);
        let tail = packet.get(self.mode.bytes()..).unwrap_or_default();
        let sequence = reply.own.sequence.to_be_bytes();
        let key = self.settings.tlv_key.as_ref();
        let (format, near) = (reply.own.error.format, came.system);
        let extensions = self.tail.read(tail, &sequence, key, format, near);
        // Its interval is open, since the packet was still under way.
        let interval = self.interval(sent.interval);
        interval.outstanding = interval.outstanding.saturating_sub(1);
        interval.counts.received += 1;
        interval.counts.reordered += u64::from(is_reordered);
        interval.reflector_clock = Some(ClockQuality {
            is_synchronised: reply.own.error.is_synchronised,
            error_ns: reply.own.error.error_ns(),
        });
        if extensions.is_some() {
            interval.extensions = extensions;
        }
        interval.take(sample);
    }

    /// The reply, if it has this session's mode and key.
    fn verified(&self, packet: &[u8]) -> Result<Reply, Rejection> {
        let too_short = Rejection::TooShort {
            bytes: packet.len(),
            least: self.mode.reply_bytes_min(),
        };
        let reply = Reply::read(self.mode, packet).ok_or(too_short)?;
        let key = self.settings.key.as_ref();
        if key.is_some_and(|key| !wire::is_authentic(key, packet)) {
            return Err(Rejection::NotAuthentic);
        }
        // Zero is from a reflector without SSIDs (RFC 8972, section 3), with which the session goes on.
        let (got, expected) = (reply.own.ssid, self.settings.id.ssid);
        if got != expected && got != 0 {
            return Err(Rejection::OtherSession { got, expected });
        }
        Ok(reply)
    }

    /// The interval at `now`, or the last one of an ended session.
    fn present(&mut self, now: Duration) -> &mut Interval {
        let present = self.intervals.at(now);
        self.interval(self.last.map_or(present, |last| last.min(present)))
    }

    /// The interval with this number, opened if necessary.
    fn interval(&mut self, number: u64) -> &mut Interval {
        let index = usize::try_from(number.saturating_sub(self.first_open)).unwrap_or(usize::MAX);
        // Time-outs bound the number of open ones: see `poll`.
        let index = index.min(OPEN_MAX);
        while self.open.len() <= index {
            self.open.push_back(Interval::default());
        }
        &mut self.open[index]
    }

    /// Counts packets that timed out as lost, and closes an interval that has ended and has no packet under way.
    /// Call this several times an interval, each time until it returns `None`.
    pub fn poll(&mut self, now: Duration, clock: LocalClock) -> Option<SessionResult> {
        let timeout = Duration::from_millis(self.settings.config.timeout_ms);
        let before = now.checked_sub(timeout);
        while let Some(sent) = before.and_then(|before| self.window.pop_before(before)) {
            if !sent.is_answered {
                let interval = self.interval(sent.interval);
                interval.outstanding = interval.outstanding.saturating_sub(1);
                interval.counts.lost += 1;
            }
        }
        let number = self.first_open;
        let is_settled = self.open.front().is_none_or(Interval::is_settled);
        let has_ended = now >= self.intervals.end(number);
        (has_ended && is_settled).then(|| self.close(clock))
    }

    /// Closes the oldest open interval at the end of the program; `None`: there is none. Packets still under way are
    /// not counted.
    pub fn finish(&mut self, clock: LocalClock) -> Option<SessionResult> {
        let interval = self.open.front_mut()?;
        interval.counts.sent -= interval.outstanding.min(interval.counts.sent);
        interval.outstanding = 0;
        Some(self.close(clock))
    }

    fn close(&mut self, clock: LocalClock) -> SessionResult {
        let interval = self.open.pop_front().unwrap_or_default();
        let number = self.first_open;
        self.first_open += 1;
        let settings = &self.settings;
        let has_stepped = clock.steps != self.clock_steps_seen;
        self.clock_steps_seen = clock.steps;
        let clocks = self
            .watch
            .take(interval.least(), has_stepped.then_some(clock.step_ns));
        let sender_clock = ClockQuality {
            is_synchronised: settings.error.is_synchronised,
            error_ns: settings.error.error_ns(),
        };
        let is_absolute = sender_clock.is_synchronised
            && interval
                .reflector_clock
                .is_some_and(|clock| clock.is_synchronised);
        let [round_trip, forward, backward] = interval.delays();
        SessionResult {
            id: settings.id.clone(),
            interval: number,
            start_unix_ms: self.intervals.start_unix_ms(number),
            length_ms: u64::try_from(self.intervals.length.as_millis()).ok(),
            counts: interval.counts,
            round_trip,
            forward,
            backward,
            one_way: if is_absolute {
                OneWay::Absolute
            } else {
                OneWay::Relative
            },
            sender_clock,
            reflector_clock: interval.reflector_clock,
            clocks,
            stamps: interval.stamps,
            extensions: interval.extensions,
            rejected_for: interval.rejected_for(),
            not_sent_for: interval.not_sent_for.map(|error| error.to_string()),
            unreachable: interval.unreachable.map(|why| why.to_string()),
        }
    }
}

/// A session that is later than this skips the packets that were due.
const BEHIND_MAX: Duration = Duration::from_millis(500);

/// The schedule of one session.
#[derive(Debug)]
struct Schedule {
    spacing: Spacing,
    gap: Duration,
    /// When the next packet is due.
    next: Duration,
}

impl Schedule {
    /// Starts at a random time within one gap of `now`, so that sessions do not send at the same time.
    fn new(spacing: Spacing, gap: Duration, now: Duration, random: &mut Pcg64Mcg) -> Self {
        Self {
            spacing,
            gap,
            next: now + gap.mul_f64(random.random()),
        }
    }

    /// Schedules the next packet; returns how many are skipped because they were due long ago.
    fn advance(&mut self, now: Duration, random: &mut Pcg64Mcg) -> u64 {
        let gap = match self.spacing {
            Spacing::Periodic => self.gap,
            Spacing::Poisson => {
                let factor: f64 = Exp1.sample(random);
                self.gap.mul_f64(factor)
            }
        };
        self.next += gap;
        let behind = now.saturating_sub(self.next);
        if behind < BEHIND_MAX {
            return 0;
        }
        let gaps = behind.as_nanos() / self.gap.as_nanos().max(1);
        let left_out = u64::try_from(gaps).unwrap_or(u64::MAX);
        self.next += self
            .gap
            .saturating_mul(u32::try_from(left_out).unwrap_or(u32::MAX));
        left_out
    }
}

/// Limit of packets in the window of a session; while it is full, none are sent.
const PACKETS_MAX: usize = 1 << 17;

/// A sent packet.
#[derive(Debug, Clone, Copy)]
struct Sent {
    /// The time in the packet.
    written: UnixNs,
    /// When it left, as far as known.
    stamps: Stamps,
    /// When it was sent, by the clock that never steps.
    at: Duration,
    /// Number of the interval that it counts for.
    interval: u64,
    /// How often the system's clock had been set by then.
    clock_steps: u32,
    is_answered: bool,
}

/// The sent packets by sequence number, without gaps.
#[derive(Debug, Default)]
struct Window {
    packets: VecDeque<Sent>,
    /// Sequence number of the first.
    first: u32,
}

impl Window {
    fn is_full(&self) -> bool {
        self.packets.len() >= PACKETS_MAX
    }

    /// The sequence number of the next packet.
    fn next_sequence(&self) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "modulo 2^32, and at most 2^17"
        )]
        self.first.wrapping_add(self.packets.len() as u32)
    }

    fn push(&mut self, sent: Sent) {
        self.packets.push_back(sent);
    }

    /// The packet with this number, if it is in the window.
    fn get(&mut self, sequence: u32) -> Option<&mut Sent> {
        let index = usize::try_from(sequence.wrapping_sub(self.first)).ok()?;
        self.packets.get_mut(index)
    }

    /// Removes the first packet from the window if it was sent before `before`.
    fn pop_before(&mut self, before: Duration) -> Option<Sent> {
        let sent = self.packets.pop_front_if(|sent| sent.at <= before)?;
        self.first = self.first.wrapping_add(1);
        Some(sent)
    }

    /// Whether a sequence number is that of a packet that has left the window.
    fn is_past(&self, sequence: u32) -> bool {
        sequence.wrapping_sub(self.first).cast_signed() < 0
    }
}

/// Why a reply is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Rejection {
    #[error("too short, {bytes} of {least} bytes")]
    TooShort { bytes: usize, least: usize },
    #[error("the HMAC is wrong: the reflector has another key, or none")]
    NotAuthentic,
    #[error("the SSID is {got}, not {expected}")]
    OtherSession { got: u16, expected: u16 },
    #[error("no request has the sequence number {0}")]
    UnknownSequence(u32),
    #[error("the sender's timestamp is not that of the request")]
    OtherTimestamp,
}

/// One-way delays of a packet, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    forward_ns: i64,
    backward_ns: i64,
    stamps: StampedBy,
}

/// Limit of delays and of the difference of clocks: more than a century.
const DELAY_NS_MAX: i64 = 1 << 62;

impl Sample {
    /// `None` if the reflector's times are implausible.
    fn of(reply: &Reply, sent: &Sent, came: Stamps) -> Option<Self> {
        let left = sent.stamps;
        // Both by the interface's clock, or both by the system's.
        let (left, came, [sent, received]) = match left.hardware.zip(came.hardware) {
            Some((left, came)) => (left, came, [Stamped::Hardware; 2]),
            None => (left.system, came.system, [left.by, came.by]),
        };
        let stamps = StampedBy { sent, received };
        let format = reply.own.error.format;
        let received = format.decode(reply.received, came)?;
        let replied = format.decode(reply.own.timestamp, came)?;
        let (forward_ns, backward_ns) = (received.since(left), came.since(replied));
        let is_sane = |delay: i64| delay.abs() < DELAY_NS_MAX;
        (is_sane(forward_ns) && is_sane(backward_ns)).then_some(Self {
            forward_ns,
            backward_ns,
            stamps,
        })
    }

    /// The time under way, without that in the reflector; 0 if clocks are too coarse to tell.
    fn round_trip_ns(self) -> i64 {
        (self.forward_ns + self.backward_ns).max(0)
    }
}

/// An open interval.
#[derive(Debug, Default)]
struct Interval {
    counts: Counts,
    /// Packets that are under way.
    outstanding: u64,
    reflector_clock: Option<ClockQuality>,
    extensions: Option<Extensions>,
    stamps: Option<StampedBy>,
    /// Why the last failed request was not sent.
    not_sent_for: Option<SendError>,
    /// Why a request was not delivered, by the last ICMP message.
    unreachable: Option<Unreachable>,
    /// Why the last reply was rejected, and whether others had other reasons.
    rejection: Option<(Rejection, bool)>,
    samples: Vec<Delay>,
}

/// Round trip and forward of a packet, in ns.
type Delay = (i64, i64);

/// Round trip, forward and backward of a sample.
const WAYS: [fn(&Delay) -> i64; 3] = [
    |sample| sample.0,
    |sample| sample.1,
    |sample| sample.0 - sample.1,
];

impl Interval {
    /// Whether all its packets are answered or timed out.
    fn is_settled(&self) -> bool {
        self.outstanding == 0
    }

    /// Counts a rejected reply.
    fn reject(&mut self, why: Rejection) {
        self.counts.rejected += 1;
        let differs = |(before, differed): (Rejection, bool)| differed || before != why;
        self.rejection = Some((why, self.rejection.is_some_and(differs)));
    }

    /// Describes why replies were rejected.
    fn rejected_for(&self) -> Option<String> {
        let (last, differs) = self.rejection?;
        let others = if differs {
            " (the last one; others had other reasons)"
        } else {
            ""
        };
        Some(format!("{last}{others}"))
    }

    /// Adds the delays of a reply.
    fn take(&mut self, sample: Option<Sample>) {
        let Some(sample) = sample else {
            self.counts.unusable += 1;
            return;
        };
        let worst = self.stamps.map_or(sample.stamps, |stamps| StampedBy {
            sent: stamps.sent.max(sample.stamps.sent),
            received: stamps.received.max(sample.stamps.received),
        });
        self.stamps = Some(worst);
        self.samples
            .push((sample.round_trip_ns(), sample.forward_ns));
    }

    /// Round trip, forward and backward.
    fn delays(&self) -> [Option<Delays>; 3] {
        WAYS.map(|way| Delays::of(self.samples.iter().map(way)))
    }

    /// The least one-way delays.
    fn least(&self) -> Option<Least> {
        let [_, forward_ns, backward_ns] = WAYS.map(|way| self.samples.last().map(way));
        let last_offset_ns = (forward_ns? as f64 - backward_ns? as f64) / 2.0;
        let least = WAYS.map(|way| self.samples.iter().map(way).min());
        let [round_trip_ns, forward_ns, backward_ns] = least;
        Some(Least {
            forward_ns: forward_ns? as f64,
            backward_ns: backward_ns? as f64,
            round_trip_ns: round_trip_ns? as f64,
            last_offset_ns,
        })
    }
}

/// The layout of the tail, which follows the base packet.
#[derive(Debug)]
struct Tail {
    hmac_at: Option<usize>,
    /// Offset of the sender's count of packets.
    count_at: Option<usize>,
    is_asking: bool,
}

impl Tail {
    /// Appends the TLVs to the base packet.
    fn build(
        settings: &SessionSettings,
        mode: Mode,
        packet: &mut Vec<u8>,
        random: &mut Pcg64Mcg,
    ) -> Self {
        let (length, base) = (settings.config.bytes(), mode.bytes());
        let tlvs = &settings.config.tlvs;
        let (mut hmac_at, mut count_at) = (None, None);
        for &kind in tlvs {
            if kind == Kind::DirectMeasurement {
                count_at = Some(packet.len() - base + HEADER_BYTES);
            }
            append(packet, kind, &value(kind, settings.id.dscp));
        }
        if settings.tlv_key.is_some() && !tlvs.is_empty() {
            hmac_at = Some(packet.len() - base);
            append(packet, Kind::Hmac, &[0; TAG_BYTES]);
        }
        if length >= packet.len() + HEADER_BYTES {
            // Pseudorandom, so that compressing links do not shorten it (RFC 8972, section 4.1).
            let mut padding = vec![0; length - packet.len() - HEADER_BYTES];
            random.fill_bytes(&mut padding);
            append(packet, Kind::ExtraPadding, &padding);
        }
        Self {
            hmac_at,
            count_at,
            is_asking: !tlvs.is_empty(),
        }
    }

    /// Writes the fields that differ from request to request.
    fn finish(&self, tail: &mut [u8], sequence: &[u8], count: u32, key: Option<&Key>) {
        if let Some(at) = self.count_at {
            put(tail, at, &count.to_be_bytes());
        }
        if let Some((at, key)) = self.hmac_at.zip(key) {
            wire::sign_tlvs(key, sequence, tail, at);
        }
    }

    /// Reads the TLVs of a reply; `None` if none were sent.
    fn read(
        &self,
        tail: &[u8],
        sequence: &[u8],
        key: Option<&Key>,
        format: Format,
        near: UnixNs,
    ) -> Option<Extensions> {
        if !self.is_asking {
            return None;
        }
        let mut said = Extensions::default();
        let is_flagged = Walk::new(tail).any(|tlv| tlv.flags & INTEGRITY != 0);
        let integrity = wire::integrity(key, sequence, tail);
        // A reflector without TLVs copies the HMAC, which is still that of the request.
        let is_wrong = key.is_some() && !matches!(integrity, Integrity::Right(_));
        if is_flagged || is_wrong {
            said.is_not_authentic = true;
            return Some(said);
        }
        for tlv in Walk::new(tail) {
            if tlv.flags & UNRECOGNISED != 0 {
                said.unrecognised += 1;
                continue;
            }
            if tlv.flags & MALFORMED != 0 || !tlv.is_well_formed {
                said.is_malformed = true;
                break;
            }
            let value = tail.get(tlv.value()).unwrap_or_default();
            if let Some(kind) = tlv.kind {
                said.take(kind, value, format, near);
            }
        }
        Some(said)
    }
}

#[cfg(test)]
mod tests;
