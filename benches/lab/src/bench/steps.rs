//! The cost of each step of the fast path per packet, and a comparison of the steps' instructions with the committed
//! figures.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use reporting::output_of;
use reporting::statistics::median;
use testkit::process::{check_wanted, output};

use crate::bench::contender::{Contender, Program};
use crate::bench::plan::{self, STEPS};
use crate::bench::profile;
use crate::bench::report::Step;
use crate::bench::rounds::{self, Absence, Series};
use crate::bench::setting::Bench;

/// Runs the steps in turn for `rounds` rounds, and counts their instructions if valgrind is here.
pub fn run(bench: &Bench, rounds: usize) -> Result<Vec<Step>> {
    let all = rounds::run(bench, &STEPS, rounds, |_| true)?;
    of(&all, |contender| count(bench, contender))
}

/// Instructions of a contender per packet; fails only if the user interrupts.
fn count(bench: &Bench, contender: &Contender) -> Result<Result<f64, Absence>> {
    if output(Command::new("valgrind").arg("--version")).is_err() {
        return Ok(Err(Absence::Skipped("valgrind is not here".to_owned())));
    }
    let counted = profile::instructions(bench, contender.program);
    check_wanted()?;
    let label = contender.label();
    match &counted {
        Ok(instructions) => eprintln!("counted   {instructions:6.1} instructions  {label}"),
        Err(error) => eprintln!("failed    instructions of {label}: {error:#}"),
    }
    Ok(counted.map_err(|error| Absence::Failed(format!("{error:#}"))))
}

/// Medians of rounds, and of differences to the step before; `count` counts instructions.
fn of(
    all: &[Series],
    count: impl Fn(&Contender) -> Result<Result<f64, Absence>>,
) -> Result<Vec<Step>> {
    let mut before: Option<Vec<f64>> = None;
    let mut steps = Vec::new();
    for Series { run, rates_pps } in all {
        let (contender, label) = (run.contender, run.contender.label());
        let rates_pps = match rates_pps {
            Ok(rates_pps) => rates_pps,
            Err(absence) => bail!("{label}: {absence:?}"),
        };
        let ns: Vec<f64> = rates_pps.iter().map(|rate_pps| 1e9 / rate_pps).collect();
        let is_step = matches!(contender.program, Program::Vernierd(_)) && !contender.is_base();
        let added_ns = before.as_ref().filter(|_| is_step).map(|before| {
            let differences = ns.iter().zip(before).map(|(ns, before)| ns - before);
            median(differences)
        });
        steps.push(Step {
            label,
            ns: median(ns.iter().copied()),
            added_ns,
            instructions: count(&contender)?,
            goal: plan::instructions(&contender),
        });
        // A peer is not a step.
        before = is_step.then_some(ns);
    }
    Ok(steps)
}

/// The largest accepted change, as a share of the committed figure.
const CHANGE_MAX: f64 = 0.03;

const HEAD: &str = "\
# Instructions of the worker for a packet, by step, as callgrind counts them. `make instructions` fails where a step takes
# over 3 % more; `make instructions RENEW=1` writes this file.
";

/// Compares instructions of the steps with a limit with `file`; returns whether none takes too many.
pub fn check(bench: &Bench, file: &Path) -> Result<bool> {
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    if !text.contains(&compiler()) {
        let compiler = compiler();
        println!("{name} was written with another compiler than {compiler}");
    }
    let mut holds = true;
    for (step, instructions) in counted(bench)? {
        let committed = committed(&text, step).with_context(|| {
            format!("{name} has no figure of {step}: renew it with `make instructions RENEW=1`")
        })?;
        let change = instructions / committed - 1.0;
        let (is_kept, advice) = judge(change, step);
        let percent = 100.0 * change;
        println!(
            "{step}: {instructions:.1} instructions a packet, {percent:+.1} % of {committed:.1}{advice}"
        );
        holds &= is_kept;
    }
    Ok(holds)
}

