//! The session-reflector: turns a request into its reply, in place, so that no reply is longer than its
//! request.
//!
//! ```text
//!  request --> long enough? no loop? HMAC? limit? --> session's counts --> TLVs answered --> reply without its timestamp
//!                       \--> counted and dropped                                  finish: timestamp, HMACs
//! ```
//!
//! It has no socket and no clock. Memory is bounded: the table of sessions and the buckets of the rate limit have
//! fixed sizes. A forged packet could make two reflectors, or one and itself, answer each other for ever; so a
//! reflector never answers a reply to its own reply. If the table is full, further sessions are answered without
//! state, as RFC 8762, section 4, provides.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Serialize;

use crate::config::ReflectorConfig;
use crate::socket::{Arrival, Stamped};
use crate::wire::{
    self, ClockSource, ErrorEstimate, HEADER_BYTES, INTEGRITY, Integrity, Key, Kind, MALFORMED,
    Mode, Reply, Request, Tlv, UNRECOGNISED, UnixNs, Walk, put,
};

/// Settings of a reflector.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its limits, and the DSCP values that may be requested.
    pub config: ReflectorConfig,
    /// The key of base packets; if set, all requests must be authenticated.
    pub key: Option<Key>,
    /// The key of TLVs; in authenticated mode, that of base packets unless another is set.
    pub tlv_key: Option<Key>,
    /// This end's clock.
    pub error: ErrorEstimate,
    /// The source of its time.
    pub clock: ClockSource,
}

contract::record! {
    /// Counters of the reflector since its start.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
    pub struct ReflectorCounts {
        /// Requests answered.
        #[metric(Counter = "vernier_probe_reflector_answered_packets_total")]
        pub answered: u64,
        /// Requests of sessions without room in the table, answered without state.
        #[metric(Counter = "vernier_probe_reflector_stateless_packets_total")]
        pub answered_without_state: u64,
        /// Requests shorter than a base packet.
        #[metric(Counter = "vernier_probe_reflector_short_packets_total")]
        pub too_short: u64,
        /// Replies to the reflector's own replies, dropped to avoid a loop.
        #[metric(Counter = "vernier_probe_reflector_looped_packets_total")]
        pub looped: u64,
        /// Requests whose HMAC was not checked because too many were wrong just before.
        #[metric(Counter = "vernier_probe_reflector_unchecked_packets_total")]
        pub unchecked: u64,
        /// Requests with a wrong HMAC, or without one.
        #[metric(Counter = "vernier_probe_reflector_unauthentic_packets_total")]
        pub not_authentic: u64,
        /// Requests over the rate limit of their source.
        #[metric(Counter = "vernier_probe_reflector_limited_packets_total")]
        pub over_limit: u64,
        /// Requests whose TLVs failed verification.
        #[metric(Counter = "vernier_probe_reflector_unauthentic_tlv_packets_total")]
        pub tlv_not_authentic: u64,
        /// Requests with a malformed TLV.
        #[metric(Counter = "vernier_probe_reflector_malformed_tlv_packets_total")]
        pub tlv_malformed: u64,
        /// Replies that the system refused to send.
        #[metric(Counter = "vernier_probe_reflector_not_sent_packets_total")]
        pub not_sent: u64,
        /// Sessions in the reflector's table.
        #[metric(Gauge = "vernier_probe_reflector_sessions")]
        pub sessions: u64,
    }
}

/// A reply without its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the reply lacks its timestamp and HMACs until `finish`"]
pub struct Pending {
    mode: Mode,
    /// DSCP and ECN of the reply.
    pub traffic_class: u8,
    /// Offset in the tail of an HMAC TLV that is computed again.
    hmac_at: Option<usize>,
    session: SessionKey,
    sequence: u32,
}

/// Identifies a session (RFC 8972, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SessionKey {
    from: SocketAddr,
    to: SocketAddr,
    ssid: u16,
}

/// A looped packet answers a reply that is older than the last one by an age in this range, in ns: no packet is under
/// way for longer than a minute, and a clock may have been set back by a second meanwhile.
const LOOP_NS: std::ops::Range<i64> = -1_000_000_000..60_000_000_000;

/// Answers requests.
#[derive(Debug)]
pub struct Reflector {
    settings: Settings,
    sessions: Sessions,
    limit: Option<Limit>,
    /// Limits the work on wrong HMACs over all sources, since addresses are easily forged. Right ones are free.
    checks: Bucket,
    /// The time in the last reply.
    last_written: Option<UnixNs>,
    counts: ReflectorCounts,
}

