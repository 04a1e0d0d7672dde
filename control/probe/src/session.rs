//! One session of a session-sender: what it sends and when, what it makes of replies, and its results.
//!
//! ```text
//!  schedule --> request --> window (packets that may be answered) --> reply: delays --> interval
//!                              \--> time-out: lost                                       |
//!                                        when all its packets are answered or timed out: SessionResult
//! ```
//!
//! It has no socket and no clock: times are passed in. A packet counts for the interval in which it was sent, and an interval
//! is closed when none of its packets is under way any more; so no packet in flight is taken for lost.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::arrival::Stamped;
use crate::offset::Watch;
use crate::result::{ClockQuality, OneWay, SessionResult};
use crate::socket::{SendError, Stamps, Unreachable};
use crate::wire::key::Key;
use crate::wire::packet::{self, Mode, Reply, Request};
use crate::wire::time::{ErrorEstimate, UnixNs};
use crate::wire::tlv::Kind;

mod extensions;
mod interval;
mod rejection;
mod schedule;
#[cfg(test)]
mod tests;
mod window;

use extensions::Tail;
use interval::{Interval, Sample};
use rejection::Rejection;
use schedule::Schedule;
use window::{Sent, Window};

pub use extensions::{LengthError, least_bytes};
pub use schedule::Spacing;

/// How one session is.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// Its name in results.
    pub name: String,
    /// Name of the node where the reflector stands.
    pub node: String,
    /// The class of traffic that it stands for.
    pub class: String,
    /// The sender's address and port.
    pub from: SocketAddr,
    /// The reflector's.
    pub to: SocketAddr,
    /// Its identifier, over 0.
    pub ssid: u16,
    /// DSCP of requests, 0 to 63.
    pub dscp: u8,
    /// The key of base packets; with it, they are authenticated.
    pub key: Option<Key>,
    /// The key of TLVs; without it, they have no HMAC.
    pub tlv_key: Option<Key>,
    /// Bytes of a request, without its UDP header.
    pub length: usize,
    /// The TLVs that are sent, besides HMAC and padding.
    pub extensions: Vec<Kind>,
    /// How packets are spaced.
    pub spacing: Spacing,
    /// The mean gap between them, over 0.
    pub gap: Duration,
    /// How many are sent; `None`: no end.
    pub count: Option<u64>,
    /// How long an answer is waited for.
    pub timeout: Duration,
    /// The sender's clock.
    pub error: ErrorEstimate,
}

/// When intervals begin: all sessions of a program have the same.
#[derive(Debug, Clone, Copy)]
pub struct Intervals {
    /// Length of an interval, over 0.
    pub length: Duration,
    /// When the first began, in ns since 1970.
    pub start: UnixNs,
}

impl Intervals {
    /// The interval of a time since the first one's beginning.
    pub fn at(&self, now: Duration) -> u64 {
        let number = now.as_nanos() / self.length.as_nanos().max(1);
        u64::try_from(number).unwrap_or(u64::MAX)
    }

    fn end(&self, number: u64) -> Duration {
        let factor = u32::try_from(number.saturating_add(1)).unwrap_or(u32::MAX);
        self.length.saturating_mul(factor)
    }

    /// When an interval begins, in ms since 1970.
    pub fn start_unix_ms(&self, number: u64) -> u64 {
        let since_ms = u128::from(number) * self.length.as_millis();
        let since_ms = u64::try_from(since_ms).unwrap_or(u64::MAX);
        (self.start.0 / 1_000_000).saturating_add(since_ms)
    }
}

/// What happened to the system's clock of this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LocalClock {
    /// How often it was set since the start.
    pub steps: u32,
    /// By how many ns the last time; over 0: ahead.
    pub step_ns: f64,
}

/// A reply that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'p> {
    /// Its bytes.
    pub packet: &'p [u8],
    /// When, by the clocks.
    pub stamps: Stamps,
    /// The clock of this machine.
    pub clock: LocalClock,
}

/// A session under way.
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
    /// Those that are not closed, the oldest first.
    open: VecDeque<Interval>,
    /// Number of the first of them.
    first_open: u64,
    watch: Watch,
    clock_steps_seen: u32,
    greatest_answered: Option<u32>,
    /// Requests that were sent, or that the system refused to send.
    tried: u64,
    /// Why the system refused the last one.
    send_error: Option<SendError>,
    /// The last interval of a session that was ended.
    last: Option<u64>,
}

