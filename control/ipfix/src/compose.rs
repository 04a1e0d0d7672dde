//! Composes records from published snapshots.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::ops::ControlFlow::{self, Continue};

use contract::limits::EXPORTED_BYTES_PER_SLOT;
use measure::packet::FlowKey;
use records::names::Names;
use records::snapshot::{
    Delay, EpochFigures, EpochTimes, FlowFigures, FlowList, FlowName, FlowRecord, Segment,
    Snapshot, WireFigures, WireSegment,
};

use crate::element::Element;
use crate::encoder::{Record, rounded, rounded_signed};

/// Receives records until it fails.
pub(crate) trait Sink {
    fn take(&mut self, record: &Record) -> ControlFlow<()>;
}

/// Composes records of what was counted since the previous ones. Counts that the sink did not accept stay
/// for the next export.
#[derive(Debug, Default)]
pub(crate) struct Composer {
    /// The last epoch whose records were all accepted.
    pub exported: Option<u64>,
    points: Names,
    classes: Names,
    /// Number of accepted names, of points and of classes.
    named: [usize; 2],
    /// Keyed by name, ends and first epoch: a returning flow is a new one.
    flows: Taken<(FlowName, Ends, u64)>,
    segments: Taken<(Kind, Ends)>,
}

// The memory budget allows for a table of flows that is 7/16 full.
const _: () = assert!(
    (size_of::<(FlowName, Ends, u64)>() + ENTRY_BYTES + 1) * 16 / 7 <= EXPORTED_BYTES_PER_SLOT
);

/// Numbers of ingress, egress and class: from 1, in the order in which their names appeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ends {
    from: u32,
    to: u32,
    class: u8,
}

/// Kind of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
enum Kind {
    Inside = 1,
    Around = 2,
    Wire = 3,
}

impl Composer {
    /// Sends the types of our own elements, and all names again.
    pub fn describe(&mut self, enterprise: u32, sink: &mut impl Sink) -> ControlFlow<()> {
        self.named = [0; 2];
        for element in Element::own() {
            let known = element.description();
            let mut record = Record::of_options(2);
            record
                .number(Element::PrivateEnterpriseNumber, enterprise)
                .number(Element::InformationElementId, known.id)
                .number(Element::InformationElementDataType, known.kind as u8)
                .number(Element::InformationElementSemantics, known.semantics as u8)
                .number(Element::InformationElementUnits, known.units as u16)
                .text(Element::InformationElementName, known.name)
                .text(Element::InformationElementDescription, known.text);
            sink.take(&record)?;
        }
        self.name(sink)
    }

    /// Sends new names.
    fn name(&mut self, sink: &mut impl Sink) -> ControlFlow<()> {
        let elements = [
            (Element::IngressInterface, Element::InterfaceName),
            (Element::ClassId, Element::ClassName),
        ];
        let kinds = [&self.points, &self.classes].into_iter().zip(elements);
        for ((names, (number, text)), named) in kinds.zip(&mut self.named) {
            for name in &names.as_slice()[*named..] {
                let mut record = Record::of_options(1);
                record.number(number, *named as u64 + 1);
                sink.take(record.text(text, name))?;
                *named += 1;
            }
        }
        Continue(())
    }

    /// Sends everything new in `snapshot`.
    pub fn export(&mut self, snapshot: &Snapshot, sink: &mut impl Sink) -> ControlFlow<()> {
        let Some(epoch) = snapshot.epoch else {
            return Continue(());
        };
        for port in &snapshot.ports {
            self.points.index(&port.name);
        }
        let times = &snapshot.epoch_times();
        for segment in &snapshot.segments {
            self.inside(segment, epoch, times, sink)?;
        }
        for segment in snapshot.wires.iter().flat_map(|wire| &wire.segments) {
            self.wire(segment, epoch, times, sink)?;
        }
        if let Some(flows) = &snapshot.flows {
            self.flows(&flows.ended, times, sink)?;
            self.flows(&flows.list, times, sink)?;
        }
        self.exported = Some(epoch);
        self.flows.forget_absent();
        self.segments.forget_absent();
        Continue(())
    }

