use std::path::Path;

use jsonschema::Validator;
use serde_json::json;

use super::*;
use crate::config::{ConfigError, validate};

fn validator() -> Validator {
    jsonschema::validator_for(schema().as_value()).unwrap()
}

/// The schema's errors in a configuration, by place.
fn complaints(config: &Value) -> Vec<String> {
    let validator = validator();
    let errors = validator.iter_errors(config);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// A bridge with every key there is, each with a value that may stand there.
#[expect(clippy::too_many_lines, reason = "a list of all keys")]
// Long: a list of all keys.
fn everything() -> Value {
    let rule = json!({
        "source": "10.0.0.0/8",
        "destination": "192.0.2.1",
        "protocol": "udp",
        "source_ports": [5004, 5005],
        "destination_ports": [0, 65_535],
    });
    let mut named = rule.clone();
    named["class"] = json!("voice");
    named["ingress"] = json!(["a"]);
    named["pcp"] = json!([5]);
    named["dscp"] = json!([46]);
    json!({
        "name": "rack-7",
        "ports": [
            {
                "name": "a",
                "device": "generate:flows=7,rate=10",
                "mtu": 9000,
                "rx_queues": 1,
                "vlan": { "mode": "trunk", "vlans": [7, 8], "native": 9 },
                "egress": {
                    "capacity_bps": 1_000_000_000,
                    "burst_bytes": 3_000,
                    "max_residency_us": 10_000,
                    "owner": 0,
                    "queues": [
                        { "classes": ["voice"], "service": "strict", "packets": 64 },
                        {
                            "classes": ["rest"],
                            "service": { "weight": 2 },
                            "packets": 1024,
                            "bytes": 100_000,
                            "red": {
                                "min_packets": 100,
                                "max_packets": 300,
                                "probability": 0.1,
                                "weight_log2": 9,
                            },
                        },
                    ],
                },
            },
            {
                "name": "b",
                "device": "sink",
                "vlan": { "mode": "access", "vlan": 7 },
                "egress": { "capacity_bps": 1_000, "queue_packets": 9, "queue_bytes": 20_000 },
            },
            {
                "name": "c",
                "device": "net_ring0",
                "wire": {
                    "peer": {
                        "local": "192.0.2.1",
                        "remote": "198.51.100.1",
                        "gateway": "02:00:00:00:00:01",
                        "source_mac": "02:00:00:00:00:02",
                        "udp_port": 34_997,
                    },
                    "classes": ["voice"],
                    "capacity_bps": 1_000_000_000,
                    "share": 0.02,
                    "ethertype": 34_997,
                    "trusted": false,
                    "stash_packets": 64,
                    "lda": { "banks": [{ "rows": 64, "probability": 0.5 }] },
                    "lds": {
                        "cells": 4_096,
                        "rows": [0.1, 1],
                        "virtual_cells": 5,
                        "components": 2,
                    },
                    "rli": { "policy": { "kind": "time", "interval_us": 1_000 }, "method": "linear" },
                    "flows": 1_000,
                },
            },
        ],
        "forwarding": {
            "mode": "bridge",
            "ageing_s": 300,
            "fdb_entries": 1_024,
            "flood_limit_pps": 1_000,
            "stations": [{ "address": "02:00:00:00:00:01", "vlan": 7, "port": "a" }],
        },
        "classes": [{ "name": "voice", "lds_weight": 25 }, { "name": "rest" }],
        "rules": [named],
        "measurement": {
            "enabled": true,
            "interval_ms": 1_000,
            "grace_ms": 100,
            "hash_seed": "000102030405060708090a0b0c0d0e0f",
            "stamps": "packet",
            "segments": [{ "from": "a", "to": "b" }],
            "lda": { "banks": [{ "rows": 64, "probability": 0.5 }] },
            "lds": {
                "cells": 1_024,
                "rows": [1, 0.5],
                "virtual_cells": 2,
                "decode": { "components": 2, "interval_s": 5 },
            },
            "rli": { "policy": { "kind": "either", "packets": 100, "interval_us": 100 },
                     "method": "sums" },
            "flows": { "slots": 64, "select": { "rules": [rule.clone()] }, "idle_s": 3 },
        },
        "workers": [{ "core": 1, "idle": "sleep", "queues": [["a", 0], ["b", 0], ["c", 0]] }],
        "wire": {
            "switch": 7,
            "keys": [{ "id": 1, "file": "/etc/vernier/wire.key" }],
            "key": 1,
            "clock": { "error_ns": 1_000, "ptp_domain": 24 },
        },
        "memory_budget_mib": 4_096,
        "http": { "listen": "127.0.0.1:9464", "token_file": "/etc/vernier/token", "insecure": false,
                  "hosts": ["edge-1"] },
        "prometheus": {
            "top_flows": 10,
            "top_hold_s": 60,
            "pinned": [rule],
            "buckets_per_octave": 2,
            "include": ["vernier_*"],
            "exclude": ["vernier_port_parsed_packets_total"],
        },
        "dpdk": { "hugepages": true, "memory_mib": 64, "mbufs": 2_000_000, "eal_args": ["--no-telemetry"] },
    })
}

/// A member of an object or a list.
fn place(document: &mut Value, pointer: &str, value: Value) {
    *document.pointer_mut(pointer).unwrap() = value;
}

fn changed(pointer: &str, value: Value) -> Value {
    let mut config = everything();
    place(&mut config, pointer, value);
    config
}

fn parse(config: &Value) -> Result<Config, ConfigError> {
    Config::parse(&config.to_string(), "v.json")
}

#[test]
fn what_is_valid_is_valid_by_the_schema() {
    let full = everything();
    parse(&full).unwrap();
    assert_eq!(complaints(&full), [""; 0]);

    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = std::fs::read_dir(examples).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let demos = ["demo.json", "demo-replay.json"].map(|name| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config");
        folder.join(name)
    });
    let is_json = |file: &std::path::PathBuf| file.extension().is_some_and(|end| end == "json");
    let mut checked = 0;
    for file in files.filter(is_json).chain(demos) {
        let text = std::fs::read_to_string(&file).unwrap();
        let config: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(complaints(&config), [""; 0], "{}", file.display());
        checked += 1;
    }
    assert!(checked >= 5, "{checked}");
}

