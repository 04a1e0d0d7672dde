//! Small dense systems: normal equations of a handful of terms.

use super::features::{Square, Terms};

/// Copies the lower triangle to the upper.
pub(super) fn mirror(matrix: &mut Square, terms: usize) {
    for i in 1..terms {
        let (above, below) = matrix.split_at_mut(i);
        for (column, row) in above.iter_mut().enumerate() {
            row[i] = below[0][column];
        }
    }
}

/// Solves `matrix x = right` for a symmetric, positive semidefinite matrix of `terms` rows. Terms
/// that depend on earlier ones get 0, as does everything when nothing is known.
pub(super) fn solve(mut matrix: Square, mut right: Terms, terms: usize) -> Terms {
    // Unit diagonal first, so that one threshold serves all units.
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
    // L D L', row by row; a vanishing pivot takes its term out.
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

/// Two variances, not negative, from the normal equations of weighted least squares.
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

    /// tau2 and sig2: a negative one is set to 0 and the other solved anew.
    pub fn solve(&self) -> (f64, f64) {
        let determinant = self.m11 * self.m22 - self.m12 * self.m12;
        // Where both columns are alike, they cannot be distinguished: all of it is tau2.
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
