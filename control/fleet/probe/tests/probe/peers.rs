//! `stamp-suite` at the other end, both ways; clocks that are set, and a path that gets longer.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::process::{self, Background};

use crate::support::{
    Daemon, faketime, folder, peer_reflector, probe, reflector, set_clock, stamp_suite, with_clock,
};

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

/// A hop between sender and reflector that delays packets in the forward direction.
struct Hop {
    address: SocketAddr,
    delay_ms: Arc<AtomicU64>,
    _forwarding: Background,
}

impl Hop {
    fn to(reflector: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        for socket in [&near, &far] {
            socket.set_nonblocking(true).unwrap();
        }
        let address = near.local_addr().unwrap();
        let delay_ms = Arc::new(AtomicU64::new(0));
        let delay = Arc::clone(&delay_ms);
        let forwarding = Background::start(move |stopped| {
            let (mut sender, mut buffer, mut waiting) = (None, [0; 2_048], Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                while let Ok((bytes, from)) = near.recv_from(&mut buffer) {
                    sender = Some(from);
                    let until =
                        Instant::now() + Duration::from_millis(delay.load(Ordering::Relaxed));
                    waiting.push((until, buffer[..bytes].to_vec()));
                }
                waiting.retain(|(until, packet)| {
                    let waits = Instant::now() < *until;
                    if !waits {
                        far.send_to(packet, reflector).unwrap();
                    }
                    waits
                });
                while let Ok((bytes, _)) = far.recv_from(&mut buffer) {
                    near.send_to(&buffer[..bytes], sender.unwrap()).unwrap();
                }
                thread::sleep(Duration::from_micros(200));
            }
        });
        Self {
            address,
            delay_ms,
            _forwarding: forwarding,
        }
    }
}

fn config(to: SocketAddr) -> Value {
    json!({
        "interval_ms": 250,
        "timestamps": "program",
        "sessions": [{ "name": "a", "to": to.to_string(), "interval_ms": 5, "schedule": "periodic" }],
    })
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Waits for this number of intervals, until all of them are steady; returns the last.
fn steady(daemon: &mut Daemon) -> Value {
    let before = daemon.until("no result", |_| true);
    let since = number(&before["last"]["interval"]) + 8.0;
    daemon.until("clocks are not steady", |session| {
        session["last"]["clocks"]["state"] == "steady"
            && number(&session["last"]["interval"]) >= since
    })
}

#[test]
fn the_reflectors_clock_that_is_set_is_told_from_a_longer_path() {
    let (Some(program), Some(library)) = (stamp_suite(), faketime()) else {
        return;
    };
    let (folder, _) = folder();
    let offset = folder.path().join("offset");
    set_clock(&offset, 0.0);
    let (_peer, address) = peer_reflector(&program, folder.path(), "127.0.0.1", |command| {
        command.args(["--hwtstamp", "off"]);
        with_clock(command, &library, &offset);
    });
    let hop = Hop::to(address);
    let mut daemon = Daemon::start(folder.path(), config(hop.address), |_| {});
    let before = steady(&mut daemon);
    assert_eq!(before["total"]["clock_steps"], 0, "{before}");

    for (steps, (offset_s, step_s)) in (1_u32..).zip([(2.5, 2.5), (-3_600.0, -3_602.5)]) {
        set_clock(&offset, offset_s);
        let session = daemon.until("the step is not flagged", |session| {
            session["total"]["clock_steps"] == steps
        });
        let clocks = &session["last_step"]["clocks"];
        assert_eq!(clocks["state"], "reflector_stepped", "{session}");
        let measured_s = number(&clocks["step_ns"]) / 1e9;
        assert!((measured_s - step_s).abs() < 0.5, "{measured_s} {step_s}");
        steady(&mut daemon);
    }

    // The path gets longer by 200 ms: no clock's fault.
    let before = steady(&mut daemon);
    hop.delay_ms.store(200, Ordering::Relaxed);
    let least = |session: &Value, way: &str| number(&session["last"][way]["min_ns"]);
    let longer = |session: &Value| {
        !session["last"]["forward"].is_null()
            && least(session, "forward") - least(&before, "forward") > 150e6
    };
    daemon.until("the path is not longer", longer);
    let after = steady(&mut daemon);
    assert!(
        longer(&after) && least(&after, "round_trip") > 150e6,
        "{after}"
    );
    assert!(
        (least(&after, "backward") - least(&before, "backward")).abs() < 100e6,
        "{after}"
    );
    assert_eq!(after["total"]["clock_steps"], 2, "{after}");
}

#[test]
fn the_own_clock_that_is_set_is_known_as_such() {
    let (Some(program), Some(library)) = (stamp_suite(), faketime()) else {
        return;
    };
    let (folder, _) = folder();
    let offset = folder.path().join("offset");
    set_clock(&offset, 0.0);
    let (_peer, address) = peer_reflector(&program, folder.path(), "127.0.0.1", |_| ());
    let mut daemon = Daemon::start(folder.path(), config(address), |command| {
        with_clock(command, &library, &offset);
    });
    steady(&mut daemon);
    set_clock(&offset, 2.0);
    let session = daemon.until("the step is not flagged", |session| {
        session["total"]["clock_steps"] != 0
    });
    let clocks = &session["last_step"]["clocks"];
    assert_eq!(clocks["state"], "sender_stepped", "{session}");
    // The other clock falls behind.
    assert!(
        (number(&clocks["step_ns"]) / 1e9 + 2.0).abs() < 0.5,
        "{session}"
    );
    let session = steady(&mut daemon);
    // No packet that was under way meanwhile has a delay of seconds.
    assert!(
        number(&session["total"]["round_trip_s"]) / number(&session["total"]["round_trips"]) < 0.5,
        "{session}"
    );
    assert_eq!(session["total"]["clock_steps"], 1);
}
