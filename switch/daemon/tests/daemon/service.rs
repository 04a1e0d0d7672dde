//! The daemon under a service manager: its `sd_notify(3)` messages, and the unit.
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, free_address, interrupt, signal, skip, vernierd};
use serde_json::json;
use testkit::process::Process;

/// Receives messages until `wanted`, and returns all of them.
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
    let mut command = vernierd();
    command
        .arg("--config")
        .arg(&file)
        .env("NOTIFY_SOCKET", &address)
        .env("WATCHDOG_USEC", "400000")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let process = Process::start(&mut command).unwrap();
    let heard = hear(&socket, "READY=1");
    assert!(
        heard.contains("STATUS=switching 2 ports with 1 workers"),
        "{heard}"
    );
    for _ in 0..3 {
        hear(&socket, "WATCHDOG=1");
    }

    // A reload notifies its beginning and its end.
    config["ports"][0]["egress"] = json!({ "queue_packets": 77 });
    std::fs::write(&file, config.to_string()).unwrap();
    signal("-HUP", process.child.id());
    let heard = hear(&socket, "RELOADING=1");
    assert!(heard.contains("MONOTONIC_USEC="), "{heard}");
    hear(&socket, "generation 1");

    let (is_success, log) = interrupt(process);
    assert!(is_success, "{log}");
    hear(&socket, "STOPPING=1");
}

/// The units, and by systemd's own marks from 0 to 10 how exposed each may be: a switch that needs NICs cannot have much less.
const UNITS: [(&str, f64); 3] = [
    ("vernierd", 3.2),
    ("vernier-probe", 2.0),
    ("vernier-station", 1.6),
];

/// Runs `systemd-analyze` on a unit. Its program is in place of the one that is installed, whichever that is.
fn analyze(name: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let unit = std::fs::read_to_string(examples.join(name).with_extension("service")).unwrap();
    let installed = format!("/usr/local/bin/{name}");
    assert!(unit.contains(&installed), "{unit}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name).with_extension("service");
    let unit = unit.replace(&installed, env!("CARGO_BIN_EXE_vernierd"));
    std::fs::write(&file, unit).unwrap();
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
fn systemd_has_nothing_to_say_of_the_units() {
    for (unit, _) in UNITS {
        if let Some(said) = analyze(unit, &["verify", "--man=no"]) {
            assert_eq!(said, (true, String::new()), "{unit}");
        }
    }
}

#[test]
fn units_are_exposed_no_more_than_they_have_to_be() {
    for (unit, mark_max) in UNITS {
        let Some((_, said)) = analyze(unit, &["security", "--offline=true", "--no-pager"]) else {
            return;
        };
        let level = said
            .lines()
            .find_map(|line| line.split_once("Overall exposure level for "));
        let (_, level) = level.unwrap_or_else(|| panic!("{said}"));
        let mark = level.split_whitespace().nth(1).unwrap();
        assert!(mark.parse::<f64>().unwrap() <= mark_max, "{said}");
    }
}

/// Access to a VFIO group includes all its devices, so the package's udev rule calls this script for each.
#[test]
fn udev_grants_groups_of_nics_and_no_other_devices() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages/vernier");
    let rule = std::fs::read_to_string(script.join("60-vernier.rules")).unwrap();
    assert!(
        rule.contains("PROGRAM==\"/usr/lib/vernier/vfio-is-network %k\""),
        "{rule}"
    );
    let sys = tempfile::tempdir().unwrap();
    let (nic, gpu, disk, bridge) = ("0x020000", "0x030000", "0x010802", "0x060400");
    let groups: [(&str, &[&str], bool); 8] = [
        ("1", &[nic], true),
        ("2", &[gpu], false),
        ("3", &[nic, disk], false),
        ("4", &[bridge, nic, "0x028000"], true),
        ("5", &[bridge], false),
        ("6", &[], false),
        ("noiommu-0", &[nic], false),
        ("../1", &[nic], false),
    ];
    for (group, classes, is_granted) in groups {
        let devices = sys
            .path()
            .join("kernel/iommu_groups")
            .join(group)
            .join("devices");
        for (n, class) in classes.iter().enumerate() {
            let device = devices.join(format!("0000:0{n}:00.0"));
            std::fs::create_dir_all(&device).unwrap();
            std::fs::write(device.join("class"), format!("{class}\n")).unwrap();
        }
        let mut asked = Command::new(script.join("vfio-is-network"));
        let status = asked.arg(group).arg(sys.path()).status().unwrap();
        assert_eq!(status.success(), is_granted, "{group}: {classes:?}");
    }
}
