//! The switches and the impairment box.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use console::client::Client;
use measure::lda::Bank;
use measure::packet::Hasher;
use records::snapshot::Snapshot;
use serde_json::{Value, json};
use testkit::process::{Process, beside_this_program, memif};

use crate::testbed::{start_box, write_key};
use crate::transits::{self, Summary, Transit};
use crate::wire::truth::{self, Epochs, Stamp, join};
use crate::wire::watch;

/// Seed of all hashes.
pub const HASH_SEED: u128 = 0x6d1f_3a52_c98e_07b4_f052_7d9a_e13c_6b88;

/// Index of the wire port.
pub const TRUNK: u8 = 1;

pub const INTERVAL_MS: u32 = 100;

/// More than the hosts have flows.
pub const FLOW_SLOTS: u32 = 4_096;

/// The LDA of every wire: a bank of many rows with most packets for few losses, and one with fewer packets for many.
pub const BANKS: [Bank; 2] = [
    Bank {
        rows: 256,
        probability: 0.8,
    },
    Bank {
        rows: 256,
        probability: 0.2,
    },
];

/// The hash that switches and box share.
pub fn hasher() -> Hasher {
    Hasher::new(HASH_SEED.to_be_bytes())
}

/// Settings of a run.
#[derive(Debug)]
pub struct Setting {
    /// How long traffic flows.
    pub flow_duration: Duration,
    /// Duration of the attacks, and of the run for comparison.
    pub attack_duration: Duration,
    /// The folder of all its files.
    pub folder: PathBuf,
}

/// Applies a function to both, in order.
pub fn both<T, U>([a, b]: [T; 2], mut apply: impl FnMut(T) -> Result<U>) -> Result<[U; 2]> {
    Ok([apply(a)?, apply(b)?])
}

/// The configuration of a switch with these ports, without a wire's key and clock.
pub fn config(ports: &Value, pairs: &Value) -> Value {
    json!({
        "ports": ports,
        "forwarding": { "mode": "patch", "pairs": pairs },
        "measurement": {
            "interval_ms": INTERVAL_MS,
            "hash_seed": format!("{HASH_SEED:032x}"),
        },
        "workers": [{ "idle": "sleep" }],
        "dpdk": { "hugepages": false, "memory_mib": 512, "mbufs": 65_535 },
    })
}

/// The configuration of switch 1 (index 0) or 2, with the devices towards its host and towards the other switch, and keys of the
/// wire other than its LDA.
pub fn wire_config(index: usize, lan: &str, trunk: &str, mut wire: Value) -> Value {
    let banks = BANKS.map(|bank| json!({ "rows": bank.rows, "probability": bank.probability }));
    wire["lda"] = json!({ "banks": banks });
    let ports = json!([
        { "name": "lan", "device": lan },
        { "name": "trunk", "device": trunk, "rx_queues": 1, "wire": wire },
    ]);
    let mut config = config(&ports, &json!([["lan", "trunk"]]));
    config["name"] = format!("switch-{}", index + 1).into();
    config["measurement"]["flows"] = json!({ "slots": FLOW_SLOTS, "select": "all" });
    // A flow of a wire has a name only while it has series; both directions are compared.
    config["prometheus"] = json!({ "top_flows": 1_000 });
    config["wire"] = json!({
        "switch": index + 1,
        // Both ends have the same clock, without an error between them.
        "clock": { "error_ns": 0 },
    });
    config
}

/// The device of one end of shared memory.
pub fn memif_device(index: usize, socket: &Path, role: &str) -> String {
    // Remove a socket left by an earlier process, on which a server cannot listen; usually there is none.
    let _ = fs::remove_file(socket);
    memif(&index.to_string(), role, 0, socket)
}

/// The configuration of a switch over shared memory. The first generates traffic, the second discards what it receives.
pub fn memif_config(
    index: usize,
    socket: &Path,
    role: &str,
    capacity_bps: u64,
    traffic: &str,
) -> Value {
    let lan = ["generate:".to_owned() + traffic, "sink".to_owned()];
    let capacity = json!({ "capacity_bps": capacity_bps });
    wire_config(
        index,
        &lan[index],
        &memif_device(index, socket, role),
        capacity,
    )
}

#[derive(Debug)]
pub struct Switch {
    process: Process,
    pub client: Client,
    stamps: Option<PathBuf>,
}

