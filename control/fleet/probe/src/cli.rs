//! The command line.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use contract::text::say;
use contract::units::counted;

use crate::config::{Address, Config, PORT, ReflectorConfig, SessionConfig, Spacing};
use crate::published::Outlet;
use crate::result::SessionResult;
use crate::socket::Stamped;
use crate::table;
use crate::wire::Kind;
use crate::{daemon, opener};

/// Limit of packets for a measurement from the command line: all are in one interval.
const COUNT_MAX: u64 = 100_000;

/// Measures the path to a STAMP reflector (RFC 8762), or runs a reflector.
///
/// With an address, sends packets to its reflector and prints delays and losses of both directions. With --reflect,
/// answers other senders. With --config, runs any number of sessions and a reflector until stopped, with results over
/// HTTP.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of the command line"
)]
#[derive(Debug, Parser)]
#[command(
    name = "vernier-probe",
    version,
    after_help = "Exit codes: 0 ended cleanly, 1 failed or no packet was answered, 2 bad usage or configuration."
)]
pub struct Arguments {
    /// The reflector's address or name, optionally with a port (default: 862)
    #[arg(required_unless_present_any = ["reflect", "config"], conflicts_with_all = ["reflect", "config"])]
    address: Option<String>,

    /// Configuration file (JSON)
    #[arg(long, value_name = "FILE", conflicts_with = "reflect")]
    config: Option<PathBuf>,

    /// Check the configuration and exit
    #[arg(long, requires = "config")]
    check: bool,

    /// Run a reflector
    #[arg(long)]
    reflect: bool,

    /// Address to listen on, optionally with a port (default: 862); may be repeated [default: all]
    #[arg(long, value_name = "ADDRESS", requires = "reflect", value_parser = named::<Address>)]
    listen: Vec<Address>,

    /// Packets to send, 1 to 100,000
    #[arg(long, short = 'c', default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: u64,

    /// Mean gap between packets in ms
    #[arg(long, short = 'i', value_name = "MS", default_value_t = 100.0)]
    interval_ms: f64,

    /// Send at equal gaps (default: exponentially distributed gaps)
    #[arg(long)]
    periodic: bool,

    /// How long to wait for a reply, in ms
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    timeout_ms: u64,

    /// Bytes of a packet, without the UDP header [default: the minimum]
    #[arg(long)]
    length: Option<usize>,

    /// DSCP, 0 to 63
    #[arg(long, default_value_t = 0)]
    dscp: u8,

    /// Address to send from, optionally with a port
    #[arg(long, value_parser = named::<Address>)]
    from: Option<Address>,

    /// File with the key (32 to 128 hexadecimal digits); turns on authenticated mode
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// File with the key of TLVs, if it differs from --key-file or only TLVs are authenticated
    #[arg(long, value_name = "FILE")]
    tlv_key_file: Option<PathBuf>,

    /// TLVs to request, comma-separated; the names are those of `tlvs` in the configuration
    #[arg(long, value_delimiter = ',', value_parser = named::<Kind>)]
    tlvs: Vec<Kind>,

    /// Preferred source of timestamps: hardware, kernel, program
    #[arg(long, default_value = "kernel", value_parser = named::<Stamped>)]
    timestamps: Stamped,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Parses a value as the configuration does.
fn named<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let value = serde_json::Value::String(text.to_owned());
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// The error, and the exit code: 1 while running, 2 for usage or configuration.
pub type Failure = (anyhow::Error, u8);

/// Runs the command line until `stop` is set.
///
/// # Errors
/// [`Failure`]
pub fn run(arguments: &Arguments, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let usage = |error: anyhow::Error| (error, 2);
    let running = |error: anyhow::Error| (error, 1);
    if let Some(name) = &arguments.address {
        let config = arguments.session(name).map_err(usage)?;
        return measure(arguments, &config, stop).map_err(running);
    }
    let config = match &arguments.config {
        Some(file) => Config::load(file).map_err(|error| usage(error.into()))?,
        None => arguments.reflector().map_err(usage)?,
    };
    if arguments.check {
        opener::check_keys(&config).map_err(usage)?;
        let sessions = counted(config.sessions.len(), "session");
        let reflector = if config.reflector.is_some() {
            ", and a reflector"
        } else {
            ""
        };
        let words = format!("{sessions}{reflector}\n");
        return say(&words).map_err(|error| running(error.into()));
    }
    daemon::run(&config, stop).map_err(running)
}

impl Arguments {
    fn reflector(&self) -> Result<Config> {
        let mut reflector = ReflectorConfig {
            key_file: self.key_file.clone(),
            tlv_key_file: self.tlv_key_file.clone(),
            ..ReflectorConfig::default()
        };
        if !self.listen.is_empty() {
            reflector.listen.clone_from(&self.listen);
        }
        checked(Config {
            reflector: Some(reflector),
            timestamps: self.timestamps,
            ..Config::default()
        })
    }

