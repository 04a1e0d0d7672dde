//! The wait curve between two anchors.
//!
//! w(s) is how long a packet waited whose service started at s: its delay without its own
//! serialisation. Anchors are points where w is known. Between two of them
//!
//! ```text
//! w(s) = line(s) + (c + twist skew(s)) bulge(s),   bulge = L x (1 - x),   skew = 1 - 2 X
//! ```
//!
//! L is the distance of the anchors and x the position between them, X the position between the two
//! references; 0 to 1. A queue that fills and drains between two references bends the curve: c says
//! how much, twist how much earlier.
//!
//! FIFO bounds w on its own, whatever the bend: a packet came after the left anchor and before the right
//! one, so that s - w, its time of arrival, is between theirs. The line keeps both bounds.

/// Where the wait is known. Both in nanoseconds, the first relative to a time of the caller's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Anchor {
    pub(super) start_ns: f64,
    pub(super) wait_ns: f64,
}

/// What two anchors say about a packet between them, or about several that left at one time. Times
/// in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CurvePoint {
    /// The line's wait.
    pub(super) line: f64,
    /// What the curve adds for c = 1.
    pub(super) bulge: f64,
    /// What it adds for a twist of 1.
    pub(super) twist: f64,
    /// Least wait possible.
    least: f64,
    /// Greatest wait possible; it gives way where the two contradict each other.
    most: f64,
    /// How many packets share it.
    pub(super) packets: f64,
    /// How many of the interval's packets came before the one in their middle.
    pub(super) rank: f64,
}

impl CurvePoint {
    /// The point at `start_ns` between `left` and `right`; no wait is under `floor_ns`, and
    /// `skew` falls from 1 at the left reference to -1 at the right one.
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

    /// It speaks for `packets` packets, `before` others of the interval ahead of them.
    #[inline]
    pub(super) fn of_run(self, packets: f64, before: f64) -> Self {
        Self {
            packets,
            rank: middle_rank(packets, before),
            ..self
        }
    }

    /// The wait for a bend, and whether a bound holds it.
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

/// The mean rank of `packets` packets behind `before` others.
#[inline]
fn middle_rank(packets: f64, before: f64) -> f64 {
    before + (packets - 1.0) / 2.0
}

/// How far along a stretch something is, 0 to 1; 0 on a stretch that has no length.
#[inline]
pub(super) fn position(distance_ns: f64, length_ns: f64) -> f64 {
    if length_ns > 0.0 {
        (distance_ns / length_ns).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// How a curve bends: in the middle, and how much more at its left end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Bend {
    pub(super) c: f64,
    pub(super) twist: f64,
}

/// What is known of the waits of an interval's packets together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WaitSums {
    /// Their sum in nanoseconds.
    pub(super) sum_ns: f64,
    /// Their sum, each multiplied by the number of packets before it.
    pub(super) ranked_ns: Option<f64>,
}

/// How often the bend is solved anew after bounds took hold.
const ROUNDS: usize = 4;

/// The bend for which the waits of `points` add up to `sums`, and what each must be given in
/// addition so that the plain sum is exact: 0 unless bounds or points without a bulge prevent
/// it.
///
/// Sums grow piecewise linear: Newton's method, which is to solve anew with the points that no
/// bound holds.
pub(super) fn solve(points: &[CurvePoint], sums: WaitSums) -> (Bend, f64) {
    let mut bend = Bend::default();
    let mut missing = Missing::of(points, sums, bend);
    // The line keeps all bounds, so that the first round is free of them.
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

/// What is missing to the sums, and how fast they grow. Ranks count from the middle.
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

    /// The change of bend that makes up for it, as far as points are free.
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

/// The bend to use where sums do not tell: a regression over references, each left out in turn.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct RunningBend {
    numerator: f64,
    denominator: f64,
}

impl RunningBend {
    /// What is kept of the past with every reference.
    const MEMORY: f64 = 0.99;

    /// Learns from a reference that waited `wait_ns`, where its neighbours say `point`.
    pub(super) fn learn(&mut self, wait_ns: f64, point: &CurvePoint) {
        let deviation_ns = wait_ns - point.line;
        self.numerator = Self::MEMORY * self.numerator + deviation_ns * point.bulge;
        self.denominator = Self::MEMORY * self.denominator + point.bulge * point.bulge;
    }

    /// The present bend; 0 before anything was learnt.
    pub(super) fn value(&self) -> Bend {
        let c = self.numerator / self.denominator;
        Bend {
            c: if c.is_finite() { c } else { 0.0 },
            twist: 0.0,
        }
    }
}
