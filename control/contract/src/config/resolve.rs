//! Derives segments, receive queues, workers, owners and layouts from a configuration.
//!
//! They depend on the configuration alone, so that daemon, check and tests agree. If a device has fewer
//! receive queues than requested, the daemon writes their number to
//! [`Port::rx_queues`](super::Port::rx_queues) and derives everything again.

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use measure::InvalidArgument;
use measure::flows::Slot;
use measure::lds::LdsLayout;
use measure::rli::{Method, Receiver, ReceiverConfig};
use measure::shard::ShardLayout;
use measure::time::TickRate;

use super::{
    Around, CLASSES_MAX, Config, Device, Forwarding, Idle, Lds, Port, Queue, Rli, RliMethod,
    RliPolicy, Stamps, Station, WORKERS_MAX, Worker,
};
use crate::fdb::{FdbSettings, Limits, StationKey};
use crate::ids::PortIndex;

/// Bytes of a stream of references in addition to its buffers: both ends' figures, and 64 references in flight.
const STREAM_BYTES: usize = 8 << 10;

/// Packets between references for a policy by time alone.
const TIMED_PACKETS: usize = 2_048;

/// Packets between references for the adaptive policy: at its lowest rate.
const ADAPTIVE_PACKETS: usize = 300;

/// Packets of a burst at either end of an interval.
const BURST_PACKETS: usize = 64;

/// Most streams of a port that use its idle times, because each stream stores all of them.
const ANCHORED_STREAMS_MAX: usize = 8;

/// A measured segment, by indices into [`Config::ports`] and [`Config::classes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The port where its packets arrive; around a device, the port where they enter it.
    pub ingress: usize,
    /// The port where its packets leave; around a device, the port where they return.
    pub egress: usize,
    /// Their class.
    pub class: usize,
    /// The device that they pass, by index into `measurement.around`; `None` inside the switch.
    pub around: Option<usize>,
}

impl Segment {
    /// Whether it is inside the switch.
    pub fn is_inside(&self) -> bool {
        self.around.is_none()
    }
}

/// Everything derived from a configuration for all of its ports, computed once.
#[derive(Debug)]
pub struct Resolved {
    /// [`Config::segments`].
    pub segments: Vec<Segment>,
    /// [`Config::assignment`].
    pub assignment: Vec<Vec<(usize, u16)>>,
    /// [`Config::owner`] of each port.
    pub owners: Vec<Option<usize>>,
    /// The method that estimates delays from references for each egress port; `None` without references.
    /// [`RliMethod::AnchoredSums`] becomes RLI-S unless one worker sends all of the port's packets and stamps each of
    /// them.
    pub rli_methods: Vec<Option<Method>>,
    /// The ports with an LDS, in the order of the shards' sketches: those by which packets of measured
    /// segments leave.
    pub sketch_ports: Vec<usize>,
}

impl Resolved {
    /// Whether a worker sends packets of a segment: all of them if it owns the egress port, else those that
    /// it received.
    pub fn sends(&self, worker: usize, segment: &Segment) -> bool {
        match self.owners.get(segment.egress).copied().flatten() {
            _ if !segment.is_inside() => false,
            Some(owner) => owner == worker,
            None => (self.assignment.get(worker))
                .is_some_and(|served| served.iter().any(|&(port, _)| port == segment.ingress)),
        }
    }

    /// The queues of a port served by each worker.
    pub(super) fn servers(&self, port: usize) -> Vec<Vec<u16>> {
        let of_port = |queues: &Vec<(usize, u16)>| {
            let queues = queues.iter().filter(|(of, _)| *of == port);
            queues.map(|(_, queue)| *queue).collect()
        };
        self.assignment.iter().map(of_port).collect()
    }

    /// The segments of a host that leave by the port at this index, as indices into `segments`; may be
    /// empty.
    pub fn segments_of_egress(&self, port: usize) -> Range<u16> {
        let is_by_it = |segment: &&Segment| segment.egress == port && segment.is_inside();
        let before = self
            .segments
            .iter()
            .take_while(|segment| !is_by_it(segment));
        let first = before.count() % self.segments.len().max(1);
        let by_it = self.segments[first..].iter().take_while(is_by_it);
        let end = first + by_it.count();
        // There are at most 32,768.
        let index = |position| u16::try_from(position).unwrap_or(u16::MAX);
        index(first)..index(end)
    }
}