impl Session {
    /// A session that begins at `now`, a time since the beginning of the first interval; `seed` is of its gaps and padding.
    ///
    /// # Errors
    /// [`LengthError`] where the length does not do for the TLVs.
    pub fn new(
        settings: SessionSettings,
        intervals: Intervals,
        now: Duration,
        seed: u64,
    ) -> Result<Self, LengthError> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mode = if settings.key.is_some() {
            Mode::Authenticated
        } else {
            Mode::Open
        };
        let mut packet = vec![0; mode.bytes()];
        let tail = Tail::build(&settings, mode, &mut packet, &mut random)?;
        let schedule = Schedule::new(settings.spacing, settings.gap, now, &mut random);
        Ok(Self {
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
        })
    }

    /// How it is.
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
        (!is_over).then(|| self.schedule.next())
    }

    /// Sends nothing any more; the interval of `now` is its last.
    pub fn end(&mut self, now: Duration) {
        self.last.get_or_insert(self.intervals.at(now));
    }

    /// Whether it was ended, and its last interval is closed.
    pub fn has_left(&self) -> bool {
        self.last.is_some_and(|last| self.first_open > last)
    }

    /// The first interval that is not closed.
    pub fn first_open(&self) -> u64 {
        self.first_open
    }

    /// Whether all packets are sent, and answered or timed out.
    pub fn is_over(&self) -> bool {
        self.due().is_none() && self.open.iter().all(Interval::is_settled)
    }

    /// The next request, with the time `wall` in it. `None` where too many packets are under way: it is counted, and left out.
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
            ssid: self.settings.ssid,
        };
        request.write(self.mode, &mut self.packet);
        if let Some(key) = &self.settings.key {
            packet::sign(key, &mut self.packet);
        }
        let (base, tail) = self.packet.split_at_mut(self.mode.bytes());
        // The count of packets, this one among them, is one more than its number.
        self.tail.finish(
            tail,
            &base[..4],
            sequence.wrapping_add(1),
            self.settings.tlv_key.as_ref(),
        );
        Some(&self.packet)
    }

    /// The request was sent at `now`, with the time `wall` in it; returns its sequence number.
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

    /// Notes that the system refused to send the request. It counts as an attempt, so that a session with a `count` ends.
    pub fn was_refused(&mut self, now: Duration, error: SendError) {
        self.tried += 1;
        if !error.is_passing() {
            self.send_error = Some(error);
        }
        self.present(now).not_sent_for = Some(error);
        self.leave_out(now);
    }

    /// Why requests cannot be sent now; `None`: they can, as far as is known.
    pub fn send_error(&self) -> Option<SendError> {
        self.send_error
    }

    /// A request of this session was not delivered, as an ICMP message has it.
    pub fn was_unreachable(&mut self, now: Duration, why: Unreachable) {
        self.present(now).unreachable = Some(why);
    }

    /// There is no room for the request, or the system did not take it.
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

    /// When a request really left. A time before it was written, or long after, is another packet's.
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

    /// Takes a reply.
    pub fn answered(&mut self, arrived: &Arrived, now: Duration) {
        let reply = match self.verified(arrived.packet) {
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
        let sample = Sample::of(&reply, &sent, arrived);
        let tail = arrived.packet.get(self.mode.bytes()..).unwrap_or_default();
        let sequence = reply.sequence.to_be_bytes();
        let key = self.settings.tlv_key.as_ref();
        let (format, near) = (reply.error.format, arrived.stamps.system);
        let extensions = self.tail.read(tail, &sequence, key, format, near);
        // Its interval is open, since it has been under way until now.
        let interval = self.interval(sent.interval);
        interval.outstanding = interval.outstanding.saturating_sub(1);
        interval.counts.received += 1;
        interval.counts.reordered += u64::from(is_reordered);
        interval.reflector_clock = Some(ClockQuality {
            is_synchronised: reply.error.is_synchronised,
            error_ns: reply.error.error_ns(),
        });
        if extensions.is_some() {
            interval.extensions = extensions;
        }
        interval.take(sample);
    }

    /// The reply of this session's mode and key.
    fn verified(&self, packet: &[u8]) -> Result<Reply, Rejection> {
        let too_short = Rejection::TooShort {
            bytes: packet.len(),
            least: self.mode.reply_bytes_min(),
        };
        let reply = Reply::read(self.mode, packet).ok_or(too_short)?;
        let key = self.settings.key.as_ref();
        if key.is_some_and(|key| !packet::is_authentic(key, packet)) {
            return Err(Rejection::NotAuthentic);
        }
        // Zero is from a reflector that does not know SSIDs (RFC 8972, section 3): the session goes on.
        let (got, expected) = (reply.ssid, self.settings.ssid);
        if got != expected && got != 0 {
            return Err(Rejection::OtherSession { got, expected });
        }
        Ok(reply)
    }

    /// The interval at `now`, or the last that will be closed.
    fn present(&mut self, now: Duration) -> &mut Interval {
        let present = self.intervals.at(now);
        self.interval(self.last.map_or(present, |last| last.min(present)))
    }

    /// The interval of that number, opened if it is not.
    fn interval(&mut self, number: u64) -> &mut Interval {
        let index = usize::try_from(number.saturating_sub(self.first_open)).unwrap_or(usize::MAX);
        // Time-outs bound how many are open: see `poll`.
        let index = index.min(OPEN_MAX);
        while self.open.len() <= index {
            self.open.push_back(Interval::default());
        }
        &mut self.open[index]
    }

    /// Counts packets whose time is over as lost, and closes an interval that has ended and has no packet under way.
    /// To be called until it returns `None`, several times an interval.
    pub fn poll(&mut self, now: Duration, clock: LocalClock) -> Option<SessionResult> {
        let before = now.checked_sub(self.settings.timeout);
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

    /// Closes the oldest interval that is open, at the end of the program; `None`: none is. Packets that are under way then are not counted.
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
            name: settings.name.clone(),
            node: settings.node.clone(),
            class: settings.class.clone(),
            from: settings.from,
            to: settings.to,
            ssid: settings.ssid,
            dscp: settings.dscp,
            interval: number,
            start_unix_ms: self.intervals.start_unix_ms(number),
            length_ms: u64::try_from(self.intervals.length.as_millis()).unwrap_or(u64::MAX),
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

/// A request leaves the machine within this time, in ns.
const TRANSMIT_NS_MAX: i64 = 10_000_000_000;

/// Most intervals that are open at once: more than the longest time-out has of the shortest intervals.
const OPEN_MAX: usize = 1 << 12;
