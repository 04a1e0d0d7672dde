//! One run of one contender, in a process of its own.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// Packet buffers that every contender has: both captures' 81,920 and room for those in flight.
const MBUFS: u32 = 98_303;
/// Memory that every contender's EAL is given, in MiB.
pub const MEMORY_MIB: u64 = 512;
/// How long a contender may take beyond its measurement before it is given up.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often it is looked whether the user has had enough.
const LOOK: Duration = Duration::from_millis(50);

/// Who competes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Contender {
    /// `dpdk-testpmd --forward-mode=macswap`.
    Macswap,
    /// The same with `--latencystats=0`: DPDK's own latency measurement on every packet.
    MacswapLatencystats,
    /// `vernierd`, patching, with measurement off.
    VernierOff,
    /// `vernierd`, patching, with LDA, stamped delays and histograms on.
    VernierLda,
}

impl Contender {
    /// Everyone, in the order of a round.
    pub const ALL: [Self; 4] = [
        Self::Macswap,
        Self::MacswapLatencystats,
        Self::VernierOff,
        Self::VernierLda,
    ];

    /// Its name in tables.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Macswap => "testpmd macswap",
            Self::MacswapLatencystats => "testpmd macswap + latencystats",
            Self::VernierOff => "vernierd patch, measurement off",
            Self::VernierLda => "vernierd patch, LDA on",
        }
    }
}

/// What all runs have in common.
#[derive(Debug)]
pub struct Bench {
    /// The captures that the two ports receive without end.
    pub captures: [PathBuf; 2],
    /// A folder for configurations and summaries.
    pub folder: PathBuf,
    /// The `vernierd` to run.
    pub vernierd: PathBuf,
    /// The CPU of threads that do not forward.
    pub main_core: usize,
    /// The one CPU that forwards.
    pub core: usize,
    /// Whether memory comes from hugepages.
    pub hugepages: bool,
    /// Time before measuring.
    pub warm_up: Duration,
    /// Time measured.
    pub measured: Duration,
    /// Set when the user has had enough.
    pub stop: Arc<AtomicBool>,
}

impl Bench {
    /// Packets a second that `contender` forwards, both ways together.
    ///
    /// # Errors
    /// When it cannot be started, fails, says nothing for a minute, or the user interrupts.
    pub fn run(&self, contender: Contender) -> Result<f64> {
        match contender {
            Contender::Macswap => self.testpmd(&[]),
            Contender::MacswapLatencystats => self.testpmd(&["--latencystats=0"]),
            Contender::VernierOff => self.vernierd(false),
            Contender::VernierLda => self.vernierd(true),
        }
        .with_context(|| contender.label())
    }

    /// Without `tx_pcap` or `tx_iface` the driver drops what it is given, counted as sent.
    fn devices(&self) -> [String; 2] {
        [0, 1].map(|port| {
            format!(
                "net_pcap{port},rx_pcap={},infinite_rx=1",
                self.captures[port].display()
            )
        })
    }

    fn testpmd(&self, more: &[&str]) -> Result<f64> {
        // Into a pipe it would write in blocks, and answer when the next one is full.
        let mut command = Command::new("stdbuf");
        command
            .args(["--output=L", "dpdk-testpmd"])
            .arg(format!("--lcores=0@{},1@{}", self.main_core, self.core))
            .args(["-m".to_owned(), MEMORY_MIB.to_string()])
            .args(if self.hugepages {
                &["--in-memory"][..]
            } else {
                &["--no-huge", "--no-shconf", "--iova-mode=va"]
            })
            .args(["--no-pci", "--no-telemetry"])
            .arg("--file-prefix=vernier-bench")
            .args(self.devices().map(|device| format!("--vdev={device}")))
            .args([
                "--",
                "--interactive",
                "--auto-start",
                "--nb-cores=1",
                "--forward-mode=macswap",
            ])
            .arg(format!("--total-num-mbufs={MBUFS}"))
            .args(more);
        let log = self.folder.join("testpmd.log");
        let mut testpmd = Testpmd::start(&mut command, &log)?;
        // The first answer comes once packets flow; each tells the rate since the one before.
        testpmd.rate_pps(&self.stop)?;
        wait(self.warm_up, &self.stop)?;
        testpmd.rate_pps(&self.stop)?;
        wait(self.measured, &self.stop)?;
        let rate_pps = testpmd.rate_pps(&self.stop)?;
        testpmd.quit(&self.stop)?;
        Ok(rate_pps)
    }

