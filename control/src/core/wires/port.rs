//! A port with an exchange: what is published of it, with what earlier exchanges of it have counted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use contract::config::Config;
use contract::counters::{Counter, Rejection};
use contract::ids::PortIndex;
use measure::packet::{FlowHash, FlowKey, Hasher};
use records::snapshot::{FRESH_S, Labelled, Wire, WireSegment, WireTotals};
use wire::Refusal;
use wire::exchange::{Moment, SessionState, WireStatus};
use wire::frame::Kind;

use super::super::{REFRESH, labelled};
use super::record::{contradiction, count, disagreement, lda, measured, peer, reported};
use super::settings::named;
use crate::wire::exchange::Exchange;
use crate::wire::flows::WireFlowsOf;

/// How long a peer of another version is shown after its last frame.
const VERSION_FRESH: Duration = Duration::from_secs(5);

/// A port with an exchange.
#[derive(Debug)]
pub(in crate::core) struct WirePort {
    pub index: PortIndex,
    pub exchange: Exchange,
    /// Names, and what earlier exchanges of the port have counted.
    base: Wire,
    share_bps: f64,
    epoch_s: f64,
    control: Rate,
    /// By segment and direction, the greatest number of packets lost.
    lost_max: Vec<u64>,
    /// Whether data was blocked at the last poll.
    is_blocked: bool,
    /// Frames of other versions so far, and when the last was noticed.
    of_other_versions: (u64, Option<Instant>),
    /// Whether the clocks contradicted their claims when that was last published.
    is_contradicted: bool,
}

/// Bits a second, over a second or so.
#[derive(Debug, Clone, Copy)]
struct Rate {
    since: Instant,
    bytes: u64,
    bps: f64,
}

impl WirePort {
    pub fn new(
        index: PortIndex,
        exchange: Exchange,
        config: &Config,
        share_bps: f64,
        now: Instant,
    ) -> Self {
        Self {
            index,
            exchange,
            base: named(config, index),
            share_bps,
            epoch_s: config.measurement.interval().as_secs_f64(),
            control: Rate {
                since: now,
                bytes: 0,
                bps: 0.0,
            },
            lost_max: Vec::new(),
            is_blocked: false,
            of_other_versions: (0, None),
            is_contradicted: false,
        }
    }

    pub fn name(&self) -> &str {
        &self.base.port
    }

    /// Adds what earlier exchanges of the port have counted.
    pub fn continue_from(&mut self, earlier: &Wire) {
        self.base.continue_from(earlier);
    }

    /// Lets the exchange do what is due; whether an epoch has ended.
    pub fn poll(&mut self, now: Moment, random: &mut impl FnMut() -> u64) -> bool {
        let before = self.exchange.latest();
        self.exchange.poll(now, random);
        self.log_loop();
        self.exchange.latest() != before
    }

    /// Logs that data is blocked, or passes again.
    fn log_loop(&mut self) {
        let is_blocked = self.exchange.is_blocked();
        if std::mem::replace(&mut self.is_blocked, is_blocked) == is_blocked {
            return;
        }
        let port = &self.base.port;
        if is_blocked {
            tracing::warn!(
                port,
                "the wire leads back to this switch, or two switches share a number: no data passes"
            );
        } else {
            tracing::warn!(
                port,
                "the wire does not lead back any more: data passes again"
            );
        }
    }

    /// Logs that the clocks contradict their claims, or no longer do.
    fn log_contradiction(&mut self, contradiction: Option<&str>) {
        let is_contradicted = contradiction.is_some();
        if std::mem::replace(&mut self.is_contradicted, is_contradicted) == is_contradicted {
            return;
        }
        let port = &self.base.port;
        if let Some(words) = contradiction {
            tracing::warn!(port, "{words}");
        } else {
            tracing::info!(port, "the delays agree with what both clocks claim again");
        }
    }

    /// Names, and everything that only rises.
    pub fn counted(&self, status: Option<&WireStatus>) -> Wire {
        let mut wire = self.base.clone();
        let mut total = self.totals(status);
        total.add(&wire.total);
        wire.total = total;
        let Some(status) = status else {
            return wire;
        };
        let (outgoing, incoming) = directions(&mut wire.segments);
        for (segment, now) in outgoing.iter_mut().zip(&status.sending) {
            count(segment, now);
        }
        for (segment, now) in incoming.iter_mut().zip(&status.receiving) {
            count(segment, now);
        }
        wire
    }

    fn totals(&self, status: Option<&WireStatus>) -> WireTotals {
        // Those of its worker.
        let counters = &self.exchange.end().counters;
        let kinds = |counts: &[Counter; Kind::COUNT]| -> Vec<Labelled> {
            let counts = Kind::ALL.iter().zip(counts);
            counts
                .map(|(kind, n)| labelled(kind.label(), n.get()))
                .collect()
        };
        let rejected = Rejection::ALL.iter().zip(&counters.rejected);
        let [sender, receiver] = &counters.unmeasured_epochs;
        let own = status.map(|status| status.counters).unwrap_or_default();
        let unmeasured = [
            ("epoch_unmeasured_sending", sender.get()),
            ("epoch_unmeasured_receiving", receiver.get()),
        ];
        let events = own.events().into_iter().chain(unmeasured);
        WireTotals {
            sent_frames: kinds(&counters.sent),
            believed_frames: kinds(&counters.accepted),
            disbelieved_frames: rejected
                .map(|(reason, n)| labelled(reason.label(), n.get()))
                .collect(),
            sent_bytes: counters.sent_bytes.get(),
            reference_bytes: counters.reference_bytes.get(),
            data_bytes: counters.data_bytes.get(),
            references_withheld: counters.references_withheld.get(),
            events: events.map(|(event, n)| labelled(event, n)).collect(),
        }
    }

