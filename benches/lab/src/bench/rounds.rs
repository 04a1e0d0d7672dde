//! Rounds in which every contender runs, and ratios within rounds.

use anyhow::Result;
use reporting::statistics::Spread;
use testkit::process::check_wanted;

use crate::bench::plan::{Claim, Run, Suite, each};
use crate::bench::setting::Bench;

/// The rates of one run, round after round.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub run: Run,
    /// Packets per second, or the reason why there are none.
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

/// Runs the rounds of a suite, with progress on standard error. Runs that `wanted` rejects are left out, and runs of a
/// base if there is none.
///
/// Every other pass goes backwards, so that a slowing machine favours none. A failed run is repeated once. The rate of
/// a contender in a round is that of all its runs together.
pub fn run(
    bench: &Bench,
    suite: &Suite,
    rounds: usize,
    wanted: impl Fn(&Run) -> bool,
) -> Result<Vec<Series>> {
    let is_here = |run: &Run| bench.base.is_some() || !run.contender.is_base();
    let mut all: Vec<Series> = each(suite.runs)
        .filter(|run| is_here(run) && wanted(run))
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
            eprintln!("skipped   {}: {reason}", series.run.contender.label());
        }
    }
    let first = usize::from(!suite.warms_up);
    for round in first..=rounds.min(suite.rounds_max) {
        let which = match round {
            0 => "warm-up".to_owned(),
            _ => format!("round {round}"),
        };
        let count = all.len();
        for pass in 0..suite.passes {
            for n in 0..count {
                let is_backwards = (round + pass) % 2 == 1;
                let index = if is_backwards { count - 1 - n } else { n };
                let rate_pps = all[index].run_once(bench, &which)?;
                if let Ok(kept) = &mut all[index].rates_pps
                    && round > 0
                {
                    kept.extend(rate_pps);
                }
            }
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
    /// Combines the rates of the current round into one.
    fn end_round(&mut self, round: usize) {
        if let Ok(kept) = &mut self.rates_pps {
            let passes = kept.split_off(kept.len().min(round - 1));
            let packet_seconds: f64 = passes.iter().copied().map(f64::recip).sum();
            kept.push(passes.len() as f64 / packet_seconds);
        }
    }

    /// Runs it, if it has not failed before; returns its rate, unless it fails.
    fn run_once(&mut self, bench: &Bench, which: &str) -> Result<Option<f64>> {
        if self.rates_pps.is_err() {
            return Ok(None);
        }
        let Run { contender, load } = self.run;
        let again = |error: anyhow::Error| {
            eprintln!("{which:8}  failed; once more: {error:#}");
            check_wanted()?;
            contender.rate_pps(bench, load)
        };
        match contender.rate_pps(bench, load).or_else(again) {
            Ok(rate_pps) => {
                let (mpps, load) = (rate_pps / 1e6, load.label);
                eprintln!("{which:8}  {mpps:6.2} Mpps  {load}: {}", contender.label());
                Ok(Some(rate_pps))
            }
            Err(error) => {
                check_wanted()?;
                eprintln!("{which:8}  failed: {error:#}");
                self.rates_pps = Err(Absence::Failed(format!("{error:#}")));
                Ok(None)
            }
        }
    }
}

/// The ratios of `claim`, one for each round; `None` if one of its runs was not selected.
pub fn ratio(claim: &Claim, all: &[Series]) -> Option<Result<Spread, Absence>> {
    let find = |run: Run| all.iter().find(|series| series.run == run);
    let series: Vec<&Series> = each(claim.runs).map(find).collect::<Option<_>>()?;
    let rates = series.into_iter().map(|series| series.rates_pps.as_ref());
    let rates: Result<Vec<&Vec<f64>>, &Absence> = rates.collect();
    Some(rates.map_err(Clone::clone).and_then(|rates| {
        let rounds = rates.iter().map(|rates_pps| rates_pps.len()).min();
        let ratios = (0..rounds.unwrap_or(0)).map(|round| {
            let of_round: Vec<f64> = rates.iter().map(|rates_pps| rates_pps[round]).collect();
            Claim::ratio(&of_round)
        });
        Spread::of(&ratios.collect::<Vec<_>>())
            .ok_or_else(|| Absence::Failed("there was no round".to_owned()))
    }))
}

#[cfg(test)]
mod tests;