/// Writes the figures to `file`.
pub fn renew(bench: &Bench, file: &Path) -> Result<()> {
    let counted = counted(bench)?;
    let lines = counted.iter();
    let lines = lines.map(|(step, instructions)| format!("{step} {instructions:.1}\n"));
    let text = format!("{HEAD}# {}\n{}", compiler(), lines.collect::<String>());
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// The compiler, on which instructions depend as much as on the sources.
fn compiler() -> String {
    output_of(Command::new("rustc").arg("--version"))
}

/// Instructions of each step that has a limit.
fn counted(bench: &Bench) -> Result<Vec<(&'static str, f64)>> {
    let steps = plan::steps().filter(|(step, _)| plan::instructions(step).is_some());
    let counted = steps.map(|(step, vernierd)| {
        let counted = profile::instructions(bench, Program::Vernierd(vernierd));
        let instructions = counted.with_context(|| format!("cannot count {}", step.label()))?;
        Ok((step.id, instructions))
    });
    counted.collect()
}

/// The figure of a step in the text of the file.
fn committed(text: &str, step: &str) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, figure) = lines.find(|(name, _)| *name == step)?;
    figure.trim().parse().ok()
}

/// Whether a change, as a share of the committed figure, is accepted, and a text that says what to do.
fn judge(change: f64, step: &str) -> (bool, String) {
    let advice = if change > CHANGE_MAX {
        format!(
            ": too many. `make profile STEP={step}` shows where they go; if they are meant, commit what \
             `make instructions RENEW=1` writes"
        )
    } else if change < -CHANGE_MAX {
        ": fewer. Run `make instructions RENEW=1` and commit the file, or they may come back unnoticed"
            .to_owned()
    } else {
        String::new()
    };
    (change <= CHANGE_MAX, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::contender::{IO, OFF, OFF_PATCH};
    use crate::bench::load::SMALL;
    use crate::bench::plan::Run;

    #[test]
    fn steps_are_differences_within_rounds() {
        let series = |contender, rates_pps: &[f64]| Series {
            run: Run {
                contender,
                load: SMALL,
            },
            rates_pps: Ok(rates_pps.to_vec()),
        };
        let all = [
            series(IO, &[50e6, 25e6]),
            series(OFF_PATCH, &[40e6, 20e6]),
            series(OFF, &[25e6, 12.5e6]),
        ];
        let steps = of(&all, |_| Ok(Ok(100.0))).unwrap();
        let found: Vec<_> = steps.iter().map(|step| (step.ns, step.added_ns)).collect();
        // A peer is not a step; 15 ns more in one round, 30 in the slower one.
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(found[0].0, 30.0) && found[0].1.is_none(), "{found:?}");
        assert!(near(found[1].0, 37.5) && found[1].1.is_none(), "{found:?}");
        assert!(
            near(found[2].0, 60.0) && near(found[2].1.unwrap(), 22.5),
            "{found:?}"
        );
    }

    #[test]
    fn a_step_may_take_three_percent_more() {
        let verdicts = [-0.031, -0.029, 0.029, 0.031].map(|change| judge(change, "off"));
        let [fewer, less, more, too_many] = verdicts;
        assert!(fewer.0 && fewer.1.contains("fewer"));
        assert_eq!([less, more], [(true, String::new()), (true, String::new())]);
        assert!(!too_many.0 && too_many.1.contains("STEP=off"));
    }

    #[test]
    fn the_committed_file_has_every_step_with_a_limit() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/instructions.txt");
        let text = fs::read_to_string(file).unwrap();
        assert!(text.starts_with(HEAD));
        for (step, _) in plan::steps() {
            let has_limit = plan::instructions(&step).is_some();
            let figure = committed(&text, step.id);
            assert_eq!(figure.is_some(), has_limit, "{}", step.id);
        }
        assert_eq!(committed(&text, "off_"), None);
    }
}
