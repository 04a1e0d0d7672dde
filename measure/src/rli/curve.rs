//! The wait curve between two anchors.
//!
//! w(s) is how long a packet waited whose service started at s: its delay without its own
//! serialisation. Anchors are places where w is known. Between two of them
//!
//! ```text
//! w(s) = line(s) + c bulge(s),   bulge = L x (1 - x)
//! ```
//!
//! L is the distance of the anchors and x the position between them, 0 to 1. A queue that fills and
//! drains between two references bends the curve: c says how much.
//!
//! FIFO bounds w on its own, whatever c: a packet came after the left anchor and before the right
//! one, so that s - w, its time of arrival, lies between theirs. The line keeps both bounds.

/// Where the wait is known. Both in nanoseconds, the first relative to a time of the caller's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Anchor {
    pub(super) start_ns: f64,
    pub(super) wait_ns: f64,
}

/// What two anchors say about a packet between them. All in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CurvePoint {
    /// The line's wait.
    pub(super) line: f64,
    /// What the curve adds for c = 1.
    pub(super) bulge: f64,
    /// Least wait possible.
    least: f64,
    /// Greatest wait possible; it gives way where the two contradict each other.
    most: f64,
}

impl CurvePoint {
    /// The point at `start_ns` between `left` and `right`; no wait is under `floor_ns`.
    #[inline]
    pub(super) fn between(left: Anchor, right: Anchor, start_ns: f64, floor_ns: f64) -> Self {
        let length_ns = right.start_ns - left.start_ns;
        let x = position(start_ns - left.start_ns, length_ns);
        Self {
            line: left.wait_ns + x * (right.wait_ns - left.wait_ns),
            bulge: length_ns.max(0.0) * x * (1.0 - x),
            least: floor_ns.max(right.wait_ns - (right.start_ns - start_ns)),
            most: left.wait_ns + (start_ns - left.start_ns),
        }
    }

    /// The wait for a bend of `c`, and whether a bound holds it.
    #[inline]
    fn bounded(&self, c: f64) -> (f64, bool) {
        let free = self.line + c * self.bulge;
        let wait = free.min(self.most).max(self.least);
        (wait, wait.total_cmp(&free).is_ne())
    }

    /// The wait for a bend of `c`.
    #[inline]
    pub(super) fn wait_ns(&self, c: f64) -> f64 {
        self.bounded(c).0
    }
}

/// How far along a stretch something lies, 0 to 1; 0 on a stretch that has no length.
#[inline]
pub(super) fn position(distance_ns: f64, length_ns: f64) -> f64 {
    if length_ns > 0.0 {
        (distance_ns / length_ns).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// How often the bend is solved anew after bounds took hold.
const ROUNDS: usize = 4;

/// The bend for which the waits of `points` add up to `sum_ns`, and what each must be given in
/// addition so that they do: 0 unless bounds or points without a bulge stand in the way.
///
/// The sum grows with c, piecewise linear: Newton's method, which is to solve anew with the points
/// that no bound holds.
pub(super) fn solve(points: &[CurvePoint], sum_ns: f64) -> (f64, f64) {
    let mut c = 0.0;
    // The line keeps all bounds, so that the first round is free of them.
    for _ in 0..=ROUNDS {
        let (missing_ns, slope_ns) = missing(points, sum_ns, c);
        let step = missing_ns / slope_ns;
        if !step.is_finite() || step == 0.0 {
            break;
        }
        c += step;
    }
    let (missing_ns, _) = missing(points, sum_ns, c);
    (c, missing_ns / (points.len().max(1) as f64))
}

/// What is missing to `sum_ns`, and how fast the sum grows with c.
fn missing(points: &[CurvePoint], sum_ns: f64, c: f64) -> (f64, f64) {
    points
        .iter()
        .fold((sum_ns, 0.0), |(missing, slope), point| {
            let (wait_ns, held) = point.bounded(c);
            let bulge = if held { 0.0 } else { point.bulge };
            (missing - wait_ns, slope + bulge)
        })
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
    pub(super) fn value(&self) -> f64 {
        let c = self.numerator / self.denominator;
        if c.is_finite() { c } else { 0.0 }
    }
}
