//! The packets between two references: the buffered packets, and their delays once it is closed.

use super::curve::{Anchor, Bend, CurvePoint, WaitSums, position, solve};
use super::delay_sum::DelaySum;
use super::learnt::Idle;
use super::link::Link;
use super::receiver::Estimate;
use super::reference::StreamSums;
use super::since_ns;
use crate::time::EpochTag;

/// Packets that were received at one time: neighbours in the buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BufferedRun {
    pub(super) received_ns: u64,
    /// Idle time since the packet or reference before it.
    pub(super) idle: Option<Idle>,
    /// How many.
    pub(super) packets: u32,
    /// Of each.
    pub(super) bytes: u32,
    pub(super) epoch: EpochTag,
}

impl BufferedRun {
    /// Whether packets like `next` may count as part of it.
    #[inline]
    fn takes(&self, next: &Self) -> bool {
        next.idle.is_none()
            && (self.received_ns, self.bytes, self.epoch)
                == (next.received_ns, next.bytes, next.epoch)
    }
}

/// Packets in order: what runs have in common, and the flow of each.
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
    /// Memory for each packet that there is room for.
    pub(super) const PACKET_BYTES: usize = size_of::<BufferedRun>() + size_of::<F>();

    /// Room for `packets` packets, whatever their times.
    pub(super) fn with_room(packets: usize) -> Self {
        Self {
            runs: Vec::with_capacity(packets),
            flows: Vec::with_capacity(packets),
            packets_max: packets,
        }
    }

    /// Packets that there is room for.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.packets_max - self.flows.len()
    }

    /// Adds packets of `flows`, all as `run` says; no more than there is [room](Self::room) for.
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

    /// Forgets all packets; the room stays.
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
    /// What the sender had sent before it, and what the receiver had received.
    pub(super) sent: StreamSums,
    pub(super) received: StreamSums,
    /// Idle time since the packet or reference before it.
    pub(super) idle: Option<Idle>,
    /// When the busy period that it was sent in began, as far as is known.
    pub(super) busy_since_ns: Option<u64>,
    /// How far it is from the line between its neighbours, squared; unknown at the ends.
    pub(super) squared_error_ns2: Option<f64>,
}

impl Mark {
    /// It as an anchor, relative to `origin_ns`.
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
    /// Mean square of how far a reference is from the one before it.
    pub(super) squared_step_ns2: f64,
}

impl Latest {
    /// RLI-L (Lee et al. 2010, section 3.3) for packets behind it.
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

    /// The mean square of steps, with another step in it.
    pub(super) fn with_step(&self, step_ns: f64) -> f64 {
        const WEIGHT: f64 = 0.125;
        self.squared_step_ns2 + WEIGHT * (step_ns * step_ns - self.squared_step_ns2)
    }
}

/// What the estimates of an interval may be wrong by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Error {
    /// Of each, squared.
    pub(super) squared_ns2: f64,
    /// 1 / n where the sum of the delays of n packets is exact, else 0.
    pub(super) share_of_sum: f64,
}

/// Packets between two references; the second may not have come.
#[derive(Debug)]
pub(super) struct Interval<F> {
    pub(super) left: Mark,
    pub(super) right: Mark,
    /// Its number, for the flows' bounds.
    pub(super) number: u32,
    /// Sum of the delays of the packets; `None` where not all of them were buffered.
    pub(super) delay_sum: Option<DelaySum>,
    pub(super) buffer: Buffer<F>,
}

impl<F: Copy> Interval<F> {
    /// Of estimates on the line between the references.
    pub(super) fn error(&self) -> Error {
        Error {
            squared_ns2: self.squared_error_ns2(),
            share_of_sum: 0.0,
        }
    }

    /// Of estimates on the curve through `points`; references lie off the line between their
    /// neighbours by `usual_ns2`, squared.
    ///
    /// Where the sum is exact, packets can only be taken for one another: by as much as their
    /// waits differ, and as the curve, of two parameters, had to leave the line to meet the sums. Three
    /// hundredths of what the references show are for what neither does. Elsewhere both come on top of
    /// what the references show here and usually: one that is on the line by chance says little
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

    /// The larger squared error of its two references; where neither is known, the square of how
    /// far they lie apart.
    fn squared_error_ns2(&self) -> f64 {
        let errors = [self.left.squared_error_ns2, self.right.squared_error_ns2];
        let apart_ns = self.right.delay_ns - self.left.delay_ns;
        errors
            .into_iter()
            .flatten()
            .reduce(f64::max)
            .unwrap_or(apart_ns * apart_ns)
    }

    /// The estimator of Lee et al. 2010, eq. 1, for packets of one time.
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

    /// Puts a point of the wait curve for each run of packets into `points`. `base_ns`, where known, is the
    /// delay beyond wait and serialisation: then the ends of idle times are anchors too, and
    /// no wait (which counts it in) is under it.
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

    /// The bend of the curve through `points`, and what to add to each wait: so that their sum is
    /// exact where it is known; elsewhere the `usual` bend, as far as the sum does not say better.
    pub(super) fn bend(&self, points: &[CurvePoint], link: &Link, usual: Bend) -> (Bend, f64) {
        // How many packets, their mean rank, and how long each took.
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
                // A reference left out is halfway on twice the length: its squared error is that
                // of a whole interval's mean six times, where waits walk at random.
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

/// The variance of the waits, and the mean square of how far they lie from the line.
fn spread_ns2(points: &[CurvePoint], bend: Bend, rest_ns: f64) -> f64 {
    let (mut packets, mut sum, mut squares, mut off_line) = (0.0, 0.0, 0.0, 0.0);
    // Relative to the first, so that large delays cancel nothing.
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
