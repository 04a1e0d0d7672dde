//! Sequential belief propagation: flow by flow, the largest first, each reads its cells in their current
//! state, and updates them at once.

use arrayvec::ArrayVec;

use super::prior::{Background, Gaussian, MIXTURE_MAX, Prior, TwoVariances, mirror, solve};
use super::system::{Part, Square, System, TERMS_MAX, Terms};

/// Least variance of a reading, as a share of its flow's variance ...
const CERTAINTY_OF_FLOW: f64 = 1e-14;
/// ... and of its cell's: sums updated in place accumulate rounding errors.
const CERTAINTY_OF_CELL: f64 = 1e-10;

/// A cell during a sweep.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// `s_c` - `M_c`.
    residual: f64,
    /// `V_c`.
    variance: f64,
    /// Sum of a m over the edges updated in this sweep.
    next_mean: f64,
    /// Sum of a^2 v, likewise.
    next_variance: f64,
}

/// The evidence of one cell about a flow, or of several cells.
#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    /// 1 / q.
    pub precision: f64,
    /// r / q.
    pub pull: f64,
}

/// A flow's mean and variance.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Belief {
    /// x.
    pub mean: f64,
    /// xv.
    pub variance: f64,
}

/// How far means moved in a sweep, in the system's units.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Change {
    /// The largest step.
    pub largest: f64,
    /// Sum of all steps' squares.
    pub squares: f64,
}

/// Combines a flow's prior with its readings.
trait Combine {
    /// The posterior of a flow, given the sum of its readings.
    fn posterior(&mut self, flow: usize, all: Reading) -> Belief;

    /// The flow last combined, without the reading at `index`.
    fn cavity(&self, belief: Belief, all: Reading, readings: &[Reading], index: usize) -> Belief;
}

/// The state of belief propagation.
pub(super) struct Sweeper<'a> {
    system: &'a System,
    tallies: Vec<Tally>,
    /// Cavity mean m and variance v of each edge: the flow according to all its other cells.
    cavities: Vec<Belief>,
    readings: Vec<Reading>,
    /// Posterior of each flow in decoding order; the prior for a flow without evidence.
    pub beliefs: Vec<Belief>,
}

impl<'a> Sweeper<'a> {
    /// Starts with every flow at its prior.
    pub fn new(system: &'a System, prior: &Prior) -> Self {
        let mut tallies = vec![Tally::default(); system.equations.len()];
        let mut cavities = Vec::with_capacity(system.edges.len());
        let mut beliefs = Vec::with_capacity(system.flows());
        for flow in 0..system.flows() {
            let belief = prior.of_flow(system, flow);
            beliefs.push(belief);
            for edge in &system.edges[system.edges_of(flow)] {
                cavities.push(belief);
                tallies[edge.cell as usize].expect(edge.coefficient, belief);
            }
        }
        Self {
            system,
            tallies,
            cavities,
            readings: vec![Reading::default(); system.degree_max()],
            beliefs,
        }
    }

    /// Sweeps once over all flows; evidence about the prior goes to `learner`.
    pub fn sweep(&mut self, prior: &Prior, learner: &mut Option<Learner>) -> Change {
        let background = prior.background(&self.system.features);
        self.sum_anew(&background);
        match prior.components.as_slice() {
            [only] => {
                let mut single = Single {
                    system: self.system,
                    component: only,
                    prior: Belief::default(),
                };
                self.pass(&mut single, &background)
            }
            several => {
                let mut mixed = Mixed {
                    system: self.system,
                    components: several,
                    learner,
                };
                self.pass(&mut mixed, &background)
            }
        }
    }

    /// Recomputes `M_c` and `V_c` from the edges, as summed in the last sweep, and from the current prior.
    fn sum_anew(&mut self, background: &Background) {
        for (tally, equation) in self.tallies.iter_mut().zip(&self.system.equations) {
            let own = background.noise(equation);
            *tally = Tally {
                residual: equation.sum - equation.unlisted * background.mean - tally.next_mean,
                variance: own + tally.next_variance,
                next_mean: 0.0,
                next_variance: 0.0,
            };
        }
    }