    /// A segment inside the switch or around a device.
    fn inside(
        &mut self,
        segment: &Segment,
        epoch: u64,
        times: &EpochTimes,
        sink: &mut impl Sink,
    ) -> ControlFlow<()> {
        let kind = if segment.is_around {
            Kind::Around
        } else {
            Kind::Inside
        };
        let now = Counted::of_segment(segment);
        let key = (kind, self.ends(segment.names()));
        let (since, taken) = self.segments.since(&key, now);
        let last = segment.last.as_ref();
        let last = last.filter(|last| Some(last.epoch) > taken);
        let of_one = last.filter(|last| last.counts.received_packets == since.delays.packets);
        let stamped = of_one.and_then(EpochFigures::stamped_delay);
        let line = Line {
            since,
            first_epoch: of_one.map_or(self.next_epoch(), |last| last.epoch),
            last_epoch: of_one.map_or(epoch, |last| last.epoch),
            delay: stamped.or_else(|| since.delays.delay()),
            estimate: last.and_then(EpochFigures::estimated_delay),
        };
        let last = last.map(|last| last.epoch).or(taken);
        self.segment(key, (now, last), &line, times, sink)
    }

    /// A segment on the wire.
    fn wire(
        &mut self,
        segment: &WireSegment,
        epoch: u64,
        times: &EpochTimes,
        sink: &mut impl Sink,
    ) -> ControlFlow<()> {
        let now = Counted::of_wire(segment);
        let ends = self.ends([&segment.from, &segment.to, &segment.class]);
        let key = (Kind::Wire, ends);
        let (since, taken) = self.segments.since(&key, now);
        let last = segment.last.as_ref();
        let last = last.filter(|last| Some(last.epoch) > taken);
        let line = Line {
            since,
            first_epoch: self.next_epoch(),
            last_epoch: epoch,
            delay: None,
            estimate: last.and_then(WireFigures::delay),
        };
        let last = last.map(|last| last.epoch).or(taken);
        self.segment(key, (now, last), &line, times, sink)
    }

    /// Options of a segment. As data records, a collector would add their packets to those of the flows.
    fn segment(
        &mut self,
        key @ (kind, ends): (Kind, Ends),
        (now, last_epoch): (Counted, Option<u64>),
        line: &Line,
        times: &EpochTimes,
        sink: &mut impl Sink,
    ) -> ControlFlow<()> {
        if !line.since.is_nothing() {
            self.name(sink)?;
            let mut record = Record::of_options(4);
            ends.put(&mut record);
            record.number(Element::SegmentKind, kind as u8);
            line.put(&mut record, times);
            sink.take(&record)?;
        }
        self.segments.enter(key, now, last_epoch);
        Continue(())
    }

    fn flows(
        &mut self,
        list: &FlowList,
        times: &EpochTimes,
        sink: &mut impl Sink,
    ) -> ControlFlow<()> {
        let names = list.segments.iter();
        let ends = names.map(|name| self.ends([&name.ingress, &name.egress, &name.class]));
        let ends: Vec<Ends> = ends.collect();
        self.name(sink)?;
        for flow in &list.flows {
            if let (Some(key), Some(ends)) = (flow.key(), ends.get(flow.segment as usize)) {
                self.flow(flow, key, *ends, times, sink)?;
            }
        }
        Continue(())
    }

    fn flow(
        &mut self,
        flow: &FlowRecord,
        key: &FlowKey,
        ends: Ends,
        times: &EpochTimes,
        sink: &mut impl Sink,
    ) -> ControlFlow<()> {
        let now = Counted::of_flow(&flow.total);
        let entry = (flow.name, ends, flow.first_epoch);
        let (since, _) = self.flows.since(&entry, now);
        if since.is_nothing() {
            return Continue(());
        }
        let last = &flow.last;
        let is_of_one = (last.packets, last.lost_packets) == (since.packets, since.lost);
        let (first_epoch, delay) = if is_of_one {
            (flow.last_epoch, flow.stamped_delay())
        } else {
            let first_epoch = self.next_epoch().max(flow.first_epoch);
            (first_epoch, since.delays.delay())
        };
        let line = Line {
            since,
            first_epoch,
            last_epoch: flow.last_epoch,
            delay,
            estimate: flow.estimated_delay(),
        };
        let mut record = Record::default();
        ends.put(&mut record);
        put_key(&mut record, key);
        line.put(&mut record, times);
        sink.take(&record)?;
        self.flows.enter(entry, now, None);
        Continue(())
    }

    fn ends(&mut self, [from, to, class]: [&str; 3]) -> Ends {
        Ends {
            from: self.points.index(from) + 1,
            to: self.points.index(to) + 1,
            class: u8::try_from(self.classes.index(class) + 1).unwrap_or(u8::MAX),
        }
    }

    /// The first epoch not covered by an accepted record.
    fn next_epoch(&self) -> u64 {
        self.exported.map_or(0, |exported| exported + 1)
    }
}

impl Ends {
    fn put(self, record: &mut Record) {
        record
            .number(Element::IngressInterface, self.from)
            .number(Element::EgressInterface, self.to)
            .number(Element::ClassId, self.class);
    }
}