    fn vernierd(&self, measure: bool) -> Result<f64> {
        let config = self.folder.join("vernier.json");
        let summary = self.folder.join("summary.json");
        let [many, few] = self.devices();
        let json = serde_json::json!({
            "ports": [{ "name": "p0", "device": many }, { "name": "p1", "device": few }],
            "forwarding": { "mode": "patch", "pairs": [["p0", "p1"]] },
            "measurement": { "enabled": measure },
            "workers": [{ "core": self.core }],
            "http": { "listen": null },
            "dpdk": { "hugepages": self.hugepages, "memory_mib": MEMORY_MIB, "mbufs": MBUFS },
        });
        std::fs::write(&config, json.to_string()).context("cannot write a configuration")?;
        // Whatever is there afterwards is then of this run.
        std::fs::write(&summary, "").context("cannot write a summary")?;
        // It counts from its first pass on: there is no start-up to leave out, and a warm-up of
        // the same length as the others' is part of what is measured.
        let duration = self.warm_up + self.measured;
        let child = Command::new(&self.vernierd)
            .arg("--config")
            .arg(&config)
            .args(["--duration".to_owned(), duration.as_secs_f64().to_string()])
            .arg("--summary-json")
            .arg(&summary)
            .env("VERNIER_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", self.vernierd.display()))?;
        Killed(child).wait(duration + PATIENCE, &self.stop)?;
        let summary = std::fs::read(&summary).context("cannot read its summary")?;
        let Summary {
            elapsed_s,
            snapshot,
        } = serde_json::from_slice(&summary)
            .context("it left no summary, or not the one expected")?;
        ensure!(elapsed_s > 0.0, "its summary covers no time");
        ensure!(
            measure != snapshot.segments.is_empty(),
            "it measured {} segments; measurement was {}",
            snapshot.segments.len(),
            if measure { "on" } else { "off" }
        );
        let packets: u64 = snapshot.ports.iter().map(|port| port.tx_packets).sum();
        Ok(packets as f64 / elapsed_s)
    }
}

/// What of vernierd's summary is read.
#[derive(Debug, Deserialize)]
struct Summary {
    elapsed_s: f64,
    snapshot: Snapshot,
}

