//! `vernier-probe`: STAMP session-sender and session-reflector.
#![forbid(unsafe_code)]

use std::io::stderr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use api::log::Log;
use clap::Parser;
use probe::cli::{self, Arguments, Failure};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let log = match Log::start(stderr(), || ()) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("vernier-probe: cannot start the log's thread: {error}");
            return ExitCode::FAILURE;
        }
    };
    log.lines().install("info,async_nats=warn", false);
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log.lines().fail("vernier-probe", failure.error.as_ref());
            ExitCode::from(failure.code)
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .context("cannot handle SIGINT and SIGTERM")
            .map_err(|error| Failure { error, code: 1 })?;
    }
    cli::run(arguments, &stop)
}
