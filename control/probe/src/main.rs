//! `vernier-probe`: STAMP session-sender and session-reflector.
#![forbid(unsafe_code)]

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use probe::cli::{self, Arguments};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_env("VERNIER_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .with_target(false)
        .init();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&stop)) {
            eprintln!("vernier-probe: cannot handle SIGINT and SIGTERM: {error}");
            return ExitCode::FAILURE;
        }
    }
    match cli::run(&arguments, &stop) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("vernier-probe: {:#}", failure.error);
            ExitCode::from(failure.code)
        }
    }
}
