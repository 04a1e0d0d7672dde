//! The prior of a flow's mean, and its first fit: one component, from the cells alone.

use arrayvec::ArrayVec;

use super::sweep::Belief;
use super::system::{Equation, Features, Square, System, Terms};

/// Most components in use; counts of packets need more than delays.
pub(super) const MIXTURE_MAX: usize = 16;
const ROUNDS: usize = 6;
/// Least share of all variance attributed to packets within a flow if cells contain parts of flows.
/// Otherwise a fit that attributes everything to differences between flows would treat a part as the whole.
const WITHIN_MIN: f64 = 0.01;
/// Least variance in the system's units, in which the spread of the cells' means is about 1; below it no
/// delay varies.
const VARIANCE_MIN: f64 = 1e-18;

/// x ~ N(z'beta, tau2 + sig2 / n), for a share pi of the flows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Gaussian {
    /// pi.
    pub share: f64,
    /// beta.
    pub beta: Terms,
    /// tau2.
    pub between: f64,
    /// sig2.
    pub within: f64,
}

impl Gaussian {
    /// A flow's belief before any evidence.
    #[inline]
    pub fn of_flow(&self, system: &System, flow: usize) -> Belief {
        let variance = self.between + self.within * system.share_of_within(flow);
        Belief {
            mean: system.features.predict(flow, &self.beta),
            variance: variance + system.features.blur(flow, &self.beta),
        }
    }

    /// Raises both variances to their floors, so that neither is ever 0.
    pub fn floored(mut self) -> Self {
        let total = (self.between + self.within).max(VARIANCE_MIN);
        self.between = self.between.max(1e-12 * total);
        self.within = self.within.max(1e-9 * total);
        self
    }
}

/// A mixture of Gaussians.
#[derive(Debug, Clone, Default)]
pub(super) struct Prior {
    /// At least one once fitted.
    pub components: ArrayVec<Gaussian, MIXTURE_MAX>,
    /// Whether only shares are learnt.
    pub shapes_fixed: bool,
}

/// The prior for flows and packets without a term of their own in an equation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Background {
    /// Mean delay of a packet of an unlisted flow: z-bar' beta.
    pub mean: f64,
    /// Variance between flows: tau2, and how means differ between components and features.
    pub between: f64,
    /// sig2.
    pub within: f64,
    /// Square of the coefficient of known means.
    pub known: f64,
}

impl Background {
    /// An equation's noise apart from its flows' own terms.
    #[inline]
    pub fn noise(&self, equation: &Equation) -> f64 {
        equation.fixed
            + equation.between * self.between
            + equation.within * self.within
            + equation.known * self.known
    }

    /// Variance of the mean of n packets drawn from a larger set with the variance of a flow of n.
    #[inline]
    pub fn of_parts(&self, system: &System, flow: usize) -> f64 {
        (self.within + self.known * system.features.within(flow).unwrap_or(0.0))
            * system.inverse_packets[flow]
    }
}

impl Prior {
    /// Averages over components.
    pub fn background(&self, features: &Features) -> Background {
        let at_mean = |beta: &Terms| beta.iter().zip(&features.mean).map(|(b, z)| b * z).sum();
        let average = |of: &dyn Fn(&Gaussian) -> f64| -> f64 {
            self.components.iter().map(|c| c.share * of(c)).sum()
        };
        let mean = average(&|c| at_mean(&c.beta));
        let apart = |c: &Gaussian| {
            let distance: f64 = at_mean(&c.beta);
            (distance - mean).powi(2) + features.spread(&c.beta)
        };
        Background {
            mean,
            between: average(&|c| c.between + apart(c)),
            within: average(&|c| c.within),
            known: average(&|c| c.beta[1].powi(2)),
        }
    }

    /// A flow's belief before any evidence.
    #[inline]
    pub fn of_flow(&self, system: &System, flow: usize) -> Belief {
        if let [only] = self.components.as_slice() {
            return only.of_flow(system, flow);
        }
        let average = |of: &dyn Fn(Belief) -> f64| -> f64 {
            let of_one = |c: &Gaussian| c.share * of(c.of_flow(system, flow));
            self.components.iter().map(of_one).sum()
        };
        let mean = average(&|belief| belief.mean);
        let variance = average(&|belief| belief.variance + (belief.mean - mean).powi(2));
        Belief { mean, variance }
    }
}

/// For each cell, the quantities that the fit needs: c1, c2 and sum of a z.
struct Moments {
    terms: usize,
    between: Vec<f64>,
    within: Vec<f64>,
    /// Sum of a z, `terms` entries for each cell.
    weighted_terms: Vec<f64>,
    /// Sum of a^2 over flows times the error variance of their features, `terms - 1` entries for each cell;
    /// empty without errors.
    blurs: Vec<f64>,
}

