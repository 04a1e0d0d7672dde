//! JSON and Prometheus, a reflector and its sender in one daemon, and strangers; `docs/probe.md` names every metric and every key.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use probe::config::Config;
use serde_json::{Value, json};

use crate::support::{Daemon, folder, own_address};

fn config(reflector: SocketAddr, sessions: usize) -> Value {
    let session = |n: usize| json!({ "name": format!("s{n}"), "to": reflector.to_string(), "interval_ms": 20, "tlvs": ["direct_measurement"] });
    json!({
        "interval_ms": 200,
        "reflector": { "listen": [reflector.to_string()] },
        "sessions": (0..sessions).map(session).collect::<Vec<_>>(),
    })
}

#[test]
fn many_sessions_share_a_socket_and_are_told_apart() {
    let (folder, _) = folder();
    let reflector = own_address("127.0.0.1");
    let mut daemon = Daemon::start(folder.path(), config(reflector, 50), |_| {});
    daemon.until("no second interval", |session| {
        session["last"]["interval"].as_u64() > Some(3)
    });
    let answer = daemon.json("/api/v1/sessions");
    let sessions = answer["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 50);
    for session in sessions {
        let total = &session["total"];
        assert!(total["received"].as_u64() > Some(5), "{session}");
        assert_eq!(
            (&total["rejected"], &total["unusable"]),
            (&0.into(), &0.into()),
            "{session}"
        );
        let sum = total["received"].as_u64().unwrap() + total["lost"].as_u64().unwrap();
        assert_eq!(total["sent"], sum);
    }
    let one = daemon.json("/api/v1/sessions?name=s7");
    assert_eq!(one["sessions"][0]["last"]["name"], "s7");
    assert!(daemon.page("/api/v1/sessions?name=none").is_none());
    assert!(daemon.page("/api/v1/sessions?nmae=s7").is_none());
    let reflector = daemon.json("/api/v1/reflector");
    assert_eq!(reflector["reflector"]["sessions"], 50);
    assert_eq!(daemon.page("/readyz").as_deref(), Some("ok\n"));

    let metrics = daemon.page("/metrics").unwrap();
    // OSPF is listened to for an m-set only.
    assert_documented(&metrics, |name| !name.contains("_ospf_"));
    let series = metrics
        .lines()
        .filter(|line| line.starts_with("vernier_probe_sent_packets_total{session=\"s"));
    assert_eq!(series.count(), 50);
    assert!(
        metrics.contains("vernier_http_requests_total{path=\"/api/v1/sessions\""),
        "{metrics}"
    );
    daemon.process.end().unwrap();
}

/// Strangers' packets are answered with no more bytes than they have, and change nothing for the sessions.
#[test]
fn strangers_gain_nothing() {
    let (folder, _) = folder();
    let reflector = own_address("127.0.0.1");
    let mut config = config(reflector, 1);
    config["reflector"]["sessions_max"] = 4.into();
    let mut daemon = Daemon::start(folder.path(), config, |_| {});
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut answer = [0; 4_096];
    for bytes in [0, 1, 14, 43] {
        stranger.send_to(&vec![0x55; bytes], reflector).unwrap();
    }
    assert!(
        stranger.recv(&mut answer).is_err(),
        "a packet that is too short is not answered"
    );
    stranger
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    for bytes in [44, 45, 48, 200, 1_400] {
        stranger.send_to(&vec![0x55; bytes], reflector).unwrap();
        assert_eq!(stranger.recv(&mut answer).unwrap(), bytes);
    }
    // Ever new sessions.
    for ssid in 0..200_u16 {
        let mut packet = [0; 44];
        packet[14..16].copy_from_slice(&ssid.to_be_bytes());
        stranger.send_to(&packet, reflector).unwrap();
        assert_eq!(stranger.recv(&mut answer).unwrap(), 44);
    }
    let session = daemon.until("no replies", |session| {
        session["total"]["received"].as_u64() > Some(30)
    });
    assert_eq!(session["total"]["rejected"], 0);
    // Counts are published every 50 ms: those of before the last packets may still be there.
    let counts = daemon.reflector("sessions are not counted", |counts| {
        counts["answered_without_state"].as_u64() > Some(190)
    });
    assert_eq!(
        (&counts["sessions"], &counts["too_short"]),
        (&4.into(), &4.into())
    );
}

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/probe.md");
    std::fs::read_to_string(path).unwrap()
}

/// Of the families that are wanted, docs/probe.md names those of this page and no others. `a_{b,c}_d` stands for `a_b_d` and `a_c_d`,
/// or for `a` with labels.
pub fn assert_documented(page: &str, is_wanted: fn(&str) -> bool) {
    let helps = page.lines().filter_map(|line| line.strip_prefix("# HELP "));
    let families = helps.filter_map(|help| Some(help.split_once(' ')?.0));
    let is_wanted = |name: &&str| name.starts_with("vernier_probe_") && is_wanted(name);
    let families = families.filter(is_wanted);
    let mut families: BTreeSet<String> = families.map(str::to_owned).collect();
    let document = document();
    for name in document.split('`').filter(is_wanted) {
        let (head, rest) = name.split_once('{').unwrap_or((name, "}"));
        let (list, tail) = rest.split_once('}').unwrap();
        let is_there = families.remove(head.trim_end_matches('_'))
            || (list.split(',')).all(|part| families.remove(&format!("{head}{part}{tail}")));
        assert!(is_there, "{name}: {page}");
    }
    assert!(families.is_empty(), "{families:?} are not in docs/probe.md");
}

/// The keys that a schema has, and the words that values may be.
fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                found.extend(properties.keys().cloned());
            }
            found.extend(
                object
                    .get("const")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
            // Of the connection docs/configuration.md has the keys, and docs/topology.md the roles.
            let elsewhere = |name: &str| ["Nats", "Role"].contains(&name);
            let others = object.iter().filter(|(name, _)| !elsewhere(name));
            others.for_each(|(_, part)| keys(part, found));
        }
        Value::Array(parts) => parts.iter().for_each(|part| keys(part, found)),
        _ => {}
    }
}

#[test]
fn every_key_and_word_is_named() {
    let mut found = BTreeSet::new();
    keys(&schemars::schema_for!(Config).into(), &mut found);
    assert!(found.contains("allowed_dscp") && found.contains("follow_up_telemetry"));
    let document = document();
    let named: BTreeSet<&str> = (document.split('`'))
        .flat_map(|name| name.split(['.', '[', ']']))
        .collect();
    for key in found {
        assert!(
            named.contains(key.as_str()),
            "{key} is not in docs/probe.md"
        );
    }
}
