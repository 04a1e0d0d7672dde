//! Packets that a port dropped, by direction and reason.

use contract::counters::DropReason;
use contract::units::rate;
use records::snapshot::Port;

use super::memory::Step;
use crate::view::Passed;

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
        let (counts, dropped) = step.sums.split_at(2.min(step.sums.len()));
        let mut drops = Self::default();
        if let [received, sent] = *counts {
            drops.received.entered_per_s = per_s(received);
            drops.sent.entered_per_s = per_s(sent);
        }
        for (drop, &packets) in port.drops.iter().zip(dropped) {
            let mut reasons = DropReason::ALL.into_iter();
            let reason = reasons.find(|reason| reason.label() == drop.label);
            if packets <= 0.0 || reason.is_some_and(DropReason::is_by_design) {
                continue;
            }
            if reason.is_some_and(DropReason::is_at_egress) {
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
    use records::snapshot::Snapshot;

    fn is_near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-9)
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
