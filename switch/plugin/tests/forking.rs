//! A program that forks: its child is not measured, says so once, and goes on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::json;
use support::{Plugin, run};

#[test]
fn a_child_is_not_measured_and_says_so_once() {
    let settings = json!({ "measurement": { "interval_ms": 100, "flows": null } });
    let Some(plugin) = Plugin::with(settings) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("forking");
    let flags = run(Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forking.c");
    run(Command::new("gcc")
        .arg("-o")
        .arg(&program)
        .arg(source)
        .args(flags.split_whitespace()));
    let mut command = Command::new(&program);
    command
        .args(["--no-huge", "--no-shconf", "--no-telemetry", "--no-pci"])
        .args(["--lcores=0", "-m", "128", "--vdev=net_null0"])
        .args(plugin.arguments());
    plugin.settle(&mut command);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(
        said.contains("child ") && said.contains("parent "),
        "{said}"
    );
    let ours = complained.lines().filter(|line| line.contains("VERNIER"));
    let ours: Vec<_> = ours.collect();
    assert!(
        ours.len() == 1 && ours[0].contains("was forked"),
        "{complained}"
    );
}
