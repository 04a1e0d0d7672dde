//! What became of the captures that ports replay.

use std::path::PathBuf;

use contract::config::{Config, Device};
use records::snapshot::Snapshot;
use serde::Serialize;
use switch::source::Source;

/// A capture, and how much of it came in by its port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// Name of the port.
    pub port: String,
    /// The capture.
    pub file: PathBuf,
    /// Packets in all its loops; of a capture that is played for ever those of one loop.
    pub packets: u64,
    /// Packets among them that were not due before the switch stopped.
    pub left_packets: u64,
}

/// The captures of a switch that starts; `sources` are by port.
pub fn planned(config: &Config, sources: &[Option<Source>]) -> Vec<Replayed> {
    let ports = config.ports.iter().zip(sources);
    let replayed = ports.filter_map(|(port, source)| {
        let Device::Replay(spec) = &port.device else {
            return None;
        };
        let packets = source.as_ref()?.planned_packets()?;
        Some(Replayed {
            port: port.name.clone(),
            file: spec.file.clone(),
            packets,
            left_packets: packets,
        })
    });
    replayed.collect()
}

/// Counts what is left of them at the end. Those of ports that were taken away meanwhile are left out.
pub fn finished(mut captures: Vec<Replayed>, snapshot: &Snapshot) -> Vec<Replayed> {
    captures.retain_mut(|capture| {
        let is_it = |port: &&records::snapshot::Port| port.name == capture.port && !port.is_absent;
        let port = snapshot.ports.iter().find(is_it);
        port.is_some_and(|port| {
            capture.left_packets = capture.packets.saturating_sub(port.counts.rx_packets);
            true
        })
    });
    for capture in captures.iter().filter(|capture| capture.left_packets > 0) {
        tracing::warn!(
            "port {}: {} of {} packets of the capture {} were not replayed: they were not due yet",
            capture.port,
            capture.left_packets,
            capture.packets,
            capture.file.display()
        );
    }
    captures
}
