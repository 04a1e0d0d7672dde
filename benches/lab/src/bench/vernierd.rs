//! `vernierd`, which reports over HTTP the packets that it has sent.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use console::client::{Client, ClientError};
use records::snapshot::{Port, PortReading, Snapshot};
use serde_json::{Value, json};
use testkit::process::{Process, free_address, wait};

use crate::bench::load::Load;
use crate::bench::setting::Bench;

/// Minimum share of the sent packets that must be measured if measurement is on, because unmeasured epochs would make a
/// switch look fast.
pub const MEASURED_SHARE_MIN: f64 = 0.9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vernierd {
    /// Whether it is the base's program, not the one next to this program.
    pub is_base: bool,
    /// `forwarding.mode`: `patch` or `bridge`.
    pub mode: &'static str,
    pub extent: Extent,
}

/// How much is measured; each extent includes all previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    Off,
    /// Stamped delays: hashes, moments and a histogram.
    Stamps,
    /// One LDA for each segment.
    Lda,
    /// An LDS of 70,000 cells in three rows for each egress port.
    Lds,
    /// Counters of their own for all flows.
    Flows,
    /// RLI with a reference after every 100 packets.
    Everything,
    /// A device between the two ports: a repeated capture returns the packets that were sent.
    Around,
}

impl Extent {
    /// Its name in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Off => "measurement off",
            Self::Stamps => "stamped delays",
            Self::Lda => "LDA + moments + histogram",
            Self::Lds => "+ LDS",
            Self::Flows => "+ flow slots",
            Self::Everything => "everything on",
            Self::Around => "+ around a device",
        }
    }

    /// `measurement` in a configuration with counters for this number of flows.
    pub fn measurement(self, flows: u32) -> Value {
        let mut keys = json!({ "enabled": self > Self::Off, "lda": null, "flows": null });
        if self >= Self::Lda {
            keys["lda"] = json!({});
        }
        if self >= Self::Lds {
            keys["lds"] = json!({ "cells": 70_000, "rows": [1.0, 1.0, 1.0] });
        }
        if self >= Self::Flows {
            keys["flows"] = json!({ "slots": flows.next_power_of_two(), "select": "all" });
        }
        if self >= Self::Everything {
            keys["rli"] = json!({ "policy": { "kind": "count", "packets": 100 } });
        }
        if self >= Self::Around {
            keys["around"] = json!([{ "name": "device", "ports": ["p0", "p1"] }]);
        }
        keys
    }
}

impl Vernierd {
    /// Measures the packets per second that it forwards with `workers` workers, each on a CPU of its own. Fails if its
    /// counters do not add up or it measured too little.
    pub fn rate_pps(self, bench: &Bench, load: Load, workers: usize) -> Result<f64> {
        let mut running = self.start(bench, &self.config(bench, load, workers)?, &[])?;
        let rate_pps = running.rate_pps(bench)?;
        running.end(self.extent)?;
        Ok(rate_pps)
    }

    /// Starts it under a tool, if there are words of one.
    pub fn start(self, bench: &Bench, config: &Value, tool: &[String]) -> Result<Running> {
        let program = bench.vernierd(self.is_base)?;
        let mut words = tool.iter().map(AsRef::as_ref).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        let summary = bench.folder.join("summary.json");
        // A summary that exists afterwards is then of this run.
        fs::write(&summary, "").context("cannot write a summary")?;
        command.arg("--summary-json").arg(&summary);
        command.env("VERNIER_LOG", "error");
        let address = config["http"]["listen"].as_str().unwrap_or_default();
        Ok(Running {
            process: Process::start_vernierd(&mut command, &bench.folder, "vernierd", config)?,
            client: Client::new(address, None),
            summary,
        })
    }

    /// Its configuration, with a free address for HTTP.
    pub fn config(self, bench: &Bench, load: Load, workers: usize) -> Result<Value> {
        let ports = (0..).zip(bench.devices(load)?).map(|(port, device)| {
            // With two workers, each receives from one port and sends to the other, as testpmd's
            // cores do.
            let owner = (workers > 1).then_some(1 - port);
            json!({ "name": format!("p{port}"), "device": device, "egress": { "owner": owner } })
        });
        let cpus = (0..).zip(bench.cpus.iter().take(workers));
        let workers = cpus.map(|(worker, cpu)| match workers {
            1 => json!({ "core": cpu }),
            _ => json!({ "core": cpu, "queues": [[format!("p{worker}"), 0]] }),
        });
        let mut forwarding = json!({ "mode": self.mode });
        if self.mode == "patch" {
            forwarding["pairs"] = json!([["p0", "p1"]]);
        }
        Ok(json!({
            "ports": ports.collect::<Vec<_>>(),
            "forwarding": forwarding,
            "measurement": self.extent.measurement(load.flows()),
            "workers": workers.collect::<Vec<_>>(),
            "http": { "listen": free_address()? },
            "dpdk": {
                "hugepages": bench.hugepages,
                "memory_mib": load.memory_mib(bench.hugepages),
                "mbufs": load.mbufs(),
            },
        }))
    }
}

