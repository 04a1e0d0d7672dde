//! Stations as processes, and switches that report what the test says.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;

use contract::config::{Nats, Report as Settings};
use control::published::{Lookup, Published};
use prost::Message;
use records::snapshot::{EpochFigures, Segment, Snapshot, Stamped};
use report::compose::Composer;
use report::sender::{Running, Sender};
use report::subject::of_switch;
use serde_json::Value;
use testkit::http;
use testkit::nats::NatsServer;
use testkit::process::{Process, free_address, resident_kib, wait_for};
use tokio::runtime::Runtime;

/// Begin of a minute, long ago.
const ORIGIN_S: f64 = 1_700_000_040.0;

/// A runtime on this thread.
pub fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// A station, killed when this is dropped.
pub struct Station {
    process: Process,
    pub address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Station {
    /// Starts one, and waits until it is ready.
    pub fn start(server: &NatsServer, more: &Value) -> Self {
        Self::start_by(server, more, |_| ())
    }

    /// As [`Station::start`], with more in its environment.
    pub fn start_by(server: &NatsServer, more: &Value, prepare: impl FnOnce(&mut Command)) -> Self {
        let station = Self::spawn(server, more, prepare);
        wait_for("the station is ready", || station.readiness().0 == 200);
        station
    }

    /// Starts one, and waits until it answers.
    pub fn start_unready(server: &NatsServer, more: &Value) -> Self {
        Self::spawn(server, more, |_| ())
    }

    fn spawn(server: &NatsServer, more: &Value, prepare: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = free_address().unwrap();
        let mut config = serde_json::json!({
            "nats": { "servers": [server.url()] },
            "http": { "listen": address.to_string() },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let file = folder.path().join("station.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vernier-station"));
        command.arg("--config").arg(file).stdin(Stdio::null());
        prepare(&mut command);
        let station = Self {
            process: Process::start(&mut command).unwrap(),
            address,
            _folder: folder,
        };
        wait_for("the station answers", || station.text("/healthz").is_some());
        station
    }

    /// Status and words at `/readyz`.
    pub fn readiness(&self) -> (u16, String) {
        http::answer(self.address, "/readyz").unwrap()
    }

    pub fn text(&self, path: &str) -> Option<String> {
        http::text(self.address, path)
    }

    /// Null where there is no answer.
    pub fn json(&self, path: &str) -> Value {
        http::json(self.address, path)
    }

    /// The metric by its whole name.
    pub fn metric(&self, name: &str) -> u64 {
        let page = self.text("/metrics").unwrap();
        let mut lines = page.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value
            .unwrap_or_else(|| panic!("no {name} in {page}"))
            .parse()
            .unwrap()
    }

    /// What it says of a switch.
    pub fn switch(&self, name: &str) -> Option<Value> {
        let answer = self.json("/api/v1/switches");
        let mut switches = answer["switches"].as_array()?.iter();
        switches.find(|switch| switch["switch"] == name).cloned()
    }

    /// Waits until an epoch is the last of a switch that it has counted.
    pub fn wait_for_epoch(&self, name: &str, epoch: u64) {
        wait_for("the epoch is counted", || {
            self.switch(name).unwrap_or_default()["epoch"] == epoch
        });
    }

    /// Reports of a switch that it has counted.
    pub fn reports(&self, name: &str) -> u64 {
        let switch = self.switch(name).unwrap_or_default();
        switch["reports"].as_u64().unwrap_or_default()
    }

    /// Its memory in use, in KiB.
    pub fn resident_kib(&self) -> u64 {
        resident_kib(self.process.child.id()).unwrap()
    }
}

/// A switch whose epochs close when the test says; 10 packets each.
pub struct Switch {
    published: Arc<Published>,
    snapshot: Snapshot,
    _sender: Running,
}

impl Switch {
    /// Its epochs are so long, whatever time passes between them here.
    pub fn start(server: &NatsServer, name: &str, interval_ms: u32) -> Self {
        let segment = Segment {
            ingress: "lan".to_owned(),
            egress: "wan".to_owned(),
            class: "all".to_owned(),
            ..Segment::default()
        };
        let mut snapshot = Snapshot {
            segments: vec![segment],
            ..Snapshot::default()
        };
        name.clone_into(&mut snapshot.switch);
        snapshot.interval_ms = interval_ms;
        let published = Arc::new(Published::new(snapshot.clone()));
        let settings = Settings {
            nats: Nats::to(server.url()),
            top_flows: 0,
            spool_kib: 1_024,
        };
        let sender = Sender::of(Some(&settings)).unwrap().unwrap();
        let sender = sender.start(Arc::clone(&published)).unwrap();
        Self {
            published,
            snapshot,
            _sender: sender,
        }
    }

    pub fn close(&mut self) {
        let epoch = self.epochs();
        let snapshot = &mut self.snapshot;
        let end_s = (epoch + 1) as f64 * f64::from(snapshot.interval_ms) / 1e3;
        snapshot.epoch = Some(epoch);
        snapshot.epoch_end_unix_s = Some(ORIGIN_S + end_s);
        let segment = &mut snapshot.segments[0];
        segment.total.counts.sent_packets += 10;
        let stamped = Stamped {
            mean_ns: 500.0,
            stddev_ns: 50.0,
            p99_ns: 700.0,
            max_ns: 900.0,
            ..Stamped::default()
        };
        let mut last = EpochFigures {
            epoch,
            stamped: Some(stamped),
            ..EpochFigures::default()
        };
        last.counts.received_packets = 10;
        segment.last = Some(last);
        self.published
            .publish(self.snapshot.clone(), Lookup::default());
    }

    /// Waits until the sender has taken the epoch that closed last.
    pub fn settle(&self) {
        wait_for("the sender has taken the epoch", || {
            self.taken() == self.epochs()
        });
    }

    /// Reports that the sender has made: those acknowledged, and those in the spool, by their size.
    fn taken(&self) -> u64 {
        let report = Composer::new(1, 0).report(&self.snapshot, 0);
        let Some(report) = report else { return 0 };
        let counters = self.published.reports.get();
        let counts = counters.map(|counters| counters.read()).unwrap_or_default();
        // Its strings are three, beside the bytes; the id has the sender's own number, too.
        let strings = report.message_id().len() + 17 + of_switch(&report.switch).len() + 72;
        let bytes = (report.encoded_len() + strings) as u64;
        counts.acknowledged + (counts.spooled_bytes + bytes / 2) / bytes
    }

    /// Epochs that have closed.
    pub fn epochs(&self) -> u64 {
        self.snapshot.epoch.map_or(0, |epoch| epoch + 1)
    }
}
