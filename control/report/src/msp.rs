//! The measurement state packet: its fields, in protobuf. The `.proto` in `docs/report.md` is generated from this
//! file.

use contract::text::clean;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use prost::{DecodeError, Message};
use records::names::name;

/// Major version; a receiver rejects a greater one.
pub const VERSION_MAJOR: u32 = 1;

/// Minor version, incremented with every added field; older receivers ignore such fields.
pub const VERSION_MINOR: u32 = 2;

/// Most bytes of a report. A segment takes 66 bytes; NATS accepts 1 MiB unless its `max_payload` is raised.
pub const BYTES_MAX: usize = 4 << 20;

/// Most names of a report.
pub const NAMES_MAX: usize = 1 << 16;

/// Most bytes of a name, and of any other text of a report.
pub const NAME_BYTES_MAX: usize = 256;

/// Most segments of a report: 64 ports, each to each, in 8 classes, and some more.
pub const SEGMENTS_MAX: usize = 40_000;

/// Most flows of a report.
pub const FLOWS_MAX: usize = 1_000;

/// Most neighbours of a report.
pub const NEIGHBOURS_MAX: usize = 1_024;

/// Most reasons of one kind in [`Health`].
const REASONS_MAX: usize = 16;

/// A report of a switch or a prober on the epochs since its previous report, usually one.
#[derive(Clone, PartialEq, Message)]
pub struct Report {
    /// Major version of the packet, 1.
    #[prost(uint32, tag = "1")]
    pub version_major: u32,
    /// Minor version of the packet.
    #[prost(uint32, tag = "2")]
    pub version_minor: u32,
    /// The switch's name, 1 to 64 letters, digits, `.`, `_` or `-`.
    #[prost(string, tag = "3")]
    pub switch: String,
    /// Random number of this run of the switch.
    #[prost(fixed64, tag = "4")]
    pub incarnation: u64,
    /// Number of the last epoch reported; rises with each report of an incarnation.
    #[prost(uint64, tag = "5")]
    pub epoch: u64,
    /// Epochs over which packets and losses are counted; more than 1 if several closed together or the sender was
    /// late.
    #[prost(uint64, tag = "6")]
    pub epochs: u64,
    /// Beginning of the last epoch in nanoseconds since 1970 (UTC), to within a few milliseconds.
    #[prost(uint64, tag = "7")]
    pub start_unix_ns: u64,
    /// Length of an epoch in nanoseconds.
    #[prost(uint64, tag = "8")]
    pub length_ns: u64,
    /// Whether the figures can be trusted.
    #[prost(message, optional, tag = "9")]
    pub health: Option<Health>,
    /// Names of ports, classes and methods; segments, flows and neighbours refer to them by index from 0.
    #[prost(string, repeated, tag = "10")]
    pub names: Vec<String>,
    /// Segments that had packets.
    #[prost(message, repeated, tag = "11")]
    pub segments: Vec<Segment>,
    /// The flows with the most packets in the last epoch, in descending order.
    #[prost(message, repeated, tag = "12")]
    pub flows: Vec<Flow>,
    /// Switches at the other ends of wires and links.
    #[prost(message, repeated, tag = "13")]
    pub neighbours: Vec<Neighbour>,
    /// The switch's number on wires; absent without wires.
    #[prost(uint32, optional, tag = "14")]
    pub wire_switch: Option<u32>,
    /// Reports of this incarnation that were dropped because the spool was full.
    #[prost(uint64, tag = "15")]
    pub dropped_reports: u64,
    /// Prober only: name of the node from which it probes.
    #[prost(string, optional, tag = "16")]
    pub node: Option<String>,
}