#[derive(Debug)]
pub struct Running {
    pub process: Process,
    client: Client,
    summary: PathBuf,
}

impl Running {
    /// Packets per second over the time between two of its snapshots.
    pub fn rate_pps(&mut self, bench: &Bench) -> Result<f64> {
        let started = self.snapshot(|snapshot| sent(snapshot) > 0)?;
        wait(bench.warm_up)?;
        let from_s = started.uptime_s + bench.warm_up.as_secs_f64();
        let from = self.snapshot(|snapshot| snapshot.uptime_s >= from_s)?;
        wait(bench.measured)?;
        let to_s = from.uptime_s + bench.measured.as_secs_f64();
        let to = self.snapshot(|snapshot| snapshot.uptime_s >= to_s)?;
        Ok((sent(&to) - sent(&from)) as f64 / (to.uptime_s - from.uptime_s))
    }

    /// Waits until this number of packets has been sent.
    pub fn send(&mut self, packets: u64) -> Result<()> {
        self.snapshot(|snapshot| sent(snapshot) >= packets)?;
        Ok(())
    }

    /// Returns the first snapshot that satisfies the condition.
    fn snapshot(&mut self, will_do: impl Fn(&Snapshot) -> bool) -> Result<Snapshot> {
        let client = &self.client;
        let complaint = "it forwarded nothing";
        self.process.until(complaint, |_| match snapshot(client) {
            Ok(latest) => Ok(Some(latest).filter(|latest| will_do(latest))),
            // It does not answer until it is up.
            Err(ClientError::Unreachable { .. } | ClientError::Refused { .. }) => Ok(None),
            // A base may answer in another format.
            Err(error) => Err(error.into()),
        })
    }

    /// Stops it; returns the number of packets that it has sent. Fails if its counters do not add up, or it measured
    /// less than `extent`.
    pub fn end(self, extent: Extent) -> Result<u64> {
        self.process.end()?;
        let summary = fs::read(&self.summary).context("cannot read its summary")?;
        let mut summary: Value = serde_json::from_slice(&summary).context("it left no summary")?;
        let snapshot: Snapshot = serde_json::from_value(summary["snapshot"].take())
            .context("its summary has an unexpected form")?;
        check(&snapshot, extent)?;
        Ok(sent(&snapshot))
    }
}

/// The program's present snapshot.
pub fn snapshot(client: &Client) -> Result<Snapshot, ClientError> {
    client.get("/api/v1/snapshot", &[])
}

fn sent(snapshot: &Snapshot) -> u64 {
    let ports = snapshot.ports.iter();
    ports.map(|port| port.counts.tx_packets).sum()
}

/// Packets that left their segments, in time or late.
pub fn measured_packets(snapshot: &Snapshot) -> u64 {
    let segments = snapshot.segments.iter();
    let counts = segments.map(|segment| &segment.total.counts);
    let packets = counts.map(|counts| counts.received_packets + counts.late_packets);
    packets.sum()
}

/// Checks that every packet is accounted for, and measured if measurement is on.
fn check(snapshot: &Snapshot, extent: Extent) -> Result<()> {
    let ports = &snapshot.ports;
    let all: PortReading = ports.iter().map(|port| port.counts).sum();
    let dropped: u64 = ports.iter().map(Port::dropped_packets).sum();
    let came = all.rx_packets + all.copies;
    let went = all.tx_packets + dropped + all.queued_packets;
    ensure!(
        came == went,
        "its counters do not add up: {came} packets received and copied, {went} sent, dropped and queued"
    );
    let share = measured_packets(snapshot) as f64 / sent(snapshot).max(1) as f64;
    if extent == Extent::Off {
        let is_off = snapshot.segments.is_empty();
        ensure!(is_off, "it measured; measurement was off");
    } else {
        let percent = 100.0 * share;
        ensure!(
            share >= MEASURED_SHARE_MIN,
            "it measured {percent:.0} % of its packets"
        );
    }
    Ok(())
}

#[cfg(test)]
pub mod tests;
