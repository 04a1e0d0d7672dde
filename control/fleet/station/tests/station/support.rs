//! Stations as processes, and switches whose reports the test controls.

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

/// A time long ago at the beginning of a minute, in seconds.
const ORIGIN_S: f64 = 1_700_000_040.0;

/// Creates a runtime on this thread.
pub fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// A station process, killed when dropped.
pub struct Station {
    process: Process,
    pub address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Station {
    /// Starts a station, and waits until it is ready.
    pub fn start(server: &NatsServer, more: &Value) -> Self {
        Self::start_by(server, more, |_| ())
    }

    /// Like [`Station::start`], but first lets `prepare` change the command.
    pub fn start_by(server: &NatsServer, more: &Value, prepare: impl FnOnce(&mut Command)) -> Self {
        let station = Self::spawn(server, more, prepare);
        wait_for("the station is ready", || station.readiness().0 == 200);
        station
    }

    /// Starts a station, and waits until it answers.
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

    /// Returns the status and the text of `/readyz`.
    pub fn readiness(&self) -> (u16, String) {
        http::answer(self.address, "/readyz").unwrap()
    }

    pub fn text(&self, path: &str) -> Option<String> {
        http::text(self.address, path)
    }

    /// Returns the JSON at a path; null if there is no answer.
    pub fn json(&self, path: &str) -> Value {
        http::json(self.address, path)
    }

    /// Returns the metric with this full name.
    pub fn metric(&self, name: &str) -> u64 {
        let page = self.text("/metrics").unwrap();
        let mut lines = page.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value
            .unwrap_or_else(|| panic!("no {name} in {page}"))
            .parse()
            .unwrap()
    }

    /// Returns the station's answer about a switch.
    pub fn switch(&self, name: &str) -> Option<Value> {
        let answer = self.json("/api/v1/switches");
        let mut switches = answer["switches"].as_array()?.iter();
        switches.find(|switch| switch["switch"] == name).cloned()
    }

    /// Waits until the station has counted this epoch as the last of a switch.
    pub fn wait_for_epoch(&self, name: &str, epoch: u64) {
        wait_for("the epoch is counted", || {
            self.switch(name).unwrap_or_default()["epoch"] == epoch
        });
    }

    /// Returns the number of counted reports of a switch.
    pub fn reports(&self, name: &str) -> u64 {
        let switch = self.switch(name).unwrap_or_default();
        switch["reports"].as_u64().unwrap_or_default()
    }

    /// Returns the resident memory of the station, in KiB.
    pub fn resident_kib(&self) -> u64 {
        resident_kib(self.process.child.id()).unwrap()
    }
}

/// A switch with 10 packets in each epoch, whose epochs close on demand.
pub struct Switch {
    published: Arc<Published>,
    snapshot: Snapshot,
    _sender: Running,
}

impl Switch {
    /// Starts a switch whose epochs have this length, however quickly they close here.
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

    /// Waits until the sender has taken the last closed epoch.
    pub fn settle(&self) {
        wait_for("the sender has taken the epoch", || {
            self.taken() == self.epochs()
        });
    }

    /// Returns the number of reports made by the sender: the acknowledged ones, and those in the spool, estimated from
    /// its size.
    fn taken(&self) -> u64 {
        let report = Composer::new(1, 0).report(&self.snapshot, 0);
        let Some(report) = report else { return 0 };
        let counters = self.published.reports.get();
        let counts = counters.map(|counters| counters.read()).unwrap_or_default();
        // Three strings in addition to the bytes; the id also contains the sender's own number.
        let strings = report.message_id().len() + 17 + of_switch(&report.switch).len() + 72;
        let bytes = (report.encoded_len() + strings) as u64;
        counts.acknowledged + (counts.spooled_bytes + bytes / 2) / bytes
    }

    /// Returns the number of closed epochs.
    pub fn epochs(&self) -> u64 {
        self.snapshot.epoch.map_or(0, |epoch| epoch + 1)
    }
}
