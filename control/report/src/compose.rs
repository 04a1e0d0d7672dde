//! Composes reports from published snapshots.

use std::collections::HashMap;

use records::float;
use records::names::Names;
use records::snapshot::{Delay, Port, Segment, Snapshot, WireSegment};

use crate::msp::{self, Flow, Health, Kind, Neighbour, Quantiles, Report};

/// Most reasons in words in one report.
const UNREADY_MAX: usize = 8;

/// Composes the reports of one incarnation from the rises since the previous report.
#[derive(Debug)]
pub struct Composer {
    incarnation: u64,
    top_flows: usize,
    /// The last epoch reported.
    reported: Option<u64>,
    /// Counts of segments at that time, by kind and names.
    counted: HashMap<Key, Counted>,
    /// Unusable epochs by reason, summed over segments.
    unusable: [(&'static str, u64); 5],
}

/// Kind, from, to, class.
type Key = (Kind, String, String, String);

/// Counts of a segment.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    packets: u64,
    bytes: u64,
    lost: i64,
    /// The epoch of its last delays.
    epoch: Option<u64>,
}

impl Counted {
    /// The rise since then; a segment that was restarted counts all it has.
    fn since(self, earlier: Option<&Self>) -> Self {
        let earlier = earlier.filter(|earlier| earlier.packets <= self.packets);
        let earlier = earlier.copied().unwrap_or_default();
        Self {
            packets: self.packets - earlier.packets,
            bytes: self.bytes.saturating_sub(earlier.bytes),
            lost: self.lost - earlier.lost,
            epoch: self.epoch.filter(|_| self.epoch != earlier.epoch),
        }
    }
}

impl Composer {
    /// Reports of the incarnation, with at most this many flows each.
    pub fn new(incarnation: u64, top_flows: usize) -> Self {
        Self {
            incarnation,
            top_flows,
            reported: None,
            counted: HashMap::new(),
            unusable: Default::default(),
        }
    }

    /// The report of a snapshot; `None` if no epoch has closed since the previous one. `dropped_reports` comes from
    /// the spool.
    pub fn report(&mut self, snapshot: &Snapshot, dropped_reports: u64) -> Option<Report> {
        let epoch = snapshot
            .epoch
            .filter(|epoch| self.reported.is_none_or(|reported| reported < *epoch))?;
        let mut names = Names::default();
        let mut counted = HashMap::with_capacity(self.counted.len());
        let inside = snapshot.segments.iter();
        let mut segments: Vec<msp::Segment> = inside
            .filter_map(|segment| self.inside(segment, epoch, &mut counted, &mut names))
            .collect();
        let wires = snapshot.wires.iter().flat_map(|wire| &wire.segments);
        segments.extend(wires.filter_map(|segment| self.wire(segment, &mut counted, &mut names)));
        self.counted = counted;
        let start_s = snapshot.epoch_start_unix_s(epoch);
        let config = snapshot.config.as_ref();
        let report = Report {
            version_major: msp::VERSION_MAJOR,
            version_minor: msp::VERSION_MINOR,
            switch: snapshot.switch.clone(),
            incarnation: self.incarnation,
            epoch,
            epochs: self.reported.map_or(epoch + 1, |reported| epoch - reported),
            start_unix_ns: nanoseconds(start_s),
            length_ns: u64::from(snapshot.interval_ms) * 1_000_000,
            health: Some(self.health(snapshot)),
            segments,
            flows: self.flows(snapshot, epoch, &mut names),
            neighbours: neighbours(snapshot, &mut names),
            wire_switch: config.and_then(|config| Some(config.wire.as_ref()?.switch)),
            dropped_reports,
            node: None,
            names: names.all(),
        };
        self.reported = Some(epoch);
        Some(report)
    }

    /// A segment inside the switch or around a device, if packets entered it or it has new delays.
    fn inside(
        &self,
        segment: &Segment,
        epoch: u64,
        counted: &mut HashMap<Key, Counted>,
        names: &mut Names,
    ) -> Option<msp::Segment> {
        let counts = &segment.total.counts;
        let now = Counted {
            packets: counts.sent_packets,
            bytes: counts.sent_bytes,
            lost: signed(counts.dropped_packets),
            epoch: segment.last.as_ref().map(|last| last.epoch),
        };
        let ends = [&segment.ingress, &segment.egress, &segment.class];
        let kind = if segment.is_around {
            Kind::Around
        } else {
            Kind::Inside
        };
        let (since, mut reported) = self.counts(kind, ends, now, counted, names)?;
        if let Some(last) = segment.last.as_ref().filter(|_| since.epoch.is_some()) {
            let delay = last.stamped_delay().or_else(|| last.estimated_delay());
            if let Some(delay) = delay {
                enter(&mut reported, &delay, names);
            }
            reported.epoch = Some(last.epoch).filter(|of| *of != epoch);
        }
        Some(reported)
    }

    /// A segment on the wire, likewise.
    fn wire(
        &self,
        segment: &WireSegment,
        counted: &mut HashMap<Key, Counted>,
        names: &mut Names,
    ) -> Option<msp::Segment> {
        let now = Counted {
            packets: segment.sent_packets,
            bytes: 0,
            lost: segment.lost_packets,
            epoch: segment.last.as_ref().map(|last| last.epoch),
        };
        let ends = [&segment.from, &segment.to, &segment.class];
        let (since, mut reported) = self.counts(Kind::Wire, ends, now, counted, names)?;
        if let Some(last) = segment.last.as_ref().filter(|_| since.epoch.is_some())
            && let Some(delay) = last.delay()
        {
            enter(&mut reported, &delay, names);
            let received = last.received_packets.unwrap_or_default();
            reported.samples = delay.samples.unwrap_or(received).max(1);
            reported.epoch = Some(last.epoch);
        }
        Some(reported)
    }

