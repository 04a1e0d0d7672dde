//! Collects a switch's reports on its wire, epoch by epoch, by polling `/api/v1/wires`.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use console::client::Client;
use records::answers::Wires;
use records::snapshot::{Labelled, Wire, WireFigures, WireFlow, WireSegment};
use testkit::process::Background;

/// Time between two requests, far less than an epoch, so that every epoch is seen.
const INTERVAL: Duration = Duration::from_millis(30);

pub type Counts = Vec<(String, u64)>;

/// The only wire of a switch, as it is now.
pub fn ask(switch: &Client) -> Result<Wire> {
    let wires: Wires = switch.get("/api/v1/wires", &[])?;
    let wire = wires.wires.into_iter().next();
    wire.context("the switch has no wire")
}

/// The only incoming segment.
fn incoming(wire: &Wire) -> Option<&WireSegment> {
    wire.segments.iter().find(|segment| segment.is_incoming)
}

/// The increase since the last report, if any.
pub fn since(before: &[Labelled], after: &[Labelled]) -> Counts {
    let differences = after.iter().map(|count| {
        let before = before.iter().find(|one| one.label == count.label);
        let before = before.map_or(0, |one| one.packets);
        (count.label.clone(), count.packets.saturating_sub(before))
    });
    differences.filter(|(_, count)| *count > 0).collect()
}

/// Reports of one switch over time.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Incoming usable epochs by the sender's number.
    pub epochs: BTreeMap<u64, WireFigures>,
    /// Flows by the sender's epoch.
    pub flows: BTreeMap<u64, Vec<WireFlow>>,
    /// The first and the last report.
    pub reports: Option<(Wire, Wire)>,
}

impl Seen {
    fn add(&mut self, wire: Wire) {
        if let Some(last) = incoming(&wire).and_then(|segment| segment.last.as_ref()) {
            let epoch = self.epochs.entry(last.epoch);
            epoch.or_insert_with(|| last.clone());
        }
        if let Some(flows) = &wire.flows {
            let epoch = self.flows.entry(flows.epoch);
            epoch.or_insert_with(|| flows.top.clone());
        }
        match &mut self.reports {
            Some((_, last)) => *last = wire,
            None => self.reports = Some((wire.clone(), wire)),
        }
    }

    pub fn last(&self) -> Result<&Wire> {
        let reports = self.reports.as_ref();
        let (_, last) = reports.context("a switch did not answer while it was watched")?;
        Ok(last)
    }

    /// Epochs of the incoming segment by fate, between the first report and the last.
    pub fn fates(&self) -> Counts {
        let Some((first, last)) = &self.reports else {
            return Counts::new();
        };
        let epochs = |wire| incoming(wire).map_or(&[][..], |segment| &segment.epochs);
        since(epochs(first), epochs(last))
    }

    /// Packets received in each usable epoch.
    pub fn received_packets(&self) -> impl Iterator<Item = f64> {
        let packets = self.epochs.values().map(|epoch| epoch.received_packets);
        packets.flatten().map(|packets| packets as f64)
    }
}

/// Polls a switch until this is ended.
pub fn begin(switch: &Client) -> Background<Seen> {
    let switch = switch.clone();
    Background::start(move |stopped| {
        let mut seen = Seen::default();
        while !stopped.load(Ordering::Relaxed) {
            // A switch that is busy may miss a request; the next one is soon.
            if let Ok(wire) = ask(&switch) {
                seen.add(wire);
            }
            sleep(INTERVAL);
        }
        seen
    })
}

#[cfg(test)]
mod tests {
    use records::snapshot::WireFlows;

    use super::*;

    #[test]
    fn every_usable_epoch_is_kept_once() {
        let segment = |is_incoming, epoch, lost| WireSegment {
            is_incoming,
            last: Some(WireFigures {
                epoch,
                lost_packets: Some(lost),
                ..WireFigures::default()
            }),
            ..WireSegment::default()
        };
        let wire = |epoch, lost| Wire {
            segments: vec![segment(false, 99, 0), segment(true, epoch, lost)],
            flows: Some(WireFlows {
                epoch,
                ..WireFlows::default()
            }),
            ..Wire::default()
        };
        let mut seen = Seen::default();
        assert!(seen.last().is_err());
        for (epoch, lost) in [(1, 4), (1, 5), (3, 0)] {
            seen.add(wire(epoch, lost));
        }
        assert_eq!(seen.epochs.keys().copied().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(seen.epochs[&1].lost_packets, Some(4));
        assert_eq!(seen.flows.keys().copied().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(seen.last().unwrap(), &wire(3, 0));
    }
}