impl Config {
    /// Derives everything for all ports.
    pub fn resolve(&self) -> Resolved {
        let (segments, assignment) = (self.segments(), self.assignment());
        let mut streams = vec![0; self.ports.len()];
        for segment in segments.iter().filter(|segment| segment.is_inside()) {
            streams[segment.egress] += 1;
        }
        let ports = 0..self.ports.len();
        let owner = |port| self.owner_of(port, &assignment, || streams[port] > 0);
        let owners: Vec<_> = ports.clone().map(owner).collect();
        let method = |port: usize| self.rli_method(port, owners[port], streams[port]);
        Resolved {
            rli_methods: ports.clone().map(method).collect(),
            sketch_ports: ports.filter(|&port| streams[port] > 0).collect(),
            segments,
            assignment,
            owners,
        }
    }

    /// The measured segments, one for each class: both directions of every patched pair, or every ordered
    /// pair of the bridge's ports (at most 4,032), or those in `measurement.segments`. In a host, every
    /// ordered pair of ports (at most 4,096), including a port with itself.
    ///
    /// The order is that of the shards' segments: the classes of a pair are adjacent, and in a host all
    /// segments of an egress port. Segments around devices are last, from every port of a device to every
    /// other. Empty if measurement is off.
    pub fn segments(&self) -> Vec<Segment> {
        if !self.measurement.enabled {
            return Vec::new();
        }
        let index = |name: &String| self.port_index(name);
        let present = (0..self.ports.len()).filter(|&port| self.ports[port].is_present());
        let present: Vec<usize> = present.collect();
        let mut inside: Vec<(usize, usize)> = match &self.forwarding {
            Forwarding::Patch { pairs, .. } => {
                let ends = pairs
                    .iter()
                    .filter_map(|(a, b)| Some((index(a)?, index(b)?)));
                ends.flat_map(|(a, b)| [(a, b), (b, a)]).collect()
            }
            Forwarding::Bridge { .. } => pairs(&present).filter(|(from, to)| from != to).collect(),
            Forwarding::Host => pairs(&present).map(|(to, from)| (from, to)).collect(),
        };
        if let Some(wanted) = &self.measurement.segments {
            let wanted = wanted
                .iter()
                .filter_map(|pair| Some((index(&pair.from)?, index(&pair.to)?)));
            let wanted: HashSet<_> = wanted.collect();
            inside.retain(|pair| wanted.contains(pair));
        }
        let mut all: Vec<_> = inside.into_iter().map(|ends| (ends, None)).collect();
        for (device, around) in self.measurement.around.iter().enumerate() {
            let ports: Vec<usize> = around.ports.iter().filter_map(index).collect();
            let others = pairs(&ports).filter(|(from, to)| from != to);
            all.extend(others.map(|ends| (ends, Some(device))));
        }
        let classes = 0..self.class_count();
        let of_classes = all.into_iter().flat_map(|((ingress, egress), around)| {
            classes.clone().map(move |class| Segment {
                ingress,
                egress,
                class,
                around,
            })
        });
        of_classes.collect()
    }

    /// The names of a segment's ends: ports, or `device:port`.
    pub fn segment_ends(&self, segment: &Segment) -> [String; 2] {
        let around = segment
            .around
            .and_then(|device| self.measurement.around.get(device));
        [segment.ingress, segment.egress].map(|port| match around {
            Some(Around { name, .. }) => format!("{name}:{}", self.port_name(port)),
            None => self.port_name(port).to_owned(),
        })
    }

    /// The device that a port leads to, and the port's index at the device.
    pub fn around(&self, port: usize) -> Option<(usize, usize)> {
        let name = self.port_name(port);
        let devices = self.measurement.around.iter().enumerate();
        let mut devices = devices.filter(|_| self.measurement.enabled);
        devices.find_map(|(device, around)| {
            let place = around.ports.iter().position(|port| port == name)?;
            Some((device, place))
        })
    }

