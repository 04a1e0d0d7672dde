//! The tabs of the live table, by what each is ordered, and the spans of the chart.

use crate::view::packets_per_s;
use records::answers::{ClassTotals, FlowOrder, Width};
use records::snapshot::{Port, Segment, Snapshot, Stamped};

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
        match self {
            Self::Packets => packets_per_s(snapshot, segment),
            Self::Lost => segment.total.counts.dropped_packets as f64,
            _ => self.of_delays(snapshot.fresh(segment).and_then(|last| last.stamped)),
        }
    }

    pub(super) fn of_class(self, snapshot: &Snapshot, class: &ClassTotals) -> f64 {
        match self {
            Self::Packets => class_packets_per_s(snapshot, class),
            Self::Lost => class.counts.dropped_packets as f64,
            _ => self.of_delays(class.last.map(|last| last.stamped)),
        }
    }

    fn of_delays(self, stamped: Option<Stamped>) -> f64 {
        let of: fn(Stamped) -> f64 = match self {
            Self::Configuration | Self::Packets | Self::Lost => return 0.0,
            Self::Mean => |stamped| stamped.mean_ns,
            Self::Stddev => |stamped| stamped.stddev_ns,
            Self::P99 => |stamped| stamped.p99_ns,
            Self::P999 => |stamped| stamped.p999_ns,
            Self::Max => |stamped| stamped.max_ns,
        };
        stamped.map_or(-1.0, of)
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

/// Packets of a class in its last epoch, a second.
pub(super) fn class_packets_per_s(snapshot: &Snapshot, class: &ClassTotals) -> f64 {
    let packets = class.last.map_or(0, |last| last.packets);
    packets as f64 * 1e3 / f64::from(snapshot.interval_ms)
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
