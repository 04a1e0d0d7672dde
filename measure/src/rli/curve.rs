//! The wait curve between two anchors.
//!
//! w(s) is the wait of a packet whose service started at s: its delay without its own serialisation.
//! Anchors are points where w is known. Between two of them
//!
//! ```text
//! w(s) = line(s) + (c + twist skew(s)) bulge(s),   bulge = L x (1 - x),   skew = 1 - 2 X
//! ```
//!
//! L is the distance between the anchors, x the position between them, and X the position between the two
//! references, both 0 to 1. A queue that fills and drains between two references bends the curve: c is the
//! bend, twist how much earlier it occurs.
//!
//! FIFO bounds w independently of the bend: a packet arrived after the left anchor and before the right
//! one, so its time of arrival, s - w, is between theirs. The line keeps both bounds.

/// A point where the wait is known. Both in nanoseconds, the first relative to an origin chosen by the
/// caller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Anchor {
    pub(super) start_ns: f64,
    pub(super) wait_ns: f64,
}

/// The estimate from two anchors for a packet between them, or for several that left at one time. Times in
/// nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CurvePoint {
    /// The line's wait.
    pub(super) line: f64,
    /// Addition by the curve for c = 1.
    pub(super) bulge: f64,
    /// Further addition for a twist of 1.
    pub(super) twist: f64,
    /// Least wait possible.
    least: f64,
    /// Greatest wait possible; ignored if it contradicts the least.
    most: f64,
    /// Number of packets that share the point.
    pub(super) packets: f64,
    /// Mean rank of the packets, relative to the middle of the interval.
    pub(super) rank: f64,
}

impl CurvePoint {
    /// The point at `start_ns` between `left` and `right`. No wait is below `floor_ns`; `skew` falls from 1
    /// at the left reference to -1 at the right one.
    #[inline]
    pub(super) fn between(
        left: Anchor,
        right: Anchor,
        start_ns: f64,
        floor_ns: f64,
        skew: f64,
    ) -> Self {
        let length_ns = right.start_ns - left.start_ns;
        let x = position(start_ns - left.start_ns, length_ns);
        let bulge = length_ns.max(0.0) * x * (1.0 - x);
        Self {
            line: left.wait_ns + x * (right.wait_ns - left.wait_ns),
            bulge,
            twist: bulge * skew,
            least: floor_ns.max(right.wait_ns - (right.start_ns - start_ns)),
            most: left.wait_ns + (start_ns - left.start_ns),
            packets: 1.0,
            rank: 0.0,
        }
    }

    /// Sets the number of `packets` at the point, and of packets `before` it in the interval.
    #[inline]
    pub(super) fn of_run(self, packets: f64, before: f64) -> Self {
        Self {
            packets,
            rank: middle_rank(packets, before),
            ..self
        }
    }

    /// The wait for a bend, and whether a bound limits it.
    #[inline]
    fn bounded(&self, bend: Bend) -> (f64, bool) {
        let free = self.line + bend.c * self.bulge + bend.twist * self.twist;
        let wait = free.min(self.most).max(self.least);
        (wait, wait.total_cmp(&free).is_ne())
    }

    /// The wait for a bend.
    #[inline]
    pub(super) fn wait_ns(&self, bend: Bend) -> f64 {
        self.bounded(bend).0
    }
}

/// The mean rank of `packets` packets after `before` others.
#[inline]
fn middle_rank(packets: f64, before: f64) -> f64 {
    before + (packets - 1.0) / 2.0
}

/// Relative position on a stretch, 0 to 1; 0 for a stretch of length 0.
#[inline]
pub(super) fn position(distance_ns: f64, length_ns: f64) -> f64 {
    if length_ns > 0.0 {
        (distance_ns / length_ns).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// Bend of a curve: in the middle, and the additional bend at its left end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Bend {
    pub(super) c: f64,
    pub(super) twist: f64,
}

/// Known sums of the waits of an interval's packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WaitSums {
    /// Their sum in nanoseconds.
    pub(super) sum_ns: f64,
    /// Their sum, each multiplied by the number of packets before it.
    pub(super) ranked_ns: Option<f64>,
}

/// How often the bend is solved again when bounds apply.
const ROUNDS: usize = 4;

