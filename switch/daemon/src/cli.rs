//! The command line of `vernierd`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use contract::address::listen_address;

/// A software switch that measures latency inline.
///
/// Without --config it switches generated traffic between two ports, which needs no NIC, no privileges
/// and no hugepages.
#[derive(Debug, Parser)]
#[command(
    name = "vernierd",
    version,
    after_help = "SIGHUP reads the configuration again. Exit codes: 0 ended cleanly, 1 failed while running, 2 bad usage, or a configuration that cannot start here."
)]
pub struct Arguments {
    /// Configuration (JSON)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Replay a capture through the built-in configuration, with its own timing
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub pcap: Option<PathBuf>,

    /// HTTP address without --config, instead of 127.0.0.1:9464; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config", value_parser = loopback)]
    pub listen: Option<SocketAddr>,

    /// Check whether a switch would start here with this configuration, print what it would use, and end
    #[arg(long)]
    pub check: bool,

    /// With --check: validate for another machine, without looking at this one
    #[arg(long = "static", requires = "check")]
    pub is_static: bool,

    /// End after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,

    /// Show a live table, and a summary at the end
    #[arg(long)]
    pub live: bool,

    /// Write the last snapshot and the time it covers to this file at the end (JSON)
    #[arg(long, value_name = "FILE")]
    pub summary_json: Option<PathBuf>,

    /// Record every packet of every wire in this file, for tests
    #[arg(long, value_name = "FILE", hide = true)]
    pub wire_record: Option<PathBuf>,

    /// Format of the log on standard error
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// An object on each line.
    Json,
}

/// Without a configuration there is no token, so only loopback is allowed.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address = listen_address(text).map_err(|error| error.to_string())?;
    let words = "expected an address of this machine alone, such as 127.0.0.1:9470; for others, configure http.listen \
                 and http.token_file";
    (address.ip().is_loopback())
        .then_some(address)
        .ok_or_else(|| words.to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "expected a number of seconds over 0, such as 10 or 0.5".to_owned())
}