/// The configuration that the switch writes, with all defaults, is valid.
#[test]
fn what_is_written_is_valid_by_the_schema() {
    let configs = [
        Config::demo().unwrap(),
        Config::demo_replay("a.pcap").unwrap(),
        parse(&everything()).unwrap(),
    ];
    for config in configs {
        let written = serde_json::to_value(&config).unwrap();
        assert_eq!(complaints(&written), [""; 0], "{written:#}");
    }
}

#[test]
fn slips_are_found_by_the_schema_and_by_the_parser_alike() {
    let mut unknown = everything();
    unknown["portz"] = json!([]);
    let mut misplaced = everything();
    misplaced["forwarding"]["pairs"] = json!([["a", "b"]]);
    let mut classless = everything();
    classless["rules"][0]
        .as_object_mut()
        .and_then(|rule| rule.remove("class"))
        .unwrap();
    let cases = [
        unknown,
        misplaced,
        classless,
        json!({ "forwarding": { "mode": "bridge" } }),
        changed("/ports", json!([])),
        changed("/ports/0/device", json!("")),
        changed("/ports/0/name", json!("a b")),
        changed("/ports/0/vlan/mode", json!("hybrid")),
        changed("/ports/0/vlan/vlans/1", json!(4_095)),
        changed("/ports/0/egress/queues/0/service", json!("weighted")),
        changed("/ports/0/egress/queues/1/red/probability", json!(0)),
        changed("/forwarding/mode", json!("route")),
        changed("/forwarding", json!({ "mode": "host" })),
        changed("/forwarding/stations/0/address", json!("02:00:00:00:01")),
        changed("/rules/0/dscp/0", json!(64)),
        changed("/rules/0/protocol", json!("quic")),
        changed("/rules/0/source_ports", json!([1])),
        changed("/measurement/hash_seed", json!("0001")),
        changed("/measurement/lds/rows/1", json!(0)),
        changed("/measurement/rli/policy/kind", json!("rarely")),
        changed("/measurement/flows/select", json!("bottom")),
        changed("/ports/2/wire/share", json!(0)),
        changed("/ports/2/wire/peer/gateway", json!("gw.example.org")),
        changed("/ports/2/wire/rli/method", json!("best")),
        changed("/wire/keys/0", json!({ "id": 1 })),
        changed("/wire", json!({ "keys": [] })),
        changed("/workers/0/idle", json!("doze")),
        changed("/prometheus/include/0", json!("vernier_.*")),
        changed("/dpdk/mbufs", json!("many")),
    ];
    for config in cases {
        let error = parse(&config);
        assert!(error.is_err(), "{config:#}");
        assert_ne!(complaints(&config), [""; 0], "{}", error.unwrap_err());
    }
}