impl Switch {
    /// Starts switch 1 (index 0) or 2 and waits until it answers.
    pub fn start(
        folder: &Path,
        index: usize,
        mut config: Value,
        is_recorded: bool,
    ) -> Result<Self> {
        let name = format!("switch-{}", index + 1);
        if config["wire"].is_object() {
            config["wire"]["keys"] = json!([{ "id": 1, "file": write_key(folder)? }]);
        }
        let address = format!("127.0.0.1:{}", 9_461 + index);
        config["http"] = json!({ "listen": address });
        let mut command = Command::new(beside_this_program("vernierd")?);
        let stamps = is_recorded.then(|| folder.join(format!("{name}.stamps")));
        if let Some(stamps) = &stamps {
            command.arg("--wire-record").arg(stamps);
        }
        let command = command.env("VERNIER_LOG", "info");
        let mut process = Process::start_vernierd(command, folder, &name, &config)?;
        let client = Client::new(&address, None);
        process.until("a switch does not answer", |_| {
            Ok(client.get::<Snapshot>("/api/v1/snapshot", &[]).ok())
        })?;
        Ok(Self {
            process,
            client,
            stamps,
        })
    }

    /// Starts both.
    pub fn start_both(folder: &Path, [a, b]: [Value; 2], is_recorded: bool) -> Result<[Self; 2]> {
        let start = |(index, config)| Self::start(folder, index, config, is_recorded);
        both([(0, a), (1, b)], start)
    }

    /// Waits until both measure the path between them.
    pub fn wait_for_sessions(switches: &mut [Self; 2]) -> Result<()> {
        switches.iter_mut().try_for_each(|switch| {
            let client = &switch.client;
            switch.process.until("there is no session", |_| {
                let wire = watch::ask(client).ok();
                let wire = wire.filter(|wire| wire.session == "established");
                Ok(wire.map(drop))
            })
        })
    }

    /// Stops it; returns its record, or `None` if there is none or it is incomplete.
    pub fn end(self) -> Result<Option<Vec<Stamp>>> {
        let log = self.process.end()?;
        let is_incomplete = log.contains("records of the wire were lost")
            || log.contains("record of the wire is incomplete");
        let file = self.stamps.filter(|_| !is_incomplete);
        let stamps = file.as_deref().map(truth::read).transpose()?;
        if let Some(file) = file {
            // At full speed the record has gigabytes.
            fs::remove_file(file)?;
        }
        Ok(stamps)
    }

    /// Stops both; returns the fate of each packet from the first to the second and back.
    pub fn join(switches: [Self; 2]) -> Result<Option<[Epochs; 2]>> {
        let [a, b] = both(switches, Switch::end)?;
        Ok(a.zip(b).map(|(a, b)| [join(&a, &b), join(&b, &a)]))
    }
}

/// Two switches over shared memory that measure the path between them, and the box in it.
pub fn with_box(
    folder: &Path,
    config: impl Fn(usize, &Path) -> Value,
    is_recorded: bool,
    arguments: &[String],
) -> Result<([Switch; 2], Impair)> {
    let sockets = [1, 2].map(|number| folder.join(format!("wire-{number}.sock")));
    let configs = [0, 1].map(|index| config(index, &sockets[index]));
    let mut switches = Switch::start_both(folder, configs, is_recorded)?;
    let impair = Impair::over_memif(folder, &sockets, arguments)?;
    Switch::wait_for_sessions(&mut switches)?;
    Ok((switches, impair))
}

#[derive(Debug)]
pub struct Impair {
    process: Process,
    folder: PathBuf,
}

impl Impair {
    /// Starts it between two devices and waits until it forwards.
    pub fn start(folder: &Path, devices: [String; 2], arguments: &[String]) -> Result<Self> {
        let file = |name| folder.join(name).display().to_string();
        let own = [
            format!("--hash-seed={HASH_SEED:032x}"),
            format!("--record={}", file("box.transits")),
            format!("--summary={}", file("box.summary")),
        ];
        let program = Command::new(std::env::current_exe()?);
        let arguments = [&own, arguments].concat();
        Ok(Self {
            process: start_box(program, folder, devices, &arguments)?,
            folder: folder.to_owned(),
        })
    }

    /// As [`Impair::start`], between two sockets on which switches listen.
    pub fn over_memif(folder: &Path, sockets: &[PathBuf; 2], arguments: &[String]) -> Result<Self> {
        let devices = sockets.each_ref();
        let devices = devices.map(|socket| format!("memif:{}", socket.display()));
        Self::start(folder, devices, arguments)
    }

    /// Stops it; returns its record of each packet, and its counts.
    pub fn end(self) -> Result<(Vec<Transit>, Summary)> {
        self.process.end()?;
        let summary =
            fs::read(self.folder.join("box.summary")).context("the box left no summary")?;
        let summary: Summary = serde_json::from_slice(&summary)?;
        let unwritten = summary.unwritten;
        ensure!(
            unwritten == 0,
            "the record of the box lacks {unwritten} packets"
        );
        let transits = transits::read(&self.folder.join("box.transits"));
        Ok((transits.context("cannot read the box's record")?, summary))
    }
}
