//! The tabs of the live table, by what each is ordered, and the spans of the chart.

use super::classes::ClassRow;
use crate::view::packets_per_s;
use records::answers::{FlowOrder, Width};
use records::snapshot::{Port, Segment, Snapshot};

/// The table in the middle of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Segments,
    Flows,
    Classes,
    Ports,
    Wires,
}

impl Tab {
    pub(super) const ALL: [Self; 5] = [
        Self::Segments,
        Self::Flows,
        Self::Classes,
        Self::Ports,
        Self::Wires,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Flows => "flows",
            Self::Classes => "classes",
            Self::Ports => "ports",
            Self::Wires => "wires",
        }
    }

    /// By what it can be ordered; the first is the default.
    pub(super) fn sorts(self) -> &'static [Sort] {
        match self {
            Self::Segments | Self::Classes => &[
                Sort::Configuration,
                Sort::Packets,
                Sort::Lost,
                Sort::Mean,
                Sort::Stddev,
                Sort::P99,
                Sort::P999,
                Sort::Max,
            ],
            Self::Ports => &[Sort::Configuration, Sort::Packets, Sort::Lost],
            Self::Wires => &[Sort::Configuration],
            Self::Flows => &[Sort::Packets, Sort::Lost, Sort::Mean, Sort::Stddev],
        }
    }
}

/// By what rows are ordered, greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Configuration,
    Packets,
    Lost,
    Mean,
    Stddev,
    P99,
    P999,
    Max,
}

impl Sort {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Configuration => "as configured",
            Self::Packets => "by packets/s",
            Self::Lost => "by lost packets",
            Self::Mean => "by mean",
            Self::Stddev => "by stddev",
            Self::P99 => "by p99",
            Self::P999 => "by p99.9",
            Self::Max => "by maximum",
        }
    }

    pub(super) fn of_segment(self, snapshot: &Snapshot, segment: &Segment) -> f64 {
        let stamped = snapshot.fresh(segment).and_then(|last| last.stamped);
        match self {
            Self::Configuration => 0.0,
            Self::Packets => packets_per_s(snapshot, segment),
            Self::Lost => segment.total.counts.dropped_packets as f64,
            Self::Mean => stamped.map_or(-1.0, |stamped| stamped.mean_ns),
            Self::Stddev => stamped.map_or(-1.0, |stamped| stamped.stddev_ns),
            Self::P99 => stamped.map_or(-1.0, |stamped| stamped.p99_ns),
            Self::P999 => stamped.map_or(-1.0, |stamped| stamped.p999_ns),
            Self::Max => stamped.map_or(-1.0, |stamped| stamped.max_ns),
        }
    }

    pub(super) fn of_class(self, class: &ClassRow) -> f64 {
        match self {
            Self::Configuration => 0.0,
            Self::Packets => class.packets_per_s,
            Self::Lost => class.lost_packets as f64,
            Self::Mean => class.mean_ns.unwrap_or(-1.0),
            Self::Stddev => class.stddev_ns.unwrap_or(-1.0),
            Self::P99 => class.p99_max_ns.unwrap_or(-1.0),
            Self::P999 => class.p999_max_ns.unwrap_or(-1.0),
            Self::Max => class.max_ns.unwrap_or(-1.0),
        }
    }

    pub(super) fn of_port(self, port: &Port) -> f64 {
        match self {
            Self::Packets => port.rx_pps + port.tx_pps,
            Self::Lost => port.dropped_packets() as f64,
            _ => 0.0,
        }
    }

    pub(super) fn of_flows(self) -> FlowOrder {
        match self {
            Self::Lost => FlowOrder::Lost,
            Self::Mean => FlowOrder::Mean,
            Self::Stddev => FlowOrder::Stddev,
            _ => FlowOrder::Packets,
        }
    }
}

/// The next longer span of the chart, and after the longest the shortest.
pub(super) fn next(width: Width) -> Width {
    match width {
        Width::Second => Width::TenSeconds,
        Width::TenSeconds => Width::Minute,
        Width::Minute => Width::Second,
    }
}

/// The span of the chart with buckets of this width.
pub(super) fn span(width: Width) -> &'static str {
    match width {
        Width::Second => "last minute",
        Width::TenSeconds => "last ten minutes",
        Width::Minute => "last hour",
    }
}