impl Moments {
    fn new(system: &System) -> Self {
        let cells = system.equations.len();
        let features = &system.features;
        let terms = features.terms();
        let blurs = if features.any_errors() {
            cells * (terms - 1)
        } else {
            0
        };
        let mut moments = Self {
            terms,
            between: vec![0.0; cells],
            within: vec![0.0; cells],
            weighted_terms: vec![0.0; cells * terms],
            blurs: vec![0.0; blurs],
        };
        for flow in 0..system.flows() {
            moments.add_flow(system, flow);
        }
        for (cell, equation) in system.equations.iter().enumerate() {
            moments.between[cell] += equation.between;
            moments.within[cell] += equation.within;
            let weighted = &mut moments.weighted_terms[cell * terms..][..terms];
            for (sum, mean) in weighted.iter_mut().zip(&features.mean) {
                *sum += equation.unlisted * mean;
            }
        }
        moments
    }

    fn add_flow(&mut self, system: &System, flow: usize) {
        let z = system.features.of(flow);
        let errors = system.features.errors(flow);
        let own = system.share_of_within(flow);
        for edge in &system.edges[system.edges_of(flow)] {
            let cell = edge.cell as usize;
            let square = edge.coefficient * edge.coefficient;
            self.between[cell] += square;
            self.within[cell] += square * own;
            let weighted = &mut self.weighted_terms[cell * self.terms..][..self.terms];
            for (sum, z) in weighted.iter_mut().zip(z) {
                *sum += edge.coefficient * z;
            }
            let blurs = &mut self.blurs[cell * errors.len()..];
            for (blur, error) in blurs.iter_mut().zip(errors) {
                *blur += error * square;
            }
        }
    }

    fn weighted(&self, cell: usize) -> &[f64] {
        &self.weighted_terms[cell * self.terms..][..self.terms]
    }

    /// Variance of a cell that does not depend on tau2 and sig2.
    fn known_variance(&self, system: &System, cell: usize, beta: &Terms, spread: f64) -> f64 {
        let equation = &system.equations[cell];
        let known = equation.fixed + equation.between * spread + equation.known * beta[1] * beta[1];
        if self.blurs.is_empty() {
            return known;
        }
        let blurs = &self.blurs[cell * (self.terms - 1)..][..self.terms - 1];
        let blur = blurs.iter().zip(&beta[1..]).map(|(sum, b)| sum * b * b);
        known + blur.sum::<f64>()
    }
}

/// Fits one component to the cells: beta by weighted least squares, then tau2 and sig2 by weighted
/// non-negative least squares of the squared residuals, in turn.
pub(super) fn fit(system: &System) -> Gaussian {
    let moments = Moments::new(system);
    let filled: Vec<usize> = (0..system.equations.len())
        .filter(|&cell| moments.between[cell] > 0.0)
        .collect();
    let mut fitted = Gaussian {
        share: 1.0,
        between: 1.0,
        within: 1.0,
        ..Gaussian::default()
    };
    for _ in 0..ROUNDS {
        fitted = round(system, &moments, &filled, &fitted).floored();
        if system.parts.is_some() {
            let total = fitted.between + fitted.within;
            fitted.within = fitted.within.max(WITHIN_MIN * total);
        }
    }
    fitted
}

fn round(system: &System, moments: &Moments, filled: &[usize], last: &Gaussian) -> Gaussian {
    let terms = moments.terms;
    let spread = system.features.spread(&last.beta);
    let variance = |cell: usize, beta: &Terms, spread: f64| {
        let known = moments.known_variance(system, cell, beta, spread);
        let fitted = last.between * moments.between[cell] + last.within * moments.within[cell];
        (known, known + fitted)
    };
    let (mut matrix, mut right) = (Square::default(), Terms::default());
    for &cell in filled {
        let weight = variance(cell, &last.beta, spread).1.recip();
        let z = moments.weighted(cell);
        for i in 0..terms {
            right[i] += weight * z[i] * system.equations[cell].sum;
            for j in 0..=i {
                matrix[i][j] += weight * z[i] * z[j];
            }
        }
    }
    // Known means are used as they are until cells contradict: each has a coefficient of 1.
    if let Some(known) = system.features.known {
        for (term, value) in [known.constant, 1.0].into_iter().enumerate() {
            matrix[term][term] += known.precisions[term];
            right[term] += known.precisions[term] * value;
        }
    }
    mirror(&mut matrix, terms);
    let beta = solve(matrix, right, terms);

    let spread = system.features.spread(&beta);
    let mut squares = TwoVariances::default();
    for &cell in filled {
        let (known, total) = variance(cell, &beta, spread);
        let z = moments.weighted(cell);
        let predicted: f64 = z.iter().zip(&beta).map(|(z, b)| z * b).sum();
        let residual = system.equations[cell].sum - predicted;
        // Divided by Q before squaring: the weight is 1 / Q^2.
        squares.add(
            1.0,
            moments.between[cell] / total,
            moments.within[cell] / total,
            (residual * residual - known) / total,
        );
    }
    let (between, within) = squares.solve();
    Gaussian {
        share: 1.0,
        beta,
        between,
        within,
    }
}

/// Copies the lower triangle to the upper.
pub(super) fn mirror(matrix: &mut Square, terms: usize) {
    for i in 1..terms {
        let (above, below) = matrix.split_at_mut(i);
        for (column, row) in above.iter_mut().enumerate() {
            row[i] = below[0][column];
        }
    }
}

