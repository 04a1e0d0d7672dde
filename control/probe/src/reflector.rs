//! The session-reflector: makes of a request its reply, in place, so that no reply is longer than its request.
//!
//! ```text
//!  request --> long enough? no loop? HMAC? limit? --> session's counts --> TLVs answered --> reply without its timestamp
//!                       \--> counted and dropped                                  finish: timestamp, HMACs
//! ```
//!
//! It has no socket and no clock. Memory is bounded: a table of sessions of fixed size, and of buckets for the limit of
//! rates. Two reflectors, or one and itself, would answer each other for ever if somebody forged a first packet: so it never
//! answers a reply to one of its own replies. Requests of a session that finds no room are answered without state, as RFC 8762, section 4, has it.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::arrival::{Arrival, Stamped};
use crate::wire::key::Key;
use crate::wire::packet::{self, Mode, Reply, Request};
use crate::wire::time::{ErrorEstimate, UnixNs};
use crate::wire::tlv;

mod limit;
mod sessions;
#[cfg(test)]
mod tests;
mod tlvs;

use limit::{Checks, Limit};
use sessions::{Sessions, State};

/// Where a clock gets its time from (RFC 8972, table 7).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// NTP.
    Ntp,
    /// PTP.
    Ptp,
    /// Synchronisation supply unit, or building integrated timing supply.
    Ssu,
    /// A satellite system or radio.
    Satellite,
    /// It runs freely.
    #[default]
    Local,
}

impl ClockSource {
    const ALL: [Self; 5] = [
        Self::Ntp,
        Self::Ptp,
        Self::Ssu,
        Self::Satellite,
        Self::Local,
    ];

    pub(crate) fn number(self) -> u8 {
        let at = Self::ALL.iter().position(|source| *source == self);
        at.map_or(0, |at| u8::try_from(at + 1).unwrap_or(0))
    }

    pub(crate) fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// How a reflector answers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The key of base packets; with it, all have to be authenticated.
    pub key: Option<Key>,
    /// The key of TLVs; in authenticated mode that of base packets, unless there is another.
    pub tlv_key: Option<Key>,
    /// This end's clock.
    pub error: ErrorEstimate,
    /// Where it gets its time from.
    pub clock: ClockSource,
    /// Most sessions that it keeps state of; 0: none.
    pub sessions: usize,
    /// Sessions that say nothing for so long make room for others.
    pub idle: Duration,
    /// Most packets a second that one source address is answered; `None`: any number.
    pub limit_pps: Option<u32>,
    /// Values of DSCP that a class of service TLV may ask for, a bit each.
    pub dscp_allowed: u64,
}

/// What a reflector did, from its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReflectorCounts {
    /// Packets that were answered.
    pub answered: u64,
    /// Of these, of sessions that found no room in the table of sessions.
    pub answered_without_state: u64,
    /// Packets shorter than a base packet, which are not answered: the answer would be longer.
    pub too_short: u64,
    /// Packets that have the form of a reply to one of its own replies: from another reflector, or itself.
    #[serde(default)]
    pub looped: u64,
    /// Packets whose HMAC was not checked, since too many were wrong just before.
    #[serde(default)]
    pub unchecked: u64,
    /// Packets with a wrong HMAC, or without.
    pub not_authentic: u64,
    /// Packets over `limit_pps` of their source.
    pub over_limit: u64,
    /// Packets whose TLVs failed the verification of their HMAC; answered with the I flag.
    pub tlv_not_authentic: u64,
    /// Packets with a malformed TLV; answered with the M flag.
    pub tlv_malformed: u64,
    /// Replies that the system did not take.
    pub not_sent: u64,
    /// Sessions in the table.
    pub sessions: u64,
}

/// Why a request gets no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Shorter than a base packet.
    TooShort,
    /// It is a reply to a reply of this reflector.
    Looped,
    /// Its HMAC was not checked: too many were wrong just before.
    Unchecked,
    /// Its HMAC is wrong.
    NotAuthentic,
    /// Too many of this source.
    OverLimit,
}

/// A reply that lacks its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the reply lacks its timestamp and HMACs until `finish`"]
pub struct Pending {
    mode: Mode,
    /// DSCP and ECN of the reply.
    pub traffic_class: u8,
    /// Offset in the tail of an HMAC TLV that is made anew.
    hmac_at: Option<usize>,
    /// The session's slot, where there is one.
    slot: Option<usize>,
    sequence: u32,
}

/// Who a session is (RFC 8972, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SessionKey {
    from: SocketAddr,
    to: SocketAddr,
    ssid: u16,
}

/// How much older than the last reply the one is, in ns, to which a looped packet may be the answer: no packet is under way
/// for longer than a minute. A clock may have been set back by a second meanwhile.
const LOOP_NS: std::ops::Range<i64> = -1_000_000_000..60_000_000_000;

/// Answers requests.
#[derive(Debug)]
pub struct Reflector {
    settings: Settings,
    sessions: Sessions,
    limit: Option<Limit>,
    checks: Checks,
    /// The time in the last reply.
    last_written: Option<UnixNs>,
    counts: ReflectorCounts,
}

impl Reflector {
    /// A reflector that has seen nothing.
    pub fn new(settings: Settings) -> Self {
        Self {
            sessions: Sessions::new(settings.sessions, settings.idle),
            limit: settings.limit_pps.map(Limit::new),
            checks: Checks::new(),
            last_written: None,
            settings,
            counts: ReflectorCounts::default(),
        }
    }

    /// What it did.
    pub fn counts(&self) -> ReflectorCounts {
        ReflectorCounts {
            sessions: self.sessions.len() as u64,
            ..self.counts
        }
    }

