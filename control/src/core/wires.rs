//! Segments on the wire: the clock, and one exchange for each port while it has a wire.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use contract::change::ChangeError;
use contract::config::{Config, WireKeys};
use contract::counters::{Counter, Rejection};
use contract::ids::PortIndex;
use contract::units::duration_ns;
use contract::wire::handover::WireControlEnd;
use measure::chooser::Method;
use measure::lda::LdaLayout;
use measure::packet::{FlowHash, FlowKey, Hasher};
use measure::time::TickRate;
use records::snapshot::{
    FRESH_S, Labelled, Wire, WireClock, WireEstimate, WireFigures, WireLda, WireLdaBank, WirePeer,
    WireSegment, WireTotals,
};
use wire::exchange::{
    Expected, FrameSettings, MeasuredEpoch, Moment, OffsetView, OwnEnd, Peer, ReportedEpoch,
    SegmentStatus, SessionState, Settings, WireStatus,
};
use wire::frame::{ClockState, EpochFate, Kind, Mismatch, PortName, VERSION, seed_check};
use wire::session::{KeyId, KeyRing};
use wire::{Estimate, Refusal, SegmentOutcome};

use super::clocks::Clocks;
use super::flow_state::FlowState;
use super::{REFRESH, labelled};
use crate::contain::{Part, contain};
use crate::data_plane::{DataPlane, ResultMode};
use crate::wire::clock::ClockStatus;
use crate::wire::exchange::Exchange;
use crate::wire::flows::{WireFlowsOf, estimate};

/// All wires.
#[derive(Debug)]
pub(super) struct Wires {
    rate: TickRate,
    decoding: ResultMode,
    ports: Vec<WirePort>,
    /// Counts of ended wires, in case they return: as many as ports have had names.
    ended: Vec<Wire>,
}

/// The wires of a change, ready to begin.
#[derive(Debug)]
pub(super) struct Ahead {
    new: Vec<WirePort>,
    /// For ports whose exchanges stay: accepted keys, and the one to send under.
    keys: Vec<(PortIndex, KeyRing, KeyId)>,
}

