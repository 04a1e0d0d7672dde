//! The user's options: tabs, orders of rows and charts.

use contract::labelled_enum;
use records::answers::{ClassTotals, FlowOrder, Width};
use records::snapshot::{Segment, Snapshot, Stamped};

use crate::view::Passed;

labelled_enum! {
    /// The table in the middle of the screen.
    pub(super) enum Tab {
        Segments = "segments",
        Flows = "flows",
        Classes = "classes",
        Ports = "ports",
        Wires = "wires",
    }
}

impl Tab {
    /// Its possible orders; the first is the default.
    pub(super) fn sorts(self) -> &'static [Sort] {
        match self {
            Self::Segments | Self::Classes => &Sort::ALL,
            Self::Ports => &[Sort::Configuration, Sort::Packets, Sort::Lost],
            Self::Wires => &[Sort::Configuration],
            Self::Flows => &[Sort::Packets, Sort::Lost, Sort::Mean, Sort::Stddev],
        }
    }

    /// The charts of its selected row; the first is the default.
    pub(super) fn charts(self) -> &'static [Chart] {
        match self {
            Self::Ports => &[Chart::Rate, Chart::Loss, Chart::Busy],
            _ => &Chart::ALL,
        }
    }
}

labelled_enum! {
    /// Orders of rows.
    pub(super) enum Sort {
        Configuration = "as configured",
        Packets = "by packets/s",
        Lost = "by lost/s",
        Mean = "by mean",
        Stddev = "by stddev",
        P99 = "by p99",
        P999 = "by p99.9",
        Max = "by maximum",
    }
}

impl Sort {
    /// The headings of its columns.
    pub(super) fn headings(self) -> &'static [&'static str] {
        match self {
            Self::Configuration => &[],
            Self::Packets => &["packets/s", "rx/s", "tx/s"],
            Self::Lost => &["lost/s", "dropped/s"],
            Self::Mean => &["mean"],
            Self::Stddev => &["stddev"],
            Self::P99 => &["p99"],
            Self::P999 => &["p99.9"],
            Self::Max => &["max"],
        }
    }

    /// Whether rows are ordered by a delay.
    pub(super) fn is_by_delay(self) -> bool {
        !matches!(self, Self::Configuration | Self::Packets | Self::Lost)
    }

    pub(super) fn of_segment(self, snapshot: &Snapshot, segment: &Segment) -> Option<f64> {
        self.of_passed(Passed::of_segment(snapshot, segment))
            .or_else(|| self.of_delays(snapshot.fresh(segment)?.stamped?))
    }

    pub(super) fn of_class(self, snapshot: &Snapshot, class: &ClassTotals) -> Option<f64> {
        self.of_passed(Passed::of_class(snapshot, &class.class))
            .or_else(|| self.of_delays(class.last?.stamped))
    }

    fn of_passed(self, passed: Option<Passed>) -> Option<f64> {
        match self {
            Self::Packets => passed.map(|passed| passed.entered_per_s),
            Self::Lost => passed.map(|passed| passed.lost_per_s),
            _ => None,
        }
    }

    fn of_delays(self, stamped: Stamped) -> Option<f64> {
        match self {
            Self::Configuration | Self::Packets | Self::Lost => None,
            Self::Mean => Some(stamped.mean_ns),
            Self::Stddev => Some(stamped.stddev_ns),
            Self::P99 => Some(stamped.p99_ns),
            Self::P999 => Some(stamped.p999_ns),
            Self::Max => Some(stamped.max_ns),
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

labelled_enum! {
    /// Figures that the chart shows.
    pub(super) enum Chart {
        Delay = "delay",
        Loss = "loss",
        Rate = "packets/s",
        Busy = "busy workers",
    }
}

/// The span of the chart with buckets of this width, and the labels of its axis.
pub(super) fn span(width: Width) -> (&'static str, [&'static str; 3]) {
    match width {
        Width::Second => ("last minute", ["-60 s", "-30 s", "now"]),
        Width::TenSeconds => ("last ten minutes", ["-10 min", "-5 min", "now"]),
        Width::Minute => ("last hour", ["-60 min", "-30 min", "now"]),
    }
}