    fn session(&self, name: &str) -> Result<Config> {
        let session = SessionConfig {
            name: "probe".to_owned(),
            to: resolve(name)?.into(),
            from: self.from,
            dscp: self.dscp,
            interval_ms: Some(self.interval_ms),
            schedule: if self.periodic {
                Spacing::Periodic
            } else {
                Spacing::Poisson
            },
            length: self.length,
            key_file: self.key_file.clone(),
            tlv_key_file: self.tlv_key_file.clone(),
            timeout_ms: self.timeout_ms,
            tlvs: self.tlvs.clone(),
            ..SessionConfig::default()
        };
        checked(Config {
            sessions: vec![session],
            timestamps: self.timestamps,
            ..Config::default()
        })
    }
}

/// Checks options as keys of a configuration. There is no HTTP server.
fn checked(mut config: Config) -> Result<Config> {
    config.http.listen = None;
    config.check().map_err(|faults| {
        let Some(invalid) = faults.0.into_iter().next() else {
            return anyhow::anyhow!("invalid options");
        };
        let path = invalid.path.to_string();
        let key = path.rsplit('.').next().unwrap_or_default();
        let option = match key {
            "to" => "ADDRESS".to_owned(),
            key => format!("--{}", key.replace('_', "-")),
        };
        anyhow::anyhow!(
            "{option}: expected {}, got {}",
            invalid.expected,
            invalid.got.unwrap_or_default()
        )
    })?;
    Ok(config)
}

/// Parses an address, or resolves a name.
fn resolve(name: &str) -> Result<SocketAddr> {
    match Address::try_from(name.to_owned()) {
        Ok(address) => return Ok(address.with_port(PORT)),
        // A name has no `%`: this is an address with a zone.
        Err(why) if name.contains('%') => bail!(why),
        Err(_) => {}
    }
    let found = name
        .to_socket_addrs()
        .or_else(|_| (name, PORT).to_socket_addrs());
    let mut found = found.with_context(|| {
        format!("{name:?} is neither an address nor a name that resolves to one")
    })?;
    found
        .next()
        .with_context(|| format!("{name:?} has no address"))
}

/// Runs one session until all its packets are sent, and answered or timed out.
fn measure(arguments: &Arguments, config: &Config, stop: &AtomicBool) -> Result<()> {
    // Longer than any measurement, so that there is one interval.
    let interval = Duration::from_secs(u64::from(u32::MAX));
    let (mut engine, _) = opener::ready(config, Some(interval), Some(arguments.count))?;
    let mut outlet = Outlet::default();
    while !stop.load(Ordering::Relaxed) && !engine.is_over() {
        engine.step(&mut outlet)?;
    }
    engine.finish(&mut outlet);
    let sessions = outlet.board.sessions();
    let mut result = sessions.first().context("there is no result")?.last.clone();
    result.length_ms = None;
    let result = &result;
    if arguments.json {
        say(&format!("{}\n", serde_json::to_string_pretty(result)?))?;
    } else {
        say(&table::of(result))?;
    }
    ensure!(
        result.counts.received > 0,
        unanswered(arguments, result, engine.strangers())
    );
    Ok(())
}

/// Explains a measurement without a reply.
fn unanswered(arguments: &Arguments, result: &SessionResult, strangers: u64) -> String {
    let SessionResult { id, counts, .. } = result;
    let to = id.to;
    let sent = counts.sent;
    if sent == 0 {
        let why = result.not_sent_for.as_deref();
        return format!("nothing was sent to {to}: {}", why.unwrap_or("interrupted"));
    }
    if let Some(why) = &result.rejected_for {
        return format!(
            "no usable reply from {to}: {}",
            table::rejected(counts.rejected, why)
        );
    }
    let timeout_ms = arguments.timeout_ms;
    if counts.late > 0 {
        return format!(
            "no reply from {to} within {timeout_ms} ms: {} came later; raise --timeout-ms",
            counts.late
        );
    }
    if strangers > 0 {
        return format!(
            "no reply from {to}, but {strangers} packets from other addresses or ports: does the reflector answer from \
             the address that is asked?"
        );
    }
    if let Some(why) = &result.unreachable {
        return format!("no reply from {to}: {why}");
    }
    let key = if arguments.key_file.is_some() {
        ", that it has the same key,"
    } else {
        ""
    };
    format!(
        "no reply from {to}: of {sent} packets nothing came back within {timeout_ms} ms; check that a reflector is \
         there{key} and that no firewall drops UDP"
    )
}
