//! Instructions a packet of the steps that have a limit, beside the figures that are committed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use reporting::output_of;

use crate::bench::contender::Program;
use crate::bench::plan::{self, Goal};
use crate::bench::profile;
use crate::bench::setting::Bench;

/// The largest change that is accepted, as a share of the committed figure.
const CHANGE_MAX: f64 = 0.03;

const HEAD: &str = "\
# Instructions of the worker for a packet, by step, as callgrind counts them. `make instructions` fails where a step takes
# over 3 % more; `make instructions RENEW=1` writes this file.
";

/// Compares the steps with `file`; whether none takes too many.
pub fn check(bench: &Bench, file: &Path) -> Result<bool> {
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    if !text.contains(&compiler()) {
        println!(
            "{name} was written with another compiler than {}",
            compiler()
        );
    }
    let mut holds = true;
    for (step, instructions) in counted(bench)? {
        let committed = committed(&text, step).with_context(|| {
            format!("{name} has no figure of {step}: write it anew by `make instructions RENEW=1`")
        })?;
        let verdict = Verdict::of(instructions, committed);
        let percent = 100.0 * (instructions / committed - 1.0);
        println!(
            "{step}: {instructions:.1} instructions a packet, {percent:+.1} % of {committed:.1}{}",
            verdict.advice(step)
        );
        holds &= verdict != Verdict::TooMany;
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

/// The compiler, which decides on instructions as the sources do.
fn compiler() -> String {
    output_of(Command::new("rustc").arg("--version"))
}

/// Instructions of each step that has a limit.
fn counted(bench: &Bench) -> Result<Vec<(&'static str, f64)>> {
    let steps = plan::steps().filter(|(step, _)| plan::instructions(step) != Goal::Shown);
    let counted = steps.map(|(step, vernierd)| {
        let counted = profile::instructions(bench, Program::Vernierd(vernierd));
        let instructions = counted.with_context(|| format!("cannot count {}", step.label))?;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    AsBefore,
    TooMany,
    Fewer,
}

impl Verdict {
    fn of(instructions: f64, committed: f64) -> Self {
        let change = instructions / committed - 1.0;
        if change > CHANGE_MAX {
            Self::TooMany
        } else if change < -CHANGE_MAX {
            Self::Fewer
        } else {
            Self::AsBefore
        }
    }

    /// What to do, behind the figures.
    fn advice(self, step: &str) -> String {
        match self {
            Self::AsBefore => String::new(),
            Self::TooMany => format!(
                ": too many. `make profile STEP={step}` shows where they go; if they are meant, commit what \
                 `make instructions RENEW=1` writes"
            ),
            Self::Fewer => {
                ": fewer. Commit what `make instructions RENEW=1` writes, or they may come \
                            back unseen"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_may_take_three_percent_more() {
        let verdicts = [96.9, 97.1, 102.9, 103.1].map(|now| Verdict::of(now, 100.0));
        let expected = [
            Verdict::Fewer,
            Verdict::AsBefore,
            Verdict::AsBefore,
            Verdict::TooMany,
        ];
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn the_committed_file_has_every_step_with_a_limit() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/instructions.txt");
        let text = fs::read_to_string(file).unwrap();
        assert!(text.starts_with(HEAD));
        for (step, _) in plan::steps() {
            let has_limit = plan::instructions(&step) != Goal::Shown;
            assert_eq!(
                committed(&text, step.id).is_some(),
                has_limit,
                "{}",
                step.id
            );
        }
        assert_eq!(committed(&text, "off_"), None);
    }
}
