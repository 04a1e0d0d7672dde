//! The command line of `vernier-accuracy`.

mod decode;
mod dump;
mod files;
mod lda;
mod rli;
mod tables;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Accuracy of every method against exact truth, and the methods for data of one's own.
#[derive(Debug, Parser)]
#[command(
    name = "vernier-accuracy",
    version,
    after_help = "Exit codes: 0 all limits kept (or nothing to judge), 1 a limit was missed, \
                  2 bad usage, bad input, or a run that failed."
)]
enum Command {
    Tables(tables::Tables),
    Decode(decode::Decode),
    Dump(dump::Dump),
    Lda(lda::Lda),
    Rli(rli::Rli),
}

/// Whether all limits were kept.
type Kept = bool;

/// Parses the arguments and runs.
pub fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Tables(arguments) => tables::run(&arguments),
        Command::Decode(arguments) => decode::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Lda(arguments) => lda::run(&arguments),
        Command::Rli(arguments) => rli::run(&arguments),
    };
    exit_code(outcome)
}

fn exit_code(outcome: Result<Kept>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("vernier-accuracy: {error:#}");
            ExitCode::from(2)
        }
    }
}