impl Wires {
    pub fn new(rate: TickRate, decoding: ResultMode) -> Self {
        Self {
            rate,
            decoding,
            ports: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Makes the exchanges of a change, and reads the keys of those that stay, without changing anything
    /// yet.
    ///
    /// # Errors
    /// [`ChangeError::Wire`] for keys that were not read, or settings that do not fit together.
    pub fn prepare(
        &self,
        config: &Config,
        ends: Vec<(PortIndex, WireControlEnd)>,
        keys: &WireKeys,
        now: Instant,
    ) -> Result<Ahead, ChangeError> {
        let refused = |port: PortIndex, message: String| ChangeError::Wire { port, message };
        let is_kept = |port: &&WirePort| {
            has_wire(config, port) && ends.iter().all(|(index, _)| *index != port.index)
        };
        // Keys that were not read stay as they are.
        let kept = self.ports.iter().filter(is_kept).filter_map(|port| {
            let (ring, key) = config.wire_keys(port.index.index(), keys).ok()?;
            Some((port.index, ring, key))
        });
        let others: Vec<_> = kept.collect();
        let mut keyless = others
            .iter()
            .filter(|(_, ring, key)| ring.get(*key).is_none());
        if let Some((index, ..)) = keyless.next() {
            return Err(refused(*index, "it has no key to send under".to_owned()));
        }
        let each = ends.into_iter().map(|(index, end)| {
            let port = self.port(config, index, end, keys, now);
            port.map_err(|message| refused(index, message))
        });
        let new = each.collect::<Result<_, _>>()?;
        Ok(Ahead { new, keys: others })
    }

    fn port(
        &self,
        config: &Config,
        index: PortIndex,
        end: WireControlEnd,
        keys: &WireKeys,
        now: Instant,
    ) -> Result<WirePort, String> {
        let settings = settings(config, index, keys, self.rate)?;
        let share_bps = settings.frames.bytes_per_s as f64 * 8.0;
        let exchange = Exchange::new(settings, end, self.decoding).map_err(|e| e.to_string())?;
        Ok(WirePort {
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
            session: SessionWords::default(),
            of_other_versions: (0, None),
            is_contradicted: false,
        })
    }

    /// Applies a change: new exchanges replace those of their ports, and exchanges of ports without a wire
    /// end.
    pub fn begin(&mut self, config: &Config, Ahead { new, keys }: Ahead) {
        let is_replaced = |port: &WirePort| new.iter().any(|new| new.index == port.index);
        let (kept, over): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ports)
            .into_iter()
            .partition(|port| has_wire(config, port) && !is_replaced(port));
        self.ports = kept;
        let over = over.iter();
        self.ended
            .extend(over.map(|port| port.counted(port.exchange.status().as_ref())));
        for mut port in new {
            let earlier = self.ended.iter().position(|old| old.port == port.base.port);
            if let Some(earlier) = earlier {
                port.base.continue_from(&self.ended.swap_remove(earlier));
            }
            self.ports.push(port);
        }
        self.ports.sort_by_key(|port| port.index);
        for (index, keys, key) in keys {
            let port = self.ports.iter_mut().find(|port| port.index == index);
            let Some(port) = port else { continue };
            if let Err(error) = port.exchange.machine.set_keys(keys, key) {
                tracing::error!(port = port.base.port, "the old keys stay in use: {error}");
            }
        }
    }

    /// Whether there are wires.
    pub fn has_any(&self) -> bool {
        !self.ports.is_empty()
    }

    /// Polls every exchange. Returns whether an epoch has ended.
    pub fn poll(&mut self, data_plane: &mut dyn DataPlane, clocks: &Clocks) -> bool {
        let (Some(status), Some(line)) = (clocks.status, clocks.system.line()) else {
            return false;
        };
        let now = Moment {
            tai_ns: line.tai_ns(data_plane.now()),
            monotonic_ns: u64::try_from(clocks.uptime().as_nanos()).unwrap_or(u64::MAX),
            clock: status.view,
        };
        let mut has_ended = false;
        for port in &mut self.ports {
            has_ended |= port.poll(now, &mut || data_plane.random());
        }
        has_ended
    }

    /// The clock; `None` without wires.
    pub fn clock(&self, status: Option<ClockStatus>) -> Option<WireClock> {
        let status = status.filter(|_| self.has_any())?;
        Some(WireClock {
            state: status.view.state.label().to_owned(),
            error_ns: status.view.error_ns.into(),
            error_source: status.error_source.label().to_owned(),
            fit_error_ns: status.fit_error_ns,
            tai_utc_s: status.view.tai_utc_s,
            ptp_domain: status.view.ptp_domain,
            steps: status.steps,
            last_step_ns: status.last_step_ns,
        })
    }

    /// Every wire that can be shown, with the names of `flows`; and the lists for looking up flows.
    pub fn publish(&mut self, flows: &FlowState, now: Instant) -> (Vec<Wire>, Vec<WireFlowsOf>) {
        let (mut wires, mut lookups) = (Vec::new(), Vec::new());
        if !self.has_any() {
            return (wires, lookups);
        }
        let names = flows.names();
        for port in &mut self.ports {
            let shown = contain(Part::Wire, || port.publish(&names, flows.hasher(), now));
            let Some((wire, lookup)) = shown else {
                port.exchange.start_anew();
                continue;
            };
            lookups.extend(lookup);
            wires.push(wire);
        }
        (wires, lookups)
    }
}

fn has_wire(config: &Config, port: &WirePort) -> bool {
    config.wire(port.index.index()).is_some()
}

/// Lifetime of a session's keys.
const RENEW_NS: u64 = 3_600_000_000_000;

/// The settings of the exchange of one port.
///
/// # Errors
/// A description of settings that do not fit together.
pub fn settings(
    config: &Config,
    port: PortIndex,
    keys: &WireKeys,
    rate: TickRate,
) -> Result<Settings, String> {
    let index = port.index();
    let wire = config.wire(index).ok_or("it has no `wire`")?;
    let (keys, key) = config.wire_keys(index, keys).map_err(|e| e.to_string())?;
    let layout = config.wire_layout(index).map_err(|e| e.to_string())?;
    let seed = config.measurement.hash_key();
    let seed = seed.ok_or("it needs `measurement.hash_seed`")?;
    let bytes_per_s = config.wire_capacity_bps(index) as f64 / 8.0 * wire.share;
    let epoch_ns = config.measurement.interval().as_nanos();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and is over 0"
    )]
    let bytes_per_s = bytes_per_s as u64;
    let name = |name: &str| PortName::from(name).map_err(|error| error.to_string());
    let peer_port = wire.peer_port.as_deref().map(name).transpose()?;
    Ok(Settings {
        own: OwnEnd {
            switch: config.wire_switch(),
            port: port.0.into(),
            port_name: name(config.port_name(index))?,
        },
        is_routed: wire.peer.is_some(),
        expected: Expected {
            switch: wire.peer_switch,
            port: peer_port,
        },
        renew_ns: RENEW_NS,
        keys,
        key,
        layout,
        adaptive: config.wire_adaptive_lda(index),
        seed_check: seed_check(seed),
        epoch_ns: u64::try_from(epoch_ns).unwrap_or(u64::MAX),
        frames: FrameSettings {
            bytes_max: config.wire_frame_bytes(index),
            overhead_bytes: config.wire_overhead_bytes(index),
            bytes_per_s,
        },
        idle_epochs: config.measurement.idle_epochs(),
        components: wire.lds.as_ref().map_or(1, |lds| lds.components.into()),
        resolution_ns: rate.to_ns(1.0).max(1.0),
        delay_min_ns: wire.delay_min_ns,
    })
}

