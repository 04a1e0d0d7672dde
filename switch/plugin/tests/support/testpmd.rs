//! Debian's unmodified `dpdk-testpmd`, driven at its prompt.

use std::fs::{self, File};
use std::io::Write;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use testkit::process::Process;

use super::{PATIENCE, Plugin};

/// testpmd, whose output goes to files.
pub struct Testpmd {
    process: Process,
    prompt: ChildStdin,
    folder: tempfile::TempDir,
}

impl Testpmd {
    pub fn start(plugin: Option<&Plugin>, devices: &[String], arguments: &[&str]) -> Self {
        let eal = ["-m", "512", "--no-huge", "--no-shconf", "--no-telemetry"];
        Self::with_eal(&eal, plugin, devices, arguments)
    }

    /// Starts it with other EAL arguments: a guest shares its memory, in huge pages, with a switch.
    pub fn with_eal(
        eal: &[&str],
        plugin: Option<&Plugin>,
        devices: &[String],
        arguments: &[&str],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(folder.path().join(name)).unwrap();
        // Otherwise it would write to a file in blocks.
        let mut command = Command::new("stdbuf");
        command
            .args(["--output=L", "dpdk-testpmd", "--lcores=0@0,1@1", "--no-pci"])
            .args(eal)
            .args(devices.iter().map(|device| format!("--vdev={device}")))
            .args(plugin.iter().flat_map(|plugin| plugin.arguments()))
            .args(["--", "--interactive", "--total-num-mbufs=32768"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(file("said"))
            .stderr(file("complained"));
        if let Some(plugin) = plugin {
            plugin.settle(&mut command);
        }
        let mut process = Process::start(&mut command).unwrap();
        let prompt = process.child.stdin.take().unwrap();
        Self {
            process,
            prompt,
            folder,
        }
    }

    pub fn tell(&mut self, command: &str) {
        if let Err(error) = writeln!(self.prompt, "{command}") {
            let ended = self.process.child.try_wait();
            panic!(
                "{command}: {error}: {ended:?}: {}{}",
                self.said(),
                self.complained()
            );
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    pub fn said(&self) -> String {
        self.read("said")
    }

    pub fn complained(&self) -> String {
        self.read("complained")
    }

    /// Waits until it has printed a text this number of times.
    pub fn wait_for(&mut self, words: &str, times: usize) {
        let began = Instant::now();
        while self.said().matches(words).count() < times {
            let ended = self.process.child.try_wait().unwrap();
            assert!(
                ended.is_none() && began.elapsed() < PATIENCE,
                "{words:?} did not come ({ended:?}): {}{}",
                self.said(),
                self.complained()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn quit(mut self) -> (ExitStatus, String, String) {
        self.tell("quit");
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.child.try_wait().unwrap() {
                return (status, self.said(), self.complained());
            }
            assert!(
                began.elapsed() < PATIENCE,
                "it does not end: {}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops it; it must exit successfully, and the plugin must not have complained.
    pub fn quit_quietly(self) {
        let (status, said, complained) = self.quit();
        assert!(
            status.success() && !complained.contains("VERNIER"),
            "{status}: {said}{complained}"
        );
    }

    /// Waits until the plugin complains.
    pub fn wait_for_complaint(&self) {
        let began = Instant::now();
        while !self.complained().contains("VERNIER") {
            assert!(began.elapsed() < PATIENCE, "{}", self.complained());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Reads a file of the kernel about its process, which at first is stdbuf.
    fn about(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.process.child.id())).unwrap()
    }

    pub fn resident_kib(&self) -> u64 {
        testkit::process::resident_kib(self.process.child.id()).unwrap()
    }

    /// Memory for which huge pages were requested, and how much of it is on huge pages.
    pub fn huge_kib(&self) -> (u64, u64) {
        let (mut asked, mut huge, mut resident, mut has) = (0, 0, 0, 0);
        for line in self.about("smaps").lines() {
            resident = kib(line, "Rss").unwrap_or(resident);
            has = kib(line, "AnonHugePages").unwrap_or(has);
            if line.starts_with("VmFlags:") && line.contains(" hg") {
                asked += resident;
                huge += has;
            }
        }
        (asked, huge)
    }
}

/// Value of a line such as `Rss: 12 kB`.
fn kib(line: &str, of: &str) -> Option<u64> {
    let value = line.strip_prefix(of)?.strip_prefix(':')?;
    value.trim().trim_end_matches(" kB").parse().ok()
}
