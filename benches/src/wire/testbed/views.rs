//! What switches answer at `/api/v1/wires`, as far as the testbed reads it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

/// How often is asked: an epoch must not pass unseen.
const EVERY: Duration = Duration::from_millis(30);

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// All wires of a switch.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wires {
    /// Them.
    pub wires: Vec<Wire>,
}

/// A wire.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wire {
    /// The port.
    pub port: String,
    /// How its ends stand to each other.
    pub session: String,
    /// Why they do not agree.
    pub mismatch: Option<String>,
    /// Bits a second that control frames may take.
    pub share_bps: f64,
    /// Counts since the start.
    pub total: Totals,
    /// Both directions of all segments.
    pub segments: Vec<Segment>,
    /// The flows that were decoded last.
    pub flows: Option<Flows>,
}

/// Counts since the start.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Control frames sent, by kind.
    pub sent_frames: Vec<Labelled>,
    /// Control frames accepted, by kind.
    pub believed_frames: Vec<Labelled>,
    /// Control frames rejected, by reason.
    pub disbelieved_frames: Vec<Labelled>,
    /// Bytes of control frames on the link.
    pub sent_bytes: u64,
    /// Those of references.
    pub reference_bytes: u64,
    /// Bytes of data on the link.
    pub data_bytes: u64,
    /// References kept back.
    pub references_withheld: u64,
    /// What happened besides.
    pub events: Vec<Labelled>,
}

/// A count with a name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Labelled {
    /// The name.
    pub label: String,
    /// The count.
    pub packets: u64,
}

/// One direction of a segment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Segment {
    /// The class.
    pub class: String,
    /// Whether its packets arrive at this switch.
    pub is_incoming: bool,
    /// Epochs by fate.
    pub epochs: Vec<Labelled>,
    /// The last usable epoch.
    pub last: Option<Figures>,
}

/// A usable epoch.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// The sender's number.
    pub epoch: u64,
    /// Packets sent, where that is known,
    pub sent_packets: Option<u64>,
    /// received,
    pub received_packets: Option<u64>,
    /// and lost.
    pub lost_packets: Option<i64>,
    /// Packets moved over a turn.
    pub moved_packets: u64,
    /// Share of usable cells.
    pub usable_cells_ratio: f64,
    /// By method.
    pub estimates: Vec<Estimate>,
    /// The one to use.
    pub chosen: Option<Estimate>,
}

/// A mean delay.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Estimate {
    /// By which method.
    pub method: String,
    /// The mean, ns.
    pub mean_ns: f64,
    /// Its bound, ns.
    pub bound_ns: Option<f64>,
    /// Packets that it rests on.
    pub effective_samples: Option<u64>,
}

/// Flows of an epoch.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Flows {
    /// The sender's number.
    pub epoch: u64,
    /// Those with names.
    pub top: Vec<Flow>,
}

/// A flow in an epoch.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Flow {
    /// `source>destination/protocol`.
    pub flow: String,
    /// Packets that arrived.
    pub packets: u64,
    /// The one to use.
    pub estimate: Option<Estimate>,
    /// By method.
    pub estimates: Vec<Estimate>,
}

/// Asks a switch.
///
/// # Errors
/// When it does not answer, or not so.
pub fn ask(address: SocketAddr) -> Result<Wires> {
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .build();
    let agent = ureq::Agent::new_with_config(agent);
    let url = format!("http://{address}/api/v1/wires");
    let mut answer = agent.get(&url).call().with_context(|| url.clone())?;
    let answer = answer
        .body_mut()
        .with_config()
        .limit(64 << 20)
        .read_to_vec()?;
    serde_json::from_slice(&answer).with_context(|| url)
}

/// What one switch has said over time.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Incoming usable epochs, by class and the sender's number.
    pub epochs: BTreeMap<(String, u64), Figures>,
    /// Flows by the sender's epoch.
    pub flows: BTreeMap<u64, Vec<Flow>>,
    /// Answers.
    pub answers: u64,
    /// The first one.
    pub first: Wires,
    /// The last one.
    pub last: Wires,
}

impl Seen {
    /// Epochs by fate that ended between the first answer and the last, of the first incoming segment.
    pub fn fates(&self) -> Vec<(String, u64)> {
        let epochs = |wires: &Wires| {
            let mut segments = wires.wires.iter().flat_map(|wire| &wire.segments);
            let incoming = segments.find(|segment| segment.is_incoming);
            incoming.map_or_else(Vec::new, |segment| segment.epochs.clone())
        };
        since(&epochs(&self.first), &epochs(&self.last))
    }
}

/// What has been added since, where something has.
pub fn since(before: &[Labelled], after: &[Labelled]) -> Vec<(String, u64)> {
    let earlier = |label: &str| before.iter().find(|one| one.label == label);
    let differences = after.iter().map(|count| {
        let before = earlier(&count.label).map_or(0, |one| one.packets);
        (count.label.clone(), count.packets.saturating_sub(before))
    });
    differences.filter(|(_, count)| *count > 0).collect()
}

impl Seen {
    fn take(&mut self, wires: Wires) {
        for wire in &wires.wires {
            for segment in wire.segments.iter().filter(|segment| segment.is_incoming) {
                if let Some(last) = &segment.last {
                    let key = (segment.class.clone(), last.epoch);
                    self.epochs.entry(key).or_insert_with(|| last.clone());
                }
            }
            if let Some(flows) = &wire.flows {
                let known = self.flows.entry(flows.epoch);
                known.or_insert_with(|| flows.top.clone());
            }
        }
        if self.answers == 0 {
            self.first = wires.clone();
        }
        self.answers += 1;
        self.last = wires;
    }
}

/// A thread that asks a switch again and again.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Watch {
    /// Begins to ask.
    pub fn begin(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(wires) = ask(address) {
                    seen.take(wires);
                }
                std::thread::sleep(EVERY);
            }
            seen
        });
        Self { stop, thread }
    }

    /// What was seen.
    pub fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usable_epoch_is_kept_once() {
        let wires = |epoch: u64, lost: i64| {
            let json = serde_json::json!({ "clock": {}, "wires": [{
                "port": "trunk", "session": "established", "unknown": 1,
                "segments": [
                    { "class": "all", "is_incoming": false, "last": { "epoch": 99 } },
                    { "class": "all", "is_incoming": true, "last": {
                        "epoch": epoch, "lost_packets": lost,
                        "chosen": { "method": "lda", "mean_ns": -5.0, "bound_ns": null } } },
                ],
                "flows": { "epoch": epoch, "top": [{ "flow": "a>b/udp", "packets": 3 }] },
            }]});
            serde_json::from_value::<Wires>(json).unwrap()
        };
        let mut seen = Seen::default();
        for (epoch, lost) in [(1, 4), (1, 4), (3, 0)] {
            seen.take(wires(epoch, lost));
        }
        let epochs: Vec<_> = seen.epochs.keys().map(|(_, epoch)| *epoch).collect();
        assert_eq!(epochs, [1, 3]);
        assert_eq!(seen.epochs[&("all".to_owned(), 1)].lost_packets, Some(4));
        assert_eq!(seen.flows.keys().copied().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(seen.answers, 3);
    }
}