/// Finds the bend for which the waits of `points` add up to `sums`, and the addition to each wait that
/// makes the plain sum exact: 0 unless bounds or points without a bulge prevent a solution.
///
/// Sums are piecewise linear in the bend, so this is Newton's method, restricted to points that no bound
/// limits.
/// bound holds.
pub(super) fn solve(points: &[CurvePoint], sums: WaitSums) -> (Bend, f64) {
    let mut bend = Bend::default();
    let mut missing = Missing::of(points, sums, bend);
    // The line is within all bounds, so the first round needs none.
    for _ in 0..=ROUNDS {
        let Some(step) = missing.step() else {
            break;
        };
        bend.c += step.c;
        bend.twist += step.twist;
        missing = Missing::of(points, sums, bend);
        if missing.is_negligible() {
            break;
        }
    }
    (bend, missing.sum_ns / missing.packets.max(1.0))
}

/// The missing part of the sums, and their derivatives. Ranks count from the middle.
#[derive(Debug, Clone, Copy, Default)]
struct Missing {
    packets: f64,
    sum_ns: f64,
    ranked_ns: Option<f64>,
    sum_by_c: f64,
    sum_by_twist: f64,
    ranked_by_c: f64,
    ranked_by_twist: f64,
}

impl Missing {
    fn of(points: &[CurvePoint], sums: WaitSums, bend: Bend) -> Self {
        let packets = points.iter().map(|point| point.packets).sum::<f64>();
        let middle = middle_rank(packets.max(1.0), 0.0);
        let mut missing = Self {
            packets,
            sum_ns: sums.sum_ns,
            ranked_ns: sums
                .ranked_ns
                .map(|ranked_ns| ranked_ns - middle * sums.sum_ns),
            ..Self::default()
        };
        let mut ranked_ns = 0.0;
        for point in points {
            let rank = point.rank - middle;
            let (wait_ns, held) = point.bounded(bend);
            missing.sum_ns -= point.packets * wait_ns;
            ranked_ns += point.packets * rank * wait_ns;
            if !held {
                let (bulge, twist) = (point.packets * point.bulge, point.packets * point.twist);
                missing.sum_by_c += bulge;
                missing.sum_by_twist += twist;
                missing.ranked_by_c += rank * bulge;
                missing.ranked_by_twist += rank * twist;
            }
        }
        missing.ranked_ns = missing.ranked_ns.map(|known_ns| known_ns - ranked_ns);
        missing
    }

    /// Less than a picosecond for each packet.
    fn is_negligible(&self) -> bool {
        let least_ns = 1e-3 * self.packets;
        self.sum_ns.abs() <= least_ns
            && (self.ranked_ns).is_none_or(|ranked_ns| ranked_ns.abs() <= least_ns * self.packets)
    }

    /// The change of bend that closes the gap, as far as points are not bounded.
    fn step(&self) -> Option<Bend> {
        if let Some(ranked_ns) = self.ranked_ns {
            let (one, other) = (
                self.sum_by_c * self.ranked_by_twist,
                self.sum_by_twist * self.ranked_by_c,
            );
            let determinant = one - other;
            if determinant.abs() > 1e-9 * (one.abs() + other.abs()) {
                let c = self.sum_ns * self.ranked_by_twist - ranked_ns * self.sum_by_twist;
                let twist = self.sum_by_c * ranked_ns - self.ranked_by_c * self.sum_ns;
                return Some(Bend {
                    c: c / determinant,
                    twist: twist / determinant,
                });
            }
        }
        let c = self.sum_ns / self.sum_by_c;
        c.is_finite().then_some(Bend { c, twist: 0.0 })
    }
}

/// The bend to use if sums are unknown: a regression over references, each left out in turn.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct RunningBend {
    numerator: f64,
    denominator: f64,
}

impl RunningBend {
    /// Factor by which the past decays with every reference.
    const MEMORY: f64 = 0.99;

    /// Learns from a reference that waited `wait_ns`, given the `point` estimated from its neighbours.
    pub(super) fn learn(&mut self, wait_ns: f64, point: &CurvePoint) {
        let deviation_ns = wait_ns - point.line;
        self.numerator = Self::MEMORY * self.numerator + deviation_ns * point.bulge;
        self.denominator = Self::MEMORY * self.denominator + point.bulge * point.bulge;
    }

    /// The current bend; 0 before anything was learnt.
    pub(super) fn value(&self) -> Bend {
        let c = self.numerator / self.denominator;
        Bend {
            c: if c.is_finite() { c } else { 0.0 },
            twist: 0.0,
        }
    }
}
