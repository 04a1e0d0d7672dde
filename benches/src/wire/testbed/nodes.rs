//! The switches and the box, and their configurations.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::views::{self, Wires};
use crate::throughput::process::{Owned, PATIENCE, until};
use crate::wire::chance::Bank;

/// The seed of all hashes here.
pub const HASH_SEED: &str = "6d1f3a52c98e07b4f0527d9ae13c6b88";

/// Length of an epoch.
pub const INTERVAL_MS: u32 = 100;

/// The LDA of every wire: most packets in many rows, for few losses, and some in fewer, for many.
pub const BANKS: [Bank; 2] = [
    Bank {
        rows: 256,
        share: 0.8,
    },
    Bank {
        rows: 256,
        share: 0.2,
    },
];

/// The configuration of a switch.
#[derive(Debug, Clone)]
pub struct Plan {
    /// 1 or 2.
    pub number: u16,
    /// Device of the port towards the host.
    pub lan: String,
    /// Device of the port towards the other switch.
    pub wire: String,
    /// The configuration of the wire besides its LDA.
    pub extra: Value,
    /// CPU of its worker, if that matters.
    pub core: Option<usize>,
    /// Whether the worker may sleep.
    pub sleeps: bool,
    /// Whether to keep a record of every packet.
    pub is_recorded: bool,
}

impl Plan {
    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 9_460 + self.number).into()
    }

    fn config(&self, key: &Path) -> Value {
        let banks = BANKS.map(|bank| json!({ "rows": bank.rows, "probability": bank.share }));
        let mut wire = json!({ "lda": { "banks": banks } });
        if let (Some(wire), Some(extra)) = (wire.as_object_mut(), self.extra.as_object()) {
            wire.extend(extra.clone());
        }
        let mut worker = json!({ "idle": if self.sleeps { "sleep" } else { "pause" } });
        if let Some(core) = self.core {
            worker["core"] = core.into();
        }
        json!({
            "name": format!("switch-{}", self.number),
            "ports": [
                { "name": "lan", "device": self.lan },
                { "name": "trunk", "device": self.wire, "rx_queues": 1, "wire": wire },
            ],
            "forwarding": { "mode": "patch", "pairs": [["lan", "trunk"]] },
            "measurement": {
                "interval_ms": INTERVAL_MS,
                "hash_seed": HASH_SEED,
                "flows": { "slots": 4096, "select": "all" },
            },
            // A flow of a wire has a name while it has series: both directions' are to be judged.
            "prometheus": { "top_flows": 1_000 },
            "wire": {
                "switch": self.number,
                "keys": [{ "id": 1, "file": key }],
                // Both ends have the same clock: there is nothing to vouch for.
                "clock": { "error_ns": 0 },
            },
            "http": { "listen": self.address() },
            "workers": [worker],
            "dpdk": { "hugepages": false, "memory_mib": 512, "mbufs": 65_535 },
        })
    }
}

/// Makes sure that the next process has a number in which nothing under 256 counts. `net_af_packet` calls
/// its groups of sockets by number of process xor index of interface, which in a namespace with few of
/// each are soon the same: "could not set `PACKET_FANOUT`".
fn leave_numbers_out() -> Result<()> {
    let last = "/proc/sys/kernel/ns_last_pid";
    let text = fs::read_to_string(last).context("no numbers of processes")?;
    let number: u32 = text.trim().parse().context("no number of a process")?;
    let next = (number / 256 + 1) * 256;
    fs::write(last, (next - 1).to_string()).context("cannot leave numbers of processes out")
}

/// A `vernierd` at work.
#[derive(Debug)]
pub struct Switch {
    process: Owned,
    /// Where it answers.
    pub address: SocketAddr,
    stamps: PathBuf,
    log: PathBuf,
}

