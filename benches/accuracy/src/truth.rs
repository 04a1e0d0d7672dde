//! Exact figures of each flow, and how far estimates are from them.

use reporting::statistics::error_percent;

use crate::traffic::{Crossing, Kind};

/// Smallest number of packets of a flow for its deviation to be compared.
pub const STDDEV_PACKETS_MIN: u64 = 2;

/// The delays of one flow's packets that arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FlowTruth {
    /// Packets that arrived.
    pub packets: u64,
    /// Sum of their delays in nanoseconds.
    pub sum_ns: f64,
    /// Sum of the squares.
    pub squares_ns2: f64,
    /// When the first of them was sent, in picoseconds.
    pub first_ps: u64,
    /// When the last of them was sent.
    pub last_ps: u64,
}

impl FlowTruth {
    fn add(&mut self, sent_ps: u64, delay_ns: f64) {
        if self.packets == 0 {
            self.first_ps = sent_ps;
        }
        self.last_ps = sent_ps;
        self.packets += 1;
        self.sum_ns += delay_ns;
        self.squares_ns2 += delay_ns * delay_ns;
    }

    /// Mean delay in nanoseconds; not a number without packets.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns / self.packets as f64
    }

    /// Standard deviation over n in nanoseconds; not a number without packets.
    pub fn stddev_ns(&self) -> f64 {
        let mean = self.mean_ns();
        let variance = self.squares_ns2 / self.packets as f64 - mean * mean;
        variance.max(0.0).sqrt()
    }
}

/// The exact figures of all flows and of the segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Truth {
    /// By number of flow; those that lost every packet have none.
    pub flows: Vec<FlowTruth>,
    /// Regular packets sent.
    pub sent: u64,
    /// All flows together.
    pub segment: FlowTruth,
}

impl Truth {
    /// Matches every regular packet at both ends, as no switch could.
    pub fn of(crossings: &[Crossing], flows: u32) -> Self {
        let mut truth = Self {
            flows: vec![FlowTruth::default(); flows as usize],
            ..Self::default()
        };
        for crossing in crossings {
            if crossing.kind != Kind::Regular {
                continue;
            }
            truth.sent += 1;
            let Some(delay_ns) = crossing.delay_ns() else {
                continue;
            };
            truth.segment.add(crossing.sent_ps, delay_ns);
            if let Some(flow) = truth.flows.get_mut(crossing.flow as usize) {
                flow.add(crossing.sent_ps, delay_ns);
            }
        }
        truth
    }

    /// Share of regular packets lost, in per cent.
    pub fn lost_percent(&self) -> f64 {
        100.0 * (1.0 - self.segment.packets as f64 / self.sent as f64)
    }

    /// Errors of a figure's estimates in per cent, flow by flow, where it is over 0; `estimates_ns` is by number of flow.
    pub fn errors(
        &self,
        estimates_ns: impl IntoIterator<Item = f64>,
        exact_ns: impl Fn(&FlowTruth) -> f64,
    ) -> Vec<f64> {
        let flows = self.flows.iter().map(exact_ns).zip(estimates_ns);
        flows
            .filter(|(exact_ns, _)| *exact_ns > 0.0)
            .map(|(exact_ns, estimate_ns)| error_percent(estimate_ns, exact_ns))
            .collect()
    }
}
