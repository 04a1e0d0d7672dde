use serde_json::json;

use crate::config::{Config, ConfigError};

/// What is wrong with the demo's configuration once members are put into it (JSON pointers).
fn faults(changes: &[(&str, serde_json::Value)]) -> Vec<String> {
    let mut config: serde_json::Value = serde_json::from_str(include_str!("../demo.json")).unwrap();
    for (place, value) in changes {
        let (parent, key) = place.rsplit_once('/').unwrap();
        match config.pointer_mut(parent).unwrap() {
            serde_json::Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
            object => object[key] = value.clone(),
        }
    }
    let error = Config::parse(&config.to_string(), "v.json").unwrap_err();
    let ConfigError::Invalid { faults, .. } = error else {
        panic!("{error}")
    };
    let faults = faults.iter().map(|fault| fault.invalid.to_string());
    faults.collect()
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let mut found = faults(&[
        ("/mesurement", json!({})),
        ("/name", json!(7)),
        ("/forwarding/mode", json!("brige")),
        ("/measurement/interval_ms", json!("1s")),
        (
            "/measurement/lda/banks",
            json!([{ "row": 9, "probability": 2 }]),
        ),
        ("/measurement/stamps", json!("packets")),
        ("/dpdk", json!({ "mbufs": 1 })),
    ]);
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
    let found = faults(&[
        ("/ports/0/device", json!("generate:rate=0")),
        ("/ports/1/mtu", json!(-1)),
        (
            "/rules",
            json!([{ "class": "all", "source": "10.0.0.0/99" }]),
        ),
    ]);
    assert_eq!(found.len(), 3, "{found:?}");
    let said = found.iter().any(|fault| {
        fault.starts_with("ports[0].device: generate: `rate=0`: expected packets a second")
    });
    assert!(said, "{found:?}");
}

#[test]
fn what_follows_from_values_is_said_at_once_too() {
    let found = faults(&[
        ("/ports/0/device", json!("sinc")),
        ("/forwarding/pairs", json!([["east", "wset"]])),
        ("/measurement/grace_ms", json!(900)),
        ("/prometheus", json!({ "buckets_per_octave": 3 })),
    ]);
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
    let mut config: serde_json::Value = serde_json::from_str(include_str!("../demo.json")).unwrap();
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
    let whole: serde_json::Value = serde_json::to_value(Config::demo().unwrap()).unwrap();
    let mut places = vec![(String::new(), whole.clone())];
    let mut refused = 0;
    while let Some((place, value)) = places.pop() {
        match value {
            serde_json::Value::Object(members) => {
                places.extend(
                    members
                        .into_iter()
                        .map(|(key, member)| (format!("{place}/{key}"), member)),
                );
            }
            serde_json::Value::Array(items) => {
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
    let found = faults(&[(
        "/measurement/lds",
        json!({ "cells": 4_096, "sds": true, "bytes": true, "cell": 1 }),
    )]);
    assert_eq!(found.len(), 3, "{found:?}");
    for key in ["bytes", "sds"] {
        let said = format!(
            "measurement.lds.{key}: it was removed; nothing read what it recorded: leave it out"
        );
        assert!(found.contains(&said), "{found:?}");
    }
    assert!(
        found
            .iter()
            .any(|said| said.contains("did you mean `cells`?")),
        "{found:?}"
    );
    // The same key elsewhere never was one.
    let found = faults(&[("/sds", json!(1))]);
    assert!(found[0].contains("one of the keys"), "{found:?}");
}
