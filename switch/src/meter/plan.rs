//! How a generation of the configuration measures: its segments, flows and references.

use contract::config::{Config, Segment};
use contract::counters::WorkerCounters;
use contract::handover::WorkerEnd;
use contract::ids::PortIndex;
use measure::observation::SegmentIndex;
use measure::packet::Hashing;

use super::around::Arounds;
use crate::flows::Flows;
use crate::packet_io::{ClassIndex, NO_SEGMENT};
use crate::references::References;

/// Most classes of a configuration.
const CLASSES: usize = 8;

/// Segments by class.
pub type Segments = [SegmentIndex; CLASSES];

/// None is measured.
pub const NO_SEGMENTS: Segments = [NO_SEGMENT; CLASSES];

/// Which segment leads from one port to another, for each class.
#[derive(Debug, Clone)]
pub struct SegmentMap {
    ports: usize,
    segments: Box<[Segments]>,
}

impl SegmentMap {
    /// A map over `ports` ports in which the n-th (ingress, egress, class) is segment n.
    pub fn new(
        ports: usize,
        measured: impl IntoIterator<Item = (PortIndex, PortIndex, ClassIndex)>,
    ) -> Self {
        let segments = vec![NO_SEGMENTS; ports * ports].into_boxed_slice();
        let mut map = Self { ports, segments };
        for (n, (ingress, egress, class)) in (0..NO_SEGMENT.0).zip(measured) {
            map.set(
                SegmentIndex(n),
                ingress.index(),
                egress.index(),
                class.0.into(),
            );
        }
        map
    }

    /// The segments of a configuration inside the switch.
    pub fn inside(config: &Config) -> Self {
        Self::of(config, Segment::is_inside)
    }

    /// Those around devices of others.
    pub fn around(config: &Config) -> Self {
        Self::of(config, |segment| !segment.is_inside())
    }

    /// Some of a configuration's segments.
    fn of(config: &Config, is_one: impl Fn(&Segment) -> bool) -> Self {
        let mut map = Self::new(config.ports.len(), []);
        for (n, segment) in (0..NO_SEGMENT.0).zip(config.segments()) {
            if is_one(&segment) {
                map.set(
                    SegmentIndex(n),
                    segment.ingress,
                    segment.egress,
                    segment.class,
                );
            }
        }
        map
    }

    fn set(&mut self, segment: SegmentIndex, ingress: usize, egress: usize, class: usize) {
        let pair = self.segments.get_mut(ingress * self.ports + egress);
        if let Some(place) = pair.and_then(|pair| pair.get_mut(class)) {
            *place = segment;
        }
    }

    /// The segments from one port to another, by class.
    #[inline]
    pub fn between(&self, ingress: PortIndex, egress: PortIndex) -> Segments {
        let pair = ingress.index() * self.ports + egress.index();
        self.segments.get(pair).copied().unwrap_or(NO_SEGMENTS)
    }
}

/// How a generation measures.
#[derive(Debug)]
pub struct Plan {
    /// Where its shards come from and go to.
    pub handover: WorkerEnd,
    /// What its segments are called.
    pub segments: SegmentMap,
    /// What is to be found out about each packet as it arrives.
    pub hashing: Hashing,
    /// Flows with counters of their own.
    pub flows: Option<Flows>,
    /// Whether the clock is read for every packet, not for every burst.
    pub stamps_packets: bool,
    /// Devices of others that packets are measured around, where there are any.
    pub arounds: Option<Box<Arounds>>,
    /// References among packets, where there are any.
    pub references: Option<Box<References>>,
}

impl Plan {
    /// Shows what became of references since the last time.
    pub fn show_references(&mut self, counters: &WorkerCounters) {
        if let Some(references) = &mut self.references {
            references.show(&counters.references);
        }
    }

    /// Does what the control core asks for between epochs.
    pub(super) fn apply_commands(&mut self) {
        if let Some(flows) = &mut self.flows {
            flows.apply_commands(&mut self.handover);
        }
    }
}
