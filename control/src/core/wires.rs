//! Segments on the wire: the clock, one exchange for each port, and what is published of both.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use measure::chooser::Method;
use measure::packet::{FlowHash, Hasher};
use measure::time::{TickRate, Ticks};
use measure::wire::frame::{ClockState, EpochFate, Kind, Mismatch, PortName, seed_check};
use measure::wire::session::{KeyId, KeyRing};
use measure::wire::{Estimate, SegmentOutcome};

use super::{CoreState, REFRESH};
use crate::contain::{Part, contain};
use crate::data_plane::{ChangeError, DataPlane};
use crate::wire::clock::{ClockSource, ClockStatus, KernelClock, SystemTime, TaiClock};
use crate::wire::exchange::{
    Exchange, Expected, MeasuredEpoch, Moment, PeerView, ReportedEpoch, SegmentStatus,
    SessionState, Settings, WireFlowsView,
};
use contract::config::{Config, Wire as WireConfig, WireClock as WireClockSettings, WireKeys};
use contract::counters::{Counter, Rejection, WireCounters};
use contract::wire::clock::SharedLine;
use contract::wire::handover::WireControlEnd;
use records::snapshot::{
    FRESH_S, Labelled, Wire, WireClock, WireEstimate, WireFigures, WireFlow, WireFlows, WirePeer,
    WireSegment, WireTotals,
};

/// How long a session has the same keys.
const RENEW_NS: u64 = 3_600_000_000_000;

/// All wires.
#[derive(Debug)]
pub(super) struct Wires {
    rate: TickRate,
    waits_for_decoding: bool,
    line: Arc<SharedLine>,
    clock: TaiClock,
    clock_settings: WireClockSettings,
    status: Option<ClockStatus>,
    ports: Vec<WirePort>,
    /// Wires that ended, for when they come back: they are as many as ports have had names.
    ended: Vec<Ended>,
}

/// What a wire has counted that is over.
#[derive(Debug)]
struct Ended {
    all: Wire,
    /// The same without what its worker has counted, which still counts where it goes on.
    own: Wire,
    counters: Arc<WireCounters>,
}

/// A port with an exchange.
#[derive(Debug)]
pub(super) struct WirePort {
    index: usize,
    exchange: Exchange,
    /// Names, and what earlier exchanges of the port have counted.
    base: Wire,
    share_bps: f64,
    epoch_s: f64,
    control: Rate,
    /// By segment and direction, the greatest number of packets lost.
    lost_max: Vec<u64>,
    /// Whether data did not pass at the last poll.
    is_blocked: bool,
}

/// What a change brings, ready to hold.
#[derive(Debug)]
pub(super) struct Ahead {
    new: Vec<WirePort>,
    /// Of ports whose exchanges stay: what is accepted, and what to send under.
    keys: Vec<(usize, KeyRing, KeyId)>,
}

/// Bits a second, over a second or so.
#[derive(Debug, Clone, Copy)]
struct Rate {
    since: Instant,
    bytes: u64,
    bps: f64,
}

/// The data plane's counter and the system's clock.
struct Clocks<'p>(&'p mut dyn DataPlane);

impl ClockSource for Clocks<'_> {
    fn ticks(&mut self) -> Ticks {
        self.0.now()
    }

    fn system(&mut self) -> SystemTime {
        self.0.system_time()
    }

    fn kernel(&mut self) -> Option<KernelClock> {
        self.0.kernel_clock()
    }
}

