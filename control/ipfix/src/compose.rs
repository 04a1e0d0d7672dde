//! From the published snapshot to records.

use std::net::IpAddr;
use std::ops::ControlFlow::{self, Continue};

use contract::limits::EXPORTED_BYTES_PER_SLOT;
use measure::packet::FlowKey;
use records::snapshot::{
    EpochTimes, FlowList, FlowName, FlowRecord, Segment, Snapshot, WireSegment,
};

use crate::counted::{Counted, Delays};
use crate::element::Element;
use crate::line::{Estimate, Line};
use crate::names::Names;
use crate::record::Record;
use crate::taken::{ENTRY_BYTES, Taken};

/// Takes records, until it breaks.
pub(crate) trait Sink {
    fn take(&mut self, record: &Record) -> ControlFlow<()>;
}

/// Makes records of what was counted since the last. What the sink did not take stays for the next time.
#[derive(Debug, Default)]
pub(crate) struct Composer {
    /// The last epoch whose records were all taken.
    exported: Option<u64>,
    points: Names,
    classes: Names,
    /// How many names were taken, of points and of classes.
    named: [usize; 2],
    /// By name, ends and first epoch: a flow that comes back is another one.
    flows: Taken<(FlowName, Ends, u64)>,
    segments: Taken<(Kind, Ends)>,
}

// The memory budget allows for a table of flows that is 7/16 full.
const _: () = assert!(
    (size_of::<(FlowName, Ends, u64)>() + ENTRY_BYTES + 1) * 16 / 7 <= EXPORTED_BYTES_PER_SLOT
);

/// Numbers of ingress, egress and class.
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
    /// The last epoch whose records were all taken.
    pub fn exported(&self) -> Option<u64> {
        self.exported
    }

    /// Gives the types of our own elements, and all names again.
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

    /// Gives names that were not given yet.
    fn name(&mut self, sink: &mut impl Sink) -> ControlFlow<()> {
        for (number, name) in self.points.from(self.named[0]) {
            let mut record = Record::of_options(1);
            record.number(Element::IngressInterface, number);
            sink.take(record.text(Element::InterfaceName, name))?;
            self.named[0] += 1;
        }
        for (number, name) in self.classes.from(self.named[1]) {
            let mut record = Record::of_options(1);
            record.number(Element::ClassId, number);
            sink.take(record.text(Element::ClassName, name))?;
            self.named[1] += 1;
        }
        Continue(())
    }

    /// Gives all that is new in `snapshot`.
    pub fn export(&mut self, snapshot: &Snapshot, sink: &mut impl Sink) -> ControlFlow<()> {
        let Some(epoch) = snapshot.epoch else {
            return Continue(());
        };
        for port in &snapshot.ports {
            self.points.number(&port.name);
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
        let last = last.filter(|last| taken.is_none_or(|taken| last.epoch > taken));
        let of_one = last.filter(|last| last.counts.received_packets == since.delays.packets);
        let stamped = of_one.and_then(|last| last.stamped.as_ref());
        let estimate = last.and_then(|last| {
            let lda = last.lda.as_ref()?;
            Some(Estimate {
                mean_ns: lda.mean_ns,
                bound_ns: Some(lda.bound_ns),
                stddev_ns: lda.stddev_ns,
                packets: Some(lda.effective_samples),
                epoch: last.epoch,
                method: "lda",
            })
        });
        let line = Line {
            since,
            first_epoch: of_one.map_or(self.next_epoch(), |last| last.epoch),
            last_epoch: of_one.map_or(epoch, |last| last.epoch),
            delays: stamped.map_or(since.delays.delays(), |stamped| {
                Delays::of_segment(since.delays.packets, stamped)
            }),
            estimate,
        };
        let epoch = last.map_or(taken, |last| Some(last.epoch));
        self.segment(key, &line, times, sink)?;
        self.segments.enter(key, now, epoch);
        Continue(())
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
        let key = (
            Kind::Wire,
            self.ends([&segment.from, &segment.to, &segment.class]),
        );
        let (since, taken) = self.segments.since(&key, now);
        let last = segment.last.as_ref();
        let last = last.filter(|last| taken.is_none_or(|taken| last.epoch > taken));
        let estimate = last.and_then(|last| {
            let chosen = last.chosen.as_ref()?;
            Some(Estimate {
                mean_ns: chosen.mean_ns,
                bound_ns: chosen.bound_ns,
                stddev_ns: last.stddev_ns,
                packets: chosen.effective_samples,
                epoch: last.epoch,
                method: &chosen.method,
            })
        });
        let line = Line {
            since,
            first_epoch: self.next_epoch(),
            last_epoch: epoch,
            delays: None,
            estimate,
        };
        let epoch = last.map_or(taken, |last| Some(last.epoch));
        self.segment(key, &line, times, sink)?;
        self.segments.enter(key, now, epoch);
        Continue(())
    }

    /// Options of a segment: a collector that adds up data records would count its packets beside those of its flows.
    fn segment(
        &mut self,
        (kind, ends): (Kind, Ends),
        line: &Line,
        times: &EpochTimes,
        sink: &mut impl Sink,
    ) -> ControlFlow<()> {
        if line.since.is_nothing() {
            return Continue(());
        }
        self.name(sink)?;
        let mut record = Record::of_options(4);
        ends.put(&mut record);
        record.number(Element::SegmentKind, kind as u8);
        line.put(&mut record, times);
        sink.take(&record)
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
        let delays = if is_of_one {
            Delays::of_flow(last, flow.quantiles.as_ref())
        } else {
            since.delays.delays()
        };
        let line = Line {
            since,
            first_epoch: if is_of_one {
                flow.last_epoch
            } else {
                self.next_epoch().max(flow.first_epoch)
            },
            last_epoch: flow.last_epoch,
            delays,
            estimate: flow.estimate().map(Estimate::from),
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
            from: self.points.number(from),
            to: self.points.number(to),
            class: u8::try_from(self.classes.number(class)).unwrap_or(u8::MAX),
        }
    }

    /// The first epoch that no record was taken of.
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
        IpAddr::V4(source) => record.octets(Element::SourceIpv4Address, &source.octets()),
        IpAddr::V6(source) => record.octets(Element::SourceIpv6Address, &source.octets()),
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

#[cfg(test)]
mod tests;