/// A wire with names and zero counts.
fn named(config: &Config, index: PortIndex) -> Wire {
    let index = index.index();
    let port = config.port_name(index).to_owned();
    let peer = format!("{port}:peer");
    let classes = config.wire_segments(index);
    let directions = [(&port, &peer, false), (&peer, &port, true)];
    let segments = directions.into_iter().flat_map(|(from, to, is_incoming)| {
        classes.iter().map(move |class| WireSegment {
            from: from.clone(),
            to: to.clone(),
            class: class.clone(),
            is_incoming,
            ..WireSegment::default()
        })
    });
    Wire {
        segments: segments.collect(),
        port: port.clone(),
        ..Wire::default()
    }
}

/// Why the ends do not agree.
fn disagreement(mismatch: Mismatch, peer: Option<&Peer>) -> String {
    match (mismatch, peer) {
        (Mismatch::Peer, Some(Peer { header, hello })) => {
            let (switch, port_name) = (header.switch, hello.port_name);
            format!("port {port_name} of switch {switch} is heard: {mismatch}")
        }
        _ => mismatch.to_string(),
    }
}

/// The state of the session, and what it waits for.
fn session_words(wire: &Wire, status: &WireStatus) -> String {
    let is_clock_free = status.clock.state == ClockState::Free;
    let peer = wire.peer.as_ref();
    let peer = peer.map(|peer| format!("port {} of switch {}", peer.port_name, peer.switch));
    let mut rejected = wire.total.disbelieved_frames.iter();
    let are_frames_rejected = rejected.any(|frames| frames.packets > 0);
    match (status.session, &wire.mismatch, peer) {
        (SessionState::Established, _, peer) => {
            format!("the wire measures to {}", peer.unwrap_or_default())
        }
        (SessionState::Loop, ..) if wire.is_blocked => {
            "the wire leads back to this switch, or two switches share a number: no data passes".to_owned()
        }
        (SessionState::Loop, ..) => "the wire leads back to this switch: it has no figures".to_owned(),
        (_, Some(mismatch), _) => format!("the wire has no figures: {mismatch}"),
        _ if is_clock_free => {
            "the wire has no figures until this clock is synchronised (chrony, linuxptp), or wire.clock.error_ns is set"
                .to_owned()
        }
        (SessionState::Lost, ..) => "the wire's other end has been silent for five seconds".to_owned(),
        (_, _, Some(peer)) => format!("the wire waits: {peer} is heard, but does not hear this end"),
        _ if are_frames_rejected => {
            "the wire waits: control frames arrive, but are rejected; see `disbelieved_frames` in `vernier wires --json`".to_owned()
        }
        _ => "the wire waits for the other end: no control frame has arrived yet".to_owned(),
    }
}