    fn pass(&mut self, combine: &mut impl Combine, background: &Background) -> Change {
        let tick2 = self.system.scale.unit.powi(-2);
        let mut change = Change::default();
        for (flow, last) in self.beliefs.iter_mut().enumerate() {
            let own = self.system.edges_of(flow);
            let edges = &self.system.edges[own.clone()];
            if edges.is_empty() {
                continue;
            }
            let parts = self.system.parts.as_ref().map(|parts| &parts[own.clone()]);
            let cavities = &mut self.cavities[own];
            let readings = &mut self.readings[..edges.len()];
            let floor = CERTAINTY_OF_FLOW * (tick2 + last.variance);
            let mut all = Reading::default();
            for ((edge, cavity), reading) in edges.iter().zip(&*cavities).zip(&mut *readings) {
                *reading = self.tallies[edge.cell as usize].read(edge.coefficient, cavity, floor);
                all.precision += reading.precision;
                all.pull += reading.pull;
            }
            if let Some(parts) = parts {
                let within = background.of_parts(self.system, flow);
                together(&mut all, readings, parts, within);
            }
            let belief = combine.posterior(flow, all);
            for (index, (edge, cavity)) in edges.iter().zip(cavities).enumerate() {
                let new = combine.cavity(belief, all, readings, index);
                self.tallies[edge.cell as usize].tell(edge.coefficient, *cavity, new);
                *cavity = new;
            }
            let step = belief.mean - last.mean;
            change.largest = change.largest.max(step.abs());
            change.squares += step * step;
            *last = belief;
        }
        change
    }
}

/// Corrects for parts of one flow that contain the same packets, and for parts that make up the whole flow.
///
/// Each reading assumes that the packets of its part are drawn from the flow independently. But rows at one
/// offset contain the same packets, so repeated evidence adds no certainty. And the packets of two offsets
/// are disjoint: if all offsets are read, nothing is random. Let w be a reading's share of the combined
/// evidence, and s the share of packets in its part. The mean over the parts then differs from the flow's
/// with a variance of sig2 / n (sum over pairs at one offset of w w' / max(s, s') - 1), while sig2 / n sum
/// w^2 (1 / s - 1) was assumed. `within` is sig2 / n.
fn together(all: &mut Reading, readings: &mut [Reading], parts: &[Part], within: f64) {
    let weight = |reading: &Reading| reading.precision / all.precision;
    let (mut pairs, mut alone) = (0.0, 0.0);
    for (index, (reading, part)) in readings.iter().zip(parts).enumerate() {
        let (w, share) = (weight(reading), part.share);
        pairs += w * w / share;
        alone += w * w * (1.0 / share - 1.0);
        let before = readings[..index].iter().zip(&parts[..index]).rev();
        for (other, part) in before.take_while(|(_, other)| other.offset == part.offset) {
            pairs += 2.0 * w * weight(other) / share.max(part.share);
        }
    }
    let taken = all.precision.recip();
    let noise = taken + within * ((pairs - 1.0).max(0.0) - alone);
    let surer = taken / noise.max(CERTAINTY_OF_CELL * taken);
    if !surer.is_finite() {
        // Readings without evidence.
        return;
    }
    for reading in std::iter::once(all).chain(readings) {
        reading.precision *= surer;
        reading.pull *= surer;
    }
}

impl Tally {
    /// Adds a flow to the next sweep's sums.
    #[inline]
    fn expect(&mut self, coefficient: f64, cavity: Belief) {
        self.next_mean += coefficient * cavity.mean;
        self.next_variance += coefficient * coefficient * cavity.variance;
    }

    /// The flow as seen by the cell: the rest of the sum without all others.
    #[inline]
    fn read(&self, coefficient: f64, cavity: &Belief, floor: f64) -> Reading {
        let inverse = coefficient.recip();
        let variance = self.variance * inverse * inverse;
        let rounding = floor + CERTAINTY_OF_CELL * variance.max(0.0);
        let precision = (variance - cavity.variance).max(rounding).recip();
        let value = self.residual * inverse + cavity.mean;
        if !value.is_finite() {
            // The share is too small to show in the cell.
            return Reading::default();
        }
        Reading {
            precision,
            pull: precision * value,
        }
    }

    /// Updates the flow.
    #[inline]
    fn tell(&mut self, coefficient: f64, old: Belief, new: Belief) {
        self.residual -= coefficient * (new.mean - old.mean);
        self.variance += coefficient * coefficient * (new.variance - old.variance);
        self.expect(coefficient, new);
    }
}

