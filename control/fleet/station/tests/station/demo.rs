//! The demonstrations of `make demo` print what they promise, and leave nothing behind, however they end.

use std::fs::read_dir;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::process::wait_for;
use testkit::skip;

/// Environment variable of every process of a demonstration.
const MARK: &str = "VERNIER_DEMO_MARK";

/// Exit code of a demonstration that lacks something on this machine.
const LACKS: i32 = 77;

/// Returns the command of a demonstration, if all of its programs are built.
fn demo(name: &str) -> Option<Command> {
    let programs = Path::new(env!("CARGO_BIN_EXE_vernier-station")).parent()?;
    let mut needed = ["vernierd", "vernier", "librte_vernier.so"].iter();
    if !needed.all(|file| programs.join(file).exists()) {
        skip("vernierd, vernier and the plugin were not built (cargo build --workspace)");
        return None;
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let tools = examples.join("../.tools/usr/sbin");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", tools.display());
    let mut command = Command::new(examples.join("demo.sh"));
    command
        .arg(name)
        .env("PATH", path)
        .env("PROGRAMS", programs)
        .env(MARK, std::process::id().to_string());
    Some(command)
}

/// Returns the number of remaining processes of this test's demonstrations.
fn left() -> usize {
    let mark = format!("{MARK}={}\0", std::process::id());
    let is_marked = |environment: &Vec<u8>| {
        let mut parts = environment.windows(mark.len());
        parts.any(|part| part == mark.as_bytes())
    };
    let processes = read_dir("/proc").unwrap();
    let environments = processes.filter_map(|entry| {
        let environment = entry.ok()?.path().join("environ");
        std::fs::read(environment).ok()
    });
    environments.filter(is_marked).count()
}

/// Runs a demonstration to its end. It must print these words, and leave nothing behind.
fn shows(name: &str, words: &[&str]) {
    let Some(mut demo) = demo(name) else { return };
    let output = demo.output().unwrap();
    let (shown, errors) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8_lossy(&output.stderr),
    );
    if output.status.code() == Some(LACKS) {
        return skip(&errors);
    }
    assert!(output.status.success(), "{shown}{errors}");
    for words in words {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    wait_for("no process is left", || left() == 0);
    for interface in ["inside", "host0"] {
        let interface = Path::new("/sys/class/net").join(interface);
        assert!(!interface.exists(), "{} is left", interface.display());
    }
    for file in ["vernier.json", "1.sock", "conf.db", "store"] {
        assert!(!Path::new("/run").join(file).exists(), "{file} is left");
    }
}

#[test]
fn a_firewall_that_drops_is_measured_and_the_flows_that_lose_are_marked() {
    shows("firewall", &["returned  lost", "<- lost", "docs/around.md"]);
}

#[test]
fn the_hop_that_becomes_slow_is_named() {
    let cause = "delay's rise is in edge-1:trunk > edge-2:trunk: +";
    shows("sites", &["$ vernier path", cause, "docs/station.md"]);
}

#[test]
fn a_starved_class_and_the_remedy_are_shown() {
    shows(
        "class",
        &["lan>uplink calls", "is corrected", "classes.json"],
    );
}

#[test]
fn the_slowest_flows_of_open_vswitch_are_listed() {
    shows("ovs", &["p0>p1", "docs/plugin.md"]);
}

#[test]
fn nothing_is_left_of_a_demonstration_that_is_interrupted_or_killed() {
    for signal in ["INT", "TERM", "KILL"] {
        let Some(mut demo) = demo("sites") else {
            return;
        };
        let mut demo = demo.stdout(Stdio::null()).spawn().unwrap();
        wait_for("its programs run", || left() > 5);
        let id = demo.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        assert!(!demo.wait().unwrap().success(), "{signal}");
        wait_for("no process is left", || left() == 0);
    }
}
