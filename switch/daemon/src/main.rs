//! `vernierd`: the switch.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Parser;
use contract::config::document::KeyPath;
use contract::config::{Candidate, Config};
use daemon::cli::{Arguments, LogFormat};
use daemon::log::{Lines, Log};
use daemon::opened::Opened;
use daemon::options::{RunOptions, Signals};
use daemon::run::{self, RunError};
use dpdk_bindings::HugePages;
use tracing_subscriber::EnvFilter;

/// Tables of many megabytes lie in huge pages, wherever they are made.
#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let log = match Log::start(stderr()) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("vernierd: cannot start the log's thread: {error}");
            return ExitCode::from(1);
        }
    };
    start_log(arguments.log_format, log.lines());
    match begin(&arguments, log.lines()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = match error.downcast_ref::<RunError>() {
                Some(RunError::Run(_)) => 1,
                _ => 2,
            };
            fail(&error, code, log.lines())
        }
    }
}

/// Checks, or runs.
fn begin(arguments: &Arguments, log: Lines) -> anyhow::Result<()> {
    let (config, opened) = open(arguments)?;
    match opened {
        Some(opened) if !arguments.check => run(&config, opened, arguments, log),
        _ => {
            let report = contract::check::report(&config);
            say(&report).map_err(|error| RunError::Run(error.into()).into())
        }
    }
}

/// Reads the configuration, and opens what it names unless only its text is to be checked: all that is wrong with
/// either is said at once.
fn open(arguments: &Arguments) -> anyhow::Result<(Config, Option<Opened>)> {
    let config = match (&arguments.config, &arguments.pcap) {
        (Some(file), _) => {
            let candidate = Candidate::load(file)?;
            let found = if arguments.is_static {
                Ok(None)
            } else {
                let is_faulty_at = |path: &KeyPath| candidate.is_faulty_at(path);
                Opened::of(candidate.config(), is_faulty_at).map(Some)
            };
            return Ok(candidate.finish(found)?);
        }
        (None, Some(capture)) => Config::demo_replay(capture)?,
        (None, None) => Config::demo()?,
    };
    let opened = if arguments.is_static {
        None
    } else {
        Some(Opened::of(&config, |_| false)?)
    };
    Ok((config, opened))
}

/// Writes to standard output; a reader that has seen enough (`| head`) is no error.
fn say(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn run(config: &Config, opened: Opened, arguments: &Arguments, log: Lines) -> anyhow::Result<()> {
    let signals = Signals::default();
    let flags = [
        (signal_hook::consts::SIGINT, &signals.stop),
        (signal_hook::consts::SIGTERM, &signals.stop),
        (signal_hook::consts::SIGHUP, &signals.reload),
    ];
    for (signal, flag) in flags {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .context("cannot handle SIGINT, SIGTERM and SIGHUP")?;
    }
    let options = RunOptions {
        duration: arguments.duration,
        live: arguments.live,
        file: arguments.config.clone(),
        log: Some(log),
        wire_record: arguments.wire_record.clone(),
    };
    // Opened before privileges are given up.
    let summary = arguments.summary_json.as_deref().map(|path| {
        let cannot_write = || format!("cannot write the summary to {}", path.display());
        File::create(path).with_context(cannot_write)
    });
    let summary = summary.transpose()?;
    let outcome = run::run(config, opened, &options, &signals)?;
    if let Some(mut file) = summary {
        let json = serde_json::to_string_pretty(&outcome)?;
        file.write_all(json.as_bytes())
            .map_err(|error| RunError::Run(anyhow!("cannot write the summary: {error}")))?;
    }
    Ok(())
}

fn start_log(format: LogFormat, lines: Lines) {
    let filter = EnvFilter::try_from_env("VERNIER_LOG")
        .unwrap_or_else(|_| EnvFilter::new("info,async_nats=warn"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || lines.clone())
        .with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(stderr().is_terminal()).init(),
        LogFormat::Json => log.json().init(),
    }
    // The usual hook would wait for standard error.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

/// One message: each cause that the words before it have not said already.
fn fail(error: &anyhow::Error, code: u8, mut log: Lines) -> ExitCode {
    let mut words = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    // Never fails: a line that finds no room is counted.
    for line in words.lines() {
        let _ = log.write_all(format!("vernierd: {line}\n").as_bytes());
    }
    ExitCode::from(code)
}
