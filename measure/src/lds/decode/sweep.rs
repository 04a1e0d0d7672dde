//! Sequential belief propagation: flow by flow, the largest first, each reads its cells as they
//! stand now and tells them at once what it has become.

use super::mixture::{Learner, Mixed};
use super::prior::{Gaussian, Prior};
use super::system::System;

/// A reading is never more certain than this share of its flow's variance, ...
const CERTAINTY_OF_FLOW: f64 = 1e-14;
/// ... nor than this share of its cell's: sums updated in place carry rounding.
const CERTAINTY_OF_CELL: f64 = 1e-10;

/// A cell between two flows.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// `s_c` - `M_c`.
    residual: f64,
    /// `V_c`.
    variance: f64,
    /// Sum of a m over the edges that this sweep has set.
    next_mean: f64,
    /// Sum of a^2 v, likewise.
    next_variance: f64,
}

/// What one cell says of a flow, or several say together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reading {
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

/// How a flow combines its prior with what its cells say.
pub(super) trait Combine {
    /// The posterior of a flow, given the sum of its readings.
    fn posterior(&mut self, flow: usize, all: Reading) -> Belief;

    /// What the flow last combined looks like without the reading at `index`.
    fn cavity(&self, belief: Belief, all: Reading, readings: &[Reading], index: usize) -> Belief;
}

/// The state of belief propagation.
pub(super) struct Sweeper<'a> {
    system: &'a System,
    tallies: Vec<Tally>,
    /// Cavity mean m and variance v of each edge: the flow as all its other cells see it.
    cavities: Vec<Belief>,
    readings: Vec<Reading>,
    /// Posterior of each flow in decoding order; the prior where no cell speaks for it.
    pub beliefs: Vec<Belief>,
}

impl<'a> Sweeper<'a> {
    /// Every flow at its prior.
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

    /// One sweep over all flows; what it shows of the prior goes to `learner`.
    pub fn sweep(&mut self, prior: &Prior, learner: &mut Option<Learner>) -> Change {
        self.sum_anew(prior);
        match prior.components.as_slice() {
            [only] => self.pass(&mut Single::new(self.system, only)),
            several => self.pass(&mut Mixed::new(self.system, several, learner)),
        }
    }

    /// `M_c` and `V_c` from the edges, as the last sweep summed them, and from the prior of today.
    fn sum_anew(&mut self, prior: &Prior) {
        let background = prior.background(&self.system.features);
        for (tally, equation) in self.tallies.iter_mut().zip(&self.system.equations) {
            let own = equation.fixed
                + equation.between * background.between
                + equation.within * background.within;
            *tally = Tally {
                residual: equation.sum - equation.unlisted * background.mean - tally.next_mean,
                variance: own + tally.next_variance,
                next_mean: 0.0,
                next_variance: 0.0,
            };
        }
    }

    fn pass(&mut self, combine: &mut impl Combine) -> Change {
        let tick2 = self.system.scale.unit.powi(-2);
        let mut change = Change::default();
        for (flow, last) in self.beliefs.iter_mut().enumerate() {
            let own = self.system.edges_of(flow);
            let edges = &self.system.edges[own.clone()];
            if edges.is_empty() {
                continue;
            }
            let cavities = &mut self.cavities[own];
            let readings = &mut self.readings[..edges.len()];
            let floor = CERTAINTY_OF_FLOW * (tick2 + last.variance);
            let mut all = Reading::default();
            for ((edge, cavity), reading) in edges.iter().zip(&*cavities).zip(&mut *readings) {
                *reading = self.tallies[edge.cell as usize].read(edge.coefficient, cavity, floor);
                all.precision += reading.precision;
                all.pull += reading.pull;
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

impl Tally {
    /// Counts a flow into the next sweep's sums.
    #[inline]
    fn expect(&mut self, coefficient: f64, cavity: Belief) {
        self.next_mean += coefficient * cavity.mean;
        self.next_variance += coefficient * coefficient * cavity.variance;
    }

    /// The flow as the cell sees it: what is left of the sum without all others.
    #[inline]
    fn read(&self, coefficient: f64, cavity: &Belief, floor: f64) -> Reading {
        let inverse = coefficient.recip();
        let variance = self.variance * inverse * inverse;
        let rounding = floor + CERTAINTY_OF_CELL * variance.max(0.0);
        let precision = (variance - cavity.variance).max(rounding).recip();
        Reading {
            precision,
            pull: precision * (self.residual * inverse + cavity.mean),
        }
    }

    /// The flow has changed its mind.
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
    /// Prior of the flow at hand.
    prior: Belief,
}

impl<'a> Single<'a> {
    fn new(system: &'a System, component: &'a Gaussian) -> Self {
        Self {
            system,
            component,
            prior: Belief::default(),
        }
    }

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
        // The difference would be mostly rounding.
        let (before, after) = (&readings[..index], &readings[index + 1..]);
        let others = before.iter().chain(after);
        self.update(others.fold(Reading::default(), |sum, reading| Reading {
            precision: sum.precision + reading.precision,
            pull: sum.pull + reading.pull,
        }))
    }
}
