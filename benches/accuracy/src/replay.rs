//! A capture's packets behind queues: times, sizes and flows are real, delays are the simulator's.

use super::Passage;
use super::queue::paths::path_of;
use super::queue::{Crossing, LinkConfig, cross};
use super::rli::exchange::REFERENCE_BYTES;
use super::trace::Reference;
use super::traffic::capture::Capture;
use super::traffic::{Arrival, Kind, Traffic};

/// The link of the RLI acceptance runs.
const CAPACITY_BPS: u64 = 10_000_000_000;
/// Its load: the lower one of the RLI paper. Captures come in longer bursts than its traffic does.
const UTILISATION: f64 = 0.67;
/// Nothing is dropped: the experiments lose packets as they need.
const BUFFER_BYTES: u64 = u64::MAX / 2;
/// One reference for so many packets of its path.
const PACKETS_PER_REFERENCE: u64 = 100;
/// How much longer the second path is.
const DETOUR_NS: i64 = 50_000;
/// Seed of the paths.
const SEED: u64 = 1;

/// What came of a capture.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Its packets.
    pub passages: Vec<Passage>,
    /// References on the first path, in the order of their arrival.
    pub references: Vec<Reference>,
}

impl Replay {
    /// All packets wait in one FIFO queue.
    pub fn one_queue(capture: &Capture) -> Self {
        let traffic = capture.at_load(CAPACITY_BPS, UTILISATION, 1.0);
        let mut replay = Self::empty();
        replay.send(&traffic, CAPACITY_BPS, true, 0);
        replay
    }

    /// Flows are spread over two paths, each with a queue of half the rate; the second is longer.
    /// References take the first.
    pub fn two_paths(capture: &Capture) -> Self {
        let traffic = capture.at_load(CAPACITY_BPS, UTILISATION, 1.0);
        let mut replay = Self::empty();
        for (path, more_ns) in [(0, 0), (1, DETOUR_NS)] {
            let takes = |arrival: &&Arrival| path_of(arrival.flow, 2, SEED) == path;
            let share = Traffic {
                arrivals: traffic.arrivals.iter().filter(takes).copied().collect(),
                ..traffic
            };
            replay.send(&share, CAPACITY_BPS / 2, path == 0, more_ns);
        }
        replay
    }

    fn empty() -> Self {
        Self {
            passages: Vec::new(),
            references: Vec::new(),
        }
    }

    fn send(&mut self, traffic: &Traffic, capacity_bps: u64, referenced: bool, more_ns: i64) {
        let mut packets = 0_u64;
        let inject = |_: &Arrival| {
            packets += 1;
            (referenced && packets.is_multiple_of(PACKETS_PER_REFERENCE)).then_some(REFERENCE_BYTES)
        };
        let link = LinkConfig::fifo(capacity_bps, BUFFER_BYTES);
        for crossing in cross(traffic, &link, SEED, inject) {
            match crossing.kind {
                Kind::Regular => {
                    let mut passage = crossing.passage();
                    passage.received_ns = passage.received_ns.map(|at_ns| at_ns + more_ns);
                    self.passages.push(passage);
                }
                Kind::Reference => self.references.extend(reference(&crossing)),
                Kind::Cross => {}
            }
        }
    }
}

/// `None`: it was dropped.
fn reference(crossing: &Crossing) -> Option<Reference> {
    let received_ns = crossing.passage().received_ns? as f64;
    let delay_ns = crossing.delay_ns()?;
    Some(Reference {
        received_ns,
        delay_ns,
    })
}