#[derive(Debug, Deserialize)]
struct Snapshot {
    ports: Vec<Port>,
    segments: Vec<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Port {
    tx_packets: u64,
}

/// A process that does not outlive its owner.
#[derive(Debug)]
struct Killed(Child);

impl Killed {
    /// Waits for it to end well.
    fn wait(&mut self, patience: Duration, stop: &AtomicBool) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.0.try_wait()? {
                ensure!(status.success(), "it ended with {status}");
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "it did not end within {} s",
                patience.as_secs()
            );
            wait(LOOK, stop)?;
        }
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It has ended already, or nothing better can be done.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sleeps, unless the user has had enough.
fn wait(duration: Duration, stop: &AtomicBool) -> Result<()> {
    let until = Instant::now() + duration;
    loop {
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// A testpmd that is talked to over its prompt.
struct Testpmd {
    process: Killed,
    prompt: ChildStdin,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Testpmd {
    /// Starts it; what it says on standard error goes to `log`.
    fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(log).context("cannot write a log")?)
            .spawn()
            .context("cannot start stdbuf, which is part of coreutils")?;
        let (Some(prompt), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("dpdk-testpmd has no pipes");
        };
        let (send, lines) = mpsc::channel();
        // Ends with the process, whose output it reads.
        std::thread::spawn(move || {
            let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
            for line in lines.map(|line| String::from_utf8_lossy(&line).into_owned()) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            process: Killed(child),
            prompt,
            lines,
            log: log.to_owned(),
        })
    }

    /// Packets a second that both ports sent since this was last asked.
    fn rate_pps(&mut self, stop: &AtomicBool) -> Result<f64> {
        writeln!(self.prompt, "show port stats all").context("it takes no commands")?;
        let deadline = Instant::now() + PATIENCE;
        let mut ports = Vec::new();
        while ports.len() < 2 {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => ports.extend(tx_pps(&line)),
                Err(RecvTimeoutError::Timeout) => {
                    ensure!(!stop.load(Ordering::Relaxed), "interrupted");
                    ensure!(Instant::now() < deadline, "it gave no rates");
                }
                Err(RecvTimeoutError::Disconnected) => bail!(
                    "it ended early (dpdk-testpmd is in the Debian package dpdk-dev): {}",
                    std::fs::read_to_string(&self.log)
                        .unwrap_or_default()
                        .trim_end()
                ),
            }
        }
        Ok(ports.into_iter().sum())
    }

    fn quit(mut self, stop: &AtomicBool) -> Result<()> {
        writeln!(self.prompt, "quit").context("it takes no commands")?;
        self.process.wait(PATIENCE, stop)
    }
}

/// The rate in a line such as `  Tx-pps:      9038938          Tx-bps:   4338690488`.
fn tx_pps(line: &str) -> Option<f64> {
    line.trim_start()
        .strip_prefix("Tx-pps:")?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::FEW_FLOWS;

    fn bench(folder: &Path) -> Bench {
        let captures = ["a.pcap", "b.pcap"].map(|name| folder.join(name));
        for capture in &captures {
            FEW_FLOWS.write(capture).unwrap();
        }
        Bench {
            captures,
            folder: folder.to_owned(),
            vernierd: folder.join("vernierd"),
            main_core: 0,
            core: 1,
            hugepages: false,
            warm_up: Duration::from_millis(100),
            measured: Duration::from_millis(300),
            stop: Arc::default(),
        }
    }

    /// With memory from ordinary pages, so that it runs anywhere.
    #[test]
    fn testpmd_forwards_and_tells_its_rate() {
        if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
            eprintln!("SKIPPED: testpmd takes two CPUs");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        for contender in [Contender::Macswap, Contender::MacswapLatencystats] {
            let rate_pps = bench(folder.path()).run(contender).unwrap();
            assert!(rate_pps > 10_000.0, "{rate_pps}");
        }
    }

    /// Puts a script in the place of vernierd: it is given a configuration, and leaves a summary.
    fn scripted(folder: &Path, summary: &str) -> Result<f64> {
        use std::os::unix::fs::PermissionsExt;
        let bench = bench(folder);
        let script = format!("#!/bin/sh\ngrep -q '\"enabled\":true' $2 && echo '{summary}' > $6\n");
        std::fs::write(&bench.vernierd, script).unwrap();
        std::fs::set_permissions(&bench.vernierd, PermissionsExt::from_mode(0o755)).unwrap();
        bench.run(Contender::VernierLda)
    }

    #[test]
    fn vernierd_is_asked_for_a_summary() {
        let folder = tempfile::tempdir().unwrap();
        let ports = r#""ports": [{ "tx_packets": 600 }, { "tx_packets": 400 }]"#;
        let summary = |elapsed_s, segments| {
            format!(
                r#"{{ "elapsed_s": {elapsed_s}, "snapshot": {{ {ports}, "segments": {segments} }} }}"#
            )
        };
        let rate_pps = scripted(folder.path(), &summary("0.5", "[{}]")).unwrap();
        assert_eq!(rate_pps.to_bits(), 2_000.0_f64.to_bits());
        // A rate with measurement on counts only if something was measured.
        for bad in [summary("0.5", "[]"), summary("0", "[{}]"), "{}".to_owned()] {
            assert!(scripted(folder.path(), &bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn testpmd_rates_are_read() {
        let line = "  Tx-pps:      9038938          Tx-bps:   4338690488\r";
        assert_eq!(tx_pps(line), Some(9_038_938.0));
        assert_eq!(
            tx_pps("  Rx-pps:      9038938          Rx-bps:   4338690488"),
            None
        );
    }

    #[test]
    fn a_process_that_fails_is_told() {
        let child = Command::new("false").spawn().unwrap();
        let error = Killed(child)
            .wait(PATIENCE, &AtomicBool::new(false))
            .unwrap_err();
        assert!(error.to_string().contains("exit status: 1"), "{error}");
    }

    #[test]
    fn the_user_can_interrupt() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let started = Instant::now();
        let error = Killed(child)
            .wait(PATIENCE, &AtomicBool::new(true))
            .unwrap_err();
        assert_eq!(error.to_string(), "interrupted");
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