/// The contradiction of the clocks' claims in words; `None` without one.
fn contradiction(offset: &OffsetView) -> Option<String> {
    if !offset.is_contradicted() {
        return None;
    }
    let (at_least_ns, at_most_ns) = (offset.bounds.at_least_ns, offset.bounds.at_most_ns);
    // Above the claims if the lower end contradicts, else below their negative.
    let (side, bounds) = match at_least_ns.filter(|ns| *ns > offset.error_ns) {
        Some(_) => ("ahead", [at_least_ns, at_most_ns]),
        None => (
            "behind",
            [at_most_ns.map(|ns| -ns), at_least_ns.map(|ns| -ns)],
        ),
    };
    let [by_no_less, by_no_more] = bounds.map(|ns| ns.map(duration_ns));
    let between = match (by_no_less, by_no_more) {
        (Some(less), Some(more)) => format!("{less} to {more}"),
        (less, more) => format!("{} or more", less.or(more).unwrap_or_default()),
    };
    let claimed = duration_ns(offset.error_ns);
    Some(format!(
        "by the least delays the other end's clock is {side} by {between}, but both clocks together claim an error of {claimed}: \
         at least one of them is wrong, and the delays of both directions with it. Two switches cannot tell which of their \
         clocks is wrong: compare each with a third one (`chronyc tracking`, `pmc`)"
    ))
}

/// The other end, as described in its last hello.
fn peer(Peer { header, hello }: &Peer) -> WirePeer {
    WirePeer {
        switch: header.switch,
        port: header.port,
        port_name: hello.port_name.to_string(),
        // In a hello the segment field is the minor version.
        protocol: format!("{VERSION}.{}", header.segment),
        clock: hello.clock.label().to_owned(),
        clock_error_ns: hello.clock_error_ns,
        tai_utc_s: hello.tai_utc_s,
        ptp_domain: hello.ptp_domain,
    }
}

/// Adds an exchange's counts of a segment.
fn count<E>(segment: &mut WireSegment, now: &SegmentStatus<E>) {
    let fates = EpochFate::ALL.iter().zip(&now.fates);
    let own = WireSegment {
        sent_packets: now.sent,
        received_packets: now.received,
        lost_packets: now.lost,
        epochs: fates.map(|(fate, &n)| labelled(fate.label(), n)).collect(),
        ..WireSegment::default()
    };
    segment.add(&own);
}

/// How departing packets are spread over banks, and the losses that the banks are prepared for.
fn lda((layout, prepared_losses): (&LdaLayout, Option<f64>)) -> WireLda {
    let banks = layout.banks().map(|bank| WireLdaBank {
        rows: bank.rows,
        probability: bank.probability,
    });
    WireLda {
        prepared_losses,
        sampled_ratio: layout.sampled_share(),
        banks: banks.collect(),
    }
}

