//! Reports as if from a thousand switches, through one NATS server and two stations on this machine; a
//! station is added, and one is killed.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use reporting::{BUILD, Machine, RESULTS, Table, now_utc, statistics, write_page};
use testkit::nats::NatsServer;

mod generator;
mod stations;

use generator::{Generator, Switches};
use stations::{Station, answer_times, settled, usage};

/// Threads that wait for answers.
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

/// What was measured over one part of the run.
#[derive(Debug)]
struct Part {
    what: &'static str,
    reports_per_s: f64,
    median_s: f64,
    p99_s: f64,
    greatest_s: f64,
    lag: f64,
    memory_mib: Vec<f64>,
    cpu_percent: Vec<f64>,
}

/// The whole run; whether every report was counted once.
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
    let mut parts = vec![measure("two stations", &stations)?];
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
    let page = page(arguments, &parts, [stored, failed], counts)?;
    print!("{page}");
    write_page(&arguments.results, "scale", &page)?;
    let [counted, _, missed] = counts;
    Ok(counted == stored && missed == 0 && failed == 0)
}

/// One part of the run.
fn measure(
    what: &'static str,
    seconds: u64,
    switches: &Switches,
    stations: &[Station],
    server: &NatsServer,
) -> Result<Part> {
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
    let lag = stations[0].metric("vernier_station_lag_reports")?;
    Ok(Part {
        what,
        reports_per_s: (stored() - stored_before) as f64 / elapsed_s,
        median_s: statistics::median(times.iter().copied()),
        p99_s: statistics::quantile(times.iter().copied(), 0.99),
        greatest_s: times.iter().copied().fold(0.0, f64::max),
        lag,
        memory_mib: after.iter().map(|(mib, _)| *mib).collect(),
        cpu_percent: (after.iter().zip(&before))
            .map(|((_, after), (_, before))| 100.0 * (after - before) / elapsed_s)
            .collect(),
    })
}

fn page(
    arguments: &Arguments,
    parts: &[Part],
    [stored, failed]: [u64; 2],
    [counted, again, missed]: [u64; 3],
) -> Result<String> {
    let Arguments {
        switches,
        ports,
        seconds,
        ..
    } = arguments;
    let machine = Machine::of_this_run();
    let bytes = prost::Message::encoded_len(&generator::report(1, *ports, 1));
    let mut page = format!(
        "# Many switches\n\nWritten by `make scale` at {}, commit {}, {BUILD} build, on {machine}.\n\n\
         {switches} switches of {ports} patched ports send a report of {bytes} bytes each second, spread over the second, to one \
         `nats-server`; stations, server and generator share the machine's CPUs. Each part takes {seconds} s. An answer's time is from the end \
         of an epoch to the first answer of a random station at `/api/v1/switches` that has the epoch: {PROBES} clients look every 2 ms, at \
         random switches. Memory and CPU (of one) are those of the stations, in the order of their start, then of the server. \
         Lag is in reports, looked at every 5 s.\n\n",
        now_utc(),
        machine.commit
    );
    let headings = [
        "reports/s",
        "answer, median, ms",
        "p99, ms",
        "greatest, ms",
        "lag",
        "memory, MiB",
        "CPU, %",
    ];
    let mut table = Table::default().words(["part"]).figures(headings);
    for part in parts {
        let list = |values: &[f64]| {
            let words: Vec<String> = values.iter().map(|value| format!("{value:.0}")).collect();
            words.join(", ")
        };
        table.row(&[
            &part.what,
            &format!("{:.0}", part.reports_per_s),
            &format!("{:.1}", part.median_s * 1e3),
            &format!("{:.1}", part.p99_s * 1e3),
            &format!("{:.0}", part.greatest_s * 1e3),
            &format!("{:.0}", part.lag),
            &list(&part.memory_mib),
            &list(&part.cpu_percent),
        ]);
    }
    page += &table.markdown();
    let verdict = if counted == stored && missed == 0 {
        "kept"
    } else {
        "missed"
    };
    write!(
        page,
        "\nStored {stored} reports ({failed} refused); counted {counted}, read again and not counted {again}, epochs missed {missed}: none lost, \
         none twice: {verdict}.\n"
    )
    .context("no page")?;
    Ok(page)
}
