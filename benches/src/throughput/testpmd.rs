//! `dpdk-testpmd`, DPDK's own forwarder.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, TryRecvError};

use anyhow::{Context, Result, bail};

use super::bench::{Bench, Input};
use super::plugin::{Measured, Plugin};
use super::process::{Owned, PATIENCE, until, wait};
use super::vernierd::Extent;

/// How it forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Testpmd {
    /// `--forward-mode`.
    pub mode: &'static str,
    /// `--latencystats`: DPDK's own latency measurement on every packet.
    pub latencystats: bool,
    /// What the plugin measures in it, where it is loaded.
    pub plugin: Option<Extent>,
}

impl Testpmd {
    /// Packets a second that it forwards on `cpus` of the bench's CPUs.
    ///
    /// # Errors
    /// When it cannot be started, fails, says nothing for a minute, the plugin measures too little,
    /// or the user interrupts.
    pub fn rate_pps(self, bench: &Bench, input: &Input, cpus: usize) -> Result<f64> {
        let install = |extent| Plugin::install(bench, extent, input.flows);
        let plugin = self.plugin.map(install).transpose()?;
        let plugin = plugin.as_ref();
        let log = bench.folder.join("testpmd.log");
        let mut command = self.command(bench, input, cpus, plugin);
        let mut testpmd = Conversation::start(&mut command, &log)?;
        // The first answer comes once packets flow; each tells the rate since the one before.
        testpmd.rate_pps(&bench.stop)?;
        wait(bench.warm_up, &bench.stop)?;
        let from = testpmd.epoch_end(plugin, bench)?;
        testpmd.rate_pps(&bench.stop)?;
        wait(bench.measured, &bench.stop)?;
        let to = testpmd.epoch_end(plugin, bench)?;
        let rate_pps = testpmd.rate_pps(&bench.stop)?;
        testpmd.quit(&bench.stop)?;
        if let Some((from, to)) = from.zip(to) {
            to.check(&from, rate_pps)?;
        }
        Ok(rate_pps)
    }

    fn command(
        self,
        bench: &Bench,
        input: &Input,
        cpus: usize,
        plugin: Option<&Plugin>,
    ) -> Command {
        let [worker, other] = bench.cpus;
        let lcores = match cpus {
            1 => format!("0@{other},1@{worker}"),
            _ => format!("0@{other},1@{worker},2@{other}"),
        };
        // Into a pipe it would write in blocks, and answer when the next one is full.
        let mut command = Command::new("stdbuf");
        command
            .args(["--output=L", "dpdk-testpmd"])
            .arg(format!("--lcores={lcores}"))
            .args(["-m".to_owned(), input.memory_mib.to_string()])
            .args(bench.memory_arguments())
            .args(plugin.map(Plugin::arguments).iter().flatten())
            .args(["--no-pci", "--no-telemetry"])
            .arg("--file-prefix=vernier-bench")
            .args(input.devices().map(|device| format!("--vdev={device}")))
            .args(["--", "--interactive", "--auto-start"])
            .arg(format!("--nb-cores={cpus}"))
            .arg(format!("--forward-mode={}", self.mode))
            .arg(format!("--total-num-mbufs={}", input.mbufs))
            .args(self.latencystats.then_some("--latencystats=0"));
        if let Some(plugin) = plugin {
            plugin.configure(&mut command);
        }
        command
    }
}

/// A testpmd that is talked to over its prompt.
struct Conversation {
    process: Owned,
    prompt: ChildStdin,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Conversation {
    /// Starts it; what it says on standard error goes to `log`.
    fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let mut process = Owned::start(
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(File::create(log).context("cannot write a log")?),
        )?;
        let (Some(prompt), Some(output)) = (process.0.stdin.take(), process.0.stdout.take()) else {
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
            process,
            prompt,
            lines,
            log: log.to_owned(),
        })
    }

    /// Packets a second that both ports sent since this was last asked.
    fn rate_pps(&mut self, stop: &AtomicBool) -> Result<f64> {
        writeln!(self.prompt, "show port stats all").context("it takes no commands")?;
        let mut ports = Vec::new();
        until(PATIENCE, stop, "it gave no rates", || {
            loop {
                match self.lines.try_recv() {
                    Ok(line) => ports.extend(tx_pps(&line)),
                    Err(TryRecvError::Empty) => return Ok(None),
                    Err(TryRecvError::Disconnected) => bail!(
                        "it ended early (dpdk-testpmd is in the Debian package dpdk-dev): {}",
                        said(&self.log)
                    ),
                }
                if ports.len() == 2 {
                    return Ok(Some(ports.iter().sum()));
                }
            }
        })
    }

    /// What the plugin, if there is one, has measured when the present epoch ends.
    fn epoch_end(&mut self, plugin: Option<&Plugin>, bench: &Bench) -> Result<Option<Measured>> {
        let measured = plugin.map(|plugin| plugin.epoch_end(bench, &mut self.process));
        measured.transpose().with_context(|| said(&self.log))
    }

    fn quit(mut self, stop: &AtomicBool) -> Result<()> {
        writeln!(self.prompt, "quit").context("it takes no commands")?;
        self.process.wait(PATIENCE, stop)
    }
}

/// What it has said on standard error.
fn said(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    log.trim_end().to_owned()
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

    /// With memory from ordinary pages, so that it runs anywhere.
    #[test]
    fn testpmd_forwards_and_tells_its_rate() {
        if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
            eprintln!("SKIPPED: testpmd takes two CPUs");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (bench, input) = Bench::for_tests(folder.path());
        for latencystats in [false, true] {
            let testpmd = Testpmd {
                mode: "macswap",
                latencystats,
                plugin: None,
            };
            let rate_pps = testpmd.rate_pps(&bench, &input, 1).unwrap();
            assert!(rate_pps > 10_000.0, "{rate_pps}");
        }
    }

    #[test]
    fn a_second_lcore_shares_the_cpu_of_the_first_thread() {
        let folder = tempfile::tempdir().unwrap();
        let (bench, input) = Bench::for_tests(folder.path());
        let testpmd = Testpmd {
            mode: "io",
            latencystats: false,
            plugin: None,
        };
        for (cpus, lcores) in [(1, "--lcores=0@0,1@1"), (2, "--lcores=0@0,1@1,2@0")] {
            let command = testpmd.command(&bench, &input, cpus, None);
            let arguments: Vec<_> = command.get_args().filter_map(|a| a.to_str()).collect();
            assert!(arguments.contains(&lcores), "{arguments:?}");
            assert!(arguments.contains(&&*format!("--nb-cores={cpus}")));
        }
    }

    #[test]
    fn rates_are_read() {
        let line = "  Tx-pps:      9038938          Tx-bps:   4338690488\r";
        assert_eq!(tx_pps(line), Some(9_038_938.0));
        assert_eq!(
            tx_pps("  Rx-pps:      9038938          Rx-bps:   4338690488"),
            None
        );
    }
}