    /// The rise of a segment's counts since the last report; `None` if nothing is new.
    fn counts(
        &self,
        kind: Kind,
        [from, to, class]: [&String; 3],
        now: Counted,
        counted: &mut HashMap<Key, Counted>,
        names: &mut Names,
    ) -> Option<(Counted, msp::Segment)> {
        if now.packets == 0 && now.epoch.is_none() {
            return None;
        }
        let key = (kind, from.clone(), to.clone(), class.clone());
        let since = now.since(self.counted.get(&key));
        counted.insert(key, now);
        let is_new = since.packets > 0 || since.lost != 0 || since.epoch.is_some();
        is_new.then(|| {
            let reported = msp::Segment {
                kind: kind.into(),
                from: names.index(from),
                to: names.index(to),
                class: names.index(class),
                packets: since.packets,
                bytes: since.bytes,
                lost: since.lost,
                ..msp::Segment::default()
            };
            (since, reported)
        })
    }

    fn health(&mut self, snapshot: &Snapshot) -> Health {
        let mut unusable: [(&'static str, u64); 5] = Default::default();
        for segment in &snapshot.segments {
            for (sum, (reason, epochs)) in
                (unusable.iter_mut()).zip(segment.total.unusable_epochs.by_reason())
            {
                *sum = (reason, sum.1 + epochs);
            }
        }
        let earlier = std::mem::replace(&mut self.unusable, unusable);
        // Stamped figures are valid even with too few cells of the LDA.
        let risen = unusable.iter().zip(earlier);
        let risen =
            risen.filter(|((reason, now), (_, then))| now > then && *reason != "too_few_cells");
        let clock = snapshot.wire_clock.as_ref();
        let workers = &snapshot.workers;
        let stalled = workers.iter().filter(|worker| worker.is_stalled).count();
        let mut unready = snapshot.unready();
        unready.truncate(UNREADY_MAX);
        Health {
            unusable: risen.map(|((reason, _), _)| (*reason).to_owned()).collect(),
            missed_epochs: workers.iter().map(|worker| worker.missed_epochs).sum(),
            stalled_workers: u32::try_from(stalled).unwrap_or(u32::MAX),
            clock: clock.map_or_else(String::new, |clock| clock.state.clone()),
            clock_error_ns: clock.map_or(0.0, |clock| float(clock.error_ns)),
            unready,
        }
    }

    /// Of the flows with series of their own, those with the most packets in the epoch.
    fn flows(&self, snapshot: &Snapshot, epoch: u64, names: &mut Names) -> Vec<Flow> {
        let top = snapshot.flows.iter().flat_map(|flows| &flows.top);
        let mut top: Vec<_> = top
            .map(|top| &top.flow)
            .filter(|flow| flow.last_epoch == epoch && !flow.is_on_wire)
            .collect();
        top.sort_by_key(|flow| std::cmp::Reverse(flow.last.packets));
        top.truncate(self.top_flows);
        let reported = top.into_iter().map(|flow| Flow {
            flow: flow.flow.clone(),
            from: names.index(&flow.ingress),
            to: names.index(&flow.egress),
            class: names.index(&flow.class),
            packets: flow.last.packets,
            lost: flow.last.lost_packets,
            mean_ns: flow.last.mean_ns.map(float),
            stddev_ns: flow.last.stddev_ns.map(float),
            p99_ns: flow.quantiles.map(|quantiles| float(quantiles.p99_ns)),
        });
        reported.collect()
    }
}

/// Fills in a delay.
fn enter(segment: &mut msp::Segment, delay: &Delay, names: &mut Names) {
    segment.samples = delay.samples.unwrap_or_default();
    segment.mean_ns = float(delay.mean_ns);
    segment.bound_ns = delay.bound_ns.map(float);
    segment.stddev_ns = delay.stddev_ns.map(float);
    segment.method = names.index(delay.method);
    segment.quantiles = quantiles(delay);
}

/// The percentiles of a report; `None` unless all are known.
fn quantiles(delay: &Delay) -> Option<Quantiles> {
    let [p50, _, p99, p999, _] = delay.quantiles_ns;
    Some(Quantiles {
        min_ns: float(delay.min_ns?),
        max_ns: float(delay.max_ns?),
        p50_ns: float(p50?),
        p99_ns: float(p99?),
        p999_ns: float(p999?),
    })
}

/// Other ends of wires; for other links, neighbours known by LLDP.
fn neighbours(snapshot: &Snapshot, names: &mut Names) -> Vec<Neighbour> {
    let wires = snapshot.wires.iter();
    let known = wires.filter_map(|wire| {
        let peer = wire.peer.as_ref()?;
        Some(Neighbour {
            port: names.index(&wire.port),
            peer_switch: peer.switch,
            peer_port: names.index(&peer.port_name),
            session: wire.session.clone(),
            system: None,
        })
    });
    let mut known: Vec<_> = known.collect();
    let has_wire = |port: &Port| snapshot.wires.iter().any(|wire| wire.port == port.name);
    for port in snapshot.ports.iter().filter(|port| !has_wire(port)) {
        known.extend(port.neighbours.iter().map(|neighbour| Neighbour {
            port: names.index(&port.name),
            peer_switch: 0,
            peer_port: names.index(&neighbour.port),
            session: String::new(),
            system: Some(neighbour.system.clone()),
        }));
    }
    known
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times since 1970 are positive, and fit until 2554"
)]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64 * 1_000
}

#[cfg(test)]
mod tests;
