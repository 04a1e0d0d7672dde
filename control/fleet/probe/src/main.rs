//! `vernier-probe`: STAMP session-sender and session-reflector.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use api::log;
use clap::Parser;
use probe::cli::{self, Arguments};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log::run(
        "vernier-probe",
        || (),
        false,
        |_| {
            let stop = Arc::new(AtomicBool::new(false));
            for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
                signal_hook::flag::register(signal, Arc::clone(&stop))
                    .context("cannot handle SIGINT and SIGTERM")
                    .map_err(|error| (error, 1))?;
            }
            cli::run(&arguments, &stop)
        },
    )
}
