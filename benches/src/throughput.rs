//! Rounds in which every contender runs once, and what their ratios say.

use anyhow::Result;
use serde::Serialize;

use crate::contender::{Bench, Contender};

/// What has to hold: the median over rounds of one contender's rate by another's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Claim {
    /// Whose rate.
    pub contender: Contender,
    /// By whose.
    pub peer: Contender,
    /// The least ratio accepted; `None`: for information.
    pub limit: Option<f64>,
}

/// The claims, in the order of the table.
pub const CLAIMS: [Claim; 3] = [
    Claim {
        contender: Contender::VernierOff,
        peer: Contender::Macswap,
        limit: Some(0.70),
    },
    Claim {
        contender: Contender::VernierLda,
        peer: Contender::MacswapLatencystats,
        limit: Some(1.0),
    },
    Claim {
        contender: Contender::VernierLda,
        peer: Contender::Macswap,
        limit: None,
    },
];

/// Rates of one round in packets a second, in the order of [`Contender::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Round(pub [f64; Contender::ALL.len()]);

impl Round {
    /// The rate of `contender` in packets a second.
    pub fn rate_pps(&self, contender: Contender) -> f64 {
        self.0[contender as usize]
    }
}

/// A claim and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Finding {
    /// The claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// Median of the rounds' ratios.
    pub ratio: f64,
    /// Least of them.
    pub ratio_min: f64,
    /// Greatest of them.
    pub ratio_max: f64,
}

impl Finding {
    /// Holds a claim against rounds, of which there is one at least.
    pub fn new(claim: Claim, rounds: &[Round]) -> Self {
        let mut ratios: Vec<f64> = rounds
            .iter()
            .map(|round| round.rate_pps(claim.contender) / round.rate_pps(claim.peer))
            .collect();
        let ratio = median(&mut ratios);
        let ends = (ratios.first().copied(), ratios.last().copied());
        Self {
            claim,
            ratio,
            ratio_min: ends.0.unwrap_or(ratio),
            ratio_max: ends.1.unwrap_or(ratio),
        }
    }

    /// Whether the limit is kept.
    pub fn holds(&self) -> bool {
        self.claim.limit.is_none_or(|limit| self.ratio >= limit)
    }
}

/// Sorts, and takes the middle, or the mean of the middle two; NaN for none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => f64::midpoint(values[(n - 1) / 2], values[n / 2]),
    }
}

/// Runs `rounds` rounds after one that is discarded, telling progress on standard error.
///
/// # Errors
/// What [`Bench::run`] gives; rounds before it are lost.
pub fn run(bench: &Bench, rounds: usize) -> Result<Vec<Round>> {
    let mut kept = Vec::with_capacity(rounds);
    for round in 0..=rounds {
        let mut round_pps = [0.0; Contender::ALL.len()];
        for contender in Contender::ALL {
            let rate_pps = bench.run(contender)?;
            round_pps[contender as usize] = rate_pps;
            let which = if round == 0 {
                "warm-up".to_owned()
            } else {
                format!("round {round}")
            };
            eprintln!(
                "{which:8}  {:6.2} Mpps  {}",
                rate_pps / 1e6,
                contender.label()
            );
        }
        if round > 0 {
            kept.push(Round(round_pps));
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(
            median(&mut [4.0, 1.0, 2.0, 3.0]).to_bits(),
            2.5_f64.to_bits()
        );
        assert!(median(&mut []).is_nan());
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine is twice as fast in the second round: no ratio shows it.
        let rounds = [
            Round([40.0, 20.0, 30.0, 22.0]),
            Round([80.0, 40.0, 60.0, 44.0]),
        ];
        let found = CLAIMS.map(|claim| Finding::new(claim, &rounds));
        let ratios = found.map(|finding| (finding.ratio * 100.0).round() / 100.0);
        assert_eq!(
            ratios.map(f64::to_bits),
            [0.75, 1.1, 0.55].map(f64::to_bits)
        );
        assert!(found.iter().all(Finding::holds));
        let slower = [Round([40.0, 23.0, 27.0, 22.0])];
        assert_eq!(
            CLAIMS.map(|claim| Finding::new(claim, &slower).holds()),
            [false, false, true]
        );
    }
}
