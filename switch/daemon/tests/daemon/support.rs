//! A running `vernierd` for tests: started with a configuration, asked over HTTP, stopped by signal.

use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http;
use testkit::process::Process;
pub use testkit::{shared, skip};

/// The most that anything here may take; a guard against hanging, not a measure of speed.
pub const PATIENCE: Duration = Duration::from_mins(1);

pub struct Daemon {
    process: Option<Process>,
    pub address: SocketAddr,
    pub folder: tempfile::TempDir,
}

/// An address that is reserved for this test.
pub fn free_address() -> SocketAddr {
    testkit::process::free_address().unwrap()
}

pub fn vernierd() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vernierd"));
    command.stdin(Stdio::null());
    command
}

/// A folder with `config` in a file, and that file.
pub fn written(config: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vernier.json");
    std::fs::write(&file, config).unwrap();
    (folder, file)
}

/// The device of one end of shared memory; `role` is `server` or `client`.
pub fn memif(role: &str, socket: &Path) -> String {
    let socket = socket.display();
    format!("net_memif0,role={role},id=0,socket={socket},socket-abstract=no")
}

/// A file with a key for wires.
pub fn key_file(folder: &Path) {
    let key = folder.join("wire.key");
    std::fs::write(&key, "000102030405060708090a0b0c0d0e0f\n").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A number in JSON.
pub fn number(value: &Value) -> u64 {
    let number = value.as_u64();
    number.unwrap_or_else(|| panic!("a number, not {value}"))
}

/// The sum of a number over a list.
pub fn sum(list: &Value, of: impl Fn(&Value) -> u64) -> u64 {
    list.as_array().unwrap().iter().map(of).sum()
}

/// Whether this is root; if not, prints that the test is skipped.
pub fn is_root(for_what: &str) -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    let is_root = id.stdout == b"0\n";
    if !is_root {
        skip(&format!("{for_what} needs root"));
    }
    is_root
}

/// Adds the address of the HTTP server and, unless configured, one worker and short epochs.
fn complete(config: &mut Value, address: SocketAddr) {
    config["http"]["listen"] = address.to_string().into();
    for (key, value) in [
        ("workers", json!([{ "idle": "sleep" }])),
        ("measurement", json!({ "interval_ms": 100 })),
    ] {
        if config[key].is_null() {
            config[key] = value;
        }
    }
}

impl Daemon {
    /// Starts `vernierd` with `config`, to which [`complete`] adds, and waits until it answers.
    pub fn start(config: Value) -> Self {
        Self::start_logging(config, "info")
    }

    /// The same, with a log from this level on. It is not read before the end: a long run must not
    /// fill the pipe.
    pub fn start_logging(config: Value, level: &str) -> Self {
        Self::start_as(config, |command| {
            command.env("VERNIER_LOG", level);
        })
    }

    /// The same, with a command that `prepare` has the last word on.
    pub fn start_as(mut config: Value, prepare: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = free_address();
        complete(&mut config, address);
        std::fs::write(folder.path().join("vernier.json"), config.to_string()).unwrap();
        let mut daemon = Self {
            process: None,
            address,
            folder,
        };
        daemon.spawn(prepare);
        daemon
    }

    fn spawn(&mut self, prepare: impl FnOnce(&mut Command)) {
        let mut command = vernierd();
        command
            .arg("--config")
            .arg(self.folder.path().join("vernier.json"))
            .arg("--summary-json")
            .arg(self.folder.path().join("summary.json"))
            .env("VERNIER_LOG", "info")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        prepare(&mut command);
        self.process = Some(Process::start(&mut command).unwrap());
        self.wait_for(|daemon| daemon.get("/healthz").is_some());
    }

    /// Ends it as SIGKILL does, and starts it again with the same configuration.
    pub fn kill_and_start_again(&mut self) {
        self.last_words();
        self.start_again();
    }

    /// Starts it again with the same configuration, after its end.
    pub fn start_again(&mut self) {
        self.spawn(|_| ());
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.process.as_ref().unwrap().child.id()
    }

    /// Its log from now on, if that was not taken before.
    pub fn take_log(&mut self) -> ChildStderr {
        self.process.as_mut().unwrap().child.stderr.take().unwrap()
    }

    /// The value of a series on `/metrics`, a number of any kind, by its full name with labels.
    pub fn metric<N: FromStr>(&self, series: &str) -> Option<N> {
        let page = self.get("/metrics")?;
        let mut lines = page.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value?.parse().ok()
    }