impl Reflector {
    /// Creates a reflector without sessions.
    pub fn new(settings: Settings) -> Self {
        let config = &settings.config;
        let idle = Duration::from_secs(config.idle_s);
        Self {
            sessions: Sessions::new(config.sessions_max, idle),
            limit: config.limit_pps.map(Limit::new),
            checks: Bucket::full(WRONG_BYTES_PER_S),
            last_written: None,
            settings,
            counts: ReflectorCounts::default(),
        }
    }

    /// The counters.
    pub fn counts(&self) -> ReflectorCounts {
        ReflectorCounts {
            sessions: self.sessions.states.len() as u64,
            ..self.counts
        }
    }

    /// Turns a request into its reply of the same length, except for the timestamp and what depends on it. `now` is
    /// from a clock that never steps. Counts a request that gets no reply, and returns `None`.
    pub fn reflect(
        &mut self,
        packet: &mut [u8],
        arrival: &Arrival,
        now: Duration,
    ) -> Option<Pending> {
        let (mode, request) = self.admit(packet, arrival, now)?;
        let key = SessionKey {
            from: arrival.from,
            to: arrival.to,
            ssid: request.ssid,
        };
        let state = self.sessions.see(key, now).map(|state| {
            state.received = state.received.wrapping_add(1);
            *state
        });
        if state.is_none() {
            self.counts.answered_without_state += 1;
        }
        let sequence = state.map_or(request.sequence, |state| state.sent);

        let request_sequence = request.sequence.to_be_bytes();
        let (base, tail) = packet.split_at_mut(mode.bytes());
        let facts = Facts {
            arrival,
            settings: &self.settings,
            state: state.as_ref(),
        };
        let answered = answer(tail, &request_sequence, &facts);
        self.counts.tlv_not_authentic += u64::from(answered.is_not_authentic);
        if answered.is_not_authentic {
            self.was_wrong(tail.len());
        }
        self.counts.tlv_malformed += u64::from(answered.is_malformed);

        let format = self.settings.error.format;
        let reply = Reply {
            own: Request {
                sequence,
                timestamp: 0,
                error: self.settings.error,
                ssid: request.ssid,
            },
            received: format.encode(arrival.stamps.system),
            sender_sequence: request.sequence,
            sender_timestamp: request.timestamp,
            sender_error: request.error,
            sender_ttl: arrival.ttl,
        };
        reply.write(mode, base);
        Some(Pending {
            mode,
            traffic_class: answered.traffic_class,
            hmac_at: answered.hmac_at,
            session: key,
            sequence,
        })
    }

    /// Verifies a request before any state changes.
    fn admit(
        &mut self,
        packet: &[u8],
        arrival: &Arrival,
        now: Duration,
    ) -> Option<(Mode, Request)> {
        let mode = Mode::of(self.settings.key.is_some());
        let Some(request) = Request::read(mode, packet) else {
            return refused(&mut self.counts.too_short);
        };
        if self.is_looped(mode, packet) {
            return refused(&mut self.counts.looped);
        }
        let has_tlvs = packet.len() > mode.bytes();
        let is_checked =
            self.settings.key.is_some() || (has_tlvs && self.settings.tlv_key.is_some());
        if is_checked && self.checks.left(now) <= 0.0 {
            return refused(&mut self.counts.unchecked);
        }
        let key = self.settings.key.as_ref();
        if key.is_some_and(|key| !wire::is_authentic(key, packet)) {
            self.was_wrong(mode.bytes());
            return refused(&mut self.counts.not_authentic);
        }
        // Checked last, so that forged packets do not use up the victim's limit.
        let limit = self.limit.as_mut();
        if limit.is_some_and(|limit| !limit.takes(arrival.from.ip(), now)) {
            return refused(&mut self.counts.over_limit);
        }
        Some((mode, request))
    }

    /// Whether a packet is a reply to a reply of this reflector: its sender's timestamp is a time that this reflector
    /// wrote shortly before its last reply. A request has zeros there (RFC 8762, section 4.2), or padding in TWAMP.
    /// Ports do not help, since reflectors may have any, and senders may have those of reflectors. The reference is
    /// the time in the last reply, not the present, since it is from the same clock, whatever clock stamps arrivals.
    fn is_looped(&self, mode: Mode, packet: &[u8]) -> bool {
        let Some(last) = self.last_written else {
            return false;
        };
        let bits = Reply::read(mode, packet).map_or(0, |reply| reply.sender_timestamp);
        // Zero is also a time of each NTP era.
        let written = Some(bits).filter(|bits| *bits != 0);
        let written = written.and_then(|bits| self.settings.error.format.decode(bits, last));
        written.is_some_and(|written| LOOP_NS.contains(&last.since(written)))
    }

