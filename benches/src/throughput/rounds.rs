//! Rounds in which every contender runs.

use anyhow::Result;

use super::bench::Bench;
use super::plan::{Claim, Run, Suite};

/// What came of one run, round after round.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Who, under what.
    pub run: Run,
    /// Packets a second; or why there are none.
    pub rates_pps: Result<Vec<f64>, Absence>,
}

/// Why there are no rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// It cannot run here.
    Skipped(String),
    /// It failed twice.
    Failed(String),
}

/// Runs the rounds of a suite, telling progress on standard error; runs that `wanted` does not
/// take are left out.
///
/// Every other pass goes backwards, so that a machine that slows down favours nobody. A run that
/// fails is tried once more. What a contender gets in one round is the rate of all its runs: packets by
/// the time that they took.
///
/// # Errors
/// When the captures cannot be written, or the user interrupts.
pub fn run(
    bench: &Bench,
    suite: &Suite,
    rounds: usize,
    wanted: impl Fn(&Run) -> bool,
) -> Result<Vec<Series>> {
    let runs = suite.runs.iter().copied().filter(|run| wanted(run));
    let mut all: Vec<Series> = runs
        .map(|run| Series {
            run,
            rates_pps: match run.contender.absence(bench) {
                None => Ok(Vec::new()),
                Some(reason) => Err(Absence::Skipped(reason)),
            },
        })
        .collect();
    for series in &all {
        if let Err(Absence::Skipped(reason)) = &series.rates_pps {
            eprintln!("skipped   {}: {reason}", series.run.contender.label);
        }
    }
    let first = usize::from(!suite.warms_up);
    for round in first..=rounds.min(suite.rounds_max) {
        let which = match round {
            0 => "warm-up".to_owned(),
            _ => format!("round {round}"),
        };
        let count = all.len();
        for (pass, turn) in (0..suite.passes).flat_map(|pass| (0..count).map(move |n| (pass, n))) {
            let place = if (round + pass) % 2 == 1 {
                count - 1 - turn
            } else {
                turn
            };
            all[place].take_turn(bench, &which, round > 0)?;
        }
        if round > 0 {
            for series in &mut all {
                series.end_round(round);
            }
        }
    }
    Ok(all)
}

impl Series {
    /// Makes one rate of those that came after the rounds before `round`.
    fn end_round(&mut self, round: usize) {
        if let Ok(kept) = &mut self.rates_pps {
            let passes = kept.split_off(kept.len().min(round - 1));
            let packet_seconds: f64 = passes.iter().copied().map(f64::recip).sum();
            kept.push(passes.len() as f64 / packet_seconds);
        }
    }

    fn take_turn(&mut self, bench: &Bench, which: &str, counts: bool) -> Result<()> {
        let Ok(kept) = &mut self.rates_pps else {
            return Ok(());
        };
        let Run { contender, load } = self.run;
        let input = bench.input(load)?;
        let again = |error: anyhow::Error| {
            eprintln!("{which:8}  failed; once more: {error:#}");
            bench.is_wanted()?;
            contender.rate_pps(bench, &input)
        };
        match contender.rate_pps(bench, &input).or_else(again) {
            Ok(rate_pps) => {
                let (mpps, load) = (rate_pps / 1e6, load.label());
                eprintln!("{which:8}  {mpps:6.2} Mpps  {load}: {}", contender.label);
                if counts {
                    kept.push(rate_pps);
                }
            }
            Err(error) => {
                bench.is_wanted()?;
                eprintln!("{which:8}  failed: {error:#}");
                self.rates_pps = Err(Absence::Failed(format!("{error:#}")));
            }
        }
        Ok(())
    }
}

/// A ratio over rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median of the rounds' ratios.
    pub median: f64,
    /// Least of them.
    pub min: f64,
    /// Greatest of them.
    pub max: f64,
}

