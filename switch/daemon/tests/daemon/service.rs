//! The daemon under a service manager: what `sd_notify(3)` hears from it, and the unit.
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Guard, PATIENCE, free_address, interrupt, signal, skip, vernierd};
use serde_json::json;

/// Hears until `wanted` has been said, and returns all that was.
fn hear(socket: &UnixDatagram, wanted: &str) -> String {
    let began = Instant::now();
    let (mut heard, mut bytes) = (String::new(), [0; 4096]);
    while !heard.contains(wanted) {
        assert!(began.elapsed() < PATIENCE, "{wanted:?} is not in {heard:?}");
        if let Ok(len) = socket.recv(&mut bytes) {
            heard += std::str::from_utf8(&bytes[..len]).unwrap();
            heard.push('\n');
        }
    }
    heard
}

#[test]
fn systemd_hears_of_its_life() {
    let folder = tempfile::tempdir().unwrap();
    let address = folder.path().join("notify");
    let socket = UnixDatagram::bind(&address).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut config = json!({
        "ports": [
            { "name": "a", "device": "generate:flows=10,rate=1000" },
            { "name": "b", "device": "sink" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
        "workers": [{ "idle": "sleep" }],
        "http": { "listen": free_address().to_string() },
    });
    let file = folder.path().join("vernier.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let child = vernierd()
        .arg("--config")
        .arg(&file)
        .env("NOTIFY_SOCKET", &address)
        .env("WATCHDOG_USEC", "400000")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = Guard(Some(child.unwrap()));
    let heard = hear(&socket, "READY=1");
    assert!(
        heard.contains("STATUS=switching 2 ports with 1 workers"),
        "{heard}"
    );
    for _ in 0..3 {
        hear(&socket, "WATCHDOG=1");
    }

    // A reload says when it begins and when it is over.
    config["ports"][0]["egress"] = json!({ "queue_packets": 77 });
    std::fs::write(&file, config.to_string()).unwrap();
    signal("-HUP", child.0.as_ref().unwrap().id());
    let heard = hear(&socket, "RELOADING=1");
    assert!(heard.contains("MONOTONIC_USEC="), "{heard}");
    hear(&socket, "generation 1");

    let output = interrupt(child.0.take().unwrap());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    hear(&socket, "STOPPING=1");
}

/// Runs `systemd-analyze` on the unit, its program being the one that was built.
fn analyze(arguments: &[&str]) -> Option<(bool, String)> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vernierd.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let installed = "/usr/local/bin/vernierd";
    assert!(unit.contains(installed), "{unit}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vernierd.service");
    std::fs::write(
        &file,
        unit.replace(installed, env!("CARGO_BIN_EXE_vernierd")),
    )
    .unwrap();
    let output = Command::new("systemd-analyze")
        .args(arguments)
        .arg(&file)
        .output();
    let Ok(output) = output else {
        skip("there is no systemd-analyze (Debian package systemd)");
        return None;
    };
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8(said).unwrap()))
}

#[test]
fn systemd_has_nothing_to_say_of_the_unit() {
    if let Some(said) = analyze(&["verify", "--man=no"]) {
        assert_eq!(said, (true, String::new()));
    }
}

/// By systemd's own marks from 0 to 10; a switch that needs NICs cannot have much less.
#[test]
fn the_unit_is_exposed_no_more_than_it_has_to_be() {
    let Some((_, said)) = analyze(&["security", "--offline=true", "--no-pager"]) else {
        return;
    };
    let level = said
        .lines()
        .find_map(|line| line.split_once("Overall exposure level for "));
    let (_, level) = level.unwrap_or_else(|| panic!("{said}"));
    let mark = level.split_whitespace().nth(1).unwrap();
    assert!(mark.parse::<f64>().unwrap() <= 3.2, "{said}");
}
