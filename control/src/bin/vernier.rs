//! `vernier`: looks at a running switch, and at configurations.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use control::config::Config;
use control::http::Segments;
use control::top::{self, Remote, SnapshotSource};
use control::{check, view};

/// Looks at a Vernier switch, and at configurations.
#[derive(Debug, Parser)]
#[command(
    name = "vernier",
    version,
    after_help = "Exit codes: 0 done, 1 failed (no switch answers), 2 bad usage or configuration."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Live table of a running switch
    Top(Where),
    /// The measured segments, once
    Segments {
        #[command(flatten)]
        at: Where,
        /// As JSON, with everything that is known of each
        #[arg(long)]
        json: bool,
    },
    /// Validate a configuration and say what it would use
    Check {
        /// The configuration (JSON)
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Where {
    /// The switch's HTTP address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9464")]
    url: String,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Top(at) => top::run(Remote::new(&at.url), || false).map_err(Into::into),
        Command::Segments { at, json } => segments(&at, json),
        Command::Check { file } => match Config::load(&file) {
            Ok(config) => print(&check::report(&config)),
            Err(error) => return fail(&error.into(), 2),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, 1),
    }
}

fn segments(at: &Where, json: bool) -> anyhow::Result<()> {
    let snapshot = Remote::new(&at.url).latest()?;
    if json {
        print(&(serde_json::to_string_pretty(&Segments::from(&*snapshot))? + "\n"))
    } else {
        print(&view::segments(&snapshot))
    }
}

/// Writes to standard output; a reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn fail(error: &anyhow::Error, code: u8) -> ExitCode {
    eprintln!("vernier: {error:#}");
    ExitCode::from(code)
}