    /// Makes of a request the reply to it, of the same length, all but its timestamp and what depends on it. `now` is by a
    /// clock that never steps.
    ///
    /// # Errors
    /// [`Refused`], which is counted.
    pub fn reflect(
        &mut self,
        packet: &mut [u8],
        arrival: &Arrival,
        now: Duration,
    ) -> Result<Pending, Refused> {
        let (mode, request) = self.admit(packet, arrival, now)?;
        let key = SessionKey {
            from: arrival.from,
            to: arrival.to,
            ssid: request.ssid,
        };
        let slot = self.sessions.slot(key, now);
        let state = slot.and_then(|slot| self.sessions.state(slot));
        if let Some(state) = state {
            state.received = state.received.wrapping_add(1);
        } else {
            self.counts.answered_without_state += 1;
        }
        let state = slot.and_then(|slot| self.sessions.state(slot)).copied();
        let sequence = state.map_or(request.sequence, |state| state.sent);

        let request_sequence = request.sequence.to_be_bytes();
        let (base, tail) = packet.split_at_mut(mode.bytes());
        let facts = tlvs::Facts {
            arrival,
            settings: &self.settings,
            state: state.as_ref(),
            is_authenticated: mode == Mode::Authenticated,
        };
        let answered = tlvs::answer(tail, &request_sequence, &facts);
        self.counts.tlv_not_authentic += u64::from(answered.is_not_authentic);
        if answered.is_not_authentic {
            self.checks.was_wrong(tail.len());
        }
        self.counts.tlv_malformed += u64::from(answered.is_malformed);

        let format = self.settings.error.format;
        let reply = Reply {
            sequence,
            timestamp: 0,
            error: self.settings.error,
            ssid: request.ssid,
            received: format.encode(arrival.at),
            sender_sequence: request.sequence,
            sender_timestamp: request.timestamp,
            sender_error: request.error,
            sender_ttl: arrival.ttl,
        };
        reply.write(mode, base);
        Ok(Pending {
            mode,
            traffic_class: answered.traffic_class,
            hmac_at: answered.hmac_at,
            slot,
            sequence,
        })
    }

    /// Verifies a request before any state is touched.
    fn admit(
        &mut self,
        packet: &[u8],
        arrival: &Arrival,
        now: Duration,
    ) -> Result<(Mode, Request), Refused> {
        let mode = match self.settings.key {
            Some(_) => Mode::Authenticated,
            None => Mode::Open,
        };
        let Some(request) = Request::read(mode, packet) else {
            self.counts.too_short += 1;
            return Err(Refused::TooShort);
        };
        if self.is_looped(mode, packet) {
            self.counts.looped += 1;
            return Err(Refused::Looped);
        }
        let has_tlvs = packet.len() > mode.bytes();
        let is_checked =
            self.settings.key.is_some() || (has_tlvs && self.settings.tlv_key.is_some());
        if is_checked && !self.checks.are_left(now) {
            self.counts.unchecked += 1;
            return Err(Refused::Unchecked);
        }
        let key = self.settings.key.as_ref();
        if key.is_some_and(|key| !packet::is_authentic(key, packet)) {
            self.checks.was_wrong(mode.bytes());
            self.counts.not_authentic += 1;
            return Err(Refused::NotAuthentic);
        }
        // Last, so that forged packets do not use up what their victim may send.
        let limit = self.limit.as_mut();
        if limit.is_some_and(|limit| !limit.takes(arrival.from.ip(), now)) {
            self.counts.over_limit += 1;
            return Err(Refused::OverLimit);
        }
        Ok((mode, request))
    }

    /// Whether a packet is a reply to a reply of this reflector: as the sender's timestamp it has a time that this reflector
    /// wrote not long before its last reply. A request has zeros there (RFC 8762, section 4.2), or padding in TWAMP. Ports
    /// would tell nothing, since reflectors may have any, and senders that of reflectors. The time in the last reply is
    /// compared, not the present: it is of the same clock as the others, whatever clock stamps what arrives.
    fn is_looped(&self, mode: Mode, packet: &[u8]) -> bool {
        let Some(last) = self.last_written else {
            return false;
        };
        let bits = Reply::read(mode, packet).map_or(0, |reply| reply.sender_timestamp);
        // Zero is a time, too, of each era of NTP.
        let written = Some(bits).filter(|bits| *bits != 0);
        let written = written.and_then(|bits| self.settings.error.format.decode(bits, last));
        written.is_some_and(|written| LOOP_NS.contains(&last.since(written)))
    }

    /// Writes the timestamp `at` and all HMACs into a reply that [`Reflector::reflect`] made: the last thing before it is
    /// sent.
    pub fn finish(&mut self, packet: &mut [u8], pending: Pending, at: UnixNs) {
        let format = self.settings.error.format;
        self.last_written = Some(at);
        packet::set_timestamp(pending.mode, packet, format.encode(at));
        if let Some(key) = &self.settings.key {
            packet::sign(key, packet);
        }
        let (base, tail) = packet.split_at_mut(pending.mode.bytes());
        if let (Some(at), Some(key)) = (pending.hmac_at, self.settings.tlv_key.as_ref()) {
            tlv::sign(key, &base[..4], tail, at);
        }
        self.counts.answered += 1;
        let state = pending.slot.and_then(|slot| self.sessions.state(slot));
        if let Some(state) = state {
            state.sent = state.sent.wrapping_add(1);
            state.last = Some((pending.sequence, at, Stamped::Program));
        }
    }

    /// Counts a reply that the system did not take.
    pub fn not_sent(&mut self) {
        self.counts.not_sent += 1;
    }
}