    /// If no workers are configured, adds one for each port that receives (is not a sink), limited to
    /// `cpus` minus one for the control core; at least one.
    ///
    /// [`Config::load`] and [`Config::parse`] do so with the CPUs that this process may use.
    pub fn settle_workers(&mut self, cpus: usize) {
        if self.workers.is_empty() {
            let receives = |port: &&Port| !matches!(port.device, Device::Sink | Device::Absent);
            let ports = self.ports.iter().filter(receives).count();
            let number = ports.min(cpus.saturating_sub(1)).clamp(1, WORKERS_MAX);
            let worker = Worker {
                core: None,
                idle: Idle::default(),
                queues: None,
            };
            self.workers = vec![worker; number];
        }
    }

    /// Number of receive queues of a port: as configured, else one for each worker or as many as the
    /// workers' own lists name. Always one for generated packets and for a port with a segment on the wire;
    /// none if the port is absent.
    pub fn rx_queues(&self, port: usize) -> u16 {
        let Some(port) = self.ports.get(port).filter(|port| port.is_present()) else {
            return 0;
        };
        if !matches!(port.device, Device::Dpdk(_)) || port.wire.is_some() {
            return 1;
        }
        let named = self.workers.iter().filter_map(|w| w.queues.as_ref());
        let named = named.flatten().filter(|(of, _)| *of == port.name);
        let last = named.map(|(_, queue)| *queue).max();
        let workers = u16::try_from(self.workers.len()).unwrap_or(u16::MAX);
        port.rx_queues
            .or(last.map(|last| last.saturating_add(1)))
            .unwrap_or(workers)
            .max(1)
    }

    /// The receive queues that each worker serves, as (port, queue): those that it names. If no worker
    /// names any, queue n of every port goes to worker n modulo the number of workers. Ports with fewer
    /// queues than there are workers take turns; an absent port keeps its turn, so that others do not move.
    pub fn assignment(&self) -> Vec<Vec<(usize, u16)>> {
        let mut served = vec![Vec::new(); self.workers.len()];
        if served.is_empty() {
            return served;
        }
        if self.workers.iter().any(|worker| worker.queues.is_some()) {
            let served = self.workers.iter().map(|worker| {
                let named = worker.queues.iter().flatten();
                let named =
                    named.filter_map(|(name, queue)| Some((self.port_index(name)?, *queue)));
                named.collect()
            });
            return served.collect();
        }
        let workers = served.len();
        let mut turn = 0;
        for (index, port) in self.ports.iter().enumerate() {
            let present = self.rx_queues(index);
            let queues = match port.device {
                Device::Absent => usize::from(port.rx_queues.unwrap_or(1)),
                _ => usize::from(present),
            };
            let is_dealt = queues < workers;
            let first = if is_dealt { turn } else { 0 };
            for queue in 0..present {
                served[(first + usize::from(queue)) % workers].push((index, queue));
            }
            turn += queues * usize::from(is_dealt);
        }
        served
    }

    /// The worker that transmits for all workers on this port; `None` if each worker transmits itself (a
    /// *plain* port).
    ///
    /// With several workers, a port has an owner if order matters: with a capacity, class queues, a maximum
    /// residency, a segment on the wire, an explicit RLI-AS (which must see the whole port), or an explicit
    /// owner. The default owner is the worker that serves the port's first receive queue.
    pub fn owner(&self, port: usize) -> Option<usize> {
        let is_by_it = |segment: &Segment| segment.egress == port && segment.is_inside();
        let is_measured = || self.segments().iter().any(is_by_it);
        self.owner_of(port, &self.assignment(), is_measured)
    }

    fn owner_of(
        &self,
        port: usize,
        assignment: &[Vec<(usize, u16)>],
        is_measured: impl FnOnce() -> bool,
    ) -> Option<usize> {
        if self.workers.len() < 2 {
            return None;
        }
        let Port { egress, wire, .. } = self.ports.get(port).filter(|port| port.is_present())?;
        let rli = self.measurement.rli.as_ref();
        let needs_order = egress.capacity_bps.is_some()
            || !egress.queues.is_empty()
            || egress.max_residency_us.is_some()
            || wire.is_some()
            || rli.is_some_and(|rli| rli.method == RliMethod::AnchoredSums) && is_measured();
        let serves = |queues: &Vec<(usize, u16)>| queues.contains(&(port, 0));
        let first = || assignment.iter().position(serves).unwrap_or(0);
        egress.owner.or_else(|| needs_order.then(first))
    }