/// Where a document has numbers, as pointers.
fn numbers(document: &Value, pointer: &str) -> Vec<String> {
    match document {
        Value::Number(_) => vec![pointer.to_owned()],
        Value::Array(items) => (items.iter().enumerate())
            .flat_map(|(index, item)| numbers(item, &format!("{pointer}/{index}")))
            .collect(),
        Value::Object(members) => (members.iter())
            .flat_map(|(key, member)| numbers(member, &format!("{pointer}/{key}")))
            .collect(),
        _ => Vec::new(),
    }
}

/// The parser's error in a configuration, if it concerns a range of numbers.
fn range_error(config: &Value) -> Option<String> {
    match parse(config).err()? {
        ConfigError::Invalid { faults, .. } => {
            let mut expected = faults.into_iter().map(|fault| fault.invalid.expected);
            expected.find(|words| {
                words.starts_with(|c: char| c.is_ascii_digit()) && words.contains(" to ")
            })
        }
        error => panic!("{error}"),
    }
}

/// For every number, at and next to every bound in the schema: the parser refuses the same values as the schema, and no
/// others because of their range (except for dependencies on other keys).
#[test]
fn every_range_of_the_schema_is_checked() {
    let schema = schema().to_value();
    let is_bound = |pointer: &String| {
        let key = pointer.rsplit('/').next();
        matches!(key, Some("minimum" | "exclusiveMinimum" | "maximum"))
    };
    let bounds = numbers(&schema, "").into_iter().filter(is_bound);
    let bounds = bounds.map(|pointer| schema.pointer(&pointer).and_then(Value::as_i64).unwrap());
    let beside = bounds.flat_map(|bound| [bound - 1, bound, bound + 1]);
    let beside: std::collections::BTreeSet<i64> = beside.collect();
    let validator = validator();
    let mut refused = 0;
    for pointer in numbers(&everything(), "") {
        let is_moved =
            pointer.contains("/queues/") || MOVED.iter().any(|key| pointer.ends_with(key));
        for &number in &beside {
            let config = changed(&pointer, json!(number));
            if !validator.is_valid(&config) {
                assert!(parse(&config).is_err(), "{pointer} may be {number}");
                refused += 1;
            } else if !is_moved {
                assert_eq!(range_error(&config), None, "{pointer} may not be {number}");
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}

/// Keys whose range is narrowed by others: the MTU, the number of workers.
const MOVED: [&str; 2] = ["bytes", "owner"];

/// The errors of the demo's configuration after this [change](super::super::validate::tests::changed).
fn faults(changes: &str) -> Vec<String> {
    let demo: Value = serde_json::from_str(include_str!("../demo.json")).unwrap();
    let changes: Vec<&str> = changes.trim().lines().map(str::trim).collect();
    let cases = format!("{}\n-", changes.join(" & "));
    let (config, _) = validate::tests::changed(&demo, &cases).next().unwrap();
    let ConfigError::Invalid { faults, .. } = parse(&config).unwrap_err() else {
        panic!("{config}")
    };
    let faults = faults.iter().map(|fault| fault.invalid.to_string());
    faults.collect()
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let mut found = faults(
        r#"
        /mesurement = {}
        /name = 7
        /forwarding/mode = "brige"
        /measurement/interval_ms = "1s"
        /measurement/lda/banks = [{"row": 9, "probability": 2}]
        /measurement/stamps = "packets"
        /dpdk = {"mbufs": 1}
        "#,
    );
    found.sort();
    let expected = [
        "dpdk.mbufs: expected 1024 to 4194304, got 1",
        "forwarding.mode: expected \"patch\" or \"bridge\", got \"brige\"; did you mean `bridge`?",
        "measurement.interval_ms: expected a whole number, got \"1s\"",
        "measurement.lda.banks[0].probability: expected over 0, up to 1, got 2",
        "measurement.lda.banks[0].row: expected one of the keys probability, rows, got `row`; did you mean `rows`?",
        "measurement.lda.banks[0]: expected the key `rows`, got an object without it",
        "measurement.stamps: expected \"burst\" or \"packet\", got \"packets\"; did you mean `packet`?",
        "name: expected a string, got 7",
    ];
    let (unknown, others): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|fault| fault.starts_with("mesurement"));
    assert_eq!(others, expected);
    let end = "got `mesurement`; did you mean `measurement`?";
    assert!(
        unknown.len() == 1 && unknown[0].ends_with(end),
        "{unknown:?}"
    );
}

#[test]
fn strings_with_a_form_of_their_own_are_parsed() {
    let found = faults(
        r#"
        /ports/0/device = "generate:rate=0"
        /ports/1/mtu = -1
        /rules = [{"class": "all", "source": "10.0.0.0/99"}]
        "#,
    );
    assert_eq!(found.len(), 3, "{found:?}");
    let said = found.iter().any(|fault| {
        fault.starts_with("ports[0].device: generate: `rate=0`: expected packets a second")
    });
    assert!(said, "{found:?}");
}

#[test]
fn what_follows_from_values_is_said_at_once_too() {
    let found = faults(
        r#"
        /ports/0/device = "sinc"
        /forwarding/pairs = [["east", "wset"]]
        /measurement/grace_ms = 900
        /prometheus = {"buckets_per_octave": 3}
        "#,
    );
    assert_eq!(found.len(), 4, "{found:?}");
    let hints = ["did you mean `sink`?", "did you mean `west`?"];
    for hint in hints {
        assert!(
            found.iter().any(|fault| fault.ends_with(hint)),
            "{hint}: {found:?}"
        );
    }
}

#[test]
fn no_more_than_twenty_are_listed() {
    let many: Vec<_> = (0..50).map(|n| json!({ "class": n })).collect();
    let mut config: Value = serde_json::from_str(include_str!("../demo.json")).unwrap();
    config["rules"] = many.into();
    let error = Config::parse(&config.to_string(), "v.json")
        .unwrap_err()
        .to_string();
    assert!(
        error.lines().count() == 21 && error.ends_with("and 30 more"),
        "{error}"
    );
}

/// Shapes of any kind, at any place: what serde refuses has a fault with words, and nothing panics.
#[test]
fn any_value_at_any_place_is_refused_in_words() {
    let whole: Value = serde_json::to_value(Config::demo().unwrap()).unwrap();
    let mut places = vec![(String::new(), whole.clone())];
    let mut refused = 0;
    while let Some((place, value)) = places.pop() {
        match value {
            Value::Object(members) => {
                places.extend(
                    members
                        .into_iter()
                        .map(|(key, member)| (format!("{place}/{key}"), member)),
                );
            }
            Value::Array(items) => {
                let items = items.into_iter().enumerate();
                places.extend(items.map(|(n, item)| (format!("{place}/{n}"), item)));
            }
            _ => {}
        }
        for other in [
            json!(null),
            json!(true),
            json!(-7),
            json!(1.5),
            json!("so"),
            json!([[]]),
            json!({ "a": 1 }),
        ] {
            let mut config = whole.clone();
            *config.pointer_mut(&place).unwrap() = other;
            let text = config.to_string();
            if let Err(error) = Config::parse(&text, "v.json") {
                refused += 1;
                let words = error.to_string();
                for of_serde in [
                    "invalid type",
                    "unknown field",
                    "missing field",
                    "unknown variant",
                ] {
                    assert!(!words.contains(of_serde), "{words}");
                }
            }
        }
    }
    assert!(refused > 300, "{refused}");
}

#[test]
fn a_key_that_was_removed_says_what_to_do_instead() {
    let found =
        faults(r#"/measurement/lds = {"cells": 4096, "sds": true, "bytes": true, "cell": 1}"#);
    assert_eq!(found.len(), 3, "{found:?}");
    for key in ["bytes", "sds"] {
        let said =
            format!("measurement.lds.{key}: it was removed; nothing used its figures; omit it");
        assert!(found.contains(&said), "{found:?}");
    }
    assert!(
        found
            .iter()
            .any(|said| said.contains("did you mean `cells`?")),
        "{found:?}"
    );
    // The same key elsewhere never was one.
    let found = faults("/sds = 1");
    assert!(found[0].contains("one of the keys"), "{found:?}");
}
