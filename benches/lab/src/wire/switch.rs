//! The switches and the impairment box.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use console::client::Client;
use measure::packet::Hasher;
use serde_json::{Value, json};
use testkit::namespace::skip_process_ids;
use testkit::process::{Process, memif};

use crate::testbed::{start_box, write_key};
use crate::transits::{self, Summary, Transit};
use crate::wire::truth::{self, Stamp};
use crate::wire::verdict::Bank;
use crate::wire::watch;

/// Seed of all hashes.
pub const HASH_SEED: u128 = 0x6d1f_3a52_c98e_07b4_f052_7d9a_e13c_6b88;

/// Index of the wire port.
pub const TRUNK: u8 = 1;

pub const INTERVAL_MS: u32 = 100;

/// More than flows of the hosts.
pub const FLOW_SLOTS: u32 = 4_096;

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

/// The hash that switches and box share.
pub fn hasher() -> Hasher {
    Hasher::new(HASH_SEED.to_be_bytes())
}

/// What the runs have in common.
#[derive(Debug)]
pub struct Setting<'a> {
    pub vernierd: PathBuf,
    /// How long traffic flows.
    pub flow_duration: Duration,
    /// How long attacks last, and the run beside them.
    pub attack_duration: Duration,
    /// The folder of all files.
    pub folder: &'a Path,
    /// Set when the user interrupts.
    pub stop: &'a AtomicBool,
}

impl Setting<'_> {
    /// The folder of a run, which is made.
    pub fn folder_of(&self, run: &str) -> Result<PathBuf> {
        let folder = self.folder.join(run);
        fs::create_dir_all(&folder).context("cannot make a folder for the files of a run")?;
        Ok(folder)
    }
}

/// Does something to both, the first first.
pub fn both<T, U>([a, b]: [T; 2], mut apply: impl FnMut(T) -> Result<U>) -> Result<[U; 2]> {
    Ok([apply(a)?, apply(b)?])
}

/// How a switch is configured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Device of the port towards the host.
    pub lan: String,
    /// Device of the port towards the other switch.
    pub wire: String,
    /// Keys of the wire besides its LDA.
    pub wire_keys: Value,
    /// Length of its epochs.
    pub interval_ms: u32,
    /// Flows that have a slot.
    pub flow_slots: u32,
    /// CPU of its worker, if that matters.
    pub core: Option<usize>,
    /// Whether every packet is recorded.
    pub is_recorded: bool,
}

impl Plan {
    /// A switch over shared memory. The first generates traffic, the second discards what it receives.
    pub fn memif(index: usize, socket: &Path, role: &str, capacity_bps: u64, pps: f64) -> Self {
        // A socket that an earlier process left behind cannot be listened at; mostly there is none.
        let _ = fs::remove_file(socket);
        Self {
            lan: match index {
                0 => format!("generate:flows=1000,size=imix,burst=8,rate={pps:.0}"),
                _ => "sink".to_owned(),
            },
            wire: memif("0", role, 0, socket),
            wire_keys: json!({ "capacity_bps": capacity_bps }),
            interval_ms: INTERVAL_MS,
            flow_slots: FLOW_SLOTS,
            core: None,
            is_recorded: false,
        }
    }

    fn config(&self, number: usize, address: SocketAddr, key: &Path) -> Value {
        let banks = BANKS.map(|bank| json!({ "rows": bank.rows, "probability": bank.share }));
        let mut wire = self.wire_keys.clone();
        wire["lda"] = json!({ "banks": banks });
        let mut worker = json!({ "idle": "sleep" });
        if let Some(core) = self.core {
            worker["core"] = core.into();
        }
        json!({
            "name": format!("switch-{number}"),
            "ports": [
                { "name": "lan", "device": self.lan },
                { "name": "trunk", "device": self.wire, "rx_queues": 1, "wire": wire },
            ],
            "forwarding": { "mode": "patch", "pairs": [["lan", "trunk"]] },
            "measurement": {
                "interval_ms": self.interval_ms,
                "hash_seed": format!("{HASH_SEED:032x}"),
                "flows": { "slots": self.flow_slots, "select": "all" },
            },
            // A flow of a wire has a name while it has series: both directions' are compared.
            "prometheus": { "top_flows": 1_000 },
            "wire": {
                "switch": number,
                "keys": [{ "id": 1, "file": key }],
                // Both ends have the same clock, without an error between them.
                "clock": { "error_ns": 0 },
            },
            "http": { "listen": address },
            "workers": [worker],
            "dpdk": { "hugepages": false, "memory_mib": 512, "mbufs": 65_535 },
        })
    }
}

#[derive(Debug)]
pub struct Switch {
    process: Process,
    pub client: Client,
    stamps: Option<PathBuf>,
}