    fn rli_method(&self, port: usize, owner: Option<usize>, streams: usize) -> Option<Method> {
        let configured = self.measurement.rli.as_ref()?.method;
        let can_anchor = (self.workers.len() < 2 || owner.is_some())
            && self.measurement.stamps == Stamps::Packet
            && self.ports[port].egress.capacity_bps.is_some()
            && streams <= ANCHORED_STREAMS_MAX;
        Some(configured.method(can_anchor))
    }

    /// Number of reference streams over all workers, and bytes of each.
    pub(crate) fn reference_streams(&self) -> (usize, usize) {
        let Some(Rli { policy, method }) = &self.measurement.rli else {
            return (0, 0);
        };
        let resolved = self.resolve();
        let of_worker = |worker| {
            let sent = (resolved.segments.iter()).filter(|one| resolved.sends(worker, one));
            sent.count()
        };
        let streams = (0..self.workers.len()).map(of_worker).sum();
        let is_buffered = self.measurement.flows.is_some() && *method != RliMethod::Left;
        let buffers = if is_buffered {
            policy.buffer_packets() * Receiver::<Slot>::PACKET_BYTES
        } else {
            0
        };
        (streams, STREAM_BYTES + buffers)
    }

    /// The port whose link follows this port's, if a patch panel forwards link losses.
    pub fn partner(&self, port: usize) -> Option<usize> {
        let Forwarding::Patch {
            pairs,
            link_loss_forwarding: true,
        } = &self.forwarding
        else {
            return None;
        };
        let name = &self.ports.get(port)?.name;
        let other = pairs.iter().find_map(|(a, b)| match name {
            _ if a == name => Some(b),
            _ if b == name => Some(a),
            _ => None,
        });
        self.port_index(other?)
    }

    /// The queue (index into [`Egress::queues`](super::Egress::queues)) of each class at a port; 0 for all
    /// classes without class queues.
    pub fn queue_of_class(&self, port: usize) -> [u8; CLASSES_MAX] {
        std::array::from_fn(|class| {
            let (port, class) = (self.ports.get(port)?, self.classes.get(class)?);
            let holds = |queue: &Queue| queue.classes.contains(&class.name);
            let queue = port.egress.queues.iter().position(holds)?;
            u8::try_from(queue).ok()
        })
        .map(Option::unwrap_or_default)
    }

    /// The layout of one worker's data for one epoch; `rate` is that of the time stamp counter.
    ///
    /// It has a sketch for each of [`Resolved::sketch_ports`], in which a packet has the weight of its
    /// class.
    ///
    /// # Errors
    /// [`LayoutError`] for sizes out of range.
    pub fn shard_layout(&self, rate: TickRate) -> Result<ShardLayout, LayoutError> {
        let measurement = &self.measurement;
        let resolved = self.resolve();
        let (segments, ports) = (&resolved.segments, &resolved.sketch_ports);
        let mut layout = ShardLayout::new(rate, segments.len());
        if !measurement.enabled {
            return Ok(layout);
        }
        layout.segment = measurement.segment_layout()?;
        if let Some(lds) = &measurement.lds {
            layout.sketches = ports.len();
            for (sketch, segment) in layout.sketch_of.iter_mut().zip(segments) {
                let position = ports.iter().position(|&port| port == segment.egress);
                let position = position.filter(|_| segment.is_inside());
                *sketch = position.and_then(|n| n.try_into().ok()).unwrap_or(u16::MAX);
            }
            let classes = segments
                .iter()
                .map(|segment| self.classes.get(segment.class));
            let weights = classes.map(|class| class.map_or(1, |class| class.lds_weight));
            let weights: Vec<u32> = weights.collect();
            layout.lds = Some(
                lds.layout()
                    .and_then(|layout| layout.with_weights(&weights))
                    .map_err(LayoutError::of("measurement.lds"))?,
            );
        }
        if let Some(flows) = &measurement.flows {
            layout.flow_slots = flows.slots as usize;
            layout.flow_estimates = measurement.rli.is_some();
            layout.flow_histograms = self.prometheus.top_flows as usize;
        }
        Ok(layout)
    }

