//! Several components: which of them a flow belongs to, and what all flows together teach of them.

use arrayvec::ArrayVec;

use super::features::{Square, TERMS_MAX, Terms};
use super::linear::{TwoVariances, mirror, solve};
use super::prior::{Gaussian, MIXTURE_MAX, Prior};
use super::sweep::{Belief, Combine, Reading};
use super::system::System;

/// A cavity is taken where it keeps this share of the flow's precision.
const CAVITY_MIN: f64 = 1e-9;
/// A component that fewer flows than this speak for keeps its values.
const FLOWS_MIN: f64 = 50.0;

/// Combines a flow's readings with a mixture.
pub(super) struct Mixed<'a> {
    system: &'a System,
    components: &'a [Gaussian],
    learner: &'a mut Option<Learner>,
}

/// What the flow is if it belongs to one component.
#[derive(Debug, Clone, Copy, Default)]
struct Member {
    weight: f64,
    /// Half of d^2 / t: what the weight lacks while the others' are not known.
    exponent: f64,
    belief: Belief,
    /// d = rr - z'beta.
    distance: f64,
    /// 1 / t, where t is the prior's variance and qq.
    inverse: f64,
    /// What unknown features add to the prior variance.
    blur: f64,
}

impl<'a> Mixed<'a> {
    /// With a learner, every flow teaches.
    pub fn new(
        system: &'a System,
        components: &'a [Gaussian],
        learner: &'a mut Option<Learner>,
    ) -> Self {
        Self {
            system,
            components,
            learner,
        }
    }

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
            // Under e^-40 no weight shows in any sum.
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

    /// By division of Gaussians, where that leaves one.
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

/// What flows have shown of one component.
#[derive(Debug, Clone, Copy, Default)]
struct Lesson {
    total: f64,
    matrix: Square,
    right: Terms,
    squares: TwoVariances,
}

/// Collects what a sweep shows of the components. Only flows that the cells tell more of than the
/// prior does count: in overload the others would teach the prior itself.
#[derive(Debug, Clone)]
pub(super) struct Learner {
    between_max: f64,
    within_max: f64,
    lessons: ArrayVec<Lesson, MIXTURE_MAX>,
    shapes_fixed: bool,
}

impl Learner {
    /// Nothing seen yet.
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

    /// Moves the components to where the flows are.
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

/// Components to start from: apart in their constants, each with its share of the variance.
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