    /// Writes the timestamp `at` and all HMACs into a reply made by [`Reflector::reflect`], just before it is sent.
    pub fn finish(&mut self, packet: &mut [u8], pending: Pending, at: UnixNs) {
        let format = self.settings.error.format;
        self.last_written = Some(at);
        wire::set_timestamp(pending.mode, packet, format.encode(at));
        if let Some(key) = &self.settings.key {
            wire::sign_base(key, packet);
        }
        let (base, tail) = packet.split_at_mut(pending.mode.bytes());
        if let (Some(at), Some(key)) = (pending.hmac_at, self.settings.tlv_key.as_ref()) {
            wire::sign_tlvs(key, &base[..4], tail, at);
        }
        self.counts.answered += 1;
        if let Some(state) = self.sessions.states.get_mut(&pending.session) {
            state.sent = state.sent.wrapping_add(1);
            state.last = Some((pending.sequence, at, Stamped::Program));
        }
    }

    /// Charges a wrong HMAC over this many bytes.
    fn was_wrong(&mut self, bytes: usize) {
        self.checks.left -= (bytes + CHECK_BYTES) as f64;
    }

    /// Counts a reply that the system refused to send.
    pub fn not_sent(&mut self) {
        self.counts.not_sent += 1;
    }
}

/// Counts a request that gets no reply.
fn refused<T>(count: &mut u64) -> Option<T> {
    *count += 1;
    None
}

/// Minimum time between two searches for sessions to evict from a full table.
const SEARCH: Duration = Duration::from_secs(1);

/// State of one session.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Requests received, modulo 2^32.
    received: u32,
    /// Replies sent, modulo 2^32; the sequence number of the next one.
    sent: u32,
    /// The last reply: its sequence number, its time, and the source of that time.
    last: Option<(u32, UnixNs, Stamped)>,
    seen: Duration,
}

/// A bounded table of session states.
#[derive(Debug)]
struct Sessions {
    states: HashMap<SessionKey, State>,
    most: usize,
    idle: Duration,
    searched: Option<Duration>,
}

impl Sessions {
    fn new(most: usize, idle: Duration) -> Self {
        Self {
            states: HashMap::new(),
            most,
            idle,
            searched: None,
        }
    }

    /// The state of a session, created if there is room.
    fn see(&mut self, key: SessionKey, now: Duration) -> Option<&mut State> {
        if self.states.len() >= self.most && !self.states.contains_key(&key) {
            self.make_room(now);
            if self.states.len() >= self.most {
                return None;
            }
        }
        let state = self.states.entry(key).or_default();
        state.seen = now;
        Some(state)
    }

    /// Evicts sessions that have been silent for long. Searches the table at most once a second, so that packets of
    /// ever new sessions do not each cause a search.
    fn make_room(&mut self, now: Duration) {
        if self
            .searched
            .is_none_or(|searched| now >= searched + SEARCH)
        {
            self.searched = Some(now);
            let idle = self.idle;
            self.states
                .retain(|_, state| now.saturating_sub(state.seen) < idle);
        }
    }
}

/// Number of buckets; addresses that share one share its limit.
const BUCKETS: usize = 4_096;

/// Bytes to hash each second for HMACs that turn out wrong: at most a tenth of a CPU.
const WRONG_BYTES_PER_S: f64 = (16 << 20) as f64;

/// Bytes that a check hashes in addition to the packet: one block for the key, one for the outer hash.
const CHECK_BYTES: usize = 128;

/// A token bucket that holds a second's tokens.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    per_s: f64,
    left: f64,
    /// When it was last filled.
    filled: Duration,
}

impl Bucket {
    fn full(per_s: f64) -> Self {
        Self {
            per_s,
            left: per_s,
            filled: Duration::ZERO,
        }
    }

    /// Adds the tokens of the elapsed time, and returns the total.
    fn left(&mut self, now: Duration) -> f64 {
        let passed = now.saturating_sub(self.filled).as_secs_f64();
        self.left = (self.left + passed * self.per_s).min(self.per_s);
        self.filled = self.filled.max(now);
        self.left
    }
}

/// A limit of packets a second by source address.
#[derive(Debug)]
struct Limit {
    hasher: RandomState,
    buckets: Vec<Bucket>,
}

