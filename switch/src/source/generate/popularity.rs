//! How often each flow sends: a discrete distribution, drawn from in constant time.

/// An alias table (Walker 1977, built as Vose 1991 does, in integers throughout): flow `i` owns
/// one column of it, and shares that column with at most one other.
#[derive(Debug)]
pub(super) struct Popularity {
    columns: Vec<Column>,
}

#[derive(Debug, Clone, Copy)]
struct Column {
    /// The owner's share of the column, times 2^32 less one.
    share: u32,
    /// The flow that has the rest.
    alias: u32,
}

impl Popularity {
    /// `flows` weights (1 to 10,000,000) that are quantiles of a Pareto distribution of the given
    /// `shape` (over 0), the largest first.
    ///
    /// They are rounded to 40 bits, so that the last bit of the platform's `powf` does not show.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 2^40"
    )]
    pub(super) fn pareto(flows: u32, shape: f64) -> Self {
        const LARGEST: f64 = (1_u64 << 40) as f64;
        let weights: Vec<u64> = (0..flows)
            // The quantile relative to the largest one: (u_0 / u_i)^(1 / shape).
            .map(|i| (0.5 / (f64::from(i) + 0.5)).powf(1.0 / shape))
            .map(|weight| ((weight * LARGEST).round() as u64).max(1))
            .collect();
        Self::new(&weights)
    }

    /// Weights of 40 bits each at most, at least one of them over 0.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "indices and shares are 32 bits"
    )]
    fn new(weights: &[u64]) -> Self {
        let flows = weights.len() as u64;
        let capacity: u64 = weights.iter().sum::<u64>().max(1);
        // What each flow still has to place; a column holds `capacity`.
        let mut left: Vec<u128> = weights
            .iter()
            .map(|&weight| u128::from(weight) * u128::from(flows))
            .collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..flows as u32).partition(|&i| left[i as usize] < u128::from(capacity));
        let mut columns: Vec<Column> = (0..flows as u32)
            .map(|i| Column {
                share: u32::MAX,
                alias: i,
            })
            .collect();
        while let (Some(owner), Some(&alias)) = (small.pop(), large.last()) {
            let share = left[owner as usize];
            columns[owner as usize] = Column {
                share: ((share << 32) / u128::from(capacity)) as u32,
                alias,
            };
            left[alias as usize] -= u128::from(capacity) - share;
            if left[alias as usize] < u128::from(capacity) {
                large.pop();
                small.push(alias);
            }
        }
        Self { columns }
    }

    /// The flow that 64 random bits choose.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the halves of 64 bits")]
    pub(super) fn draw(&self, random: u64) -> u32 {
        // Multiply-shift: the upper half picks the column, the lower half the flow within.
        let column = ((random >> 32) * self.columns.len() as u64) >> 32;
        let Column { share, alias } = self.columns[column as usize];
        if (random as u32) < share {
            column as u32
        } else {
            alias
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The probability that the table gives each flow.
    fn probabilities(table: &Popularity) -> Vec<f64> {
        let columns = table.columns.len() as f64;
        let mut probabilities = vec![0.0; table.columns.len()];
        for (owner, column) in table.columns.iter().enumerate() {
            let share = f64::from(column.share) / 4_294_967_296.0;
            probabilities[owner] += share / columns;
            probabilities[column.alias as usize] += (1.0 - share) / columns;
        }
        probabilities
    }

    proptest! {
        #[test]
        fn gives_each_flow_its_weight(weights in prop::collection::vec(0..=1_u64 << 40, 1..300)) {
            let total: u64 = weights.iter().sum();
            prop_assume!(total > 0);
            let table = Popularity::new(&weights);
            for (given, &weight) in probabilities(&table).iter().zip(&weights) {
                // Each of the columns rounds by 2^-32 of itself.
                prop_assert!((given - weight as f64 / total as f64).abs() < 2.4e-10);
            }
        }

        #[test]
        fn draws_only_flows_there_are(flows in 1..500_u32, shape in 0.01..10.0, random: u64) {
            prop_assert!(Popularity::pareto(flows, shape).draw(random) < flows);
        }
    }

    #[test]
    fn quantiles_follow_the_shape() {
        let of_pareto = probabilities(&Popularity::pareto(1000, 1.2));
        // u_0 / u_7 = 0.5 / 7.5.
        let expected = (0.5_f64 / 7.5).powf(1.0 / 1.2);
        assert!((of_pareto[7] / of_pareto[0] - expected).abs() < 1e-6);
    }
}
