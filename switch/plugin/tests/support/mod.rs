//! Host programs with the plugin: where the plugin is, and its answers.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod ovs;
pub mod testpmd;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::http;
use testkit::hugepages::Hugepages;
use testkit::pcap::{Writer, udp_frame};
pub use testkit::process::PATIENCE;
use testkit::process::{free_address, output};
pub use testkit::skip;

const OBJECT: &str = "librte_vernier.so";
const VHOST: &str = "libvernier_vhost.so";

/// Names the runtime of the sanitizer with which the plugin was built (`make sanitize`); a program built without it has
/// to load it first.
const SANITIZER_RUNTIME: &str = "VERNIER_SANITIZER_RUNTIME";

/// The plugin in a folder from which EAL accepts it: root owns all folders above it, and no other user may write.
pub struct Plugin {
    pub folder: PathBuf,
    pub address: SocketAddr,
    settings: Option<PathBuf>,
    /// Another copy of it, which EAL loads after it.
    copy: Option<PathBuf>,
    /// Objects to preload into a program.
    preloaded: Vec<PathBuf>,
    /// Whether EAL loads it.
    pub is_loaded: bool,
}

impl Plugin {
    /// With these settings, whose HTTP address is filled in; `None`, with a message, for users other than root.
    pub fn with(mut settings: Value) -> Option<Self> {
        let mut plugin = Self::install()?;
        settings["http"]["listen"] = plugin.address.to_string().into();
        plugin.write_settings(&settings.to_string());
        Some(plugin)
    }

    /// Without settings.
    pub fn install() -> Option<Self> {
        if !is_root() {
            skip("EAL loads plugins only from folders of root");
            return None;
        }
        let folder = tempfile::Builder::new()
            .prefix("vernier-test-")
            .tempdir_in("/run")
            .unwrap()
            .keep();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let plugin = Self {
            folder,
            address: free_address().unwrap(),
            settings: None,
            copy: None,
            preloaded: std::env::var_os(SANITIZER_RUNTIME)
                .map(PathBuf::from)
                .into_iter()
                .collect(),
            is_loaded: true,
        };
        fs::copy(built(OBJECT), plugin.file()).unwrap();
        Some(plugin)
    }

    pub fn write_settings(&mut self, text: &str) {
        let file = self.folder.join("vernier.json");
        fs::write(&file, text).unwrap();
        self.settings = Some(file);
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join(OBJECT)
    }

    /// Makes programs load the plugin once more, from another file.
    pub fn load_twice(&mut self) {
        let copy = self.folder.join("copy.so");
        fs::copy(built(OBJECT), &copy).unwrap();
        self.copy = Some(copy);
    }

    /// Makes programs preload the object that shows the plugin their vhost-user ports.
    pub fn preload_vhost(&mut self) {
        let object = self.folder.join(VHOST);
        fs::copy(built(VHOST), &object).unwrap();
        self.preloaded.push(object);
    }

    /// EAL's arguments: this plugin, and the drivers that EAL would otherwise find by itself.
    pub fn arguments(&self) -> Vec<String> {
        let drivers = drivers().display().to_string();
        let file = self.file().display().to_string();
        let copy = self.copy.as_ref().map(|copy| copy.display().to_string());
        let loaded = [Some(file), copy, Some(drivers)].into_iter().flatten();
        let loaded = loaded.filter(|_| self.is_loaded);
        loaded.flat_map(|file| ["-d".to_owned(), file]).collect()
    }

    /// Builds `source`, a file of this folder, and makes programs preload it.
    pub fn preload(&mut self, source: &str) {
        let object = self.folder.join(source).with_extension("so");
        run(Command::new("gcc")
            .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&object)
            .arg(
                Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("tests")
                    .join(source),
            ));
        self.preloaded.push(object);
    }

    /// Sets a program's environment: the settings, and the objects to preload.
    pub fn settle(&self, command: &mut Command) {
        if !self.preloaded.is_empty() {
            let files = self.preloaded.iter().map(|file| file.display().to_string());
            command.env("LD_PRELOAD", files.collect::<Vec<_>>().join(":"));
        }
        if let Some(settings) = &self.settings {
            command.env("VERNIER_CONFIG", settings);
        }
    }

    /// Returns the body at `path`, once the plugin answers.
    pub fn get(&self, path: &str) -> Option<String> {
        http::text(self.address, path)
    }

    /// The JSON at `path`.
    pub fn json(&self, path: &str) -> Option<Value> {
        serde_json::from_str(&self.get(path)?).ok()
    }

    /// Waits until the plugin has this number of ports.
    pub fn wait_for_ports(&self, count: usize) {
        self.wait("/api/v1/snapshot", &format!("{count} ports"), |snapshot| {
            (snapshot["ports"].as_array()?.len() == count).then_some(())
        });
    }

    /// Waits for epochs with estimates of segments.
    pub fn wait_for_good_epochs(&self) {
        let good = |snapshot: &Value| {
            let segments = snapshot["segments"].as_array()?.iter();
            let epochs = segments.filter_map(|one| one["total"]["estimated_epochs"].as_u64());
            Some(epochs.sum::<u64>())
        };
        let before = self.wait("/api/v1/snapshot", "segments", good);
        self.wait("/api/v1/snapshot", "good epochs", |snapshot| {
            (good(snapshot)? > before).then_some(())
        });
    }

    /// Waits for a response for which `wanted` returns a value; a response other than JSON is passed as a string.
    pub fn wait<T>(&self, path: &str, what: &str, wanted: impl Fn(&Value) -> Option<T>) -> T {
        let began = Instant::now();
        let mut last = None;
        loop {
            let answer = self.get(path);
            let answer =
                answer.map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
            last = answer.or(last);
            if let Some(found) = last.as_ref().and_then(&wanted) {
                return found;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "waited for {what} in vain: {last:#?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A shared object that was built with this test, in the same folder.
fn built(object: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap().join(object);
    assert!(beside.exists(), "{} is not built", beside.display());
    beside
}

/// DPDK's folder of drivers.
fn drivers() -> PathBuf {
    let library = Command::new("pkg-config")
        .args(["--variable=libdir", "libdpdk"])
        .output()
        .unwrap();
    let library = String::from_utf8(library.stdout).unwrap();
    let folders = fs::read_dir(Path::new(library.trim()).join("dpdk")).unwrap();
    let mut folders = folders.map(|folder| folder.unwrap().path());
    folders
        .find(|folder| folder.display().to_string().contains("pmds-"))
        .expect("DPDK's drivers")
}

pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().unwrap().stdout == b"0\n"
}

/// Reserves huge pages, in MiB, as long as the value lives; `None`, with a message, if they are not available.
pub fn huge_pages(memory_mib: u64) -> Option<Hugepages> {
    let pages = Hugepages::reserve(memory_mib);
    pages.inspect_err(|error| skip(&error.to_string())).ok()
}

/// Runs a command that must succeed; returns its output.
pub fn run(command: &mut Command) -> String {
    output(command).unwrap()
}

/// A capture of `flows` UDP flows, one packet each: 10.0.0.1:1000+n > 10.0.0.2:9.
pub fn capture(file: &Path, flows: u16) {
    let mut capture = Writer::new(fs::File::create(file).unwrap()).unwrap();
    for n in 0..flows {
        let [from, to] = [1, 2].map(|host| Ipv4Addr::new(10, 0, 0, host));
        let frame = udp_frame(n, (from, 1_000 + n), (to, 9), &[0; 18]);
        capture.write_at(n.into(), 0, &frame).unwrap();
    }
    capture.finish().unwrap();
}
