//! Programs, files and addresses of the tests.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::http;
use testkit::process::{Process, free_ports, has_udp_socket};
use testkit::skip;

/// The peer (`make setup-test` installs it).
pub fn stamp_suite() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../.tools/usr/bin");
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

/// Runs a command with a clock offset from the file.
pub fn with_clock(command: &mut Command, library: &Path, offset: &Path) {
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", offset)
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

/// Sets that clock's offset from the machine's, in seconds.
pub fn set_clock(file: &Path, offset_s: f64) {
    let new = file.with_extension("new");
    std::fs::write(&new, format!("{offset_s:+}\n")).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// `vernier-probe`.
pub fn probe() -> Command {
    Command::new(env!("CARGO_BIN_EXE_vernier-probe"))
}

/// An address for a program that takes no port 0, reserved for this test.
pub fn own_address(ip: &str) -> SocketAddr {
    (ip.parse::<IpAddr>().unwrap(), free_ports(1).unwrap()).into()
}

/// What a program wrote into its log behind these words, to the end of the line.
pub fn logged<T: FromStr>(process: &mut Process, words: &str) -> T {
    let find = |process: &Process| {
        let log = process.log();
        let mut lines = log
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let found = lines.find_map(|line| line.split_once(words));
        Ok(found.and_then(|(_, rest)| rest.trim().parse().ok()))
    };
    process.until(words, find).unwrap()
}

/// A folder with a key.
pub fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "6b".repeat(32)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    (folder, key)
}

/// The peer as a reflector at an address of this test, with additions by `prepare`.
pub fn peer_reflector(
    program: &Path,
    folder: &Path,
    ip: &str,
    prepare: impl FnOnce(&mut Command),
) -> (Process, SocketAddr) {
    let address = own_address(ip);
    let mut command = Command::new(program);
    command.args(["-i", "-S", &address.ip().to_string()]);
    command.args(["-o", &address.port().to_string()]);
    prepare(&mut command);
    let mut peer = Process::start_logged(&mut command, folder.join("peer.log")).unwrap();
    let is_bound = |_: &Process| Ok(has_udp_socket(address.port()).then_some(()));
    peer.until("no socket", is_bound).unwrap();
    (peer, address)
}

/// Our reflector at a port chosen by the system, and its address.
pub fn reflector(folder: &Path, ip: &str, key: Option<&Path>) -> (Process, SocketAddr) {
    static STARTED: AtomicU16 = AtomicU16::new(0);
    let mut command = probe();
    let listen = SocketAddr::new(ip.parse().unwrap(), 0);
    command
        .args(["--reflect", "--listen"])
        .arg(listen.to_string());
    if let Some(key) = key {
        command.arg("--key-file").arg(key);
    }
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let log = folder.join(format!("reflector-{number}.log"));
    let mut process = Process::start_logged(&mut command, log).unwrap();
    let address = logged(&mut process, "reflector at ");
    (process, address)
}

/// A running `vernier-probe --config`.
pub struct Daemon {
    pub process: Process,
    http: SocketAddr,
}

impl Daemon {
    /// Starts it with a configuration whose HTTP address is filled in.
    pub fn start(folder: &Path, mut config: Value, prepare: impl FnOnce(&mut Command)) -> Self {
        static STARTED: AtomicU16 = AtomicU16::new(0);
        config["http"] = json!({ "listen": "127.0.0.1:0" });
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let file = folder.join(format!("probe-{number}.json"));
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = probe();
        command.arg("--config").arg(file);
        prepare(&mut command);
        let mut process =
            Process::start_logged(&mut command, folder.join(format!("probe-{number}.log")))
                .unwrap();
        let http = logged(&mut process, "http://");
        Self { process, http }
    }

    /// A page.
    pub fn page(&self, path: &str) -> Option<String> {
        http::text(self.http, path)
    }

    /// An answer; null if there is none.
    pub fn json(&self, path: &str) -> Value {
        http::json(self.http, path)
    }

    /// The status and the text of a page, also of an error.
    pub fn status(&self, path: &str) -> (u16, String) {
        http::answer(self.http, path).unwrap()
    }

    /// What its reflector counted, as soon as that satisfies `is_so`.
    pub fn reflector(&mut self, complaint: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.answer("/api/v1/reflector", complaint, |answer| {
            Some(answer["reflector"].clone()).filter(|counts| is_so(counts))
        })
    }

    /// Waits until the first session satisfies `is_so`; the session.
    pub fn until(&mut self, complaint: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.answer("/api/v1/sessions", complaint, |answer| {
            Some(answer["sessions"][0].clone())
                .filter(|session| session.is_object() && is_so(session))
        })
    }

    fn answer(
        &mut self,
        path: &str,
        complaint: &str,
        pick: impl Fn(&Value) -> Option<Value>,
    ) -> Value {
        let http = self.http;
        let ask = |_: &Process| Ok(pick(&http::json(http, path)));
        self.process.until(complaint, ask).unwrap()
    }
}

/// Of a command that has ended: its code, standard output and standard error.
pub fn ran(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = probe().args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}
