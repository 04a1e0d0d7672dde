//! The plugin refuses a secondary process, whose ports belong to another process, with a message. Needs root and huge
//! pages.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use support::{PATIENCE, Plugin, huge_pages, run};
use testkit::process::Process;

/// Mount point of huge pages as files, which two processes can share.
struct Mount(PathBuf);

impl Mount {
    fn of(folder: &Path) -> Self {
        let at = folder.join("huge");
        fs::create_dir(&at).unwrap();
        run(Command::new("mount")
            .args(["-t", "hugetlbfs", "nodev"])
            .arg(&at));
        Self(at)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn testpmd(huge: &Mount, number: u8, extra: &[String], out: &Path) -> Process {
    let file = File::create(out).unwrap();
    let mut command = Command::new("stdbuf");
    command
        .args(["--output=L", "dpdk-testpmd", "--lcores=0@0,1@1"])
        .arg(format!("--huge-dir={}", huge.0.display()))
        .arg(format!("--file-prefix=vernier-{}", std::process::id()))
        .args(["--no-telemetry", "--no-pci"])
        .args(extra)
        .args(["--", "--interactive", "--total-num-mbufs=4096"])
        .args(["--num-procs=2", &format!("--proc-id={number}")])
        .stdin(Stdio::piped())
        .stdout(file.try_clone().unwrap())
        .stderr(file);
    Process::start(&mut command).unwrap()
}

fn wait_for(words: &str, file: &Path) {
    let began = Instant::now();
    let said = || fs::read_to_string(file).unwrap();
    while !said().contains(words) {
        assert!(
            began.elapsed() < PATIENCE,
            "{words:?} did not come: {}",
            said()
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn quit(mut process: Process) {
    writeln!(process.child.stdin.take().unwrap(), "quit").unwrap();
    assert!(process.child.wait().unwrap().success());
}

#[test]
fn a_secondary_process_is_refused_with_a_word_and_works() {
    let Some(plugin) = Plugin::install() else {
        return;
    };
    let Some(_pages) = huge_pages(320) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let huge = Mount::of(folder.path());
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let primary = ["-m", "192", "--vdev=net_null0", "--vdev=net_null1"];
    let primary = testpmd(&huge, 0, &primary.map(str::to_owned), &first);
    wait_for("testpmd>", &first);
    let mut extra = vec!["--proc-type=secondary".to_owned()];
    extra.extend(plugin.arguments());
    let secondary = testpmd(&huge, 1, &extra, &second);
    wait_for("VERNIER: disabled", &second);
    wait_for("testpmd>", &second);
    quit(secondary);
    quit(primary);
    let said = fs::read_to_string(&second).unwrap();
    let ours: Vec<_> = said
        .lines()
        .filter(|line| line.contains("VERNIER"))
        .collect();
    assert!(
        ours.len() == 1 && ours[0].contains("secondary process"),
        "{said}"
    );
}
