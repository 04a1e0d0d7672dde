//! Starts the control core from the constructor's thread.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::http;
use contract::change::Change;
use contract::config::{Config, HostConfig, Stamps, WireKeys};
use contract::ids::GenerationId;
use control::core::{ControlCore, Setup};
use dpdk_bindings::plugin::{self, Level};
use dpdk_bindings::{Host, StampField, misses_vhost, tsc};
use measure::packet::Hasher;
use measure::shard::ShardLayout;
use measure::time::{Epoch, EpochSchedule, TickRate, Ticks};
use report::sender::Sender;
use switch::classify::Classifier;
use switch::preflight::clock_warning;
use switch::reconfigurer::Orders;
use switch::wiring::{cpus, random_seed};
use tracing::Metadata;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::arrivals::Stamper;
use crate::data_plane::HostDataPlane;
use crate::open_vswitch::OpenVSwitch;
use crate::program::Program;
use crate::taps::{Taps, VhostWarning};
use crate::telemetry;

/// The file with the settings; without it, [`HostConfig::default`] applies.
const CONFIG: &str = "VERNIER_CONFIG";

/// How often a program without ports is checked.
const WAIT: Duration = Duration::from_millis(5);

/// Pause of the control core between two polls.
const REST: Duration = Duration::from_millis(2);

/// Waits for the program's first port, and measures until the process ends.
pub fn start() {
    start_log();
    if let Err(error) = run() {
        plugin::disable(&format!("{error:#}"));
    }
}

/// How often a second copy of the plugin, which only waits to log that, checks the program.
const WAIT_OF_COPY: Duration = Duration::from_millis(200);

/// Waits for the program's first port. Logs nothing before that, because EAL may still be setting up its log.
fn wait_for_host(vhost_warning: &mut VhostWarning) -> Result<Host<'static>> {
    if let Some(path) = plugin::other_copy() {
        // Packets of vhost-user ports are shown only to the other copy.
        while Host::find()?.is_none() && !misses_vhost() {
            thread::sleep(WAIT_OF_COPY);
        }
        bail!(
            "another copy of this plugin is loaded already: {path}; give the program one of the two by -d"
        );
    }
    loop {
        vhost_warning.look();
        match Host::find()? {
            Some(host) => return Ok(host),
            None => thread::sleep(WAIT),
        }
    }
}

/// Starts the HTTP server and reports, as configured; a request for a reload sets `reload`.
fn answering(
    settings: &HostConfig,
    reload: &Arc<AtomicBool>,
) -> Result<(Option<http::Server>, Option<Sender>)> {
    let server = http::Server::of(&settings.http)
        .with_context(|| format!("http.listen (in the file that {CONFIG} names)"))?;
    let sender = Sender::of(settings.report.as_ref())
        .with_context(|| format!("report (in the file that {CONFIG} names)"))?;
    let server = server.map(|server| server.with_reload(Arc::clone(reload)));
    Ok((server, sender))
}

/// Returns the settings of receive queues.
fn stamper(field: StampField, hasher: &Hasher, config: &Config, layout: &ShardLayout) -> Stamper {
    Stamper {
        field,
        hasher: hasher.clone(),
        classifier: Arc::new(Classifier::from_config(config)),
        has_classes: config.class_count() > 1,
        stamps_packets: config.measurement.stamps == Stamps::Packet,
        hashing: layout.hashing(),
    }
}

fn run() -> Result<()> {
    let mut vhost_warning = VhostWarning::default();
    let host = wait_for_host(&mut vhost_warning)?;
    let file = std::env::var_os(CONFIG).map(PathBuf::from);
    let settings = match &file {
        Some(file) => HostConfig::load(file).context(CONFIG)?,
        None => HostConfig::default(),
    };
    if host.is_secondary() {
        bail!("this is a secondary process; load the plugin into the primary one");
    }
    cpus::keep_off(&host.cpus(), &cpus::usable());
    if let Some(warning) = clock_warning() {
        tracing::warn!("{warning}");
    }
    let field = StampField::register_in(&host)?;
    let reload = Arc::new(AtomicBool::new(false));
    let (server, sender) = answering(&settings, &reload)?;

    let ipfix = settings.ipfix.clone();
    let rate = TickRate::from_hz(host.tsc_hz());
    let measurement = &settings.measurement;
    let schedule = EpochSchedule::new(
        Ticks(tsc::now()),
        rate.ticks_in(measurement.interval()),
        rate.ticks_in(measurement.grace()),
    );
    let hasher = Hasher::new(measurement.hash_key().map_or_else(random_seed, Ok)?);
    let config = settings.config(&[]);
    let layout = config.shard_layout(rate)?;
    let stamper = stamper(field, &hasher, &config, &layout);
    let setup = Setup {
        rate,
        schedule,
        hasher,
        counters: Vec::new(),
        line: Arc::default(),
        first: Change {
            number: GenerationId::default(),
            from: Epoch(0),
            layout,
            config,
            ends: Vec::new(),
            wires: Vec::new(),
            keys: WireKeys::default(),
        },
    };
    let taps = Taps::new(stamper, schedule);
    let program = Program::new(host.clone(), OpenVSwitch::of_host(), settings, rate, taps);
    let orders = Orders {
        wanted: reload,
        file,
    };
    let data_plane = HostDataPlane::new(program, orders, vhost_warning);
    let mut core = ControlCore::new(setup, data_plane)?;
    telemetry::offer(&host, core.published());
    let serving = server.map(|server| server.serve(core.published()));
    let serving = serving.transpose()?;
    if let Some(serving) = &serving {
        tracing::info!("metrics at http://{}/metrics", serving.address());
    }
    let reporting = sender.map(|sender| sender.start(core.published()));
    let exporting = ipfix.map(|settings| ipfix::start(settings, core.published()));
    let _sending = (reporting.transpose()?, exporting.transpose()?);
    while plugin::is_at_work() {
        core.poll();
        thread::sleep(REST);
    }
    Ok(())
}

// The plugin's log, which writes lines to the log of the program's DPDK.

/// Sends trace events and panics to DPDK's log.
fn start_log() {
    let filter = EnvFilter::try_from_env("VERNIER_LOG")
        .unwrap_or_else(|_| EnvFilter::new("info,async_nats=warn"));
    // Fails only if it was done before.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(DpdkLog)
        .with_ansi(false)
        .with_level(false)
        .with_target(false)
        .without_time()
        .try_init();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

struct DpdkLog;

/// One line, written when it is complete.
struct Line {
    level: Level,
    text: Vec<u8>,
}

impl<'w> MakeWriter<'w> for DpdkLog {
    type Writer = Line;

    fn make_writer(&'w self) -> Line {
        Line {
            level: Level::Info,
            text: Vec::new(),
        }
    }

    fn make_writer_for(&'w self, meta: &Metadata<'_>) -> Line {
        let level = match *meta.level() {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warning,
            tracing::Level::INFO => Level::Info,
            _ => Level::Debug,
        };
        Line {
            level,
            text: Vec::new(),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        plugin::log(self.level, &String::from_utf8_lossy(&self.text));
    }
}