    /// The wire, and the flows of its last epoch, where they are shown: those of `names` with the wire.
    pub fn publish(
        &mut self,
        names: &HashMap<FlowHash, FlowKey>,
        hasher: &Hasher,
        now: Instant,
    ) -> (Wire, Option<WireFlowsOf>) {
        let status = self.exchange.status();
        let mut wire = self.counted(status.as_ref());
        self.lost_max.resize(wire.segments.len(), 0);
        for (segment, most) in wire.segments.iter_mut().zip(&mut self.lost_max) {
            // Below 0 are packets that are not lost but counted in another epoch.
            *most = (*most).max(u64::try_from(segment.lost_packets).unwrap_or(0));
            segment.lost_packets_max = *most;
        }
        wire.lda = lda(self.exchange.lda());
        wire.share_bps = self.share_bps;
        wire.control_bps = self.control.renew(wire.total.sent_bytes, now);
        let Some(status) = status else {
            SessionState::Waiting.label().clone_into(&mut wire.session);
            return (wire, None);
        };
        status.session.label().clone_into(&mut wire.session);
        wire.mismatch = status
            .mismatch
            .map(|mismatch| disagreement(mismatch, status.peer.as_ref()));
        if wire.mismatch.is_none()
            && matches!(status.session, SessionState::Waiting | SessionState::Lost)
        {
            wire.mismatch = self.other_version(now);
        }
        wire.is_blocked = status.is_blocked;
        wire.peer = status.peer.as_ref().map(peer);
        wire.floor_ns = status.floor.floor_ns.map(|ns| ns as f64);
        wire.floor_step_ns = status.floor.step.map(|step| step.by_ns);
        wire.drift_ns_per_s = status.floor.drift.map(|drift| drift.ns_per_s);
        wire.offset_min_ns = status.offset.bounds.at_least_ns;
        wire.offset_max_ns = status.offset.bounds.at_most_ns;
        wire.contradiction = contradiction(&status.offset);
        wire.is_clock_contradicted = wire.contradiction.is_some();
        self.log_contradiction(wire.contradiction.as_deref());
        let is_up = status.session == SessionState::Established;
        let (outgoing, incoming) = directions(&mut wire.segments);
        for (segment, now) in outgoing.iter_mut().zip(&status.sending) {
            segment.fate = now.latest.map(|one| one.report.fate.label().to_owned());
            let last = now.usable.filter(|one| {
                is_up && self.is_recent(one.epoch, now.latest.map(|latest| latest.epoch))
            });
            segment.last = last.map(|one| reported(&one));
        }
        for (segment, now) in incoming.iter_mut().zip(&status.receiving) {
            segment.fate = now.latest.map(|one| one.fate.label().to_owned());
            let last = now.usable.filter(|one| {
                is_up && self.is_recent(one.epoch, now.latest.map(|latest| latest.epoch))
            });
            segment.last = last.as_ref().and_then(measured);
        }
        let flows = self.exchange.flows().filter(|_| is_up);
        let flows = flows.map(|view| WireFlowsOf::new(&wire, view, hasher.clone(), self.epoch_s));
        wire.flows = flows.as_ref().map(|flows| flows.published(names));
        (wire, flows)
    }

    /// Of a peer that speaks another version of the protocol and was heard lately: both versions, and what to do.
    fn other_version(&mut self, now: Instant) -> Option<String> {
        let counters = &self.exchange.end().counters;
        let rejected = counters.rejected[Rejection::Version as usize].get();
        let (before, heard) = &mut self.of_other_versions;
        if std::mem::replace(before, rejected) != rejected {
            *heard = Some(now);
        }
        let silence = now.saturating_duration_since((*heard)?);
        let version = u8::try_from(counters.other_version.get()).ok()?;
        (silence < VERSION_FRESH).then(|| Refusal::Version(version).to_string())
    }

    /// Whether an epoch is not much older than the latest.
    fn is_recent(&self, epoch: u64, latest: Option<u64>) -> bool {
        let epochs = latest.map_or(u64::MAX, |latest| latest.saturating_sub(epoch));
        epochs as f64 * self.epoch_s <= FRESH_S
    }
}

impl Rate {
    fn renew(&mut self, bytes: u64, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= REFRESH {
            let more = bytes.saturating_sub(self.bytes);
            self.bps = more as f64 * 8.0 / elapsed.as_secs_f64();
            self.since = now;
            self.bytes = bytes;
        }
        self.bps
    }
}

/// What leaves by the port, and what arrives.
fn directions(segments: &mut [WireSegment]) -> (&mut [WireSegment], &mut [WireSegment]) {
    segments.split_at_mut(segments.len() / 2)
}