impl Switch {
    /// Starts it, with its files in `folder`.
    ///
    /// # Errors
    /// When it does not come to answer.
    pub fn start(vernierd: &Path, folder: &Path, plan: &Plan, stop: &AtomicBool) -> Result<Self> {
        let file = |what: &str| folder.join(format!("switch-{}.{what}", plan.number));
        let key = file("key");
        fs::write(&key, "00112233445566778899aabbccddeeff\n").context("no key")?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        let config = file("json");
        fs::write(&config, format!("{:#}", plan.config(&key)))?;
        let (stamps, log) = (file("stamps"), file("log"));
        let mut command = Command::new(vernierd);
        command.arg("--config").arg(&config);
        if plan.is_recorded {
            command.arg("--wire-record").arg(&stamps);
        }
        command
            .env("VERNIER_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        leave_numbers_out()?;
        let mut switch = Self {
            process: Owned::start(&mut command)?,
            address: plan.address(),
            stamps,
            log,
        };
        until(PATIENCE, stop, "a switch does not answer", || {
            switch.process.is_alive().with_context(|| switch.said())?;
            Ok(views::ask(switch.address).ok())
        })
        .with_context(|| switch.said())?;
        Ok(switch)
    }

    /// What it has logged.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it measures with its peer.
    ///
    /// # Errors
    /// When it does not come to that.
    pub fn wait_for_session(&mut self, stop: &AtomicBool) -> Result<Wires> {
        let address = self.address;
        let complaint = "there is no session";
        until(PATIENCE, stop, complaint, || {
            self.process.is_alive()?;
            let wires = views::ask(address)?;
            let mut all = wires.wires.iter();
            let established = all.all(|wire| wire.session == "established");
            Ok((established && !wires.wires.is_empty()).then_some(wires))
        })
        .with_context(|| self.said())
    }

    /// Ends it, so that its record is complete; where that is.
    ///
    /// # Errors
    /// When it fails.
    pub fn end(mut self, stop: &AtomicBool) -> Result<Ended> {
        self.process.terminate()?;
        let ended = self.process.wait(PATIENCE, stop);
        let said = self.said();
        ended.with_context(|| said.clone())?;
        Ok(Ended {
            stamps: self.stamps,
            is_complete: !said.contains("records of the wire were lost")
                && !said.contains("record of the wire is incomplete"),
            said,
        })
    }
}

/// What a switch leaves behind.
#[derive(Debug)]
pub struct Ended {
    /// Its record.
    pub stamps: PathBuf,
    /// Whether all packets are in it.
    pub is_complete: bool,
    /// Its log.
    pub said: String,
}

/// The box at work.
#[derive(Debug)]
pub struct Impair {
    process: Owned,
    passages: PathBuf,
    summary: PathBuf,
    said: PathBuf,
}

/// What the box counted.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct BoxSummary {
    /// To the right, and to the left.
    pub ways: [BoxCounts; 2],
    /// Passages that its record lacks.
    pub unwritten: u64,
}

/// What the box counted in one direction.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct BoxCounts {
    /// Packets that came in.
    pub arrived: u64,
    /// Control frames that it made up and that left.
    pub made_up_passed: u64,
    /// Copies of a recorded hello that left.
    pub replayed: u64,
    /// Packets that left.
    pub passed: u64,
    /// Packets lost on purpose.
    pub lost: u64,
    /// Packets for which it had no room.
    pub overrun: u64,
    /// Other frames that left, by kind: see [`KINDS`](crate::wire::frames::KINDS), then unknown ones.
    pub passed_by_kind: Vec<u64>,
    /// Bytes of these.
    pub passed_bytes_by_kind: Vec<u64>,
}

impl Impair {
    /// Starts it, with its files in `folder`.
    ///
    /// # Errors
    /// When it does not come to forward.
    pub fn start(
        program: &Path,
        folder: &Path,
        sides: [&str; 2],
        arguments: &[String],
        stop: &AtomicBool,
    ) -> Result<Self> {
        let [passages, summary, said] =
            ["passages", "summary", "log"].map(|what| folder.join(format!("box.{what}")));
        let [left, right] = sides;
        let out = File::create(&said)?;
        let mut command = Command::new(program);
        command
            .args(["--left", left, "--right", right, "--hash-seed", HASH_SEED])
            .arg("--record")
            .arg(&passages)
            .arg("--summary")
            .arg(&summary)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(out.try_clone()?)
            .stdout(out);
        leave_numbers_out()?;
        let mut impair = Self {
            process: Owned::start(&mut command)?,
            passages,
            summary,
            said,
        };
        until(PATIENCE, stop, "the box does not forward", || {
            let said = fs::read_to_string(&impair.said).unwrap_or_default();
            impair.process.is_alive().with_context(|| said.clone())?;
            Ok(said.contains("ready").then_some(()))
        })?;
        Ok(impair)
    }

    /// Ends it; its record, and what it counted.
    ///
    /// # Errors
    /// When it fails, or lost count.
    pub fn end(mut self, stop: &AtomicBool) -> Result<(PathBuf, BoxSummary)> {
        self.process.terminate()?;
        let ended = self.process.wait(PATIENCE, stop);
        ended.with_context(|| fs::read_to_string(&self.said).unwrap_or_default())?;
        let summary = fs::read_to_string(&self.summary).context("the box says nothing")?;
        let summary: BoxSummary = serde_json::from_str(&summary)?;
        ensure!(
            summary.unwritten == 0,
            "the box's record lacks {} passages",
            summary.unwritten
        );
        Ok((self.passages, summary))
    }
}