/// One component: everything is Gaussian.
struct Single<'a> {
    system: &'a System,
    component: &'a Gaussian,
    /// Prior of this flow.
    prior: Belief,
}

impl Single<'_> {
    fn update(&self, reading: Reading) -> Belief {
        let Belief { mean, variance } = self.prior;
        let shrink = (1.0 + variance * reading.precision).recip();
        Belief {
            mean: (mean + variance * reading.pull) * shrink,
            variance: variance * shrink,
        }
    }
}

impl Combine for Single<'_> {
    #[inline]
    fn posterior(&mut self, flow: usize, all: Reading) -> Belief {
        self.prior = self.component.of_flow(self.system, flow);
        self.update(all)
    }

    /// Exact: from the other readings' sum.
    #[inline]
    fn cavity(&self, _: Belief, all: Reading, readings: &[Reading], index: usize) -> Belief {
        let one = readings[index];
        if one.precision < 0.99 * all.precision {
            return self.update(Reading {
                precision: all.precision - one.precision,
                pull: all.pull - one.pull,
            });
        }
        // The difference would be mostly rounding error.
        let (before, after) = (&readings[..index], &readings[index + 1..]);
        let others = before.iter().chain(after);
        self.update(others.fold(Reading::default(), |sum, reading| Reading {
            precision: sum.precision + reading.precision,
            pull: sum.pull + reading.pull,
        }))
    }
}

/// Least share of the flow's precision that a cavity must keep.
const CAVITY_MIN: f64 = 1e-9;
/// Fewest flows for which a component is updated.
const FLOWS_MIN: f64 = 50.0;

/// Several components, and the flow's probability of belonging to each.
struct Mixed<'a> {
    system: &'a System,
    components: &'a [Gaussian],
    /// If present, every flow is evidence.
    learner: &'a mut Option<Learner>,
}

/// The flow, assuming that it belongs to one component.
#[derive(Debug, Clone, Copy, Default)]
struct Member {
    weight: f64,
    /// Half of d^2 / t: the exponent of the weight, until the others' are known.
    exponent: f64,
    belief: Belief,
    /// d = rr - z'beta.
    distance: f64,
    /// 1 / t, where t is the prior's variance and qq.
    inverse: f64,
    /// Variance added to the prior by unknown features.
    blur: f64,
}

impl Mixed<'_> {
    fn member(&self, component: &Gaussian, flow: usize, value: f64, noise: f64) -> Member {
        let features = &self.system.features;
        let blur = features.blur(flow, &component.beta);
        let own = component.between + component.within * self.system.share_of_within(flow) + blur;
        let mean = features.predict(flow, &component.beta);
        let distance = value - mean;
        let variance = own + noise;
        let inverse = variance.recip();
        let pull = own * inverse;
        Member {
            weight: component.share * inverse.sqrt(),
            exponent: 0.5 * distance * distance * inverse,
            belief: Belief {
                mean: mean + pull * distance,
                variance: pull * noise,
            },
            distance,
            inverse,
            blur,
        }
    }
}

impl Combine for Mixed<'_> {
    fn posterior(&mut self, flow: usize, all: Reading) -> Belief {
        let noise = all.precision.recip();
        let value = all.pull * noise;
        let mut members: ArrayVec<Member, MIXTURE_MAX> = ArrayVec::new();
        let mut least = f64::INFINITY;
        for component in self.components {
            let member = self.member(component, flow, value, noise);
            least = least.min(member.exponent);
            members.push(member);
        }
        let (mut total, mut mean) = (0.0, 0.0);
        for member in &mut members {
            let exponent = member.exponent - least;
            // Below e^-40 no weight shows in any sum.
            member.weight *= if exponent < 40.0 {
                (-exponent).exp()
            } else {
                0.0
            };
            total += member.weight;
            mean += member.weight * member.belief.mean;
        }
        let share = total.recip();
        let mean = mean * share;
        let mut variance = 0.0;
        for member in &mut members {
            member.weight *= share;
            let apart = member.belief.mean - mean;
            variance += member.weight * (member.belief.variance + apart * apart);
        }
        if let Some(learner) = self.learner {
            learner.add(self.system, flow, noise, value, &members);
        }
        Belief { mean, variance }
    }

    /// Computes the cavity by division of Gaussians, if the result is one.
    #[inline]
    fn cavity(&self, belief: Belief, _: Reading, readings: &[Reading], index: usize) -> Belief {
        let one = readings[index];
        let own = belief.variance.recip();
        let precision = own - one.precision;
        if precision > CAVITY_MIN * own {
            let variance = precision.recip();
            Belief {
                mean: (belief.mean * own - one.pull) * variance,
                variance,
            }
        } else {
            belief
        }
    }
}

