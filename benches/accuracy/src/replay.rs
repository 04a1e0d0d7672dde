//! A capture's packets behind queues: times, sizes and flows are real, delays are the simulator's.

use std::path::Path;

use anyhow::Result;

use crate::queue::paths::share_of;
use crate::queue::{Crossing, LinkConfig, cross};
use crate::rli::exchange::REFERENCE_BYTES;
use crate::trace::Reference;
use crate::traffic::capture::Capture;
use crate::traffic::supply::CAPACITY_BPS;
use crate::traffic::{Arrival, Kind, PS_PER_NS, Traffic};

/// The load of the link: the lower one of the RLI paper. Captures come in longer bursts than its
/// traffic does.
const UTILISATION: f64 = 0.67;
/// Nothing is dropped: the experiments lose packets as they need.
const BUFFER_BYTES: u64 = u64::MAX / 2;
/// One reference for so many packets of its path.
const PACKETS_PER_REFERENCE: u64 = 100;
/// How much longer the second path is.
const DETOUR_PS: u64 = 50_000 * PS_PER_NS;
/// Seed of the paths.
const SEED: u64 = 1;

/// What came of a capture.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replay {
    pub crossings: Vec<Crossing>,
    /// References on the first path, in the order of their arrival.
    pub references: Vec<Reference>,
}

impl Replay {
    /// All packets wait in one FIFO queue.
    pub fn one_queue(capture: &Path) -> Result<Self> {
        let traffic = Capture::read(capture)?.at_load(CAPACITY_BPS, UTILISATION, 1.0);
        let mut replay = Self::default();
        replay.send(&traffic, CAPACITY_BPS, 0);
        Ok(replay)
    }

    /// Flows are spread over two paths, each with a queue of half the rate; the second is longer.
    /// References take the first.
    pub fn two_paths(capture: &Path) -> Result<Self> {
        let traffic = Capture::read(capture)?.at_load(CAPACITY_BPS, UTILISATION, 1.0);
        let mut replay = Self::default();
        for (path, more_ps) in [(0, 0), (1, DETOUR_PS)] {
            let share = share_of(&traffic, path, 2, SEED);
            replay.send(&share, CAPACITY_BPS / 2, more_ps);
        }
        Ok(replay)
    }

    /// Sends packets over a path that adds `more_ps`, with references where that is nothing.
    fn send(&mut self, traffic: &Traffic, capacity_bps: u64, more_ps: u64) {
        let mut packets = 0_u64;
        let inject = |_: &Arrival| {
            packets += 1;
            let is_due = more_ps == 0 && packets.is_multiple_of(PACKETS_PER_REFERENCE);
            is_due.then_some(REFERENCE_BYTES)
        };
        let link = LinkConfig {
            capacity_bps,
            buffer_bytes: BUFFER_BYTES,
            ..LinkConfig::ACCEPTANCE
        };
        for mut crossing in cross(traffic, &link, SEED, inject) {
            if let Kind::Reference = crossing.kind {
                self.references.extend(reference(&crossing));
            } else {
                crossing.received_ps = crossing.received_ps.map(|at_ps| at_ps + more_ps);
                self.crossings.push(crossing);
            }
        }
    }
}

/// `None`: it was dropped.
fn reference(crossing: &Crossing) -> Option<Reference> {
    Some(Reference {
        received_ns: crossing.received_ns()? as f64,
        delay_ns: crossing.delay_ns()?,
    })
}
