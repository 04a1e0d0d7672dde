//! `dpdk-testpmd`, DPDK's own forwarder.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::process::{Process, wait};

use crate::bench::load::Load;
use crate::bench::plugin::Plugin;
use crate::bench::setting::Bench;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Testpmd {
    /// `--forward-mode`.
    pub mode: &'static str,
    /// Whether DPDK's own latency measurement is on, for every packet.
    pub latencystats: bool,
}

impl Testpmd {
    /// Measures the packets per second that it forwards on `cpus` of the bench's CPUs. Fails if the plugin measures too
    /// few of them.
    pub fn rate_pps(
        self,
        bench: &Bench,
        load: Load,
        cpus: usize,
        plugin: Option<&Plugin>,
    ) -> Result<f64> {
        let mut command = self.command(bench, load, cpus, plugin, &[])?;
        let mut testpmd = Conversation::start(&mut command, &bench.folder)?;
        // The first answer comes once packets flow; each is the rate since the previous one.
        testpmd.rate_pps()?;
        wait(bench.warm_up)?;
        let from = Plugin::epoch_end(plugin, &mut testpmd.process)?;
        testpmd.rate_pps()?;
        wait(bench.measured)?;
        let to = Plugin::epoch_end(plugin, &mut testpmd.process)?;
        let rate_pps = testpmd.rate_pps()?;
        testpmd.quit()?;
        if let Some((from, to)) = from.zip(to) {
            to.check(&from, rate_pps)?;
        }
        Ok(rate_pps)
    }

    /// Forwards under a tool until `packets` are sent; returns the number of packets sent.
    pub fn send(self, bench: &Bench, load: Load, tool: &[String], packets: u64) -> Result<u64> {
        let mut command = self.command(bench, load, 1, None, tool)?;
        let mut testpmd = Conversation::start(&mut command, &bench.folder)?;
        while testpmd.sum("show port stats all", "TX-packets:")? < packets {
            wait(Duration::from_millis(100))?;
        }
        let sent = testpmd.sum("stop", "TX-packets:")?;
        testpmd.quit()?;
        Ok(sent)
    }

    /// Its command line, with that of a tool under which it runs.
    fn command(
        self,
        bench: &Bench,
        load: Load,
        cpus: usize,
        plugin: Option<&Plugin>,
        tool: &[String],
    ) -> Result<Command> {
        let [worker, other] = bench.cpus;
        let lcores = match cpus {
            1 => format!("0@{other},1@{worker}"),
            _ => format!("0@{other},1@{worker},2@{other}"),
        };
        // No files are left behind in either case.
        let memory: &[&str] = if bench.hugepages {
            &["--in-memory"]
        } else {
            &["--no-huge", "--no-shconf", "--iova-mode=va"]
        };
        // To a file it would write in blocks, and answer only when the next one is full.
        let mut command = Command::new("stdbuf");
        command
            .arg("--output=L")
            .args(tool)
            .arg("dpdk-testpmd")
            .arg(format!("--lcores={lcores}"))
            .args([
                "-m".to_owned(),
                load.memory_mib(bench.hugepages).to_string(),
            ])
            .args(memory)
            .args(plugin.map(Plugin::arguments).iter().flatten())
            .args(["--no-pci", "--no-telemetry"])
            .arg("--file-prefix=vernier-bench")
            .args(
                bench
                    .devices(load)?
                    .map(|device| format!("--vdev={device}")),
            )
            .args(["--", "--interactive", "--auto-start"])
            .arg(format!("--nb-cores={cpus}"))
            .arg(format!("--forward-mode={}", self.mode))
            .arg(format!("--total-num-mbufs={}", load.mbufs()));
        if self.latencystats {
            command.arg("--latencystats=0");
        }
        if let Some(plugin) = plugin {
            plugin.configure(&mut command);
        }
        Ok(command)
    }
}

/// A testpmd that takes commands at its prompt.
struct Conversation {
    process: Process,
    prompt: ChildStdin,
    /// The file with its output.
    said: PathBuf,
}

impl Conversation {
    fn start(command: &mut Command, folder: &Path) -> Result<Self> {
        let said = folder.join("testpmd.out");
        let command = command.stdin(Stdio::piped()).stdout(File::create(&said)?);
        let mut process = Process::start_logged(command, folder.join("testpmd.log"))?;
        let prompt = process.child.stdin.take();
        let prompt = prompt.context("dpdk-testpmd has no pipe")?;
        Ok(Self {
            process,
            prompt,
            said,
        })
    }

    /// Packets per second that both ports have sent since the last call.
    fn rate_pps(&mut self) -> Result<f64> {
        Ok(self.sum("show port stats all", "Tx-pps:")? as f64)
    }

    /// The sum of both ports' values named `name`.
    fn sum(&mut self, command: &str, name: &str) -> Result<u64> {
        let begin = fs::read(&self.said)?.len();
        writeln!(self.prompt, "{command}").context("it takes no commands")?;
        let sum = self.process.until("it gave no figures", |_| {
            let said = fs::read(&self.said)?;
            let said = String::from_utf8_lossy(&said[begin..]);
            let ports = said.lines().filter_map(|line| figure(line, name));
            let ports: Vec<u64> = ports.take(2).collect();
            Ok((ports.len() == 2).then(|| ports.iter().sum()))
        });
        sum.context("dpdk-testpmd, of the Debian package dpdk-dev")
    }

    fn quit(mut self) -> Result<()> {
        writeln!(self.prompt, "quit").context("it takes no commands")?;
        self.process.wait()
    }
}

/// The first figure in a line such as `  Tx-pps:      9038938          Tx-bps:   4338690488`.
fn figure(line: &str, name: &str) -> Option<u64> {
    let figure = line.trim_start().strip_prefix(name)?;
    figure.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::COUNTED;

    /// With memory from ordinary pages, so that it runs anywhere.
    #[test]
    fn testpmd_forwards_and_reports_its_rate() {
        if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
            eprintln!("SKIPPED: testpmd takes two CPUs");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench::for_tests(folder.path());
        for latencystats in [false, true] {
            let mode = "macswap";
            let testpmd = Testpmd { mode, latencystats };
            let rate_pps = testpmd.rate_pps(&bench, COUNTED, 1, None).unwrap();
            assert!(rate_pps > 10_000.0, "{rate_pps}");
        }
    }

    #[test]
    fn a_second_lcore_shares_the_cpu_of_the_first_thread() {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench::for_tests(folder.path());
        let testpmd = Testpmd {
            mode: "io",
            latencystats: false,
        };
        for (cpus, lcores) in [(1, "--lcores=0@0,1@1"), (2, "--lcores=0@0,1@1,2@0")] {
            let command = testpmd.command(&bench, COUNTED, cpus, None, &[]).unwrap();
            let arguments: Vec<_> = command.get_args().filter_map(|a| a.to_str()).collect();
            assert!(arguments.contains(&lcores), "{arguments:?}");
            assert!(arguments.contains(&&*format!("--nb-cores={cpus}")));
        }
    }

    #[test]
    fn figures_are_read() {
        let line = "  Tx-pps:      9038938          Tx-bps:   4338690488\r";
        assert_eq!(figure(line, "Tx-pps:"), Some(9_038_938));
        let other = "  Rx-pps:      9038938          Rx-bps:   4338690488";
        assert_eq!(figure(other, "Tx-pps:"), None);
    }
}
