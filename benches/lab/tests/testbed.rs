//! Tests that the testbed starts, OSPF converges, the path from A to D is measured from end to end, and nothing is left
//! behind.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lints treat as ordinary functions"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::frr::Frr;

const PROGRAM: &str = env!("CARGO_BIN_EXE_vernier-lab");

/// Why this test cannot run here.
fn hindrance() -> Option<String> {
    let id = Command::new("id").arg("-u").output().unwrap().stdout;
    if id.trim_ascii() != b"0" {
        return Some("needs root".to_owned());
    }
    if Frr::find().is_none() {
        return Some("FRR is missing: make setup-test".to_owned());
    }
    // They are built with the workspace.
    let programs = ["vernierd", "vernier-probe", "vernier-station"];
    let missing = programs.map(|program| Path::new(PROGRAM).with_file_name(program));
    let missing = missing.iter().find(|program| !program.exists())?;
    Some(format!("there is no {}", missing.display()))
}

/// Processes that have this folder among their arguments.
fn processes(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(folder)).collect()
}

#[test]
fn the_testbed_measures_from_end_to_end_and_leaves_nothing_behind() {
    if let Some(why) = hindrance() {
        return testkit::skip(&why);
    }
    let folder = tempfile::tempdir().unwrap();
    let spaces = || fs::read_dir("/run/netns").map_or(0, Iterator::count);
    let before = spaces();
    let mut command = Command::new(PROGRAM);
    let output = command
        .args(["mplane", "--check"])
        .arg("--keep")
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("is covered"),
        "{said}"
    );
    assert_eq!(processes(folder.path()), Vec::<String>::new());
    assert_eq!(spaces(), before);
}