/// Solves `matrix x = right` for a symmetric, positive semidefinite matrix of `terms` rows. Terms that
/// depend on earlier ones are 0, and so is everything without evidence.
pub(super) fn solve(mut matrix: Square, mut right: Terms, terms: usize) -> Terms {
    // Normalise the diagonal first, so that one threshold fits all units.
    let mut root = Terms::default();
    for i in 0..terms {
        root[i] = matrix[i][i].max(0.0).sqrt().recip();
        if !root[i].is_finite() {
            root[i] = 0.0;
        }
    }
    for i in 0..terms {
        right[i] *= root[i];
        for j in 0..terms {
            matrix[i][j] *= root[i] * root[j];
        }
    }
    // L D L', row by row; a vanishing pivot removes its term.
    let mut pivots = Terms::default();
    for i in 0..terms {
        for j in 0..i {
            let done: f64 = (0..j)
                .map(|k| matrix[i][k] * matrix[j][k] * pivots[k])
                .sum();
            let rest = matrix[i][j] - done;
            matrix[i][j] = if pivots[j] > 0.0 {
                rest / pivots[j]
            } else {
                0.0
            };
        }
        let done: f64 = (0..i).map(|k| matrix[i][k].powi(2) * pivots[k]).sum();
        let pivot = matrix[i][i] - done;
        pivots[i] = if pivot > 1e-10 { pivot } else { 0.0 };
    }
    let mut x = Terms::default();
    for i in 0..terms {
        let done: f64 = (0..i).map(|k| matrix[i][k] * x[k]).sum();
        x[i] = if pivots[i] > 0.0 {
            right[i] - done
        } else {
            0.0
        };
    }
    for i in 0..terms {
        x[i] = if pivots[i] > 0.0 {
            x[i] / pivots[i]
        } else {
            0.0
        };
    }
    for i in (0..terms).rev() {
        let done: f64 = (i + 1..terms).map(|k| matrix[k][i] * x[k]).sum();
        x[i] = if pivots[i] > 0.0 { x[i] - done } else { 0.0 };
    }
    for i in 0..terms {
        x[i] *= root[i];
    }
    x
}

/// Two non-negative variances, from the normal equations of weighted least squares.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TwoVariances {
    m11: f64,
    m12: f64,
    m22: f64,
    r1: f64,
    r2: f64,
}

impl TwoVariances {
    /// Adds one equation `value = first * tau2 + second * sig2` of weight `weight`.
    #[inline]
    pub fn add(&mut self, weight: f64, first: f64, second: f64, value: f64) {
        self.m11 += weight * first * first;
        self.m12 += weight * first * second;
        self.m22 += weight * second * second;
        self.r1 += weight * first * value;
        self.r2 += weight * second * value;
    }

    /// tau2 and sig2; a negative one is set to 0 and the other solved again.
    pub fn solve(&self) -> (f64, f64) {
        let determinant = self.m11 * self.m22 - self.m12 * self.m12;
        // Equal columns cannot be distinguished: everything is tau2.
        if determinant > 1e-10 * self.m11 * self.m22 {
            let tau2 = (self.r1 * self.m22 - self.r2 * self.m12) / determinant;
            let sig2 = (self.r2 * self.m11 - self.r1 * self.m12) / determinant;
            if tau2 >= 0.0 && sig2 >= 0.0 {
                return (tau2, sig2);
            }
            if tau2 < 0.0 {
                return (0.0, positive_ratio(self.r2, self.m22));
            }
        }
        (positive_ratio(self.r1, self.m11), 0.0)
    }
}

fn positive_ratio(numerator: f64, denominator: f64) -> f64 {
    if numerator > 0.0 && denominator > 0.0 {
        numerator / denominator
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redundant_term_gets_nothing() {
        // Columns 1, a, 1 - a: the third depends on the others.
        let rows = [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]];
        let values = [5.0, 3.0, 5.0];
        let (mut matrix, mut right) = (Square::default(), Terms::default());
        for (row, value) in rows.iter().zip(values) {
            for i in 0..3 {
                right[i] += row[i] * value;
                for j in 0..3 {
                    matrix[i][j] += row[i] * row[j];
                }
            }
        }
        let x = solve(matrix, right, 3);
        assert!((x[0] - 3.0).abs() < 1e-12 && (x[1] - 2.0).abs() < 1e-12 && x[2] == 0.0);
        let nothing = solve(Square::default(), Terms::default(), 3);
        assert!(nothing.iter().all(|&value| value == 0.0));
    }

    #[test]
    fn variances_are_never_negative() {
        let mut both = TwoVariances::default();
        both.add(1.0, 1.0, 1.0, 3.0);
        both.add(1.0, 1.0, 2.0, 5.0);
        assert_eq!(both.solve(), (1.0, 2.0));
        let mut first_negative = TwoVariances::default();
        first_negative.add(1.0, 1.0, 1.0, 1.0);
        first_negative.add(1.0, 1.0, 2.0, 5.0);
        assert_eq!(first_negative.solve(), (0.0, 11.0 / 5.0));
        assert_eq!(TwoVariances::default().solve(), (0.0, 0.0));
    }
}