impl Limit {
    fn new(pps: u32) -> Self {
        Self {
            hasher: RandomState::new(),
            buckets: vec![Bucket::full(f64::from(pps)); BUCKETS],
        }
    }

    /// Whether a packet of this source is within the limit; it counts then.
    fn takes(&mut self, source: IpAddr, now: Duration) -> bool {
        // From keys unknown to others.
        let at = self.hasher.hash_one(source) % BUCKETS as u64;
        let at = usize::try_from(at).unwrap_or_default();
        let bucket = &mut self.buckets[at];
        let takes = bucket.left(now) >= 1.0;
        bucket.left -= f64::from(u8::from(takes));
        takes
    }
}

/// What answers are made of.
struct Facts<'f> {
    arrival: &'f Arrival,
    settings: &'f Settings,
    /// Of the session, this request counted; `None`: stateless.
    state: Option<&'f State>,
}

/// What came of it.
struct Answered {
    /// DSCP and ECN of the reply.
    traffic_class: u8,
    /// Offset of an HMAC TLV that must be computed again.
    hmac_at: Option<usize>,
    is_not_authentic: bool,
    is_malformed: bool,
}

/// How a timestamp was taken (RFC 8972, table 9).
pub(crate) fn method(stamped: Stamped) -> u8 {
    match stamped {
        Stamped::Hardware => 1,
        Stamped::Kernel | Stamped::Program => 2,
    }
}

/// Answers all TLVs of `tail`, what follows the base packet.
fn answer(tail: &mut [u8], sequence: &[u8], facts: &Facts) -> Answered {
    let mut answered = Answered {
        // Without a class of service TLV the way back is as the way there; ECN is not set.
        traffic_class: facts.arrival.dscp() << 2,
        hmac_at: None,
        is_not_authentic: false,
        is_malformed: false,
    };
    let key = facts.settings.tlv_key.as_ref();
    let integrity = wire::integrity(key, sequence, tail);
    let is_missing = integrity == Integrity::Absent && needs_hmac(tail, facts);
    if integrity == Integrity::Wrong || is_missing {
        answered.is_not_authentic = true;
        let mut at = 0;
        while let Some(tlv) = next(tail, at) {
            put(tail, tlv.at, &[recognition(&tlv) | INTEGRITY]);
            at = tlv.value().end;
        }
        return answered;
    }
    if let Integrity::Right(at) = integrity {
        answered.hmac_at = Some(at);
    }
    let mut at = 0;
    while let Some(tlv) = next(tail, at) {
        at = tlv.value().end;
        put(tail, tlv.at, &[recognition(&tlv)]);
        if !tlv.is_well_formed {
            // The rest is copied as it is.
            answered.is_malformed = true;
            if tlv.kind == Some(Kind::FollowUpTelemetry) {
                let value = tail.get_mut(tlv.value()).unwrap_or_default();
                value.iter_mut().take(12).for_each(|byte| *byte = 0);
            }
            break;
        }
        if let Some(kind) = tlv.kind {
            answer_one(tail, &tlv, kind, facts, &mut answered);
        }
    }
    answered
}

/// The TLV at `at`. Answers change no length and no type, so the walk is the same before and after.
fn next(tail: &[u8], at: usize) -> Option<Tlv> {
    if at == 0 {
        return Walk::new(tail).next();
    }
    let rest = tail.get(at..)?;
    Walk::behind(rest).next().map(|tlv| Tlv {
        at: at + tlv.at,
        ..tlv
    })
}

/// TLVs of authenticated packets need an HMAC of their own, but for padding alone (RFC 8972, section 4.8).
fn needs_hmac(tail: &[u8], facts: &Facts) -> bool {
    let mut walk = Walk::new(tail);
    let first = walk.next();
    let is_padding_alone =
        first.is_none_or(|tlv| tlv.kind == Some(Kind::ExtraPadding)) && walk.next().is_none();
    facts.settings.key.is_some() && !is_padding_alone
}

fn recognition(tlv: &Tlv) -> u8 {
    let unrecognised = if tlv.kind.is_none() { UNRECOGNISED } else { 0 };
    let malformed = if tlv.is_well_formed { 0 } else { MALFORMED };
    unrecognised | malformed
}