/// Evidence of flows about one component.
#[derive(Debug, Clone, Copy, Default)]
struct Lesson {
    total: f64,
    matrix: Square,
    right: Terms,
    squares: TwoVariances,
}

/// Collects a sweep's evidence about the components. Only flows with more evidence from cells than from the
/// prior count; under overload the others would feed the prior back to itself.
#[derive(Debug, Clone)]
pub(super) struct Learner {
    between_max: f64,
    within_max: f64,
    lessons: ArrayVec<Lesson, MIXTURE_MAX>,
    shapes_fixed: bool,
}

impl Learner {
    /// Starts without evidence.
    pub fn new(prior: &Prior) -> Self {
        let largest =
            |of: fn(&Gaussian) -> f64| prior.components.iter().map(of).fold(0.0, f64::max);
        Self {
            between_max: largest(|c| c.between),
            within_max: largest(|c| c.within),
            shapes_fixed: prior.shapes_fixed,
            lessons: prior.components.iter().map(|_| Lesson::default()).collect(),
        }
    }

    fn add(&mut self, system: &System, flow: usize, noise: f64, value: f64, members: &[Member]) {
        let share = system.share_of_within(flow);
        if noise >= self.between_max + self.within_max * share {
            return;
        }
        let terms = system.features.terms();
        let z = system.features.of(flow);
        for (lesson, member) in self.lessons.iter_mut().zip(members) {
            lesson.total += member.weight;
            if self.shapes_fixed {
                continue;
            }
            let weight = member.weight * member.inverse;
            for i in 0..terms {
                lesson.right[i] += weight * z[i] * value;
                for j in 0..=i {
                    lesson.matrix[i][j] += weight * z[i] * z[j];
                }
            }
            let square = member.distance * member.distance - noise - member.blur;
            let weight = weight * member.inverse;
            lesson.squares.add(weight, 1.0, share, square);
        }
    }

    /// Moves the components towards the flows.
    pub fn teach(self, system: &System, prior: &mut Prior) {
        let total: f64 = self.lessons.iter().map(|lesson| lesson.total).sum();
        if !(total.is_finite() && total > 0.0) {
            return;
        }
        let terms = system.features.terms();
        for (component, lesson) in prior.components.iter_mut().zip(self.lessons) {
            component.share = (lesson.total / total).max(1e-6);
            if lesson.total >= FLOWS_MIN && !prior.shapes_fixed {
                lesson.teach(component, terms);
            }
        }
        let total: f64 = prior.components.iter().map(|c| c.share).sum();
        for component in &mut prior.components {
            component.share /= total;
        }
    }
}

impl Lesson {
    fn teach(mut self, component: &mut Gaussian, terms: usize) {
        mirror(&mut self.matrix, terms);
        let beta = solve(self.matrix, self.right, terms);
        let (between, within) = self.squares.solve();
        let floor = 1e-10 * (between + within);
        let between = 0.5 * (component.between + between.max(floor));
        let within = 0.5 * (component.within + within.max(floor));
        let finite = beta
            .iter()
            .chain([&between, &within])
            .all(|value| value.is_finite());
        if finite {
            (component.beta, component.between, component.within) = (beta, between, within);
            *component = component.floored();
        }
    }
}

/// Initial components with different constants, each with its share of the variance.
pub(super) fn spread(fitted: &Gaussian, components: usize) -> Prior {
    let mut prior = Prior::default();
    let last = components.saturating_sub(1).max(1) as f64;
    for index in 0..components.clamp(1, MIXTURE_MAX) {
        let mut component = *fitted;
        component.share = (components as f64).recip();
        if components > 1 {
            let position = 2.0 * index as f64 / last - 1.0;
            component.beta[0] += position * fitted.between.sqrt();
            component.between /= components as f64;
        }
        prior.components.push(component.floored());
    }
    prior
}

const _: () = assert!(TERMS_MAX < 16, "a lesson is on the stack");
