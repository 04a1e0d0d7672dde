//! Sequential belief propagation: flow by flow, the largest first, each reads its cells as they
//! are now, and gives them its new one at once.

use super::mixture::{Learner, Mixed};
use super::prior::{Background, Gaussian, Prior};
use super::system::{Part, System};

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
        let background = prior.background(&self.system.features);
        self.sum_anew(&background);
        match prior.components.as_slice() {
            [only] => self.pass(&mut Single::new(self.system, only), &background),
            several => self.pass(&mut Mixed::new(self.system, several, learner), &background),
        }
    }

    /// `M_c` and `V_c` from the edges, as the last sweep summed them, and from the prior of today.
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

/// Parts of one flow that say the same, and parts that are all there is of it.
///
/// Each reading takes the packets of its part for drawn from the flow by themselves. But rows take the
/// same packets to an offset: what they say twice is no surer. And the packets of two offsets are never
/// the same: where all offsets are read, nothing is left to chance. With w a reading's share in what all
/// say together, and s the share of packets in its part, the mean over the parts is from the
/// flow's with a variance of sig2 / n (sum over pairs at one offset of w w' / max(s, s') - 1), and was
/// taken to with sig2 / n sum w^2 (1 / s - 1). `within` is sig2 / n.
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
        // Readings of nothing.
        return;
    }
    for reading in std::iter::once(all).chain(readings) {
        reading.precision *= surer;
        reading.pull *= surer;
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
        let value = self.residual * inverse + cavity.mean;
        if !value.is_finite() {
            // A share so small that nothing of it shows in the cell.
            return Reading::default();
        }
        Reading {
            precision,
            pull: precision * value,
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
    /// Prior of this flow.
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
