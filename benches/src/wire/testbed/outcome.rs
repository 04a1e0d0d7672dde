//! What comes of a run.

use std::collections::HashMap;

use serde::Serialize;

use super::captures::Comparison;
use super::verdict::Verdict;
use super::views::{Seen, Totals, since};

/// What came of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// In words.
    pub words: String,
    /// To the right (from a to b), and to the left.
    pub ways: [Way; 2],
    /// TCP received, bits a second.
    pub tcp_bps: Option<f64>,
    /// What the attackers did, and what the switches made of it.
    pub attack: Option<AttackOutcome>,
}

/// One direction of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Way {
    /// What the receiver said, held against what happened.
    pub verdict: Verdict,
    /// Epochs of the receiver by fate, while traffic flowed.
    pub fates: Vec<(String, u64)>,
    /// What hosts saw.
    pub compared: Option<Compared>,
    /// Control frames that came to the host at the end.
    pub leaked: u64,
    /// How the box's record and the switches' agree.
    pub cross_check: CrossCheck,
    /// Control frames on the wire.
    pub overhead: Overhead,
}

/// [`Comparison`], to be written down.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Compared {
    /// Frames sent by one host.
    pub sent: u64,
    /// Frames received by the other.
    pub received: u64,
    /// Frames received that were not sent so.
    pub changed: u64,
}

impl From<Comparison> for Compared {
    fn from(comparison: Comparison) -> Self {
        let Comparison {
            sent,
            received,
            changed,
            ..
        } = comparison;
        Self {
            sent,
            received,
            changed,
        }
    }
}

/// How two independent records agree.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct CrossCheck {
    /// Data packets that the box lost on purpose.
    pub box_lost: u64,
    /// Data packets that the second switch never saw, of those that the first sent.
    pub switches_lost: u64,
    /// Data packets that left the box behind one that had come later.
    pub box_reordered: u64,
    /// Data packets that came to the second switch behind one that the first sent later.
    pub switches_reordered: u64,
    /// What the box added to the delay of those that passed, on average, ns.
    pub box_added_ns: f64,
    /// What packets were on their way in all, ns; the difference is what interfaces cost.
    pub switches_saw_ns: f64,
}

/// Control frames on the wire, counted by the box.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Overhead {
    /// Seconds that it was open.
    pub seconds: f64,
    /// Bits a second of control frames, with all that Ethernet adds.
    pub control_bps: f64,
    /// Those of references.
    pub reference_bps: f64,
    /// Bits a second of data.
    pub data_bps: f64,
    /// What control frames may take.
    pub share_bps: f64,
    /// Bits a second of control frames by the switch's own count.
    pub exported_bps: f64,
    /// References that the switch kept back.
    pub withheld: u64,
}

/// What attackers did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AttackOutcome {
    /// Frames that the box made up, for switch 2.
    pub made_up: u64,
    /// Frames by scapy, by trick: they come to both switches, for it sits on the link between.
    pub thrown: HashMap<String, u64>,
    /// What switch 1 made of it.
    pub at_1: Refused,
    /// What switch 2 made of it.
    pub at_2: Refused,
    /// Epochs lost in each direction, by fate.
    pub epochs_lost: [Vec<(String, u64)>; 2],
}

/// What a switch made of frames that it had no reason to accept.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Refused {
    /// Frames that it rejected, by reason.
    pub disbelieved: Vec<(String, u64)>,
    /// Frames that it accepted and found no use for.
    pub useless: u64,
}

impl Refused {
    pub(super) fn by(seen: &Seen) -> Self {
        let [before, after] = [&seen.first, &seen.last].map(|wires| {
            let wire = wires.wires.first().cloned();
            wire.map(|wire| wire.total).unwrap_or_default()
        });
        Self::since(&before, &after)
    }

    /// Since the switch was started.
    pub(super) fn at_all(total: &Totals) -> Self {
        Self::since(&Totals::default(), total)
    }

    fn since(before: &Totals, after: &Totals) -> Self {
        let events = since(&before.events, &after.events).into_iter();
        let useless = events.filter(|(event, _)| event.contains("useless"));
        Self {
            disbelieved: since(&before.disbelieved_frames, &after.disbelieved_frames),
            useless: useless.map(|(_, count)| count).sum(),
        }
    }

    /// Frames that it rejected.
    pub fn frames(&self) -> u64 {
        self.disbelieved.iter().map(|(_, count)| count).sum()
    }
}

impl AttackOutcome {
    /// Frames by scapy.
    pub fn by_hand(&self) -> u64 {
        self.thrown.values().sum()
    }

    /// True hellos among these, thrown once more: their tags are right, and nothing may come of them.
    pub fn old_hellos(&self) -> u64 {
        self.thrown.get("old hello").copied().unwrap_or(0)
    }
}