    /// Waits until `condition` holds; fails if the daemon ends or patience does.
    pub fn wait_for(&mut self, mut condition: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        while !condition(self) {
            let process = self.process.as_mut().unwrap();
            if let Some(status) = process.child.try_wait().unwrap() {
                panic!("vernierd ended ({status}): {}", rest_of_log(process));
            }
            if began.elapsed() >= PATIENCE {
                let words = self.last_words();
                panic!("waited {PATIENCE:?} in vain; vernierd says: {words}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills it; returns its log.
    pub fn last_words(&mut self) -> String {
        let Some(mut process) = self.process.take() else {
            return String::new();
        };
        let _ = process.child.kill();
        rest_of_log(&mut process)
    }

    /// Its memory in use, in KiB.
    pub fn resident_kib(&self) -> u64 {
        testkit::process::resident_kib(self.id()).unwrap()
    }

    /// The most memory that it had in use at any time, in KiB.
    pub fn peak_kib(&self) -> u64 {
        testkit::process::peak_kib(self.id()).unwrap()
    }

    /// The body at `path`, if the daemon answers 200.
    pub fn get(&self, path: &str) -> Option<String> {
        let text = http::get(self.address, path);
        text.inspect_err(|error| eprintln!("GET {path}: {error}"))
            .ok()
    }

    /// Status and body at `path`, whatever the status.
    pub fn answer(&self, path: &str) -> Option<(u16, String)> {
        http::answer(self.address, path).ok()
    }

    /// The JSON at `path`.
    pub fn json(&self, path: &str) -> Option<Value> {
        serde_json::from_str(&self.get(path)?).ok()
    }

    /// The whole snapshot, if the daemon answers.
    pub fn snapshot(&self) -> Option<Value> {
        self.json("/api/v1/snapshot")
    }

    /// Waits until there is an answer.
    pub fn wait_for_some<T>(&mut self, mut ask: impl FnMut(&Self) -> Option<T>) -> T {
        let mut answer = None;
        self.wait_for(|daemon| {
            answer = ask(daemon);
            answer.is_some()
        });
        answer.unwrap()
    }

    /// Lets the daemon read `config` as `systemctl reload` does, its HTTP address as before.
    pub fn reload(&self, mut config: Value) {
        complete(&mut config, self.address);
        std::fs::write(self.folder.path().join("vernier.json"), config.to_string()).unwrap();
        self.hang_up();
    }

    /// Lets it read its configuration again.
    pub fn hang_up(&self) {
        signal("-HUP", self.id());
    }

    /// Stops the daemon as Ctrl-C does and returns its summary.
    pub fn stop(mut self) -> Value {
        let (is_success, log) = interrupt(self.process.take().unwrap());
        assert!(is_success, "{log}");
        let summary = std::fs::read_to_string(self.folder.path().join("summary.json")).unwrap();
        serde_json::from_str(&summary).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        let ended = process.child.try_wait().ok().flatten();
        let words = self.last_words();
        if std::thread::panicking() {
            let how = ended.map_or_else(|| "still ran".to_owned(), |status| status.to_string());
            eprintln!("vernierd ({how}) said: {words}");
        }
    }
}

/// Sends a signal to a process.
pub fn signal(signal: &str, id: u32) {
    let sent = Command::new("kill")
        .args([signal, &id.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Log of a process into a pipe, from now until its end.
fn rest_of_log(process: &mut Process) -> String {
    let mut log = Vec::new();
    if let Some(mut pipe) = process.child.stderr.take() {
        pipe.read_to_end(&mut log).unwrap();
    }
    String::from_utf8_lossy(&log).into_owned()
}

/// Sends SIGINT and waits for the process to end. Returns whether it succeeded, and its log.
pub fn interrupt(mut process: Process) -> (bool, String) {
    signal("-INT", process.child.id());
    let log = rest_of_log(&mut process);
    (process.child.wait().unwrap().success(), log)
}

/// received + copies = transmitted + dropped + queued over all ports of a snapshot, exactly.
pub fn assert_conserved(snapshot: &Value) {
    let ports = |field: &str| sum(&snapshot["ports"], |port| number(&port[field]));
    let dropped = sum(&snapshot["ports"], |port| {
        sum(&port["drops"], |drop| number(&drop["packets"]))
    });
    assert_eq!(
        ports("rx_packets") + ports("copies"),
        ports("tx_packets") + dropped + ports("queued_packets"),
        "{snapshot:#}"
    );
}

/// Checks that each segment of a snapshot has received at least this number of packets, and that all packets sent were
/// received, dropped or late.
pub fn assert_segments_add_up(snapshot: &Value, received_min: u64) {
    for segment in snapshot["segments"].as_array().unwrap() {
        let count = |name: &str| number(&segment["total"]["counts"][name]);
        assert!(count("received_packets") >= received_min, "{segment:#}");
        assert_eq!(
            count("sent_packets"),
            count("received_packets") + count("dropped_packets") + count("late_packets"),
            "{segment:#}"
        );
    }
}
