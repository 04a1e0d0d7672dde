//! What a benchmark leaves behind: a table for people, JSON for programs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::contender::Contender;
use crate::machine::{Machine, output_of};
use crate::throughput::{CLAIMS, Finding, Round, median};

/// Where and of what the figures are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The machine and the commit.
    #[serde(flatten)]
    pub machine: Machine,
    /// Version of DPDK.
    pub dpdk: String,
    /// Where memory came from.
    pub memory: &'static str,
}

impl Setting {
    /// Looks around; what cannot be told is `unknown`.
    pub fn of_this_machine(hugepages: bool) -> Self {
        Self {
            machine: Machine::of_this_run(),
            dpdk: output_of(Command::new("pkg-config").args(["--modversion", "libdpdk"])),
            memory: if hugepages {
                "hugepages"
            } else {
                "ordinary pages"
            },
        }
    }
}

/// Everything about one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Where and of what.
    pub setting: Setting,
    /// Rates in packets a second, in the order of [`Contender::ALL`].
    pub rounds: Vec<Round>,
    /// The claims and what came of them.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Holds all [`CLAIMS`] against `rounds`.
    pub fn new(setting: Setting, rounds: Vec<Round>) -> Self {
        let findings = CLAIMS
            .iter()
            .map(|&claim| Finding::new(claim, &rounds))
            .collect();
        Self {
            setting,
            rounds,
            findings,
        }
    }

    /// Whether every limit is kept.
    pub fn holds(&self) -> bool {
        self.findings.iter().all(Finding::holds)
    }

    /// The table, in Markdown.
    pub fn markdown(&self) -> String {
        let Setting {
            machine,
            dpdk,
            memory,
        } = &self.setting;
        let Machine {
            cpu,
            cpus,
            kernel,
            commit,
            ..
        } = machine;
        let rounds = self.rounds.len();
        let mut text = format!(
            "# Throughput on one core\n\n\
             64-byte frames from two net_pcap ports (`infinite_rx=1`; 50,000 and 1,000 flows), sent \
             back out of the other; {rounds} rounds in which everyone runs once, after one that is \
             discarded.\n\nCommit {commit}; {cpu}, {cpus} CPUs, Linux {kernel}; DPDK {dpdk}, {memory}.\n\n\
             | rate | by that of | median ratio | least to greatest | limit | |\n\
             |---|---|---:|---:|---:|---|\n"
        );
        for finding in &self.findings {
            let Finding {
                claim,
                ratio,
                ratio_min,
                ratio_max,
            } = finding;
            let (limit, verdict) = match (claim.limit, finding.holds()) {
                (None, _) => ("-".to_owned(), ""),
                (Some(limit), true) => (format!("{limit:.2}"), "kept"),
                (Some(limit), false) => (format!("{limit:.2}"), "**missed**"),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {ratio:.2} | {ratio_min:.2} to {ratio_max:.2} | {limit} | {verdict} |",
                claim.contender.label(),
                claim.peer.label(),
            );
        }
        text.push_str("\n| contender | median Mpps, for information |\n|---|---:|\n");
        for contender in Contender::ALL {
            let mut rates: Vec<f64> = self
                .rounds
                .iter()
                .map(|round| round.rate_pps(contender) / 1e6)
                .collect();
            let _ = writeln!(
                text,
                "| {} | {:.1} |",
                contender.label(),
                median(&mut rates)
            );
        }
        text
    }

    /// Writes `throughput.md` and `throughput.json` into `folder`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(folder.join("throughput.md"), self.markdown()))
            .and_then(|()| fs::write(folder.join("throughput.json"), json))
            .with_context(|| format!("cannot write the results to {}", folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rounds: Vec<Round>) -> Report {
        Report::new(Setting::of_this_machine(true), rounds)
    }

    #[test]
    fn the_table_tells_what_was_missed() {
        let missed = report(vec![Round([40e6, 20e6, 27e6, 22e6])]);
        assert!(!missed.holds());
        let table = missed.markdown();
        assert!(
            table.contains("| 0.68 | 0.68 to 0.68 | 0.70 | **missed** |"),
            "{table}"
        );
        assert!(
            table.contains("| 1.10 | 1.10 to 1.10 | 1.00 | kept |"),
            "{table}"
        );
        assert!(table.contains("| testpmd macswap | 40.0 |"), "{table}");
    }

    #[test]
    fn results_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let kept = report(vec![Round([40e6, 20e6, 30e6, 22e6])]);
        assert!(kept.holds());
        kept.write(&folder.path().join("results")).unwrap();
        let json = fs::read(folder.path().join("results/throughput.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["findings"][0]["limit"], 0.7);
        assert_eq!(json["rounds"][0][3], 22e6);
    }
}