/// Whether figures can be trusted.
#[derive(Clone, PartialEq, Message)]
pub struct Health {
    /// Why epochs since the last report were unusable for at least one segment: `missed_shard`, `generation`, `link`,
    /// `internal`; for a prober `sender_stepped`, `reflector_stepped` (a clock was set). Empty if all were usable.
    #[prost(string, repeated, tag = "1")]
    pub unusable: Vec<String>,
    /// Epochs that workers could not measure, since the switch started.
    #[prost(uint64, tag = "2")]
    pub missed_epochs: u64,
    /// Workers that have stalled.
    #[prost(uint32, tag = "3")]
    pub stalled_workers: u32,
    /// State of the wires' clock: `locked`, `holding_over` or `free`; empty without wires. For a prober `locked` if
    /// the clock is synchronised, else `free`.
    #[prost(string, tag = "4")]
    pub clock: String,
    /// Error that this clock claims, in nanoseconds: the kernel's estimate if it has one, else a bound.
    #[prost(float, tag = "5")]
    pub clock_error_ns: f32,
    /// Why the switch is not ready, in words, at most 8 reasons; empty if it is ready.
    #[prost(string, repeated, tag = "6")]
    pub unready: Vec<String>,
}

/// The kind of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    /// From an ingress port to an egress port of the switch.
    Inside = 0,
    /// Between ports of two switches.
    Wire = 1,
    /// From an egress port to an ingress port of the switch, around another device.
    Around = 2,
    /// From the node at one end of a probe to the node at the other. Without synchronised clocks there are only
    /// counts. A packet that was not answered counts as lost, whichever direction lost it.
    Probe = 3,
    /// From a prober to another node and back, without the time spent there.
    RoundTrip = 4,
}

/// A segment. Delays are of its last usable epoch, in nanoseconds; on wires they are signed, because clocks differ.
#[derive(Clone, PartialEq, Message)]
pub struct Segment {
    /// Its kind.
    #[prost(enumeration = "Kind", tag = "1")]
    pub kind: i32,
    /// Name of the point where packets enter it: a port; on a wire that arrives here `port:peer`, the port at the
    /// other end; for probes a node.
    #[prost(uint32, tag = "2")]
    pub from: u32,
    /// Name of the point where they leave it, likewise.
    #[prost(uint32, tag = "3")]
    pub to: u32,
    /// Name of the class; `all` unless classes are configured.
    #[prost(uint32, tag = "4")]
    pub class: u32,
    /// Packets that entered it since the last report.
    #[prost(uint64, tag = "5")]
    pub packets: u64,
    /// Of these, packets lost; signed, because on a wire a packet missing from one epoch may be counted in
    /// another.
    #[prost(sint64, tag = "6")]
    pub lost: i64,
    /// Packets with a known delay: the sample of mean, deviation and percentiles. 0 if there are no delays.
    #[prost(uint64, tag = "7")]
    pub samples: u64,
    /// Mean delay.
    #[prost(float, tag = "8")]
    pub mean_ns: f32,
    /// Half-width of the nominal 98 % interval around the mean, 0 if every packet is stamped; absent if unknown.
    #[prost(float, optional, tag = "9")]
    pub bound_ns: Option<f32>,
    /// Standard deviation of the delay; absent if unknown.
    #[prost(float, optional, tag = "10")]
    pub stddev_ns: Option<f32>,
    /// Least, greatest, median, 99th and 99.9th percentile; absent unless delays are stamped.
    #[prost(message, optional, tag = "11")]
    pub quantiles: Option<Quantiles>,
    /// Name of the mean's method: `stamped`, `lda`, `rli-s`, ...
    #[prost(uint32, tag = "12")]
    pub method: u32,
    /// The epoch of the delays as counted by the sender, if that is another switch or the epoch an earlier one; else
    /// absent.
    #[prost(uint64, optional, tag = "13")]
    pub epoch: Option<u64>,
    /// Bytes that entered it since the last report; 0 if unknown.
    #[prost(uint64, tag = "14")]
    pub bytes: u64,
}

/// Percentiles of stamped delays in nanoseconds, exact to an eighth of an octave (9 %).
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Quantiles {
    /// Least.
    #[prost(float, tag = "1")]
    pub min_ns: f32,
    /// Greatest.
    #[prost(float, tag = "2")]
    pub max_ns: f32,
    /// Median.
    #[prost(float, tag = "3")]
    pub p50_ns: f32,
    /// 99th percentile.
    #[prost(float, tag = "4")]
    pub p99_ns: f32,
    /// 99.9th percentile.
    #[prost(float, tag = "5")]
    pub p999_ns: f32,
}