impl Wires {
    pub fn new(rate: TickRate, line: Arc<SharedLine>, waits_for_decoding: bool) -> Self {
        Self {
            rate,
            waits_for_decoding,
            clock: TaiClock::new(rate, WireClockSettings::default(), Arc::clone(&line)),
            clock_settings: WireClockSettings::default(),
            line,
            status: None,
            ports: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Makes the exchanges of a change, and reads the keys of those that stay; nothing of it holds yet.
    ///
    /// # Errors
    /// [`ChangeError::Wire`] for keys that were not read, or what does not fit together.
    pub fn prepare(
        &self,
        config: &Config,
        ends: Vec<(usize, WireControlEnd)>,
        keys: &WireKeys,
        now: Instant,
    ) -> Result<Ahead, ChangeError> {
        let refused = |port: usize, message: String| ChangeError::Wire { port, message };
        let is_kept = |port: &&WirePort| {
            config.wire(port.index).is_some() && ends.iter().all(|(index, _)| *index != port.index)
        };
        // Where keys were not read, they are as they were.
        let kept = self.ports.iter().filter(is_kept).filter_map(|port| {
            let (ring, key) = config.wire_keys(port.index, keys).ok()?;
            Some((port.index, ring, key))
        });
        let others: Vec<(usize, KeyRing, KeyId)> = kept.collect();
        if let Some((index, ..)) = others
            .iter()
            .find(|(_, ring, key)| ring.get(*key).is_none())
        {
            return Err(refused(*index, "it has no key to send under".to_owned()));
        }
        let each = ends.into_iter().map(|(index, end)| {
            let refused = |message| refused(index, message);
            let wire = config.wire(index);
            let wire = wire.ok_or_else(|| refused("it has no `wire`".to_owned()))?;
            let settings = settings(config, index, wire, keys, self.rate).map_err(&refused)?;
            let share_bps = settings.bytes_per_s as f64 * 8.0;
            let mut exchange = Exchange::new(settings, end).map_err(|e| refused(e.to_string()))?;
            exchange.wait_for_decoding(self.waits_for_decoding);
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
                is_blocked: false,
            })
        });
        let new = each.collect::<Result<_, _>>()?;
        Ok(Ahead { new, keys: others })
    }

    /// A change holds: new exchanges replace the old ones of their ports; those of ports
    /// that have no wire any more end.
    pub fn begin(&mut self, config: &Config, Ahead { new, keys }: Ahead) {
        self.clock_settings = config.wire_clock();
        self.clock.configure(self.clock_settings);
        let is_replaced = |port: &WirePort| new.iter().any(|new| new.index == port.index);
        let (kept, over): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ports)
            .into_iter()
            .partition(|port| config.wire(port.index).is_some() && !is_replaced(port));
        self.ports = kept;
        for port in over {
            self.ended.push(Ended {
                all: port.counted(true),
                own: port.counted(false),
                counters: Arc::clone(&port.exchange.end().counters),
            });
        }
        for mut port in new {
            let same = |old: &Ended| old.all.port == port.base.port;
            if let Some(place) = self.ended.iter().position(same) {
                let Ended { all, own, counters } = self.ended.swap_remove(place);
                let goes_on = Arc::ptr_eq(&counters, &port.exchange.end().counters);
                port.base.continue_from(if goes_on { &own } else { &all });
            }
            self.ports.push(port);
        }
        self.ports.sort_by_key(|port| port.index);
        for (index, keys, key) in keys {
            let port = self.ports.iter_mut().find(|port| port.index == index);
            let Some(port) = port else { continue };
            if let Err(error) = port.exchange.set_keys(keys, key) {
                tracing::error!(port = port.base.port, "keys stay as they are: {error}");
            }
        }
    }

    /// Renews the line, and lets every exchange do what is due. Returns whether an epoch has ended.
    pub fn poll(&mut self, data_plane: &mut dyn DataPlane, monotonic: Duration) -> bool {
        if self.ports.is_empty() {
            return false;
        }
        let Some(status) = contain(Part::Clock, || self.clock.look(&mut Clocks(data_plane))) else {
            self.clock = TaiClock::new(self.rate, self.clock_settings, Arc::clone(&self.line));
            return false;
        };
        self.status = Some(status);
        let Some(line) = self.clock.line() else {
            return false;
        };
        let now = Moment {
            tai_ns: line.tai_ns(data_plane.now()),
            monotonic_ns: u64::try_from(monotonic.as_nanos()).unwrap_or(u64::MAX),
        };
        let mut has_ended = false;
        for port in &mut self.ports {
            let before = port.exchange.latest();
            port.exchange
                .poll(now, &status.view, &mut || data_plane.random());
            has_ended |= port.exchange.latest() != before;
            port.tell_loop();
        }
        has_ended
    }

    /// The clock; `None` where there are no wires.
    pub fn clock(&self) -> Option<WireClock> {
        let status = self.status.filter(|_| !self.ports.is_empty())?;
        Some(WireClock {
            state: clock_label(status.view.state).to_owned(),
            error_ns: status.view.error_ns.into(),
            fit_error_ns: status.fit_error_ns,
            tai_utc_s: status.view.tai_utc_s,
            ptp_domain: status.view.ptp_domain,
            steps: status.steps,
            last_step_ns: status.last_step_ns,
        })
    }

    /// Every wire that can be shown. `names` are the flows that have names, by their hashes.
    pub fn publish(&mut self, names: &HashMap<FlowHash, String>, now: Instant) -> Vec<Wire> {
        let ports = self.ports.iter_mut();
        let wires = ports.filter_map(|port| {
            let wire = contain(Part::Wire, || port.publish(names, now));
            if wire.is_none() {
                port.exchange.start_anew();
            }
            wire
        });
        wires.collect()
    }

    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }
}

