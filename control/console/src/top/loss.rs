//! Loss as a rate, and as a share of the packets of the same time: a total beside a rate would be read as a rate.

use contract::counters::DropReason;
use contract::units::rate;
use records::snapshot::{Flow, Port, Segment, Snapshot};

use super::memory::Step;
use crate::view::percent;

/// Packets of a span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Passed {
    /// Packets a second that entered.
    pub entered_per_s: f64,
    /// Packets a second of these that were lost.
    pub lost_per_s: f64,
}

impl Passed {
    /// Of a segment in its last epoch; `None` if that is long ago.
    pub(super) fn of_segment(snapshot: &Snapshot, segment: &Segment) -> Option<Self> {
        let counts = snapshot.fresh(segment)?.counts;
        let per_s = 1e3 / f64::from(snapshot.interval_ms.max(1));
        Some(Self {
            entered_per_s: counts.sent_packets as f64 * per_s,
            lost_per_s: counts.dropped_packets as f64 * per_s,
        })
    }

    /// Of all segments of a class inside the switch.
    pub(super) fn of_class(snapshot: &Snapshot, class: &str) -> Option<Self> {
        Self::of_segments(snapshot, |segment| segment.class == class)
    }

    /// Of all segments inside the switch.
    pub(super) fn of_switch(snapshot: &Snapshot) -> Option<Self> {
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

    /// Of a flow in its last epoch.
    pub(super) fn of_flow(flow: &Flow) -> Self {
        let epochs = flow.last_epoch.saturating_sub(flow.first_epoch) + 1;
        let interval_s = (flow.last_seen_unix_s - flow.first_seen_unix_s) / epochs as f64;
        let lost = flow.last.lost_packets.unwrap_or(0) as f64;
        Self {
            entered_per_s: (flow.last.packets as f64 + lost) / interval_s,
            lost_per_s: lost / interval_s,
        }
    }

    /// Share of the packets that were lost; `None` if none entered.
    pub(super) fn loss(self) -> Option<f64> {
        (self.entered_per_s > 0.0).then(|| self.lost_per_s / self.entered_per_s)
    }

    /// Cells of a table: packets a second, lost packets a second, and their share; dashes if nothing is known.
    pub(super) fn cells(passed: Option<Self>) -> [String; 3] {
        let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            cell(passed.map(|passed| rate(passed.entered_per_s))),
            cell(passed.map(|passed| rate(passed.lost_per_s))),
            cell(passed.and_then(Self::loss).map(percent)),
        ]
    }
}

/// Reasons for which packets are dropped that were to leave by the port; others are dropped where they came in.
const ON_THE_WAY_OUT: [DropReason; 6] = [
    DropReason::LinkDown,
    DropReason::RingFull,
    DropReason::QueueFull,
    DropReason::Red,
    DropReason::Expired,
    DropReason::Shutdown,
];

/// Frames that end at a link by design.
const NO_LOSS: [DropReason; 2] = [DropReason::Control, DropReason::Pause];

/// What a port dropped in a span of time.
#[derive(Debug, Default)]
pub(super) struct PortDrops {
    /// Packets that came in by the port, and those of them that were dropped.
    pub received: Passed,
    /// Packets that were to leave by the port, and those of them that were dropped.
    pub sent: Passed,
    /// Packets a second, by reason.
    pub reasons: Vec<(String, f64)>,
}

impl PortDrops {
    /// The port's counts in a [`Step`] of its own.
    pub(super) fn of(port: &Port, step: &Step) -> Self {
        let per_s = |packets: f64| packets / step.duration_s;
        let is_one_of = |label: &str, reasons: &[DropReason]| {
            reasons.iter().any(|reason| reason.label() == label)
        };
        let (counts, dropped) = step.sums.split_at(2.min(step.sums.len()));
        let mut drops = Self::default();
        if let [received, sent] = *counts {
            drops.received.entered_per_s = per_s(received);
            drops.sent.entered_per_s = per_s(sent);
        }
        for (drop, &packets) in port.drops.iter().zip(dropped) {
            if packets <= 0.0 || is_one_of(&drop.label, &NO_LOSS) {
                continue;
            }
            if is_one_of(&drop.label, &ON_THE_WAY_OUT) {
                drops.sent.entered_per_s += per_s(packets);
                drops.sent.lost_per_s += per_s(packets);
            } else {
                drops.received.lost_per_s += per_s(packets);
            }
            drops.reasons.push((drop.label.clone(), per_s(packets)));
        }
        drops
    }

    /// All drops a second.
    pub(super) fn per_s(&self) -> f64 {
        self.received.lost_per_s + self.sent.lost_per_s
    }

    /// `1.98 k queue_full, 3.00 runt`, packets a second.
    pub(super) fn words(&self) -> String {
        let reasons = self.reasons.iter();
        let reasons = reasons.map(|(reason, per_s)| format!("{} {reason}", rate(*per_s)));
        let reasons: Vec<String> = reasons.collect();
        if reasons.is_empty() {
            "0".to_owned()
        } else {
            reasons.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-9)
    }

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
        assert!(is_near(passed.loss(), 0.1));
    }

    #[test]
    fn a_ports_drops_are_a_share_of_their_own_direction() {
        let mut port = Snapshot::example().ports.remove(1);
        let labels = ["runt", "queue_full", "control"];
        port.drops
            .retain(|drop| labels.contains(&drop.label.as_str()));
        let step = Step {
            at_s: 9.0,
            duration_s: 2.0,
            sums: vec![1_000.0, 300.0, 10.0, 100.0, 8.0],
            peak: 0.0,
        };
        let drops = PortDrops::of(&port, &step);
        assert!(is_near(drops.received.loss(), 0.01));
        assert!(is_near(drops.sent.loss(), 0.25));
        assert_eq!(drops.words(), "5.00 runt, 50.0 queue_full");
        assert!(is_near(Some(drops.per_s()), 55.0));
    }
}
