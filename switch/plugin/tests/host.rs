//! A program of our own. If it forks, its child is not measured; if it leaves no room in its mbufs, it is not measured
//! at all. The plugin logs this once, and the program continues.
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

/// Runs the program; returns its output, and the plugin's complaints.
fn host(plugin: &Plugin, what: &str) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("host");
    let flags = run(Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host.c");
    run(Command::new("gcc")
        .arg("-o")
        .arg(&program)
        .arg(source)
        .args(flags.split_whitespace()));
    let mut command = Command::new(&program);
    command
        .args(["--no-huge", "--no-shconf", "--no-telemetry", "--no-pci"])
        .args(["--lcores=0", "-m", "128", "--vdev=net_null0"])
        .args(plugin.arguments())
        .args(["--", what]);
    plugin.settle(&mut command);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    let ours = complained.lines().filter(|line| line.contains("VERNIER"));
    (said, ours.map(str::to_owned).collect())
}

#[test]
fn a_child_is_not_measured_and_says_so_once() {
    let settings = json!({ "measurement": { "interval_ms": 100, "flows": null } });
    let Some(plugin) = Plugin::with(settings) else {
        return;
    };
    let (said, ours) = host(&plugin, "fork");
    assert!(
        said.contains("child ") && said.contains("parent "),
        "{said}"
    );
    assert!(
        ours.len() == 1 && ours[0].contains("was forked"),
        "{ours:?}"
    );
}

#[test]
fn without_room_in_mbufs_the_plugin_is_off_and_says_so_once() {
    let Some(plugin) = Plugin::with(json!({})) else {
        return;
    };
    let (said, ours) = host(&plugin, "full");
    assert!(said.contains("before "), "{said}");
    assert!(
        ours.len() == 1
            && ours[0].contains("disabled, the program runs on without it")
            && ours[0].contains("no 24 free bytes in the mbuf"),
        "{ours:?}"
    );
}
