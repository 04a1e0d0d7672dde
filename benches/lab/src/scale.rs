//! Reports as if from a thousand switches, through one NATS server and two stations on this machine; a
//! station is added, and one is killed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use reporting::{BUILD, Machine, RESULTS, Table, now_utc, statistics, write_page};
use testkit::http::metric;
use testkit::nats::NatsServer;

mod generator;
mod stations;

use generator::{Generator, Switches};
use stations::{Station, answer_times, settled, usage};

/// Threads that poll for answers.
const PROBES: u64 = 4;

/// Send reports as if from many switches, and measure the stations.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Switches, each with one report a second
    #[arg(long, default_value_t = 1_000)]
    switches: u32,
    /// Ports of each, patched in pairs
    #[arg(long, default_value_t = 16)]
    ports: u32,
    /// Seconds of each part
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Folder of the results
    #[arg(long, default_value = RESULTS)]
    results: PathBuf,
}

/// Runs everything; returns whether every report was counted once.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let server = NatsServer::start(folder.path(), "")?;
    let url = server.url();
    let start = |number| Station::start(&url, folder.path(), number);
    let mut stations = vec![start(0)?, start(1)?];
    let generator = Generator::start(&url, arguments.switches, arguments.ports)?;
    std::thread::sleep(Duration::from_secs(5));

    let measure = |what, stations: &[Station]| {
        let switches = &generator.switches;
        measure(what, arguments.seconds, switches, stations, &server)
    };
    let headings = [
        "reports/s",
        "answer, median, ms",
        "p99, ms",
        "greatest, ms",
        "lag",
        "memory, MiB",
        "CPU, %",
    ];
    let mut parts = Table::default().words(["part"]).figures(headings);
    parts.push(measure("two stations", &stations)?);
    stations.push(start(2)?);
    parts.push(measure("a third is added", &stations)?);
    drop(stations.remove(0));
    parts.push(measure("the first is killed", &stations)?);
    parts.push(measure("two stations again", &stations)?);

    let switches = Arc::clone(&generator.switches);
    generator.stop()?;
    let [stored, failed] =
        [&switches.stored, &switches.failed].map(|count| count.load(Ordering::Relaxed));
    let counts = settled(&stations[0], stored)?;
    let page = page(arguments, &parts, [stored, failed], counts);
    print!("{page}");
    write_page(&arguments.results, "scale", &page)?;
    let [counted, _, missed] = counts;
    Ok(counted == stored && missed == 0 && failed == 0)
}

/// One part of the run, as a row of the table.
fn measure(
    what: &str,
    seconds: u64,
    switches: &Switches,
    stations: &[Station],
    server: &NatsServer,
) -> Result<Vec<String>> {
    eprintln!("{what}: {seconds} s");
    let ids: Vec<u32> = (stations.iter().map(|station| station.process.child.id()))
        .chain(server.id())
        .collect();
    let usages = || ids.iter().map(|&id| usage(id)).collect::<Result<Vec<_>>>();
    let addresses: Vec<SocketAddr> = stations.iter().map(|station| station.address).collect();
    let stored = || switches.stored.load(Ordering::Relaxed);
    let (before, began, stored_before) = (usages()?, Instant::now(), stored());
    let stop = AtomicBool::new(false);
    let times: Vec<f64> = std::thread::scope(|scope| {
        let probes: Vec<_> = (0..PROBES)
            .map(|seed| {
                let (addresses, stop) = (&addresses, &stop);
                scope.spawn(move || answer_times(addresses, switches, seed, stop))
            })
            .collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        probes
            .into_iter()
            .flat_map(|probe| probe.join().unwrap_or_default())
            .collect()
    });
    let elapsed_s = began.elapsed().as_secs_f64();
    let after = usages()?;
    let lag = metric(stations[0].address, "vernier_station_lag_reports").context("no lag")?;
    let ms = |seconds: f64, decimals| format!("{:.decimals$}", seconds * 1e3);
    let list = |figures: &mut dyn Iterator<Item = f64>| {
        let words: Vec<String> = figures.map(|figure| format!("{figure:.0}")).collect();
        words.join(", ")
    };
    let cpu_s = after
        .iter()
        .zip(&before)
        .map(|(after, before)| after.1 - before.1);
    Ok(vec![
        what.to_owned(),
        format!("{:.0}", (stored() - stored_before) as f64 / elapsed_s),
        ms(statistics::median(times.iter().copied()), 1),
        ms(statistics::quantile(times.iter().copied(), 0.99), 1),
        ms(times.iter().copied().fold(0.0, f64::max), 0),
        format!("{lag:.0}"),
        list(&mut after.iter().map(|(mib, _)| *mib)),
        list(&mut cpu_s.map(|of| 100.0 * of / elapsed_s)),
    ])
}

fn page(
    arguments: &Arguments,
    parts: &Table,
    [stored, failed]: [u64; 2],
    [counted, again, missed]: [u64; 3],
) -> String {
    let Arguments {
        switches,
        ports,
        seconds,
        ..
    } = arguments;
    let machine = Machine::of_this_run();
    let bytes = prost::Message::encoded_len(&generator::report(1, *ports, 1));
    let is_kept = counted == stored && missed == 0;
    let verdict = if is_kept { "kept" } else { "missed" };
    format!(
        "# Many switches\n\nWritten by `make scale` at {}, commit {}, {BUILD} build, on {machine}.\n\n\
         {switches} switches of {ports} patched ports send a report of {bytes} bytes each second, spread over the second, to one \
         `nats-server`; stations, server and generator share the machine's CPUs. Each part takes {seconds} s. The time of an answer is from the end \
         of an epoch to the first answer of a random station at `/api/v1/switches` with that epoch; {PROBES} clients poll random switches every 2 ms. \
         Memory, and CPU as a share of one, are those of the stations in the order of their start, then of the server. \
         Lag is in reports, sampled every 5 s.\n\n\
         {}\nStored {stored} reports ({failed} refused); counted {counted}, read again and not counted {again}, epochs missed {missed}: \
         none lost, none twice: {verdict}.\n",
        now_utc(),
        machine.commit,
        parts.markdown()
    )
}