impl Switch {
    /// Starts switch 1 (index 0) or 2 and waits until it answers.
    pub fn start(setting: &Setting<'_>, folder: &Path, index: usize, plan: &Plan) -> Result<Self> {
        let number = index + 1;
        let name = format!("switch-{number}");
        let key = write_key(folder)?;
        let mut command = Command::new(&setting.vernierd);
        let stamps = plan
            .is_recorded
            .then(|| folder.join(format!("{name}.stamps")));
        if let Some(stamps) = &stamps {
            command.arg("--wire-record").arg(stamps);
        }
        skip_process_ids()?;
        let address =
            SocketAddr::from((Ipv4Addr::LOCALHOST, if index == 0 { 9_461 } else { 9_462 }));
        let config = plan.config(number, address, &key);
        let command = command.env("VERNIER_LOG", "info");
        let mut switch = Self {
            process: Process::start_vernierd(command, folder, &name, &config)?,
            client: Client::new(&address.to_string(), None),
            stamps,
        };
        let client = &switch.client;
        switch
            .process
            .until(setting.stop, "a switch does not answer", |_| {
                Ok(watch::ask(client).ok())
            })?;
        Ok(switch)
    }

    fn wait_for_session(&mut self, stop: &AtomicBool) -> Result<()> {
        let client = &self.client;
        self.process.until(stop, "there is no session", |_| {
            let wire = watch::ask(client)?;
            Ok((wire.session == "established").then_some(()))
        })
    }

    /// Starts both switches as planned.
    pub fn start_both(
        setting: &Setting<'_>,
        folder: &Path,
        plans: &[Plan; 2],
    ) -> Result<[Self; 2]> {
        let [a, b] = plans;
        both([(0, a), (1, b)], |(index, plan)| {
            Self::start(setting, folder, index, plan)
        })
    }

    /// Waits until both measure the path between them.
    pub fn wait_for_sessions(switches: &mut [Self; 2], stop: &AtomicBool) -> Result<()> {
        switches
            .iter_mut()
            .try_for_each(|switch| switch.wait_for_session(stop))
    }

    /// Ends it; what it recorded, or `None` where it recorded nothing or not all.
    pub fn end(self, stop: &AtomicBool) -> Result<Option<Vec<Stamp>>> {
        let log = self.process.end(stop)?;
        let is_incomplete = log.contains("records of the wire were lost")
            || log.contains("record of the wire is incomplete");
        let file = self.stamps.filter(|_| !is_incomplete);
        let stamps = file.as_deref().map(truth::read).transpose()?;
        if let Some(file) = file {
            // At full speed it has gigabytes.
            fs::remove_file(file)?;
        }
        Ok(stamps)
    }
}

/// Two switches over shared memory that measure the path between them, and the box in it.
pub fn with_box(
    setting: &Setting<'_>,
    run: &str,
    plan: impl Fn(usize, &Path) -> Plan,
    arguments: &[String],
) -> Result<([Switch; 2], Impair)> {
    let folder = setting.folder_of(run)?;
    let sockets = [1, 2].map(|number| folder.join(format!("wire-{number}.sock")));
    let plans = [0, 1].map(|index| plan(index, &sockets[index]));
    let mut switches = Switch::start_both(setting, &folder, &plans)?;
    let devices = sockets.map(|socket| format!("memif:{}", socket.display()));
    let impair = Impair::start(setting, &folder, devices, arguments)?;
    Switch::wait_for_sessions(&mut switches, setting.stop)?;
    Ok((switches, impair))
}

#[derive(Debug)]
pub struct Impair {
    process: Process,
    transits: PathBuf,
    summary: PathBuf,
}

impl Impair {
    /// Starts it between two devices and waits until it forwards.
    pub fn start(
        setting: &Setting<'_>,
        folder: &Path,
        devices: [String; 2],
        arguments: &[String],
    ) -> Result<Self> {
        let [transits, summary] =
            ["transits", "summary"].map(|what| folder.join(format!("box.{what}")));
        let program = Command::new(std::env::current_exe()?);
        let own = [
            format!("--hash-seed={HASH_SEED:032x}"),
            format!("--record={}", transits.display()),
            format!("--summary={}", summary.display()),
        ];
        let process = start_box(
            program,
            folder,
            devices,
            &[&own, arguments].concat(),
            setting.stop,
        )?;
        Ok(Self {
            process,
            transits,
            summary,
        })
    }

    /// Ends it; what it did to each packet, and its counts.
    pub fn end(self, stop: &AtomicBool) -> Result<(Vec<Transit>, Summary)> {
        self.process.end(stop)?;
        let summary = fs::read_to_string(&self.summary).context("the box left no summary")?;
        let summary: Summary = serde_json::from_str(&summary)?;
        let unwritten = summary.unwritten;
        ensure!(
            unwritten == 0,
            "the record of the box lacks {unwritten} packets"
        );
        let transits = transits::read(&self.transits).context("cannot read the box's record")?;
        Ok((transits, summary))
    }
}