/// What an exchange is made for.
fn settings(
    config: &Config,
    index: usize,
    wire: &WireConfig,
    keys: &WireKeys,
    rate: TickRate,
) -> Result<Settings, String> {
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
    // A name that is checked has 64 letters at most.
    let name = |name: &str| PortName::from(name).map_err(|error| error.to_string());
    let own = config.ports.get(index);
    let peer_port = wire.peer_port.as_deref().map(name).transpose()?;
    Ok(Settings {
        switch: config.wire_switch(),
        port: u16::try_from(index).unwrap_or(u16::MAX),
        is_routed: wire.peer.is_some(),
        port_name: name(own.map_or("", |port| &port.name))?,
        expected: Expected {
            switch: wire.peer_switch,
            port: peer_port,
        },
        renew_ns: RENEW_NS,
        keys,
        key,
        layout,
        seed_check: seed_check(seed),
        epoch_ns: u64::try_from(epoch_ns).unwrap_or(u64::MAX),
        frame_bytes: config.wire_frame_bytes(index),
        overhead_bytes: config.wire_overhead_bytes(index),
        bytes_per_s,
        components: wire.lds.as_ref().map_or(1, |lds| lds.components.into()),
        resolution_ns: rate.to_ns(1.0).max(1.0),
    })
}

/// A wire's names, and nothing counted.
fn named(config: &Config, index: usize) -> Wire {
    let port = config.ports.get(index);
    let port = port.map(|port| port.name.clone()).unwrap_or_default();
    let peer = format!("{port}:peer");
    let segments = config.wire_segments(index);
    let direction = |is_incoming: bool| {
        let (from, to) = if is_incoming {
            (&peer, &port)
        } else {
            (&port, &peer)
        };
        segments.iter().map(move |class| WireSegment {
            from: from.clone(),
            to: to.clone(),
            class: class.clone(),
            is_incoming,
            ..WireSegment::default()
        })
    };
    Wire {
        segments: direction(false).chain(direction(true)).collect(),
        port: port.clone(),
        ..Wire::default()
    }
}

impl WirePort {
    /// Says in the log that data does not pass any more, or passes again.
    fn tell_loop(&mut self) {
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

    /// Names, and everything that only rises; with what the worker has counted, or without.
    fn counted(&self, with_workers: bool) -> Wire {
        let mut wire = self.base.clone();
        let nothing = WireCounters::default();
        let mut total = self.totals(if with_workers {
            &self.exchange.end().counters
        } else {
            &nothing
        });
        total.add(&wire.total);
        wire.total = total;
        let Some(status) = self.exchange.status() else {
            return wire;
        };
        let half = wire.segments.len() / 2;
        let (outgoing, incoming) = wire.segments.split_at_mut(half);
        for (segment, now) in outgoing.iter_mut().zip(&status.sending) {
            count(segment, now);
        }
        for (segment, now) in incoming.iter_mut().zip(&status.receiving) {
            count(segment, now);
        }
        wire
    }

    fn totals(&self, counters: &WireCounters) -> WireTotals {
        let kinds = |counts: &[Counter; Kind::COUNT]| -> Vec<Labelled> {
            let counts = Kind::ALL.iter().zip(counts);
            counts
                .map(|(kind, n)| labelled(kind_label(*kind), n.get()))
                .collect()
        };
        let rejected = Rejection::ALL.iter().zip(&counters.rejected);
        let [sender, receiver] = &counters.unmeasured_epochs;
        let own = self
            .exchange
            .status()
            .map(|s| s.counters)
            .unwrap_or_default();
        let events = [
            ("session_begun", own.sessions),
            ("session_lost", own.sessions_lost),
            ("session_renewed", own.renewals),
            ("loop_seen", own.loops),
            ("wrong_peer_heard", own.strangers),
            ("frame_malformed", own.frames_malformed),
            ("frame_useless", own.frames_useless),
            ("fragment_unsent", own.fragments_unsent),
            ("epoch_withheld", own.withheld_epochs),
            ("epoch_unmeasured_sending", sender.get()),
            ("epoch_unmeasured_receiving", receiver.get()),
            ("request_sent", own.requests_sent),
            ("request_answered", own.requests_answered),
            ("request_ignored", own.requests_ignored),
            ("report_sent", own.reports_sent),
            ("report_heard", own.reports_heard),
            ("packet_moved_to_earlier", own.moved_to_earlier),
            ("packet_moved_to_later", own.moved_to_later),
            ("packet_unexplained", own.unexplained),
            ("decode_skipped", own.decodes_skipped),
            ("clock_step_seen", own.clock_steps),
            ("restarted", own.restarts),
        ];
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
            events: events.map(|(event, n)| labelled(event, n)).to_vec(),
        }
    }

