//! The cost of scraping some ten thousand series: time, bytes, and the longest gaps between polls of receive queues,
//! compared with the same switch without scrapes.
//!
//! One `vernierd`, a bridge of thirty ports; two of them generate traffic that is flooded to all others. Periods with
//! and without scrapes alternate.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use reporting::statistics::Spread;
use reporting::{BUILD, Machine, Table};
use serde_json::{Value, json};
use testkit::http::{get, text, values};
use testkit::process::{Process, free_address, wait};

/// Ports of the bridge: 870 segments.
const PORTS: usize = 30;

/// Of these, ports that generate traffic.
const GENERATORS: usize = 2;

/// Interval of scrapes in a period with scrapes, a thirtieth of Prometheus's default.
const EVERY: Duration = Duration::from_millis(500);

/// Length of a period. The gap that is read at its end is that of about its last second.
const SPELL: Duration = Duration::from_secs(4);

/// What it costs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Periods of each kind.
    pub rounds: usize,
    /// Load average over the previous minute, which shows other activity on the machine.
    pub load_before: String,
    pub series: usize,
    pub bytes: usize,
    /// Time of each scrape, in seconds, from the request to the last byte.
    pub scrapes_s: Vec<f64>,
    /// The longest gap between two polls of a worker in each period, in seconds: without scrapes, and with them.
    pub gaps_s: [Vec<f64>; 2],
    /// Epochs that workers missed, in all periods.
    pub missed_epochs: f64,
}

/// Runs `vernierd` with its files in `folder`.
pub fn run(vernierd: &Path, folder: &Path, rounds: usize) -> Result<Report> {
    let address = free_address()?;
    let load = fs::read_to_string("/proc/loadavg").context("cannot read the load average")?;
    let command = &mut Command::new(vernierd);
    command.env("VERNIER_LOG", "error");
    let mut process = Process::start_vernierd(command, folder, "scrape", &config(address))?;
    process.until("it is not ready", |_| Ok(text(address, "/readyz")))?;
    let mut report = Report {
        rounds,
        load_before: load.split(' ').next().unwrap_or("unknown").to_owned(),
        ..Report::default()
    };
    // Every second round in reverse order, so that drifts favour neither.
    for round in 0..rounds {
        for is_scraped in [round % 2 == 0, round % 2 == 1] {
            process.check_alive()?;
            report.spell(address, is_scraped)?;
        }
    }
    process.end()?;
    Ok(report)
}

impl Report {
    fn spell(&mut self, address: SocketAddr, is_scraped: bool) -> Result<()> {
        let began = Instant::now();
        if is_scraped {
            let mut next = began;
            while next < began + SPELL {
                wait(next.saturating_duration_since(Instant::now()))?;
                next += EVERY;
                let asked = Instant::now();
                get(address, "/metrics")?;
                self.scrapes_s.push(asked.elapsed().as_secs_f64());
            }
        }
        wait(SPELL.saturating_sub(began.elapsed()))?;
        let page = get(address, "/metrics")?;
        let gap = values(&page, "vernier_worker_stamp_uncertainty_seconds").fold(0.0, f64::max);
        self.gaps_s[usize::from(is_scraped)].push(gap);
        self.missed_epochs = values(&page, "vernier_worker_missed_epochs_total").sum();
        self.series = page.lines().filter(|line| !line.starts_with('#')).count();
        self.bytes = page.len();
        Ok(())
    }

    /// Machine and build, then the table.
    pub fn markdown(&self) -> String {
        let mut table = Table::default().words([""]).figures([""]);
        table.row(&[&"series", &self.series]);
        table.row(&[&"bytes", &self.bytes]);
        table.row(&[&"scrapes", &self.scrapes_s.len()]);
        table.row(&[&"time of a scrape", &spread_ms(&self.scrapes_s)]);
        for (when, seconds) in ["without scrapes", "scraped"].into_iter().zip(&self.gaps_s) {
            let what = format!("longest gap between two polls, {when}");
            table.row(&[&what, &spread_ms(seconds)]);
        }
        table.row(&[&"epochs that workers missed", &self.missed_epochs]);
        format!(
            "{}; {BUILD} build; {} periods of each kind; load average before the run {}.\n\n{}",
            Machine::of_this_run(),
            self.rounds,
            self.load_before,
            table.markdown()
        )
    }

    pub fn write(&self, folder: &Path) -> Result<()> {
        let page = format!("{PREFACE}{}", self.markdown());
        reporting::write_page(folder, "scrape", &page)
    }
}

/// The text above the table.
const PREFACE: &str = "# Scraping

The cost of scraping more than ten thousand series, and its effect on the workers: `make bench-scrape`.

The switch is a bridge of thirty ports (870 segments). Two of them generate 20,000 packets a second each, which are flooded to all others,
and each segment has an LDA, moments and a histogram. There are two workers that may sleep, and epochs of 250 ms; if there are no other CPUs, the
control core and the HTTP server share those of the workers. Periods of four seconds alternate: with a scrape twice a second (Prometheus's default is every
15 s), and without scrapes except for the one at the end that reads the gap. The gap is the longest time between two polls of a receive queue by any worker in
about the last second of a period; it includes the worker's own sleep and any interruption by the machine. The table has the median, minimum and maximum over periods
or scrapes; times are in milliseconds.

";

/// Median, least and greatest, in milliseconds.
fn spread_ms(seconds: &[f64]) -> String {
    let ms = |value: f64| format!("{:.2}", value * 1e3);
    Spread::of(seconds).map_or_else(
        || "-".to_owned(),
        |of| format!("{} ({} to {})", ms(of.median), ms(of.min), ms(of.max)),
    )
}

fn config(address: SocketAddr) -> Value {
    let ports = (0..PORTS).map(|port| {
        let generator = format!("generate:flows=1000,rate=20000,seed={port},side={port}");
        let device = if port < GENERATORS {
            &*generator
        } else {
            "sink"
        };
        json!({ "name": format!("port{port}"), "device": device })
    });
    json!({
        "ports": ports.collect::<Vec<_>>(),
        "forwarding": { "mode": "bridge", "flood_limit_pps": 1_000_000 },
        "measurement": { "interval_ms": 250, "lda": { "banks": [{ "rows": 256, "probability": 1.0 }] } },
        "workers": [{ "idle": "sleep" }, { "idle": "sleep" }],
        "http": { "listen": address.to_string() },
        "dpdk": { "mbufs": 131_072, "memory_mib": 1_024 },
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_spread_is_in_milliseconds() {
        assert_eq!(spread_ms(&[0.003, 0.001, 0.0025]), "2.50 (1.00 to 3.00)");
    }

    #[test]
    fn the_configuration_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vernier.json");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 9464));
        fs::write(&file, config(address).to_string()).unwrap();
        let config = contract::config::Config::load(&file).unwrap();
        assert_eq!(config.ports.len(), PORTS);
    }
}