/// A flow on a segment inside the switch, over its last epoch.
#[derive(Clone, PartialEq, Message)]
pub struct Flow {
    /// `10.0.0.1:1024>10.0.0.2:80/tcp`.
    #[prost(string, tag = "1")]
    pub flow: String,
    /// Name of the ingress port.
    #[prost(uint32, tag = "2")]
    pub from: u32,
    /// Name of the egress port.
    #[prost(uint32, tag = "3")]
    pub to: u32,
    /// Name of the class.
    #[prost(uint32, tag = "4")]
    pub class: u32,
    /// Packets that left the segment.
    #[prost(uint64, tag = "5")]
    pub packets: u64,
    /// Packets lost; absent if unknown.
    #[prost(uint64, optional, tag = "6")]
    pub lost: Option<u64>,
    /// Mean delay in nanoseconds; absent if unknown.
    #[prost(float, optional, tag = "7")]
    pub mean_ns: Option<f32>,
    /// Standard deviation in nanoseconds; absent if unknown.
    #[prost(float, optional, tag = "8")]
    pub stddev_ns: Option<f32>,
    /// 99th percentile in nanoseconds; absent if unknown.
    #[prost(float, optional, tag = "9")]
    pub p99_ns: Option<f32>,
}

/// The other end of a wire, or of a link whose other end speaks LLDP.
#[derive(Clone, PartialEq, Message)]
pub struct Neighbour {
    /// Name of the port here.
    #[prost(uint32, tag = "1")]
    pub port: u32,
    /// The other switch's number on wires; 0 for a link with LLDP.
    #[prost(uint32, tag = "2")]
    pub peer_switch: u32,
    /// Name of the port there.
    #[prost(uint32, tag = "3")]
    pub peer_port: u32,
    /// State of the session: `waiting`, `mismatch`, `established`, `lost` or `loop`; empty for a link with
    /// LLDP.
    #[prost(string, tag = "4")]
    pub session: String,
    /// Name by which the other end identifies itself by LLDP (IEEE 802.1AB); absent on wires.
    #[prost(string, optional, tag = "5")]
    pub system: Option<String>,
}

/// Checks counts before decoding, because two bytes can encode a whole segment.
fn check_size(mut bytes: &[u8]) -> Result<(), MspError> {
    at_most("bytes", bytes.len(), BYTES_MAX)?;
    let limits = [
        ("names", 10, NAMES_MAX),
        ("segments", 11, SEGMENTS_MAX),
        ("flows", 12, FLOWS_MAX),
        ("neighbours", 13, NEIGHBOURS_MAX),
    ];
    let mut numbers = limits.map(|_| 0);
    while !bytes.is_empty() {
        let (tag, wire_type) = decode_key(&mut bytes)?;
        for (number, (_, of, _)) in numbers.iter_mut().zip(limits) {
            *number += usize::from(tag == of);
        }
        skip_field(wire_type, tag, &mut bytes, DecodeContext::default())?;
    }
    let mut counted = limits.iter().zip(numbers);
    counted.try_for_each(|(&(what, _, most), number)| at_most(what, number, most))
}

fn at_most(what: &'static str, number: usize, most: usize) -> Result<(), MspError> {
    let is_fit = number <= most;
    let refused = || MspError::TooLarge { what, number, most };
    is_fit.then_some(()).ok_or_else(refused)
}

impl Segment {
    /// Removes figures that are not finite.
    fn clean(&mut self) {
        for figure in [&mut self.bound_ns, &mut self.stddev_ns] {
            *figure = figure.filter(|figure| figure.is_finite());
        }
        self.quantiles = self.quantiles.filter(|of| {
            let all = [of.min_ns, of.max_ns, of.p50_ns, of.p99_ns, of.p999_ns];
            all.into_iter().all(f32::is_finite)
        });
        if !self.mean_ns.is_finite() {
            (self.samples, self.mean_ns) = (0, 0.0);
        }
    }
}

/// Indices by which segments, flows and neighbours refer to names.
pub fn indices<'r>(
    segments: impl Iterator<Item = &'r mut Segment>,
    flows: &'r mut [Flow],
    neighbours: &'r mut [Neighbour],
) -> impl Iterator<Item = &'r mut u32> {
    let segments =
        segments.flat_map(|of| [&mut of.from, &mut of.to, &mut of.class, &mut of.method]);
    let flows = flows.iter_mut();
    let flows = flows.flat_map(|flow| [&mut flow.from, &mut flow.to, &mut flow.class]);
    let neighbours = neighbours.iter_mut();
    let neighbours = neighbours.flat_map(|other| [&mut other.port, &mut other.peer_port]);
    segments.chain(flows).chain(neighbours)
}

