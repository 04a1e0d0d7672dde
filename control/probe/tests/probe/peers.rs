//! `stamp-suite` at the other end.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::process;

use crate::support::{folder, peer_reflector, probe, reflector, stamp_suite};

const TLVS: &str =
    "location,timestamp_information,class_of_service,direct_measurement,follow_up_telemetry";

fn measured(command: &mut Command) -> Value {
    serde_json::from_str(&process::output(command).unwrap()).unwrap()
}

/// Our sender, `stamp-suite` reflects.
fn we_send(ip: &str, is_authenticated: bool) {
    let Some(program) = stamp_suite() else {
        return;
    };
    let (folder, key) = folder();
    let (_peer, address) = peer_reflector(&program, folder.path(), ip, |command| {
        command.args(["--stateful-reflector", "--clock-synchronized"]);
        command.args(["--clock-sync-source", "ptp"]);
        if is_authenticated {
            command.args(["-A", "A", "--hmac-key-file"]).arg(&key);
        }
    });
    let mut sender = probe();
    sender.arg(address.to_string());
    sender.args([
        "--json",
        "--count",
        "60",
        "--interval-ms",
        "4",
        "--dscp",
        "10",
        "--tlvs",
        TLVS,
        "--length",
        "400",
    ]);
    if is_authenticated {
        sender.arg("--key-file").arg(&key);
    }
    let result = measured(&mut sender);

    check_counts(&result);
    check_extensions(&result["extensions"], address.port());
}

/// All that was sent came back, over one clock.
fn check_counts(result: &Value) {
    for (field, expected) in [
        ("sent", 60),
        ("received", 60),
        ("lost", 0),
        ("duplicates", 0),
        ("rejected", 0),
        ("unusable", 0),
    ] {
        assert_eq!(result[field], expected, "{field}: {result}");
    }
    let round_trip = &result["round_trip"];
    assert_eq!(round_trip["samples"], 60);
    let ns = |value: &Value| value.as_f64().unwrap();
    // One clock: each way takes some time, and their least are no more than the least round trip.
    assert!(
        ns(&result["forward"]["min_ns"]) >= 0.0 && ns(&result["backward"]["min_ns"]) >= 0.0,
        "{result}"
    );
    let sum = ns(&result["forward"]["mean_ns"]) + ns(&result["backward"]["mean_ns"]);
    assert!(
        (ns(&round_trip["mean_ns"]) - sum).abs() < 1_000.0,
        "{result}"
    );
    assert_eq!(result["reflector_clock"]["is_synchronised"], true);
    assert_eq!(result["sender_clock"]["is_synchronised"], false);
    assert_eq!(result["one_way"], "relative");
    assert_eq!(result["stamps"]["sent"], "kernel");
    assert_eq!(result["stamps"]["received"], "kernel");
}

fn check_extensions(said: &Value, port: u16) {
    assert_eq!(said["dscp_received"], 10, "{said}");
    assert_eq!(said["clock"], "ptp");
    assert_eq!(said["reflector_received"], 60);
    assert_eq!(said["ports"][1], port);
    assert_eq!(said["follow_up"][0], 58);
    assert_eq!(said["unrecognised"], 0);
    assert_eq!(said["is_malformed"], false);
    assert_eq!(said["is_not_authentic"], false);
}

/// `stamp-suite` sends, our reflector answers.
fn we_reflect(ip: &str, is_authenticated: bool) {
    let Some(program) = stamp_suite() else {
        return;
    };
    let (folder, key) = folder();
    let key = is_authenticated.then_some(key.as_path());
    let (_ours, address) = reflector(folder.path(), ip, key);
    let result = measured(&mut peer(&program, address, key, (60, 3)));

    assert_eq!(result["packets_sent"], 60);
    assert_eq!(result["packets_received"], 60, "{result}");
    let measurements = &result["measurements"];
    assert_eq!(measurements["duplicate_replies"], 0);
    assert_eq!(measurements["last_reflector_sequence"], 59);
    let tlvs = &measurements["tlv_validation"];
    assert_eq!(tlvs["rejected_replies"], 0);
    for flag in ["unrecognized", "malformed", "integrity_failed"] {
        assert_eq!(tlvs["flags"][flag], 0, "{flag}: {tlvs}");
    }
    let kinds: Vec<_> = tlvs["by_type"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let mut expected = vec!["1", "2", "3", "4", "5", "7"];
    if is_authenticated {
        expected.push("8");
    }
    assert_eq!(kinds, expected);
    assert_eq!(
        tlvs["hmac"]["verified"],
        if is_authenticated { 60 } else { 0 }
    );
    let counts = &measurements["direct_measurement"]["latest_transmit"];
    assert_eq!(
        (&counts["reflector_rx"], &counts["reflector_tx"]),
        (&60.into(), &60.into())
    );
    let follow_up = &measurements["follow_up"];
    assert_eq!(
        (&follow_up["matched"], &follow_up["unmatched"]),
        (&59.into(), &0.into())
    );
    let quality = &measurements["follow_up"]["clock_quality"]["last_reflector"];
    assert_eq!(
        (&quality["synchronized"], &quality["format"]),
        (&false.into(), &"NTP".into())
    );
    assert!(
        result["owd"]["forward_min_ms"].as_f64().unwrap() >= 0.0,
        "{result}"
    );
}

fn peer(
    program: &Path,
    address: SocketAddr,
    key: Option<&Path>,
    (count, timeout_s): (u32, u32),
) -> Command {
    let (ip, port) = (&address.ip().to_string(), address.port());
    let mut command = Command::new(program);
    command.args(["-r", ip, "-p", &port.to_string(), "-S", ip, "-d", "4"]);
    command.args(["-c", &count.to_string(), "-L", &timeout_s.to_string()]);
    command.args([
        "--output-format",
        "json",
        "--ssid",
        "77",
        "--extra-padding",
        "100",
    ]);
    command.args([
        "--location",
        "--timestamp-info",
        "--cos",
        "--direct-measurement",
        "--follow-up-telemetry",
    ]);
    if let Some(key) = key {
        command.args(["-A", "A", "--hmac-key-file"]).arg(key);
    }
    command
}

#[test]
fn we_send_plain() {
    we_send("127.0.0.1", false);
}

#[test]
fn we_send_authenticated_over_ipv6() {
    we_send("::1", true);
}

#[test]
fn we_reflect_plain_over_ipv6() {
    we_reflect("::1", false);
}

#[test]
fn we_reflect_authenticated() {
    we_reflect("127.0.0.1", true);
}

/// Who has another key gets no answer, and takes none.
#[test]
fn keys_that_differ_do_not_talk() {
    let Some(program) = stamp_suite() else {
        return;
    };
    let (folder, key) = folder();
    let other = folder.path().join("other");
    std::fs::copy(&key, &other).unwrap();
    std::fs::write(&other, "7c".repeat(32)).unwrap();
    let (_ours, address) = reflector(folder.path(), "127.0.0.1", Some(&other));
    let mut command = peer(&program, address, Some(&key), (5, 1));
    let output = command.output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&result["packets_sent"], &result["packets_received"]),
        (&5.into(), &0.into())
    );
}
