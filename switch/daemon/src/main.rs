//! `vernierd`: the switch.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use api::log::{self, Lines};
use clap::{ColorChoice, Parser};
use console::view::{Look, Page};
use contract::check;
use contract::config::document::{Faults, KeyPath};
use contract::config::{Candidate, Config};
use contract::text::say;
use contract::units::counted;
use daemon::cli::{Arguments, LogFormat};
use daemon::machine;
use daemon::options::RunOptions;
use daemon::privileges;
use daemon::resources::Resources;
use daemon::run::{self, RunError};
use dpdk_bindings::HugePages;

/// Tables of many megabytes are on huge pages, wherever they are allocated.
#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_json = arguments.log_format == LogFormat::Json;
    log::run("vernierd", unprivileged, is_json, |lines| {
        begin(&arguments, lines).map_err(|error| {
            let code = match error.downcast_ref::<RunError>() {
                Some(RunError::Run(_)) => 1,
                _ => 2,
            };
            (error, code)
        })
    })
}

/// Checks, or runs.
fn begin(arguments: &Arguments, log: Lines) -> anyhow::Result<()> {
    let opened = open(arguments);
    if arguments.check {
        let mut page = Page::new(Look::of_stdout(false, ColorChoice::Auto));
        match &opened {
            Ok((config, _)) => {
                page.say(&check::verdict(config));
                page.say("\n");
                page.say(&check::report(config));
                let warning = (!arguments.is_static).then(|| machine::clock_warning(config));
                if let Some(warning) = warning.flatten() {
                    page.say(&check::row("clock", warning));
                }
            }
            Err(error) => {
                let errors = error.to_string().lines().count();
                page.say(&format!("{}\n", counted(errors, "error")));
            }
        }
        say(&page.finish()).map_err(|error| RunError::Run(error.into()))?;
    }
    match opened? {
        (config, Some(resources)) if !arguments.check => run(&config, resources, arguments, log),
        _ => Ok(()),
    }
}

/// Reads the configuration, and opens what it names unless only its text is checked; all faults of both are
/// reported together.
fn open(arguments: &Arguments) -> anyhow::Result<(Config, Option<Resources>)> {
    let open = |config: &Config, is_faulty_at: &dyn Fn(&KeyPath) -> bool| {
        let resources = (!arguments.is_static).then(|| Resources::of(config, is_faulty_at));
        resources.transpose()
    };
    if let Some(file) = &arguments.config {
        let candidate = Candidate::load(file)?;
        let found = open(candidate.config(), &|path| candidate.is_faulty_at(path));
        return Ok(candidate.finish(found)?);
    }
    let mut config = match &arguments.pcap {
        Some(capture) => Config::demo_replay(capture)?,
        None => Config::demo()?,
    };
    config.http.listen = arguments.listen.or(config.http.listen);
    let resources = open(&config, &|_| false).map_err(with_option)?;
    Ok((config, resources))
}

/// Names the option that corrects the built-in configuration in place of the key.
fn with_option(mut faults: Faults) -> Faults {
    for fault in &mut faults.0 {
        if fault.path.to_string() == "http.listen" {
            let what = fault.expected.split("; ").next().unwrap_or_default();
            fault.expected = format!(
                "{what}; give another address with --listen, or --listen 127.0.0.1:0 for any free port"
            );
            fault.path = KeyPath::default();
        }
    }
    faults
}

fn run(
    config: &Config,
    resources: Resources,
    arguments: &Arguments,
    log: Lines,
) -> anyhow::Result<()> {
    let options = RunOptions {
        arguments,
        log,
        stop: Arc::default(),
        reload: Arc::default(),
    };
    let flags = [
        (signal_hook::consts::SIGINT, &options.stop),
        (signal_hook::consts::SIGTERM, &options.stop),
        (signal_hook::consts::SIGHUP, &options.reload),
    ];
    for (signal, flag) in flags {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .context("cannot handle SIGINT, SIGTERM and SIGHUP")?;
    }
    // Opened before privileges are dropped.
    let summary = arguments.summary_json.as_deref().map(|path| {
        let cannot_write = || format!("cannot write the summary to {}", path.display());
        File::create(path).with_context(cannot_write)
    });
    let summary = summary.transpose()?;
    let outcome = run::run(config, resources, &options)?;
    if let Some(mut file) = summary {
        let json = serde_json::to_string_pretty(&outcome)?;
        file.write_all(json.as_bytes())
            .map_err(|error| RunError::Run(anyhow!("cannot write the summary: {error}")))?;
    }
    Ok(())
}

/// The log's thread has no capabilities.
fn unprivileged() {
    if let Err(error) = privileges::give_up_all() {
        tracing::warn!("the log's thread: {error:#}");
    }
}
