//! `vernier-station`: joins the reports of many switches.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use api::http::Server;
use api::log;
use clap::Parser;
use contract::config::Nats;
use report::connection::Connection;
use signal_hook::consts::{SIGINT, SIGTERM};
use station::cli::Arguments;
use station::settings::Settings;
use station::{Station, answers};
use tokio::sync::watch;

/// How often the signals are checked.
const LOOK: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log::run(
        "vernier-station",
        || (),
        false,
        |_| run(&arguments).map_err(|error| (error, 2)),
    )
}

fn run(arguments: &Arguments) -> Result<()> {
    let mut settings = match &arguments.config {
        Some(file) => Settings::load(file)?,
        None => Settings::of(Nats::to(&arguments.nats)),
    };
    if let Some(listen) = arguments.listen {
        settings.http.listen = Some(listen);
    }
    settings.check()?;
    let connection = Connection::of(&settings.nats)?;
    let station = Station::new(&settings)?;
    let server = Server::of(&settings.http)?;
    let router = answers::router(Arc::clone(&station));
    let serving = server
        .map(|server| server.serve_routes(router, answers::paths()))
        .transpose()?;
    if let Some(serving) = &serving {
        tracing::info!("answers at http://{}", serving.address());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let (ending, stopped) = watch::channel(false);
    let ended = async {
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
        ending.send_replace(true);
    };
    let run = station.run(&connection, &settings, stopped);
    runtime.block_on(async { tokio::join!(ended, run) });
    Ok(())
}