fn put_key(record: &mut Record, key: &FlowKey) {
    let ip = match key {
        FlowKey::Ip(ip) => ip,
        FlowKey::Ethernet {
            source,
            destination,
            vlan,
            ethertype,
        } => {
            record
                .octets(Element::SourceMacAddress, source)
                .octets(Element::DestinationMacAddress, destination)
                .number(Element::VlanId, *vlan)
                .number(Element::EthernetType, *ethertype);
            return;
        }
    };
    match ip.source {
        IpAddr::V4(here) => record.octets(Element::SourceIpv4Address, &here.octets()),
        IpAddr::V6(here) => record.octets(Element::SourceIpv6Address, &here.octets()),
    };
    match ip.destination {
        IpAddr::V4(there) => record.octets(Element::DestinationIpv4Address, &there.octets()),
        IpAddr::V6(there) => record.octets(Element::DestinationIpv6Address, &there.octets()),
    };
    record
        .number(Element::SourceTransportPort, ip.source_port)
        .number(Element::DestinationTransportPort, ip.destination_port)
        .number(Element::ProtocolIdentifier, ip.protocol);
}

/// Counts and delays since the first packet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counted {
    pub packets: u64,
    /// `None` if unknown, like losses.
    pub bytes: Option<u64>,
    pub lost: Option<u64>,
    pub delays: Sums,
}

/// Sums over packets whose delay was stamped.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sums {
    pub packets: u64,
    pub sum_ns: f64,
    squares_ns2: f64,
}

impl Sums {
    fn of(packets: u64, mean_ns: f64, stddev_ns: f64) -> Self {
        let number = packets as f64;
        Self {
            packets,
            sum_ns: number * mean_ns,
            squares_ns2: number * (stddev_ns * stddev_ns + mean_ns * mean_ns),
        }
    }

    /// The delay; `None` without packets.
    pub fn delay(&self) -> Option<Delay<'static>> {
        let number = (self.packets > 0).then_some(self.packets as f64)?;
        let mean_ns = self.sum_ns / number;
        let variance_ns2 = (self.squares_ns2 / number - mean_ns * mean_ns).max(0.0);
        Some(Delay {
            samples: Some(self.packets),
            mean_ns,
            stddev_ns: Some(variance_ns2.sqrt()),
            ..Delay::default()
        })
    }
}

impl Counted {
    pub fn of_flow(figures: &FlowFigures) -> Self {
        let stddev_ns = figures.stddev_ns.unwrap_or_default();
        let mean_ns = figures.mean_ns;
        let sums = mean_ns.map(|mean_ns| Sums::of(figures.packets, mean_ns, stddev_ns));
        Self {
            packets: figures.packets,
            bytes: Some(figures.bytes),
            lost: figures.lost_packets,
            delays: sums.unwrap_or_default(),
        }
    }

    pub fn of_segment(segment: &Segment) -> Self {
        let total = &segment.total;
        let stamped = total.buckets.iter().map(|bucket| bucket.packets);
        Self {
            packets: total.counts.sent_packets,
            bytes: Some(total.counts.sent_bytes),
            lost: Some(total.counts.dropped_packets),
            delays: Sums {
                packets: stamped.sum(),
                sum_ns: 1e9 * total.delay_sum_s,
                squares_ns2: 1e18 * total.delay_squared_sum_s2,
            },
        }
    }

    pub fn of_wire(segment: &WireSegment) -> Self {
        Self {
            packets: segment.sent_packets,
            lost: Some(segment.lost_packets_max),
            ..Self::default()
        }
    }

    /// The rise since `earlier`; everything if counting restarted.
    pub fn since(self, earlier: Self) -> Self {
        let earlier = Some(earlier).filter(|earlier| earlier.packets <= self.packets);
        let earlier = earlier.unwrap_or_default();
        let rise = |now: Option<u64>, then: Option<u64>| {
            Some(now?.saturating_sub(then.unwrap_or_default()))
        };
        Self {
            packets: self.packets - earlier.packets,
            bytes: rise(self.bytes, earlier.bytes),
            lost: rise(self.lost, earlier.lost),
            delays: Sums {
                packets: self.delays.packets.saturating_sub(earlier.delays.packets),
                sum_ns: (self.delays.sum_ns - earlier.delays.sum_ns).max(0.0),
                squares_ns2: self.delays.squares_ns2 - earlier.delays.squares_ns2,
            },
        }
    }

    /// Whether it is empty.
    pub fn is_nothing(&self) -> bool {
        self.packets == 0 && self.lost.unwrap_or_default() == 0
    }
}

