//! `vernier-probe --config`: sessions and reflector until the program is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use report::sender::{ReportCounters, Running, Sender};

use crate::config::{Config, ReportConfig};
use crate::engine::{Engine, Sink};
use crate::http::{self, Sources};
use crate::mset::{Follower, MsetSessions};
use crate::published::Board;
use crate::reporting::{self, Collector, Prober};
use crate::setup::{self, Opener, Ready};

/// Runs what is configured until `stop` is set.
///
/// # Errors
/// Sockets, keys, secrets and threads that cannot be had; the system's, where it cannot wait for packets.
pub fn run(config: &Config, stop: &AtomicBool) -> Result<()> {
    let server = api::http::Server::of(&config.http)?;
    let settings = config.report.as_ref().map(ReportConfig::settings);
    let sender = Sender::of(settings.as_ref()).context("report")?;
    let Ready {
        mut engine,
        listening,
        opener,
    } = setup::ready(config, None, None)?;
    for address in listening {
        tracing::info!("reflector at {address}");
    }
    let board = Board::default();
    let reports = sender.zip(config.report.as_ref());
    let reports = reports.map(|(sender, report)| {
        let prober = Prober {
            incarnation: getrandom::u64().context("no random numbers from the system")?,
            name: report.name(),
            node: report.node(),
            clock: config.clock,
            intervals: engine.intervals(),
        };
        start_reports(sender, prober)
    });
    let (collector, reports) = reports.transpose()?.unzip();
    let mset = config.mset.clone().zip(config.mset_node());
    let mset = mset.map(|(config, node)| Follower::start(config, node));
    let mset = mset
        .transpose()
        .context("cannot start the thread that follows the topology")?;
    let sources = Sources {
        board: board.clone(),
        sessions: config
            .sessions
            .iter()
            .map(|session| session.name.clone())
            .collect(),
        mset: mset.as_ref().map(Follower::view),
        reports: reports.as_ref().map(|(_, counters)| Arc::clone(counters)),
    };
    let serving = server.map(|server| http::serve(server, sources));
    let serving = serving
        .transpose()
        .context("cannot start the HTTP server")?;
    if let Some(serving) = &serving {
        tracing::info!("http://{}", serving.address());
    }
    let following = mset.zip(config.mset.clone());
    let mut following = following.map(|(follower, mset)| Following {
        follower,
        sessions: MsetSessions::new(mset, config.mset_room()),
        opener,
    });
    let mut sinks = (board, collector);
    while !stop.load(Ordering::Relaxed) && (following.is_some() || !engine.is_over()) {
        if let Some(following) = &mut following {
            following.step(&mut engine);
        }
        engine.step(&mut sinks)?;
    }
    engine.finish(&mut sinks);
    Ok(())
}

/// An m-set, and its sessions.
struct Following {
    follower: Follower,
    sessions: MsetSessions,
    opener: Opener,
}

impl Following {
    fn step(&mut self, engine: &mut Engine) {
        let targets = self.follower.take();
        let Self {
            sessions, opener, ..
        } = self;
        sessions.follow(targets.as_deref(), engine, opener);
    }
}

/// A sender of reports, and what it counts.
type Reports = (Running, Arc<ReportCounters>);

fn start_reports(sender: Sender, prober: Prober) -> Result<(Collector, Reports)> {
    let (collector, composer) = reporting::pair(prober);
    let counters = Arc::<ReportCounters>::default();
    let started = sender.start_with(composer, Arc::clone(&counters));
    let running = started.context("cannot start the sender of reports")?;
    Ok((collector, (running, counters)))
}

/// Where there are no reports, nobody collects.
impl Sink for Option<Collector> {
    fn result(&mut self, result: crate::result::SessionResult) {
        if let Some(collector) = self {
            collector.result(result);
        }
    }

    fn closed(&mut self, before: u64) {
        if let Some(collector) = self {
            collector.closed(before);
        }
    }
}
