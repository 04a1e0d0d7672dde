//! What a flow or a segment has counted, and what of that is new.

use records::snapshot::{FlowFigures, FlowQuantiles, Segment, Stamped, WireSegment};

/// Counts and delays since the first packet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counted {
    pub packets: u64,
    /// `None` where they are not known, like losses.
    pub bytes: Option<u64>,
    pub lost: Option<u64>,
    pub delays: Sums,
}

/// Sums over packets whose delay was stamped.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sums {
    pub packets: u64,
    pub sum_ns: f64,
    squares_ns2: f64,
}

/// Stamped delays of the packets that a record is for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Delays {
    pub packets: u64,
    pub sum_ns: f64,
    pub mean_ns: f64,
    pub stddev_ns: f64,
    /// Of one epoch only: they cannot be taken from sums.
    pub min_ns: Option<f64>,
    pub max_ns: Option<f64>,
    /// Percentiles 50, 90, 99, 99.9 and 99.99, likewise.
    pub percentiles_ns: [Option<f64>; 5],
}

impl Sums {
    fn of(packets: u64, mean_ns: f64, stddev_ns: f64) -> Self {
        let number = packets as f64;
        Self {
            packets,
            sum_ns: number * mean_ns,
            squares_ns2: number * (stddev_ns * stddev_ns + mean_ns * mean_ns),
        }
    }

    /// The delays; `None` without packets.
    pub fn delays(&self) -> Option<Delays> {
        let number = (self.packets > 0).then_some(self.packets as f64)?;
        let mean_ns = self.sum_ns / number;
        let variance_ns2 = (self.squares_ns2 / number - mean_ns * mean_ns).max(0.0);
        Some(Delays {
            packets: self.packets,
            sum_ns: self.sum_ns,
            mean_ns,
            stddev_ns: variance_ns2.sqrt(),
            ..Delays::default()
        })
    }
}

impl Delays {
    /// Of one epoch.
    pub fn of_flow(figures: &FlowFigures, quantiles: Option<&FlowQuantiles>) -> Option<Self> {
        let mean_ns = figures.mean_ns?;
        let percentiles_ns = quantiles.map(|of| [of.p50_ns, of.p90_ns, of.p99_ns].map(Some));
        let [p50_ns, p90_ns, p99_ns] = percentiles_ns.unwrap_or_default();
        Some(Self {
            mean_ns,
            stddev_ns: figures.stddev_ns.unwrap_or_default(),
            max_ns: quantiles.and_then(|of| of.max_ns),
            percentiles_ns: [p50_ns, p90_ns, p99_ns, None, None],
            ..Sums::of(figures.packets, mean_ns, 0.0).delays()?
        })
    }

    /// Likewise.
    pub fn of_segment(packets: u64, stamped: &Stamped) -> Option<Self> {
        let percentiles_ns = [
            stamped.p50_ns,
            stamped.p90_ns,
            stamped.p99_ns,
            stamped.p999_ns,
            stamped.p9999_ns,
        ];
        Some(Self {
            mean_ns: stamped.mean_ns,
            stddev_ns: stamped.stddev_ns,
            min_ns: Some(stamped.min_ns),
            max_ns: Some(stamped.max_ns),
            percentiles_ns: percentiles_ns.map(Some),
            ..Sums::of(packets, stamped.mean_ns, 0.0).delays()?
        })
    }
}

impl Counted {
    pub fn of_flow(figures: &FlowFigures) -> Self {
        let sums = figures.mean_ns.map(|mean_ns| {
            Sums::of(
                figures.packets,
                mean_ns,
                figures.stddev_ns.unwrap_or_default(),
            )
        });
        Self {
            packets: figures.packets,
            bytes: Some(figures.bytes),
            lost: figures.lost_packets,
            delays: sums.unwrap_or_default(),
        }
    }

    pub fn of_segment(segment: &Segment) -> Self {
        let total = &segment.total;
        let stamped = total.buckets.iter().map(|bucket| bucket.packets);
        Self {
            packets: total.counts.sent_packets,
            bytes: Some(total.counts.sent_bytes),
            lost: Some(total.counts.dropped_packets),
            delays: Sums {
                packets: stamped.sum(),
                sum_ns: 1e9 * total.delay_sum_s,
                squares_ns2: 1e18 * total.delay_squared_sum_s2,
            },
        }
    }

    pub fn of_wire(segment: &WireSegment) -> Self {
        Self {
            packets: segment.sent_packets,
            lost: Some(segment.lost_packets_max),
            ..Self::default()
        }
    }

    /// What was counted since `earlier`; all of it, where counting began anew.
    pub fn since(self, earlier: Self) -> Self {
        let earlier = if earlier.packets <= self.packets {
            earlier
        } else {
            Self::default()
        };
        let rise = |now: Option<u64>, then: Option<u64>| {
            Some(now?.saturating_sub(then.unwrap_or_default()))
        };
        Self {
            packets: self.packets - earlier.packets,
            bytes: rise(self.bytes, earlier.bytes),
            lost: rise(self.lost, earlier.lost),
            delays: Sums {
                packets: self.delays.packets.saturating_sub(earlier.delays.packets),
                sum_ns: (self.delays.sum_ns - earlier.delays.sum_ns).max(0.0),
                squares_ns2: self.delays.squares_ns2 - earlier.delays.squares_ns2,
            },
        }
    }

    /// Whether there is nothing in it.
    pub fn is_nothing(&self) -> bool {
        self.packets == 0 && self.lost.unwrap_or_default() == 0
    }
}