fn answer_one(tail: &mut [u8], tlv: &Tlv, kind: Kind, facts: &Facts, answered: &mut Answered) {
    let Some(value) = tail.get_mut(tlv.value()) else {
        return;
    };
    match kind {
        Kind::ExtraPadding | Kind::Hmac => {}
        Kind::Location => location(value, facts.arrival),
        Kind::TimestampInformation => {
            let (clock, arrival) = (facts.settings.clock as u8, facts.arrival);
            let out = method(Stamped::Program);
            value.copy_from_slice(&[clock, method(arrival.stamps.by), clock, out]);
        }
        Kind::ClassOfService => class_of_service(value, facts, answered),
        Kind::DirectMeasurement => {
            let (received, sent) = facts
                .state
                .map_or((0, 0), |state| (state.received, state.sent.wrapping_add(1)));
            put(value, 4, &received.to_be_bytes());
            put(value, 8, &sent.to_be_bytes());
        }
        Kind::AccessReport => {
            // Networks are 1 (3GPP) and 2 (others); another number is discarded: not understood.
            let network = value.first().map_or(0, |byte| byte >> 4);
            put(value, 2, &[0, 0]);
            if !(1..=2).contains(&network) {
                put(tail, tlv.at, &[UNRECOGNISED]);
            }
        }
        Kind::FollowUpTelemetry => {
            value.fill(0);
            let last = facts.state.and_then(|state| state.last);
            if let Some((sequence, at, stamped)) = last {
                let at = facts.settings.error.format.encode(at);
                put(value, 0, &sequence.to_be_bytes());
                put(value, 4, &at.to_be_bytes());
                put(value, 12, &[method(stamped)]);
            }
        }
    }
}

/// DSCP1 (6 bits), DSCP2 (6), ECN (2), RP (2), reserved (16); RFC 8972, section 4.4, with erratum 8199.
fn class_of_service(value: &mut [u8], facts: &Facts, answered: &mut Answered) {
    let wanted = value.first().map_or(0, |byte| byte >> 2);
    let (dscp, ecn) = (facts.arrival.dscp(), facts.arrival.traffic_class & 3);
    let allowed = facts.settings.config.allowed_dscp.as_ref();
    let is_allowed = allowed.is_none_or(|allowed| allowed.contains(&wanted));
    if is_allowed {
        answered.traffic_class = wanted << 2;
    }
    let reverse = u8::from(!is_allowed);
    let first = wanted << 2 | dscp >> 4;
    put(
        value,
        0,
        &[first, (dscp & 0xf) << 4 | ecn << 2 | reverse, 0, 0],
    );
}

/// Ports, then sub-TLVs that ask for an address each (RFC 8972, section 4.2).
fn location(value: &mut [u8], arrival: &Arrival) {
    put(value, 0, &arrival.to.port().to_be_bytes());
    put(value, 2, &arrival.from.port().to_be_bytes());
    let mut at = 4;
    while let Some(&[_, kind, high, low]) = value
        .get(at..)
        .and_then(|rest| rest.first_chunk::<HEADER_BYTES>())
    {
        let bytes = usize::from(u16::from_be_bytes([high, low]));
        let address = match kind {
            4 => Some((arrival.to.ip(), 5)),
            7 => Some((arrival.from.ip(), 8)),
            _ => None,
        };
        let expected = match kind {
            1 => 8,
            4 | 7 => 16,
            _ => bytes,
        };
        let Some(sub) = value.get_mut(at..at + HEADER_BYTES + bytes) else {
            put(value, at, &[MALFORMED]);
            return;
        };
        if bytes != expected {
            put(sub, 0, &[MALFORMED]);
            return;
        }
        match (kind, address) {
            // The address of the link is not known here: an EUI-64 of zeros (section 4.2.2).
            (1, _) => {
                put(sub, 0, &[0, 3]);
                put(sub, HEADER_BYTES, &[0; 8]);
            }
            (_, Some((address, kind))) => put_address(sub, address, kind),
            _ => put(sub, 0, &[UNRECOGNISED]),
        }
        at += HEADER_BYTES + bytes;
    }
}

/// An address as a sub-TLV of type `kind`, where it is IPv4, or of the next.
fn put_address(sub: &mut [u8], address: IpAddr, kind: u8) {
    put(sub, HEADER_BYTES, &[0; 16]);
    match address.to_canonical() {
        IpAddr::V4(address) => {
            put(sub, 0, &[0, kind]);
            put(sub, HEADER_BYTES, &address.octets());
        }
        IpAddr::V6(address) => {
            put(sub, 0, &[0, kind + 1]);
            put(sub, HEADER_BYTES, &address.octets());
        }
    }
}

#[cfg(test)]
mod tests;
