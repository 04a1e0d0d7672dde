//! What each step of the fast path costs a packet.

use anyhow::Result;
use reporting::statistics::median;

use crate::bench::contender::{Contender, Program};
use crate::bench::plan::{self, STEPS};
use crate::bench::profile;
use crate::bench::report::{Outcome, Step};
use crate::bench::rounds::{self, Absence, Series};
use crate::bench::setting::Bench;

/// Runs the steps in turn for `rounds` rounds, and counts their instructions if valgrind is here.
pub fn run(bench: &Bench, rounds: usize) -> Result<Vec<Step>> {
    let all = rounds::run(bench, &STEPS, rounds, |_| true)?;
    let mut steps = of(&all)?;
    for (step, series) in steps.iter_mut().zip(&all) {
        let contender = series.run.contender;
        let counted = count(bench, &contender)?;
        step.outcome = Outcome::new(plan::instructions(&contender), counted.as_ref().copied());
        step.instructions = counted.ok();
    }
    Ok(steps)
}

/// Instructions of a contender for a packet; fails only when the user interrupts.
fn count(bench: &Bench, contender: &Contender) -> Result<Result<f64, Absence>> {
    if !profile::is_here("valgrind") {
        return Ok(Err(Absence::Skipped("valgrind is not here".to_owned())));
    }
    let counted = profile::instructions(bench, contender.program);
    bench.check_wanted()?;
    let label = contender.label;
    match &counted {
        Ok(instructions) => eprintln!("counted   {instructions:6.1} instructions  {label}"),
        Err(error) => eprintln!("failed    instructions of {label}: {error:#}"),
    }
    Ok(counted.map_err(|error| Absence::Failed(format!("{error:#}"))))
}

/// Medians of rounds, and of differences to the step before.
fn of(all: &[Series]) -> Result<Vec<Step>> {
    let mut before: Option<Vec<f64>> = None;
    let mut steps = Vec::new();
    for series in all {
        let rates_pps = match &series.rates_pps {
            Ok(rates_pps) => rates_pps,
            Err(absence) => anyhow::bail!("{}: {absence:?}", series.run.contender.label),
        };
        let ns: Vec<f64> = rates_pps.iter().map(|rate_pps| 1e9 / rate_pps).collect();
        let contender = series.run.contender;
        let is_step = matches!(contender.program, Program::Vernierd(_)) && !contender.is_base();
        let added_ns = before.as_ref().filter(|_| is_step).map(|before| {
            let differences = ns.iter().zip(before).map(|(ns, before)| ns - before);
            median(differences)
        });
        steps.push(Step {
            label: series.run.contender.label.to_owned(),
            ns: median(ns.iter().copied()),
            added_ns,
            instructions: None,
            outcome: Outcome::default(),
        });
        // A peer is no step.
        before = is_step.then_some(ns);
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::contender::{IO, OFF, OFF_PATCH};
    use crate::bench::load::Load;
    use crate::bench::plan::Run;

    #[test]
    fn steps_are_differences_within_rounds() {
        let series = |contender, rates_pps: &[f64]| Series {
            run: Run {
                contender,
                load: Load::Small,
            },
            rates_pps: Ok(rates_pps.to_vec()),
        };
        let all = [
            series(IO, &[50e6, 25e6]),
            series(OFF_PATCH, &[40e6, 20e6]),
            series(OFF, &[25e6, 12.5e6]),
        ];
        let steps = of(&all).unwrap();
        let found: Vec<_> = steps.iter().map(|step| (step.ns, step.added_ns)).collect();
        // A peer is no step; 15 ns more in one round, 30 in the slower one.
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(found[0].0, 30.0) && found[0].1.is_none(), "{found:?}");
        assert!(near(found[1].0, 37.5) && found[1].1.is_none(), "{found:?}");
        assert!(
            near(found[2].0, 60.0) && near(found[2].1.unwrap(), 22.5),
            "{found:?}"
        );
    }
}
