//! The packets between two references: buffered packets, and their delays once the interval is closed.

use super::curve::{Anchor, Bend, CurvePoint, WaitSums, position, solve};
use super::delay_sum::DelaySum;
use super::learnt::Idle;
use super::link::Link;
use super::receiver::Estimate;
use super::reference::StreamSums;
use super::since_ns;
use crate::time::EpochTag;

/// Packets received at one time: neighbours in the buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BufferedRun {
    pub(super) received_ns: u64,
    /// Idle time since the packet or reference before it.
    pub(super) idle: Option<Idle>,
    /// Number of packets.
    pub(super) packets: u32,
    /// Length of each.
    pub(super) bytes: u32,
    pub(super) epoch: EpochTag,
}

impl BufferedRun {
    /// Whether packets like `next` may be added to it.
    #[inline]
    fn takes(&self, next: &Self) -> bool {
        next.idle.is_none()
            && (self.received_ns, self.bytes, self.epoch)
                == (next.received_ns, next.bytes, next.epoch)
    }
}

/// Packets in order: the shared values of runs, and the flow of each packet.
#[derive(Debug)]
pub(super) struct Buffer<F> {
    runs: Vec<BufferedRun>,
    flows: Vec<F>,
    packets_max: usize,
}

impl<F> Default for Buffer<F> {
    /// Without room.
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            flows: Vec::new(),
            packets_max: 0,
        }
    }
}

impl<F: Copy> Buffer<F> {
    /// Memory for each packet of capacity.
    pub(super) const PACKET_BYTES: usize = size_of::<BufferedRun>() + size_of::<F>();

    /// Allocates room for `packets` packets, whatever their times.
    pub(super) fn with_room(packets: usize) -> Self {
        Self {
            runs: Vec::with_capacity(packets),
            flows: Vec::with_capacity(packets),
            packets_max: packets,
        }
    }

    /// Capacity in packets.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.packets_max - self.flows.len()
    }

    /// Adds packets of `flows` with the values of `run`; at most as many as there is [room](Self::room)
    /// for.
    #[inline]
    pub(super) fn push(&mut self, run: BufferedRun, flows: &[F]) {
        self.flows.extend_from_slice(flows);
        match self.runs.last_mut() {
            Some(last) if last.takes(&run) => last.packets += run.packets,
            _ => self.runs.push(run),
        }
    }

    /// The runs, in order.
    #[inline]
    pub(super) fn runs(&self) -> &[BufferedRun] {
        &self.runs
    }

    /// The runs, in order, with the flows of their packets.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&BufferedRun, &[F])> {
        let mut rest = self.flows.as_slice();
        self.runs.iter().map(move |run| {
            let (flows, behind) = rest.split_at(rest.len().min(run.packets as usize));
            rest = behind;
            (run, flows)
        })
    }

    /// Packets.
    pub(super) fn packets(&self) -> usize {
        self.flows.len()
    }

    /// Whether packets of `epoch` are among them.
    pub(super) fn holds(&self, epoch: EpochTag) -> bool {
        self.runs.iter().any(|run| run.epoch == epoch)
    }

    /// Removes all packets; the capacity stays.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.flows.clear();
    }
}

/// A reference that arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mark {
    pub(super) sent_ns: u64,
    pub(super) received_ns: u64,
    /// Receive time minus send time.
    pub(super) delay_ns: f64,
    /// Of the reference itself.
    pub(super) serialisation_ns: f64,
    /// The sums of the sender and of the receiver before it.
    pub(super) sent: StreamSums,
    pub(super) received: StreamSums,
    /// Idle time since the packet or reference before it.
    pub(super) idle: Option<Idle>,
    /// Start of the busy period in which it was sent, if known.
    pub(super) busy_since_ns: Option<u64>,
    /// Squared distance from the line between its neighbours; unknown at the ends.
    pub(super) squared_error_ns2: Option<f64>,
}

impl Mark {
    /// The reference as an anchor, relative to `origin_ns`.
    pub(super) fn anchor(&self, origin_ns: u64) -> Anchor {
        Anchor {
            start_ns: since_ns(self.received_ns, origin_ns) - self.serialisation_ns,
            wait_ns: self.delay_ns - self.serialisation_ns,
        }
    }
}

/// The latest reference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latest {
    pub(super) mark: Mark,
    pub(super) sequence: u32,
    /// Mean square of the difference between consecutive references.
    pub(super) squared_step_ns2: f64,
}