    fn publish(&mut self, names: &HashMap<FlowHash, String>, now: Instant) -> Wire {
        let mut wire = self.counted(true);
        self.lost_max.resize(wire.segments.len(), 0);
        for (segment, most) in wire.segments.iter_mut().zip(&mut self.lost_max) {
            *most = (*most).max(u64::try_from(segment.lost_packets).unwrap_or(0));
            segment.lost_packets_max = *most;
        }
        wire.share_bps = self.share_bps;
        wire.control_bps = self.control.renew(wire.total.sent_bytes, now);
        let Some(status) = self.exchange.status() else {
            SessionState::Waiting.label().clone_into(&mut wire.session);
            return wire;
        };
        status.session.label().clone_into(&mut wire.session);
        wire.mismatch = status.mismatch.map(|mismatch| words(mismatch, status.peer));
        wire.is_blocked = status.is_blocked;
        wire.peer = status.peer.map(|peer| WirePeer {
            switch: peer.switch,
            port: peer.port,
            port_name: peer.port_name.to_string(),
            clock: clock_label(peer.clock).to_owned(),
            clock_error_ns: peer.clock_error_ns,
            tai_utc_s: peer.tai_utc_s,
            ptp_domain: peer.ptp_domain,
        });
        wire.floor_ns = status.floor.floor_ns.map(|ns| ns as f64);
        wire.floor_step_ns = status.floor.step.map(|step| step.by_ns);
        wire.drift_ns_per_s = status.floor.drift.map(|drift| drift.ns_per_s);
        let is_up = status.session == SessionState::Established;
        let half = wire.segments.len() / 2;
        let (outgoing, incoming) = wire.segments.split_at_mut(half);
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
        let classes: Vec<&str> = incoming.iter().map(|s| s.class.as_str()).collect();
        let flows = status.flows.filter(|_| is_up);
        wire.flows = flows.map(|view| flows_of(&view, &classes, names));
        wire
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

/// Why the ends do not agree.
fn words(mismatch: Mismatch, peer: Option<PeerView>) -> String {
    match (mismatch, peer) {
        (Mismatch::Peer, Some(peer)) => {
            let PeerView {
                switch, port_name, ..
            } = peer;
            format!("port {port_name} of switch {switch} is heard: {mismatch}")
        }
        _ => mismatch.to_string(),
    }
}

fn labelled(label: &str, packets: u64) -> Labelled {
    Labelled {
        label: label.to_owned(),
        packets,
    }
}

fn kind_label(kind: Kind) -> &'static str {
    match kind {
        Kind::Hello => "hello",
        Kind::Marker => "marker",
        Kind::Stash => "stash",
        Kind::Fragment => "fragment",
        Kind::Reference => "reference",
        Kind::Request => "request",
        Kind::Report => "report",
    }
}

fn clock_label(state: ClockState) -> &'static str {
    match state {
        ClockState::Free => "free",
        ClockState::HoldingOver => "holding_over",
        ClockState::Locked => "locked",
    }
}

