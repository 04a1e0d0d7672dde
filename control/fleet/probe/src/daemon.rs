//! Builds an engine from a configuration; `vernier-probe --config` runs sessions and reflector until it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use api::http::InFlight;
use report::sender::{ReportCounters, Sender};

use crate::config::{Config, ReportConfig};
use crate::http::{self, Sources};
use crate::mset::MsetSessions;
use crate::opener::ready;
use crate::published::Outlet;
use crate::reporting::{self, Prober};

/// Runs the configuration until `stop` is set.
///
/// # Errors
/// Sockets, keys, secrets or threads are unavailable, or the system cannot wait for packets.
pub fn run(config: &Config, stop: &AtomicBool) -> Result<()> {
    let server = api::http::Server::of(&config.http)?;
    let settings = config.report.as_ref().map(ReportConfig::settings);
    let sender = Sender::of(settings.as_ref()).context("report")?;
    let (mut engine, opener) = ready(config, None, None)?;
    for address in engine.listening() {
        tracing::info!("reflector at {address}");
    }
    let mut outlet = Outlet::default();
    let reporting = sender
        .zip(config.report.as_ref())
        .map(|(sender, report)| -> Result<_> {
            let prober = Prober {
                incarnation: getrandom::u64().context("no random numbers from the system")?,
                name: report.name(),
                node: report.node(),
                clock: config.clock,
                intervals: engine.intervals(),
            };
            let (collector, composer) = reporting::pair(prober);
            outlet.reports = Some(collector);
            let counters = Arc::<ReportCounters>::default();
            let started = sender.start_with(composer, Arc::clone(&counters));
            Ok((
                started.context("cannot start the sender of reports")?,
                counters,
            ))
        });
    let reporting = reporting.transpose()?;
    let mut mset = MsetSessions::of(config, opener)
        .context("cannot start the thread that follows the topology")?;
    let sources = Sources {
        board: outlet.board.clone(),
        sessions: (config.sessions.iter())
            .map(|session| session.name.clone())
            .collect(),
        mset: mset.as_ref().map(|mset| mset.view.clone()),
        reports: reporting.as_ref().map(|(_, counters)| Arc::clone(counters)),
        in_flight: InFlight::default(),
    };
    let serving = server.map(|server| http::serve(server, sources));
    let serving = serving
        .transpose()
        .context("cannot start the HTTP server")?;
    if let Some(serving) = &serving {
        tracing::info!("http://{}", serving.address());
    }
    while !stop.load(Ordering::Relaxed) && (mset.is_some() || !engine.is_over()) {
        if let Some(mset) = &mut mset {
            mset.step(&mut engine);
        }
        engine.step(&mut outlet)?;
    }
    engine.finish(&mut outlet);
    Ok(())
}
