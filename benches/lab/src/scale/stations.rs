//! The stations under test, and the delay of their answers.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use testkit::http::{json, text};
use testkit::process::{Process, beside_this_program, free_address, until};

use crate::scale::generator::{Switches, name};

/// How often an answer is polled.
const LOOK: Duration = Duration::from_millis(2);

/// Longest delay; slower answers count with this value.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// A station.
#[derive(Debug)]
pub struct Station {
    /// Its process.
    pub process: Process,
    /// Where it answers.
    pub address: SocketAddr,
}

impl Station {
    /// Starts one and waits until it is ready.
    pub fn start(url: &str, folder: &Path, number: usize) -> Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(beside_this_program("vernier-station")?);
        command.args(["--nats", url, "--listen", &address.to_string()]);
        let log = folder.join(format!("station-{number}.log"));
        let mut process = Process::start_quiet(&mut command, log)?;
        process.until("the station is not ready", |_| Ok(text(address, "/readyz")))?;
        Ok(Self { process, address })
    }
}

/// Waits for random switches' epochs to end, and measures the seconds until a station answers with them.
pub fn answer_times(
    stations: &[SocketAddr],
    switches: &Switches,
    seed: u64,
    stop: &AtomicBool,
) -> Vec<f64> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let switch = random.random_range(0..switches.count);
        let station = stations[random.random_range(0..stations.len())];
        let epoch = switches.next_of(switch);
        let end = switches.end_of(switch, epoch);
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        let path = format!("/api/v1/switches?switch={}", name(switch));
        let is_there = || json(station, &path)["switches"][0]["epoch"].as_u64() >= Some(epoch);
        while !is_there() && end.elapsed() < ANSWER_MAX {
            std::thread::sleep(LOOK);
        }
        times.push(end.elapsed().as_secs_f64());
    }
    times
}

/// Memory in use and CPU time of a process: MiB and seconds.
pub fn usage(id: u32) -> Result<(f64, f64)> {
    let mib = testkit::process::resident_kib(id)? as f64 / 1_024.0;
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    let fields = stat.rsplit_once(") ").context("no fields")?.1;
    // User and system time, the 14th and 15th field, in hundredths of a second.
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<f64>);
    let ticks: f64 = ticks.sum::<Result<f64, _>>()?;
    Ok((mib, ticks / 100.0))
}

/// Waits until all stored reports are counted; returns the sums of all switches' states: reports counted, read again,
/// missed.
pub fn settled(station: &Station, stored: u64) -> Result<[u64; 3]> {
    let counts = || -> Result<[u64; 3]> {
        let answer = json(station.address, "/api/v1/switches");
        let switches = answer["switches"].as_array().context("no switches")?;
        let sum = |name| switches.iter().filter_map(|of| of[name].as_u64()).sum();
        Ok(["reports", "duplicates", "missed_epochs"].map(sum))
    };
    // The counts show any error.
    let patience = Duration::from_secs(30);
    let _ = until(patience, "reports are missing", || {
        Ok((counts()?[0] >= stored).then_some(()))
    });
    counts()
}