impl Ratio {
    /// The ratio of `claim`, each round's by itself; `None` when a run of it was not wanted.
    pub fn of(claim: &Claim, all: &[Series]) -> Option<Result<Self, Absence>> {
        let find = |run: &Run| all.iter().find(|series| series.run == *run);
        let over: Vec<&Series> = claim.over.iter().map(find).collect::<Option<_>>()?;
        let under: Vec<&Series> = claim.under.iter().map(find).collect::<Option<_>>()?;
        let rates = |series: Vec<&Series>| -> Result<Vec<Vec<f64>>, Absence> {
            let rates = series.into_iter().map(|series| series.rates_pps.clone());
            rates.collect()
        };
        let ratio = || {
            let (over, under) = (rates(over)?, rates(under)?);
            let rounds = over.iter().chain(&under).map(Vec::len).min().unwrap_or(0);
            let product = |of: &[Vec<f64>], round: usize| -> f64 {
                of.iter().map(|rates_pps| rates_pps[round]).product()
            };
            let ratios = (0..rounds).map(|round| product(&over, round) / product(&under, round));
            Self::over(ratios.collect())
                .ok_or_else(|| Absence::Failed("there was no round".to_owned()))
        };
        Some(ratio())
    }

    fn over(mut ratios: Vec<f64>) -> Option<Self> {
        let median = median(&mut ratios);
        Some(Self {
            median,
            min: *ratios.first()?,
            max: *ratios.last()?,
        })
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

#[cfg(test)]
mod tests {
    use super::super::contender::{EVERYTHING, EVERYTHING_TWO, IO, IO_TWO, OFF};
    use super::super::load::Load;
    use super::super::plan::Goal;
    use super::*;

    const fn small(contender: super::super::contender::Contender) -> Run {
        Run {
            contender,
            load: Load::Small,
        }
    }

    fn series(run: Run, rates_pps: &[f64]) -> Series {
        Series {
            run,
            rates_pps: Ok(rates_pps.to_vec()),
        }
    }

    const SCALING: Claim = Claim {
        label: "two by one as a share of two by one",
        over: &[small(EVERYTHING_TWO), small(IO)],
        under: &[small(EVERYTHING), small(IO_TWO)],
        goal: Goal::Told,
    };

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        let mut four = [4.0, 1.0, 2.0, 3.0];
        assert_eq!(median(&mut four).to_bits(), 2.5_f64.to_bits());
        assert!(median(&mut []).is_nan());
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine is twice as fast in the second round: no ratio shows it.
        let all = [
            series(small(IO), &[40.0, 80.0, 40.0]),
            series(small(IO_TWO), &[80.0, 160.0, 80.0]),
            series(small(EVERYTHING), &[20.0, 40.0, 20.0]),
            series(small(EVERYTHING_TWO), &[38.0, 76.0, 36.0]),
        ];
        let ratio = Ratio::of(&SCALING, &all).unwrap().unwrap();
        assert!((ratio.median - 0.95).abs() < 1e-12, "{ratio:?}");
        assert!((ratio.min - 0.9).abs() < 1e-12, "{ratio:?}");
        assert!((ratio.max - 0.95).abs() < 1e-12, "{ratio:?}");
    }

    #[test]
    fn a_round_there_and_back_has_one_rate() {
        // 25 and 75 ns are 50 ns on average.
        let mut one = series(small(IO), &[10e6, 40e6, 40e6 / 3.0]);
        one.end_round(2);
        let rates: Vec<String> = one
            .rates_pps
            .unwrap()
            .iter()
            .map(|rate| format!("{rate:.0}"))
            .collect();
        assert_eq!(rates, ["10000000", "20000000"]);
    }

    #[test]
    fn what_did_not_run_has_no_ratio() {
        let skipped = Absence::Skipped("it takes 2 CPUs".to_owned());
        let mut all = vec![
            series(small(IO), &[40.0]),
            series(small(EVERYTHING), &[20.0]),
            series(small(EVERYTHING_TWO), &[38.0]),
        ];
        assert_eq!(Ratio::of(&SCALING, &all), None);
        all.push(Series {
            run: small(IO_TWO),
            rates_pps: Err(skipped.clone()),
        });
        assert_eq!(Ratio::of(&SCALING, &all), Some(Err(skipped)));
    }

    #[test]
    fn a_contender_that_fails_twice_is_out() {
        let folder = tempfile::tempdir().unwrap();
        let (bench, _) = Bench::for_tests(folder.path());
        let suite = Suite {
            runs: const { &[small(OFF), small(IO)] },
            rounds_max: 1,
            warms_up: false,
            passes: 1,
        };
        // There is no vernierd in that folder.
        let all = run(&bench, &suite, 5, |run| run.contender == OFF).unwrap();
        assert_eq!(all.len(), 1);
        assert!(matches!(&all[0].rates_pps, Err(Absence::Failed(why)) if why.contains("vernierd")));
    }
}
