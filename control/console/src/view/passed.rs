//! Loss as a rate, and as a share of the packets of the same time. A total next to a rate would be read as a rate.

use contract::units::rate;
use records::snapshot::{Flow, Segment, Snapshot};

use super::{known, percent};

/// Packets of a span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Passed {
    /// Packets a second that entered.
    pub entered_per_s: f64,
    /// Packets a second of these that were lost.
    pub lost_per_s: f64,
}

impl Passed {
    /// Loss of a segment in its last epoch; `None` if that is long ago.
    pub(crate) fn of_segment(snapshot: &Snapshot, segment: &Segment) -> Option<Self> {
        let counts = snapshot.fresh(segment)?.counts;
        let per_s = 1e3 / f64::from(snapshot.interval_ms.max(1));
        Some(Self {
            entered_per_s: counts.sent_packets as f64 * per_s,
            lost_per_s: counts.dropped_packets as f64 * per_s,
        })
    }

    /// Loss of all segments of a class inside the switch.
    pub(crate) fn of_class(snapshot: &Snapshot, class: &str) -> Option<Self> {
        Self::of_segments(snapshot, |segment| segment.class == class)
    }

    /// Loss of all segments inside the switch.
    pub(crate) fn of_switch(snapshot: &Snapshot) -> Option<Self> {
        Self::of_segments(snapshot, |_| true)
    }

    fn of_segments(snapshot: &Snapshot, is_meant: impl Fn(&Segment) -> bool) -> Option<Self> {
        let segments = snapshot.segments.iter();
        let segments = segments.filter(|segment| !segment.is_around && is_meant(segment));
        let passed = segments.filter_map(|segment| Self::of_segment(snapshot, segment));
        passed.reduce(|a, b| Self {
            entered_per_s: a.entered_per_s + b.entered_per_s,
            lost_per_s: a.lost_per_s + b.lost_per_s,
        })
    }

    /// Loss of a flow in its last epoch.
    pub(crate) fn of_flow(flow: &Flow) -> Self {
        let epochs = flow.last_epoch.saturating_sub(flow.first_epoch) + 1;
        let interval_s = (flow.last_seen_unix_s - flow.first_seen_unix_s) / epochs as f64;
        let lost = flow.last.lost_packets.unwrap_or(0) as f64;
        Self {
            entered_per_s: (flow.last.packets as f64 + lost) / interval_s,
            lost_per_s: lost / interval_s,
        }
    }

    /// Share of the packets that were lost; `None` if none entered.
    pub(crate) fn loss(self) -> Option<f64> {
        (self.entered_per_s > 0.0).then(|| self.lost_per_s / self.entered_per_s)
    }

    /// Cells of a table: packets a second, lost packets a second, and their share; dashes if nothing is known.
    pub(crate) fn cells(passed: Option<Self>) -> [String; 3] {
        [
            known(passed, |passed| rate(passed.entered_per_s)),
            known(passed, |passed| rate(passed.lost_per_s)),
            known(passed.and_then(Self::loss), percent),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_share_are_of_the_same_epoch() {
        let mut snapshot = Snapshot::example();
        // Totals are of hours; they must not matter.
        snapshot.segments[0].total.counts.dropped_packets = 1_000_000;
        let passed = Passed::of_segment(&snapshot, &snapshot.segments[0]);
        assert_eq!(Passed::cells(passed), ["80.0 k", "48.0", "0.060 %"]);
        assert_eq!(passed, Passed::of_class(&snapshot, "all"));
        assert_eq!(passed, Passed::of_switch(&snapshot));
        let silent = Passed::of_segment(&snapshot, &snapshot.segments[1]);
        assert_eq!(Passed::cells(silent), ["-"; 3]);
        snapshot.segments[0].is_around = true;
        assert_eq!(Passed::of_switch(&snapshot), None);
    }

    #[test]
    fn a_flows_epoch_is_as_long_as_its_times_say() {
        let mut flow = Snapshot::example().flows.unwrap().top[0].flow.clone();
        flow.last.lost_packets = Some(100);
        let passed = Passed::of_flow(&flow);
        assert!((passed.entered_per_s - 4_000.0).abs() < 1e-2);
        assert!((passed.loss().unwrap() - 0.1).abs() < 1e-9);
    }
}
