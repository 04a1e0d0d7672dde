//! Programs, files and addresses of the tests.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::process::{self, Process};

/// Nobody interrupts a test.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// Says that a test cannot run; in CI that is a failure.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "in CI every test has to run: {why}"
    );
    eprintln!("skipped: {why}");
}

/// The peer (`make setup-test` installs it).
pub fn stamp_suite() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/usr/bin");
    let folders = std::env::split_paths(&path).chain([tools]);
    let found = folders
        .map(|folder| folder.join("stamp-suite"))
        .find(|file| file.exists());
    if found.is_none() {
        skip("there is no stamp-suite: `make setup-test` installs it");
    }
    found
}

/// The library that fakes the system's clock (Debian package faketime).
pub fn faketime() -> Option<PathBuf> {
    let places = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let mut libraries = places.map(|place| place.path().join("faketime/libfaketimeMT.so.1"));
    let library = libraries.find(|library| library.exists());
    if library.is_none() {
        skip("there is no libfaketime (Debian package faketime)");
    }
    library
}

/// Runs a command with a clock that is off by what the file says.
pub fn with_clock(command: &mut Command, library: &Path, offset: &Path) {
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", offset)
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

/// Sets that clock so many seconds off the machine's.
pub fn set_clock(file: &Path, offset_s: f64) {
    let new = file.with_extension("new");
    std::fs::write(&new, format!("{offset_s:+}\n")).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// `vernier-probe`.
pub fn probe() -> Command {
    Command::new(env!("CARGO_BIN_EXE_vernier-probe"))
}

/// A UDP port on loopback that nobody has now.
pub fn free_port(ip: &str) -> SocketAddr {
    let address: SocketAddr = SocketAddr::new(ip.parse().unwrap(), 0);
    UdpSocket::bind(address).unwrap().local_addr().unwrap()
}

/// A folder with a key.
pub fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "6b".repeat(32)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    (folder, key)
}

/// Waits until a reflector answers: the first packet that it gets is one that it does not understand, or does.
pub fn until_bound(process: &mut Process, address: SocketAddr) {
    let family = if address.is_ipv4() {
        "/proc/net/udp"
    } else {
        "/proc/net/udp6"
    };
    let port = format!(":{:04X} ", address.port());
    let is_bound = |_: &Process| {
        let sockets = std::fs::read_to_string(family)?;
        Ok(sockets
            .lines()
            .any(|line| line.contains(&port))
            .then_some(()))
    };
    process.until(&NEVER, "no socket", is_bound).unwrap();
}

/// Our reflector.
pub fn reflector(folder: &Path, address: SocketAddr, key: Option<&Path>) -> Process {
    let mut command = probe();
    command
        .args(["--reflect", "--listen"])
        .arg(address.to_string());
    if let Some(key) = key {
        command.arg("--key-file").arg(key);
    }
    let mut process = Process::start_logged(&mut command, folder.join("reflector.log")).unwrap();
    until_bound(&mut process, address);
    process
}

/// A running `vernier-probe --config`.
pub struct Daemon {
    pub process: Process,
    http: SocketAddr,
}

impl Daemon {
    /// Starts it with a configuration whose HTTP address is filled in.
    pub fn start(folder: &Path, mut config: Value, prepare: impl FnOnce(&mut Command)) -> Self {
        let http = process::free_address().unwrap();
        config["http"] = json!({ "listen": http.to_string() });
        let file = folder.join("probe.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = probe();
        command.arg("--config").arg(file);
        prepare(&mut command);
        let mut process = Process::start_logged(&mut command, folder.join("probe.log")).unwrap();
        let answers = |_: &Process| Ok(ureq::get(format!("http://{http}/healthz")).call().ok());
        process
            .until(&NEVER, "no answer over HTTP", answers)
            .unwrap();
        Self { process, http }
    }

    /// A page.
    pub fn page(&self, path: &str) -> Option<String> {
        let mut response = ureq::get(format!("http://{}{path}", self.http))
            .call()
            .ok()?;
        response.body_mut().read_to_string().ok()
    }

    /// Waits until the first session satisfies `is_so`; the session.
    pub fn until(&mut self, complaint: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let url = format!("http://{}/api/v1/sessions", self.http);
        let ask = |_: &Process| {
            let text = ureq::get(&url).call()?.body_mut().read_to_string()?;
            let answer: Value = serde_json::from_str(&text)?;
            let session = answer["sessions"][0].clone();
            Ok((session.is_object() && is_so(&session)).then_some(session))
        };
        self.process.until(&NEVER, complaint, ask).unwrap()
    }
}