/// Figures measured by this end; `None` if nothing was paired.
fn measured(epoch: &MeasuredEpoch) -> Option<WireFigures> {
    let outcome: &SegmentOutcome = epoch.outcome.as_ref()?;
    let samples = |method: Method| match method {
        Method::Lda => Some(outcome.lda.effective_samples),
        Method::Rli(_) => Some(outcome.rli_packets),
        _ => None,
    };
    let estimate = |of: &Estimate| estimate(of, samples(of.method));
    let means = [outcome.lda_mean, outcome.rli_mean];
    Some(WireFigures {
        epoch: epoch.epoch,
        sent_packets: outcome.is_sent_known.then_some(outcome.tally.sent),
        received_packets: Some(outcome.tally.received),
        lost_packets: outcome.lost(),
        moved_packets: epoch.moved,
        stddev_ns: outcome.stddev_ns(),
        usable_cells_ratio: outcome.cells.usable as f64 / outcome.cells.cells.max(1) as f64,
        estimates: means.iter().flatten().map(estimate).collect(),
        chosen: outcome.chosen.as_ref().map(estimate),
    })
}

/// Figures reported by the other end.
fn reported(epoch: &ReportedEpoch) -> WireFigures {
    let report = &epoch.report;
    // An epoch without packets has no figures; without counts, they did not arrive.
    let are_known = report.sent > 0 || report.received > 0;
    let lda = report.mean_ns.map(|mean_ns| Estimate {
        method: Method::Lda,
        mean_ns,
        bound_ns: report.bound_ns,
    });
    let lda = lda.map(|lda| estimate(&lda, Some(report.effective_samples)));
    let chosen = report.chosen.as_ref();
    let chosen = chosen.map(|chosen| estimate(chosen, None));
    let is_other =
        |chosen: &WireEstimate| Some(&chosen.method) != lda.as_ref().map(|lda| &lda.method);
    let other = chosen.clone().filter(is_other);
    WireFigures {
        epoch: epoch.epoch,
        sent_packets: are_known.then_some(report.sent),
        received_packets: are_known.then_some(report.received),
        lost_packets: are_known.then_some(report.lost),
        moved_packets: report.moved.into(),
        stddev_ns: report.stddev_ns,
        usable_cells_ratio: f64::from(report.usable_cells) / f64::from(report.cells.max(1)),
        estimates: lda.into_iter().chain(other).collect(),
        chosen,
    }
}

/// How long a peer of another version is shown after its last frame.
const VERSION_FRESH: Duration = Duration::from_secs(5);

/// The state of a session in words: at the latest publication, and last in the log. Empty before the first.
#[derive(Debug, Default)]
struct SessionWords {
    latest: String,
    logged: String,
}

/// A port with an exchange.
#[derive(Debug)]
struct WirePort {
    pub index: PortIndex,
    pub exchange: Exchange,
    /// Names, and counts of the port's earlier exchanges.
    base: Wire,
    share_bps: f64,
    epoch_s: f64,
    control: Rate,
    /// By segment and direction, the highest count of lost packets.
    lost_max: Vec<u64>,
    session: SessionWords,
    /// Frames of other versions so far, and when the last one was noticed.
    of_other_versions: (u64, Option<Instant>),
    /// Whether the clocks contradicted their claims at the last publication.
    is_contradicted: bool,
}

/// Bits a second, over about a second.
#[derive(Debug, Clone, Copy)]
struct Rate {
    since: Instant,
    bytes: u64,
    bps: f64,
}

impl WirePort {
    /// Polls the exchange; returns whether an epoch has ended.
    pub fn poll(&mut self, now: Moment, random: &mut impl FnMut() -> u64) -> bool {
        let before = self.exchange.machine.latest();
        self.exchange.poll(now, random);
        self.exchange.machine.latest() != before
    }

