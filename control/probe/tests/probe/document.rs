//! `docs/probe.md` names every metric and every key.

use std::collections::BTreeSet;

use probe::config::{Address, Asked, Config, ReflectorConfig, SessionConfig};
use serde_json::Value;

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/probe.md");
    std::fs::read_to_string(path).unwrap()
}

/// What stands between backticks, `a_{b,c}_d` as `a_`, `a_b_d` and `a_c_d`.
fn names(document: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for name in document.split('`') {
        let parts = name.split_once('{').and_then(|(head, rest)| {
            let (list, tail) = rest.split_once('}')?;
            Some((head, list, tail))
        });
        let Some((head, list, tail)) = parts else {
            names.insert(name.to_owned());
            continue;
        };
        names.insert(head.trim_end_matches('_').to_owned());
        names.extend(list.split(',').map(|part| format!("{head}{part}{tail}")));
    }
    names
}

#[test]
fn every_metric_is_named() {
    let named = names(&document());
    for name in probe::metrics::NAMES.iter() {
        assert!(named.contains(*name), "{name} is not in docs/probe.md");
    }
}

fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                // Of the connection docs/configuration.md has the keys.
                if key != "nats" {
                    keys(value, found);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_key_and_tlv_is_named() {
    let to = Address::try_from("192.0.2.1".to_owned()).unwrap();
    let tlvs = [
        Asked::Location,
        Asked::TimestampInformation,
        Asked::ClassOfService,
        Asked::DirectMeasurement,
        Asked::FollowUpTelemetry,
    ];
    let report = serde_json::json!({ "nats": { "servers": ["nats://a"] } });
    let config = Config {
        mset: Some(serde_json::from_value(serde_json::json!({})).unwrap()),
        report: Some(serde_json::from_value(report).unwrap()),
        reflector: Some(ReflectorConfig::default()),
        sessions: vec![SessionConfig::new("a", to)],
        ..Config::default()
    };
    let mut found = BTreeSet::new();
    keys(&serde_json::to_value(&config).unwrap(), &mut found);
    let tlvs = tlvs.map(|tlv| {
        serde_json::to_value(tlv)
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    });
    found.extend(tlvs);
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