    /// Most stations learnt at each port; `u32::MAX` for no limit.
    pub fn station_limits(&self) -> Limits {
        let limit = |port: &Port| port.max_stations.unwrap_or(u32::MAX);
        std::array::from_fn(|port| self.ports.get(port).map_or(u32::MAX, limit))
    }

    /// Settings of the filtering database. A patch panel has one only to track links.
    pub fn fdb_settings(&self) -> FdbSettings {
        let is_present = |port| self.ports.get(port).is_some_and(Port::is_present);
        let mut settings = FdbSettings::new(1, Duration::from_secs(1));
        settings.limits = self.station_limits();
        settings.are_present = std::array::from_fn(is_present);
        if let Forwarding::Bridge {
            ageing_s,
            fdb_entries,
            stations,
            ..
        } = &self.forwarding
        {
            let fixed = |station: &Station| {
                let port = PortIndex::new(self.port_index(&station.port)?);
                Some((StationKey::of(station.vlan, station.address), port))
            };
            settings.stations_max = *fdb_entries as usize;
            settings.ageing = Duration::from_secs(u64::from(*ageing_s));
            settings.statics = stations.iter().filter_map(fixed).collect();
        }
        settings
    }
}

/// Every ordered pair, including each port with itself.
fn pairs(ports: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let with = |&first: &usize| ports.iter().map(move |&second| (first, second));
    ports.iter().flat_map(with)
}

/// Sizes without a valid layout; a parsed configuration has none.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LayoutError {
    /// The port has no segment on the wire.
    #[error("ports[{port}]: no wire")]
    NoWire {
        /// The port's index.
        port: usize,
    },
    /// Sizes out of range.
    #[error("{key}: {error}")]
    Sizes {
        /// The key above them.
        key: &'static str,
        /// Why they are invalid.
        error: InvalidArgument,
    },
}

impl LayoutError {
    /// Makes an error for the sizes below a key.
    pub(super) fn of(key: &'static str) -> impl FnOnce(InvalidArgument) -> Self {
        move |error| Self::Sizes { key, error }
    }
}

impl Lds {
    /// The layout of its rows, without weights and bytes; `cells` is rounded down to whole rows.
    ///
    /// # Errors
    /// [`InvalidArgument`] for sizes out of range.
    pub fn layout(&self) -> Result<LdsLayout, InvalidArgument> {
        let rows = u32::try_from(self.rows.len()).unwrap_or(u32::MAX).max(1);
        LdsLayout::new(self.cells / rows, self.virtual_cells, &self.rows)
    }
}

impl RliPolicy {
    /// Packets that a stream buffers between two references: room for two intervals, in case a reference is
    /// lost, and for a burst. Further packets are estimated by RLI-L.
    pub fn buffer_packets(&self) -> usize {
        let between = match *self {
            Self::Count { packets } => packets as usize,
            Self::Time { .. } => TIMED_PACKETS,
            Self::Either { packets, .. } => (packets as usize).min(2 * TIMED_PACKETS),
            Self::Adaptive => ADAPTIVE_PACKETS,
        };
        (2 * between + BURST_PACKETS).min(ReceiverConfig::BUFFER_PACKETS_MAX)
    }
}

impl RliMethod {
    /// The effective method; `can_anchor` says whether idle times are known and packets are stamped one by
    /// one.
    pub(super) fn method(self, can_anchor: bool) -> Method {
        match self {
            Self::Left => Method::Left,
            Self::Linear => Method::Linear,
            Self::Auto | Self::AnchoredSums if can_anchor => Method::AnchoredSums,
            Self::Auto | Self::AnchoredSums | Self::Sums => Method::Sums,
        }
    }
}

#[cfg(test)]
mod tests;