impl Neighbour {
    /// The other switch's number on wires; `None` for a link with LLDP.
    pub fn wire_switch(&self) -> Option<u32> {
        self.system.is_none().then_some(self.peer_switch)
    }
}

/// Why bytes are not a report.
#[derive(Debug, thiserror::Error)]
pub enum MspError {
    /// Not protobuf of this kind.
    #[error("not a measurement state packet: {0}")]
    Malformed(#[from] DecodeError),
    /// The sender is newer.
    #[error(
        "the report has version {major}.{minor}, this program reads up to {VERSION_MAJOR}.x: update it before the switches"
    )]
    TooNew {
        /// Major version.
        major: u32,
        /// Minor version.
        minor: u32,
    },
    /// It exceeds a limit that every switch and prober keeps.
    #[error("the report has {number} {what}, expected at most {most}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// Its number.
        number: usize,
        /// The limit.
        most: usize,
    },
    /// An index without a name, or an invalid name of a switch.
    #[error("not a measurement state packet: {0}")]
    Inconsistent(&'static str),
}

impl Report {
    /// Reads a report. Texts are cleaned for display, and figures that are not finite are removed.
    ///
    /// # Errors
    /// [`MspError`] if it is not a report, too large, or of a greater major version.
    pub fn read(bytes: &[u8]) -> Result<Self, MspError> {
        check_size(bytes)?;
        let mut report = Self::decode(bytes)?;
        if report.version_major > VERSION_MAJOR {
            return Err(MspError::TooNew {
                major: report.version_major,
                minor: report.version_minor,
            });
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !(1..=64).contains(&report.switch.len()) || !report.switch.chars().all(is_plain) {
            return Err(MspError::Inconsistent("the switch has no name"));
        }
        let segments = report.segments.iter_mut();
        let greatest = indices(segments, &mut report.flows, &mut report.neighbours).max();
        if greatest.is_some_and(|index| *index as usize >= report.names.len()) {
            return Err(MspError::Inconsistent("an index refers to no name"));
        }
        report.clean()?;
        Ok(report)
    }

    fn clean(&mut self) -> Result<(), MspError> {
        let systems = self.neighbours.iter_mut().flat_map(|other| {
            let system = other.system.iter_mut();
            system.chain([&mut other.session])
        });
        let names = self.names.iter_mut().chain(&mut self.node).chain(systems);
        for name in names.chain(self.flows.iter_mut().map(|flow| &mut flow.flow)) {
            at_most("bytes in a name", name.len(), NAME_BYTES_MAX)?;
            clean(name);
        }
        if let Some(health) = &mut self.health {
            health.unusable.truncate(REASONS_MAX);
            health.unready.truncate(REASONS_MAX);
            let reasons = health.unusable.iter_mut().chain(&mut health.unready);
            for reason in reasons.chain([&mut health.clock]) {
                reason.truncate(reason.floor_char_boundary(NAME_BYTES_MAX));
                clean(reason);
            }
        }
        self.segments.iter_mut().for_each(Segment::clean);
        for flow in &mut self.flows {
            for figure in [&mut flow.mean_ns, &mut flow.stddev_ns, &mut flow.p99_ns] {
                *figure = figure.filter(|figure| figure.is_finite());
            }
        }
        Ok(())
    }

    /// The name at an index; empty if there is none.
    pub fn name(&self, index: u32) -> &str {
        name(&self.names, index)
    }

    /// End of the last epoch in nanoseconds since 1970 (UTC).
    pub fn end_unix_ns(&self) -> u64 {
        self.start_unix_ns.saturating_add(self.length_ns)
    }

    /// `switch.incarnation.epoch`: duplicates have the same id.
    pub fn message_id(&self) -> String {
        format!("{}.{:016x}.{}", self.switch, self.incarnation, self.epoch)
    }
}

#[cfg(test)]
mod tests;