impl Latest {
    /// RLI-L (Lee et al. 2010, section 3.3) for packets after it.
    #[inline]
    pub(super) fn estimate(&self, run: &BufferedRun, link: &Link, interval: u32) -> Estimate {
        let correction_ns = link.serialisation_ns(run.bytes) - self.mark.serialisation_ns;
        Estimate {
            epoch: run.epoch,
            received_ns: run.received_ns,
            delay_ns: self.mark.delay_ns + correction_ns,
            squared_error_ns2: self.squared_step_ns2,
            share_of_sum: 0.0,
            interval,
        }
    }

    /// The mean square of steps, with another step included.
    pub(super) fn with_step(&self, step_ns: f64) -> f64 {
        const WEIGHT: f64 = 0.125;
        self.squared_step_ns2 + WEIGHT * (step_ns * step_ns - self.squared_step_ns2)
    }
}

/// Errors of an interval's estimates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Error {
    /// Squared error of each.
    pub(super) squared_ns2: f64,
    /// 1 / n if the sum of the delays of n packets is exact, else 0.
    pub(super) share_of_sum: f64,
}

/// Packets between two references; the second may not have arrived.
#[derive(Debug)]
pub(super) struct Interval<F> {
    pub(super) left: Mark,
    pub(super) right: Mark,
    /// Its number, for the flows' bounds.
    pub(super) number: u32,
    /// Sum of the delays of the packets; `None` if some were not buffered.
    pub(super) delay_sum: Option<DelaySum>,
    pub(super) buffer: Buffer<F>,
}

impl<F: Copy> Interval<F> {
    /// Error of estimates on the line between the references.
    pub(super) fn error(&self) -> Error {
        Error {
            squared_ns2: self.squared_error_ns2(),
            share_of_sum: 0.0,
        }
    }

    /// Error of estimates on the curve through `points`; `usual_ns2` is the usual squared distance of
    /// references from the line between their neighbours.
    ///
    /// If the sum is exact, packets can only be confused with each other: the error is how much their waits
    /// differ, and how far the curve, with two parameters, had to leave the line to match the sums. Three
    /// hundredths of the references' errors cover what neither shows. Otherwise both are added to the
    /// references' errors here and usually: a reference that is on the line by chance says little about
    /// packets that may not be those that were sent.
    /// of packets that may be others than those that were sent.
    pub(super) fn error_of_curve(
        &self,
        points: &[CurvePoint],
        bend: Bend,
        rest_ns: f64,
        usual_ns2: f64,
    ) -> Error {
        const UNSEEN: f64 = 0.03;
        let spread_ns2 = spread_ns2(points, bend, rest_ns);
        match self.delay_sum {
            Some(DelaySum::Exact { packets, .. }) => Error {
                squared_ns2: spread_ns2 + UNSEEN * self.squared_error_ns2(),
                share_of_sum: 1.0 / packets.max(1) as f64,
            },
            _ => Error {
                squared_ns2: spread_ns2 + self.squared_error_ns2().max(usual_ns2),
                share_of_sum: 0.0,
            },
        }
    }

    /// The larger squared error of its two references; if neither is known, the square of their difference.
    fn squared_error_ns2(&self) -> f64 {
        let errors = [self.left.squared_error_ns2, self.right.squared_error_ns2];
        let apart_ns = self.right.delay_ns - self.left.delay_ns;
        errors
            .into_iter()
            .flatten()
            .reduce(f64::max)
            .unwrap_or(apart_ns * apart_ns)
    }

    /// The estimator of Lee et al. 2010, eq. 1, for packets received at one time.
    pub(super) fn linear_delay_ns(&self, run: &BufferedRun, link: &Link) -> f64 {
        let (left, right) = (&self.left, &self.right);
        let x = position(
            since_ns(run.received_ns, left.received_ns),
            since_ns(right.received_ns, left.received_ns),
        );
        let reference_ns =
            left.serialisation_ns + x * (right.serialisation_ns - left.serialisation_ns);
        left.delay_ns
            + x * (right.delay_ns - left.delay_ns)
            + (link.serialisation_ns(run.bytes) - reference_ns)
    }