/// Contents of a record in addition to names or addresses.
#[derive(Debug)]
pub(crate) struct Line<'e> {
    pub since: Counted,
    pub first_epoch: u64,
    pub last_epoch: u64,
    /// From stamps.
    pub delay: Option<Delay<'e>>,
    pub estimate: Option<Delay<'e>>,
}

impl Line<'_> {
    pub fn put(&self, record: &mut Record, times: &EpochTimes) {
        let since = &self.since;
        let unix_ms = |epoch| rounded(1e3 * times.start_unix_s(epoch));
        if let Some(bytes) = since.bytes {
            record.number(Element::OctetDeltaCount, bytes);
        }
        record.number(Element::PacketDeltaCount, since.packets);
        if let Some(lost) = since.lost {
            record.number(Element::DroppedPacketDeltaCount, lost);
        }
        record.number(Element::FlowStartMilliseconds, unix_ms(self.first_epoch));
        record.number(Element::FlowEndMilliseconds, unix_ms(self.last_epoch + 1));
        self.put_microseconds(record);
        record.number(Element::Epoch, self.last_epoch);
        if let Some(delay) = &self.delay {
            record.number(Element::DelayPackets, delay.samples.unwrap_or_default());
            record.nanoseconds(Element::DelayMean, Some(delay.mean_ns));
            record.nanoseconds(Element::DelayDeviation, delay.stddev_ns);
            record.nanoseconds(Element::DelayMin, delay.min_ns);
            record.nanoseconds(Element::DelayMax, delay.max_ns);
            for (element, ns) in PERCENTILES.into_iter().zip(delay.quantiles_ns) {
                record.nanoseconds(element, ns);
            }
        }
        if let Some(estimate) = &self.estimate {
            record.signed(Element::EstimatedMean, rounded_signed(estimate.mean_ns));
            record.nanoseconds(Element::EstimatedBound, estimate.bound_ns);
            record.nanoseconds(Element::EstimatedDeviation, estimate.stddev_ns);
            if let Some(packets) = estimate.samples {
                record.number(Element::EstimatePackets, packets);
            }
            record.number(Element::EstimateEpoch, estimate.epoch);
            record.text(Element::EstimateMethod, estimate.method);
        }
    }

    /// RFC 9951. The mean is an estimate unless delays are stamped.
    fn put_microseconds(&self, record: &mut Record) {
        let delay = self.delay.unwrap_or_default();
        let estimated_ns = || Some(self.estimate?.mean_ns).filter(|ns| *ns >= 0.0);
        let mean_ns = self.delay.map(|delay| delay.mean_ns);
        let mean_ns = mean_ns.or_else(estimated_ns);
        for (element, ns) in [
            (Element::PathDelayMeanDeltaMicroseconds, mean_ns),
            (Element::PathDelayMinDeltaMicroseconds, delay.min_ns),
            (Element::PathDelayMaxDeltaMicroseconds, delay.max_ns),
        ] {
            if let Some(ns) = ns {
                let us = rounded(ns / 1e3).min(u32::MAX.into());
                record.number(element, us);
            }
        }
        if let Some(packets) = delay.samples {
            let sum_us = rounded(packets as f64 * delay.mean_ns / 1e3);
            record.number(Element::PathDelaySumDeltaMicroseconds, sum_us);
        }
    }
}

const PERCENTILES: [Element; 5] = [
    Element::DelayP50,
    Element::DelayP90,
    Element::DelayP99,
    Element::DelayP999,
    Element::DelayP9999,
];

/// Counts by key.
#[derive(Debug)]
pub(crate) struct Taken<K>(HashMap<K, Entry>);

/// Size of a value.
pub(crate) const ENTRY_BYTES: usize = size_of::<Entry>();

/// Counts so far, and the epoch of the last delays.
#[derive(Debug)]
struct Entry {
    counted: Counted,
    epoch: Option<u64>,
    is_present: bool,
}

impl<K> Default for Taken<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq> Taken<K> {
    /// The rise at `key`, and the epoch of the last accepted delays.
    pub fn since(&mut self, key: &K, now: Counted) -> (Counted, Option<u64>) {
        let Some(entry) = self.0.get_mut(key) else {
            return (now, None);
        };
        entry.is_present = true;
        (now.since(entry.counted), entry.epoch)
    }

    /// Notes that a record of `now` was accepted.
    pub fn enter(&mut self, key: K, counted: Counted, epoch: Option<u64>) {
        let entry = Entry {
            counted,
            epoch,
            is_present: true,
        };
        self.0.insert(key, entry);
    }

    /// Forgets entries that were not used since the last call.
    pub fn forget_absent(&mut self) {
        (self.0).retain(|_, entry| std::mem::take(&mut entry.is_present));
    }
}

#[cfg(test)]
mod tests;