    /// Logs whether the session measures. If not, logs the reason after it has lasted an epoch, because at the start
    /// most reasons last less than a second.
    fn log_session(&mut self, wire: &Wire, status: &WireStatus) {
        let words = session_words(wire, status);
        let SessionWords { latest, logged } = &mut self.session;
        let is_lasting = *latest == words || status.session == SessionState::Established;
        if (is_lasting || wire.is_blocked) && *logged != words {
            let port = &self.base.port;
            if wire.is_blocked {
                tracing::warn!(port, "{words}");
            } else {
                tracing::info!(port, "{words}");
            }
            logged.clone_from(&words);
        }
        *latest = words;
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

    /// Names, and all totals.
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
        // Its worker's counters.
        let counters = &self.exchange.end.counters;
        let kinds = |counts: &[Counter; Kind::COUNT]| -> Vec<Labelled> {
            let counts = Kind::ALL.iter().zip(counts);
            let counts = counts.map(|(kind, n)| labelled(kind.label(), n.get()));
            counts.collect()
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

    /// The wire, and the flows of its last epoch, if shown: those in `names` with the wire.
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
            // Negative ones are not lost, but counted in another epoch.
            *most = (*most).max(u64::try_from(segment.lost_packets).unwrap_or(0));
            segment.lost_packets_max = *most;
        }
        wire.lda = lda(self.exchange.machine.lda());
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
        wire.drift_ns_per_s = status.floor.drift_ns_per_s;
        wire.offset_min_ns = status.offset.bounds.at_least_ns;
        wire.offset_max_ns = status.offset.bounds.at_most_ns;
        wire.contradiction = contradiction(&status.offset);
        wire.is_clock_contradicted = wire.contradiction.is_some();
        self.log_contradiction(wire.contradiction.as_deref());
        self.log_session(&wire, &status);
        let is_up = status.session == SessionState::Established;
        let epoch_s = self.epoch_s;
        // Not much older than the latest.
        let is_shown = |epoch: u64, latest: Option<u64>| {
            let ago = latest.map_or(u64::MAX, |latest| latest.saturating_sub(epoch));
            is_up && ago as f64 * epoch_s <= FRESH_S
        };
        let (outgoing, incoming) = directions(&mut wire.segments);
        for (segment, now) in outgoing.iter_mut().zip(&status.sending) {
            segment.fate = now.latest.map(|one| one.report.fate.label().to_owned());
            let latest = now.latest.map(|latest| latest.epoch);
            let last = now.usable.filter(|one| is_shown(one.epoch, latest));
            segment.last = last.map(|one| reported(&one));
        }
        for (segment, now) in incoming.iter_mut().zip(&status.receiving) {
            segment.fate = now.latest.map(|one| one.fate.label().to_owned());
            let latest = now.latest.map(|latest| latest.epoch);
            let last = now.usable.filter(|one| is_shown(one.epoch, latest));
            segment.last = last.as_ref().and_then(measured);
        }
        let flows = self.exchange.flows().filter(|_| is_up);
        let flows = flows.map(|view| WireFlowsOf::new(&wire, view, hasher.clone(), epoch_s));
        wire.flows = flows.as_ref().map(|flows| flows.published(names));
        (wire, flows)
    }

    /// For a peer of another protocol version heard recently: both versions, and what to do.
    fn other_version(&mut self, now: Instant) -> Option<String> {
        let counters = &self.exchange.end.counters;
        let rejected = counters.rejected[Rejection::Version as usize].get();
        let (before, heard) = &mut self.of_other_versions;
        if std::mem::replace(before, rejected) != rejected {
            *heard = Some(now);
        }
        let silence = now.saturating_duration_since((*heard)?);
        let version = u8::try_from(counters.other_version.get()).ok()?;
        (silence < VERSION_FRESH).then(|| Refusal::Version(version).to_string())
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

/// Departing and arriving segments.
fn directions(segments: &mut [WireSegment]) -> (&mut [WireSegment], &mut [WireSegment]) {
    segments.split_at_mut(segments.len() / 2)
}

#[cfg(test)]
mod tests;