    /// Adds a point of the wait curve for each run of packets to `points`. `base_ns`, if known, is the
    /// delay beyond wait and serialisation: then the ends of idle times are anchors, too, and no wait
    /// (which includes it) is below it.
    pub(super) fn curve(&self, link: &Link, base_ns: Option<f64>, points: &mut Vec<CurvePoint>) {
        let origin_ns = self.left.received_ns;
        let empty = |at_ns: u64, wait_ns: f64| Anchor {
            start_ns: since_ns(at_ns, origin_ns),
            wait_ns,
        };
        let ends_of = |idle: Option<Idle>| {
            idle.zip(base_ns)
                .map(|(idle, base_ns)| (empty(idle.from_ns, base_ns), empty(idle.to_ns, base_ns)))
        };
        let floor_ns = base_ns.unwrap_or(f64::NEG_INFINITY);
        let mut left = self.left.anchor(origin_ns);
        let (begin_ns, last) = (left.start_ns, self.right.anchor(origin_ns));
        let length_ns = last.start_ns - begin_ns;
        let mut rest = self.buffer.runs();
        let mut before = 0.0;
        points.clear();
        while let Some((first, others)) = rest.split_first() {
            if let Some((_, begin)) = ends_of(first.idle) {
                left = begin;
            }
            // Up to the next idle time, or to the right reference.
            let more = others
                .iter()
                .position(|run| run.idle.is_some() && base_ns.is_some());
            let (stretch, after) = rest.split_at(more.map_or(rest.len(), |more| more + 1));
            let next_idle = after.first().map_or(self.right.idle, |run| run.idle);
            let right = ends_of(next_idle).map_or(last, |(end, _)| end);
            points.extend(stretch.iter().map(|run| {
                let start_ns =
                    since_ns(run.received_ns, origin_ns) - link.serialisation_ns(run.bytes);
                let skew = 1.0 - 2.0 * position(start_ns - begin_ns, length_ns);
                let ahead = before;
                before += f64::from(run.packets);
                CurvePoint::between(left, right, start_ns, floor_ns, skew)
                    .of_run(run.packets.into(), ahead)
            }));
            rest = after;
        }
    }

    /// The bend of the curve through `points`, and the addition to each wait that makes their sum exact, if
    /// it is known; otherwise the `usual` bend, unless the sum is better evidence.
    pub(super) fn bend(&self, points: &[CurvePoint], link: &Link, usual: Bend) -> (Bend, f64) {
        // Number of packets, their mean rank, and the serialisation of each.
        let serialisations = || {
            let runs = self.buffer.runs().iter().zip(points);
            runs.map(|(run, point)| (point.packets, point.rank, link.serialisation_ns(run.bytes)))
        };
        let serialisation_ns = || serialisations().map(|(n, _, ns)| n * ns).sum::<f64>();
        match self.delay_sum {
            Some(DelaySum::Exact {
                sum_ns, ranked_ns, ..
            }) => {
                let sums = WaitSums {
                    sum_ns: sum_ns as f64 - serialisation_ns(),
                    ranked_ns: ranked_ns.map(|ranked_ns| {
                        let ranked =
                            |(n, rank, ns): (f64, f64, f64)| n * rank * (ns - self.left.delay_ns);
                        ranked_ns - serialisations().map(ranked).sum::<f64>()
                    }),
                };
                solve(points, sums)
            }
            Some(DelaySum::Scaled {
                sum_ns,
                variance_ns2,
                ..
            }) => {
                // A reference left out is at the middle of twice the length: its squared error is six times
                // that of the mean of a whole interval, if waits are a random walk.
                let n = self.buffer.packets() as f64;
                let usual_ns: f64 = (points.iter())
                    .map(|point| point.packets * point.wait_ns(usual))
                    .sum();
                let usual_variance_ns2 = n * n * self.squared_error_ns2() / 6.0;
                let trust = usual_variance_ns2 / (usual_variance_ns2 + variance_ns2);
                if !trust.is_finite() {
                    return (usual, 0.0);
                }
                let missing_ns = sum_ns - serialisation_ns() - usual_ns;
                let sums = WaitSums {
                    sum_ns: usual_ns + trust * missing_ns,
                    ranked_ns: None,
                };
                solve(points, sums)
            }
            Some(DelaySum::Unknown { .. }) | None => (usual, 0.0),
        }
    }
}

/// The variance of the waits, and the mean square of their distances from the line.
fn spread_ns2(points: &[CurvePoint], bend: Bend, rest_ns: f64) -> f64 {
    let (mut packets, mut sum, mut squares, mut off_line) = (0.0, 0.0, 0.0, 0.0);
    // Relative to the first, so that large delays do not cancel digits.
    let origin_ns = points.first().map_or(0.0, |point| point.line);
    for point in points {
        let wait_ns = point.wait_ns(bend) + rest_ns;
        let relative_ns = wait_ns - origin_ns;
        packets += point.packets;
        sum += point.packets * relative_ns;
        squares += point.packets * relative_ns * relative_ns;
        off_line += point.packets * (wait_ns - point.line).powi(2);
    }
    if packets > 0.0 {
        let mean = sum / packets;
        (squares / packets - mean * mean).max(0.0) + off_line / packets
    } else {
        0.0
    }
}