/// A method's name, as inside the switch.
fn method_label(method: Method) -> &'static str {
    match method {
        Method::Rli => "rli-s",
        other => other.name(),
    }
}

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

fn estimate(of: &Estimate, effective_samples: Option<u64>) -> WireEstimate {
    WireEstimate {
        method: method_label(of.method).to_owned(),
        mean_ns: of.mean_ns,
        bound_ns: of.bound_ns,
        effective_samples,
    }
}

/// What this end measured; `None` where nothing was paired.
fn measured(epoch: &MeasuredEpoch) -> Option<WireFigures> {
    let outcome: &SegmentOutcome = epoch.outcome.as_ref()?;
    let samples = |method: Method| match method {
        Method::Lda => Some(outcome.lda.effective_samples),
        Method::Rli => Some(outcome.rli_packets),
        _ => None,
    };
    let converted = |of: &Estimate| estimate(of, samples(of.method));
    let means = [outcome.lda_mean, outcome.rli_mean];
    Some(WireFigures {
        epoch: epoch.epoch,
        sent_packets: outcome.is_sent_known.then_some(outcome.tally.sent),
        received_packets: Some(outcome.tally.received),
        lost_packets: outcome.lost(),
        moved_packets: epoch.moved,
        stddev_ns: outcome.stddev_ns(),
        usable_cells_ratio: outcome.cells.usable as f64 / outcome.cells.cells.max(1) as f64,
        estimates: means.iter().flatten().map(converted).collect(),
        chosen: outcome.chosen.as_ref().map(converted),
    })
}

/// What the other end reported.
fn reported(epoch: &ReportedEpoch) -> WireFigures {
    let report = &epoch.report;
    // An epoch in which nothing passed has no figures: without counts, they did not arrive.
    let are_known = report.sent > 0 || report.received > 0;
    let lda = report.mean_ns.map(|mean_ns| WireEstimate {
        method: method_label(Method::Lda).to_owned(),
        mean_ns,
        bound_ns: report.bound_ns,
        effective_samples: Some(report.effective_samples),
    });
    let chosen = report.chosen.map(|chosen| WireEstimate {
        method: method_label(chosen.method).to_owned(),
        mean_ns: chosen.mean_ns,
        bound_ns: chosen.bound_ns,
        effective_samples: None,
    });
    let other = chosen
        .clone()
        .filter(|chosen| lda.as_ref().is_none_or(|lda| lda.method != chosen.method));
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

fn flows_of(
    view: &WireFlowsView,
    classes: &[&str],
    names: &HashMap<FlowHash, String>,
) -> WireFlows {
    let known = view.flows.iter().filter_map(|flow| {
        let class = classes.get(usize::from(flow.segment.0)).copied();
        Some(WireFlow {
            flow: names.get(&flow.flow)?.clone(),
            class: class.unwrap_or_default().to_owned(),
            packets: flow.packets,
            estimate: flow.chosen.as_ref().map(|chosen| estimate(chosen, None)),
            estimates: flow
                .estimates
                .iter()
                .map(|one| estimate(one, None))
                .collect(),
        })
    });
    let mut top: Vec<WireFlow> = known.collect();
    top.sort_by(|one, other| {
        let by_packets = other.packets.cmp(&one.packets);
        by_packets.then_with(|| one.flow.cmp(&other.flow))
    });
    WireFlows {
        epoch: view.epoch,
        number: view.flows.len() as u64,
        other_packets: view.other_packets,
        duration_s: view.duration.as_secs_f64(),
        top,
    }
}

impl CoreState {
    /// Enters wires and their clock into the snapshot.
    pub(super) fn publish_wires(&mut self, snapshot: &mut records::snapshot::Snapshot) {
        snapshot.wire_clock = self.wires.clock();
        if self.wires.is_empty() {
            return;
        }
        let names = names(&self.hasher, self.flows.top().iter().map(|held| held.key));
        snapshot.wires = self.wires.publish(&names, self.monotonic());
    }
}

/// Flows with series of their own, by their hashes.
fn names(
    hasher: &Hasher,
    keys: impl Iterator<Item = measure::packet::FlowKey>,
) -> HashMap<FlowHash, String> {
    keys.map(|key| (hasher.flow_hash(&key), key.to_string()))
        .collect()
}

#[cfg(test)]
mod tests;
