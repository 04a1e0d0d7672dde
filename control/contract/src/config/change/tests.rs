use serde_json::json;

use super::*;
use crate::config::validate::tests::changed;

/// A bridge of ports of these names over virtual devices.
fn bridge(names: &[&str]) -> Value {
    let ports = names
        .iter()
        .map(|name| json!({ "name": name, "device": format!("net_null_{name}"), "rx_queues": 1 }));
    json!({
        "ports": ports.collect::<Value>(),
        "forwarding": { "mode": "bridge" },
        "workers": [{ "core": 1 }, { "core": 2 }],
    })
}

fn config(value: &Value) -> Config {
    Config::parse(&value.to_string(), "v.json").unwrap()
}

/// What changes from one to the other: `+path` can be made at run time, `-path` cannot.
fn changes(old: &Value, new: &Value) -> Vec<String> {
    let old = config(old);
    let new = config(new).in_place_of(&old).unwrap();
    let signed = |change: Change| {
        let sign = if change.is_live() { '+' } else { '-' };
        format!("{sign}{}", change.path)
    };
    old.diff(&new).into_iter().map(signed).collect()
}

/// The same, with one change made to a bridge of three ports.
fn change(make: impl FnOnce(&mut Value)) -> Vec<String> {
    let old = bridge(&["a", "b", "c"]);
    let mut new = old.clone();
    make(&mut new);
    changes(&old, &new)
}

#[test]
fn nothing_has_changed() {
    assert_eq!(change(|_| {}), [] as [&str; 0]);
    // The same configuration in another form: defaults, and the order of ports.
    let unchanged = change(|v| {
        v["measurement"] = json!({ "interval_ms": 1000 });
        v["ports"].as_array_mut().unwrap().rotate_left(1);
    });
    assert_eq!(unchanged, [] as [&str; 0]);
}

#[test]
fn segments_on_the_wire_come_change_and_go_where_the_port_stays_with_its_worker() {
    let mut old = bridge(&["a", "b"]);
    old["measurement"] = json!({ "hash_seed": "000102030405060708090a0b0c0d0e0f" });
    old["ports"][0]["egress"] = json!({ "owner": 0 });
    let mut wired = old.clone();
    wired["wire"] = json!({ "switch": 1, "keys": [{ "id": 1, "file": "k" }] });
    wired["ports"][0]["wire"] = json!({});
    assert_eq!(changes(&old, &wired), ["+ports[a].wire", "+wire"]);
    assert_eq!(changes(&wired, &old), ["+ports[a].wire", "+wire"]);
    let mut other = wired.clone();
    other["ports"][0]["wire"] = json!({ "share": 0.01, "lds": null });
    other["wire"]["key"] = json!(1);
    assert_eq!(
        changes(&wired, &other),
        ["+ports[a].wire.lds", "+ports[a].wire.share", "+wire.key"]
    );
    // A port that no worker owned would have to come to one.
    let mut plain = wired.clone();
    plain["ports"][1]["wire"] = json!({});
    assert_eq!(
        changes(&wired, &plain),
        ["+ports[b].wire", "-ports[b].egress"]
    );
    // And stays there when its wire is removed.
    assert_eq!(
        changes(&plain, &wired),
        ["+ports[b].egress.owner", "+ports[b].wire"]
    );
}

/// Checks a list of changes ([`changed`]) to a bridge of three ports, with the resulting differences.
fn check(cases: &str) {
    let old = bridge(&["a", "b", "c"]);
    for (new, expected) in changed(&old, cases) {
        assert_eq!(changes(&old, &new).join(" "), expected);
    }
}

#[test]
fn what_workers_can_take_up_is_live() {
    check(
        r#"
        /measurement = {"enabled": false}
            +measurement.enabled
        /measurement = {"lds": {}}
            +measurement.lds
        /measurement = {"lda": {"banks": [{"rows": 9, "probability": 1}]}}
            +measurement.lda.banks[0].rows
        /forwarding/ageing_s = 9
            +forwarding.ageing_s
        /forwarding/stations = [{"address": "02:00:00:00:00:01", "port": "a"}]
            +forwarding.stations
        /forwarding = {"mode": "patch", "pairs": [["a", "b"]]}
            +forwarding
        /classes = [{"name": "all"}]
            +classes
        /ports/1/egress = {"queue_packets": 9}
            +ports[b].egress.queue_packets
        /ports/2/vlan = {"mode": "access", "vlan": 7}
            +ports[c].vlan
        /memory_budget_mib = 999
            +memory_budget_mib
        "#,
    );
}

#[test]
fn what_the_start_decided_is_fixed() {
    check(
        r#"
        /name = "x"
            -name
        /http = {"listen": null}
            -http.listen
        /dpdk = {"mbufs": 131071}
            -dpdk.mbufs
        /workers/1/core = 3
            -workers[1].core
        /workers/0/idle = "sleep"
            -workers[0].idle
        /measurement = {"interval_ms": 50, "lds": {}}
            -measurement.interval_ms +measurement.lds
        /measurement = {"grace_ms": 50, "lds": {}}
            -measurement.grace_ms +measurement.lds
        /measurement = {"hash_seed": "00112233445566778899aabbccddeeff"}
            -measurement.hash_seed
        /ports/0/mtu = 9000
            -ports[a].mtu
        /ports/0/device = "sink"
            -ports[a].device
        "#,
    );
    let queues = change(|v| v["ports"][0]["rx_queues"] = json!(2));
    assert!(
        queues.contains(&"-ports[a].rx_queues".to_owned()),
        "{queues:?}"
    );
}

#[test]
fn changes_carry_both_values() {
    let old = config(&bridge(&["a", "b"]));
    let mut new = bridge(&["b", "c"]);
    new["measurement"] = json!({ "lds": { "cells": 600 } });
    new["forwarding"]["ageing_s"] = json!(9);
    let new = config(&new).in_place_of(&old).unwrap();
    let changes = old.diff(&new);
    let find = |path: &str| changes.iter().find(|change| change.path == path).unwrap();
    let ageing = find("forwarding.ageing_s");
    assert_eq!((&ageing.old, &ageing.new), (&json!(300), &json!(9)));
    let sketch = find("measurement.lds");
    assert_eq!(
        (&sketch.old, &sketch.new["cells"]),
        (&Value::Null, &json!(600))
    );
    let (gone, come) = (find("ports[a]"), find("ports[c]"));
    assert_eq!(
        (&gone.old["device"], &gone.new),
        (&json!("net_null_a"), &Value::Null)
    );
    assert_eq!(
        (&come.old, &come.new["device"]),
        (&Value::Null, &json!("net_null_c"))
    );
}

#[test]
fn the_worker_that_sends_for_all_stays() {
    let mut running = config(&bridge(&["a", "b"]));
    let again = running.clone();
    running.ports[1].egress.owner = Some(0);
    let again = again.in_place_of(&running).unwrap();
    assert_eq!(running.diff(&again), []);
}

#[test]
fn a_port_that_would_change_hands_is_fixed() {
    // Port a is served by worker 0, which would come to own it.
    let capacity = json!({ "capacity_bps": 1_000_000 });
    let first = change(|v| v["ports"][0]["egress"] = capacity.clone());
    assert_eq!(first, ["+ports[a].egress.capacity_bps", "-ports[a].egress"]);
    let mut owned = bridge(&["a", "b"]);
    owned["ports"][0]["egress"] = capacity;
    let mut faster = owned.clone();
    faster["ports"][0]["egress"]["capacity_bps"] = json!(2_000_000);
    assert_eq!(changes(&owned, &faster), ["+ports[a].egress.capacity_bps"]);
    // With one worker no other can take it.
    owned["workers"] = json!([{}]);
    let mut plain = owned.clone();
    plain["ports"][0]["egress"] = json!({});
    assert_eq!(changes(&owned, &plain), ["+ports[a].egress.capacity_bps"]);

    let mut served = bridge(&["a", "b"]);
    served["workers"][0]["queues"] = json!([["a", 0]]);
    served["workers"][1]["queues"] = json!([["b", 0]]);
    let mut swapped = served.clone();
    swapped["workers"][0]["queues"] = json!([["b", 0]]);
    swapped["workers"][1]["queues"] = json!([["a", 0]]);
    assert_eq!(changes(&served, &swapped), ["-ports[a]", "-ports[b]"]);
    // A port that comes is served by the worker that is named.
    let mut more = bridge(&["a", "b", "c"]);
    more["workers"][0]["queues"] = json!([["a", 0]]);
    more["workers"][1]["queues"] = json!([["c", 0], ["b", 0]]);
    assert_eq!(changes(&served, &more), ["+ports[c]"]);
}

#[test]
fn ports_come_and_go_but_for_those_on_the_pci_bus() {
    let two = bridge(&["a", "b"]);
    let three = bridge(&["a", "c", "b"]);
    assert_eq!(changes(&two, &three), ["+ports[c]"]);
    assert_eq!(changes(&three, &two), ["+ports[c]"]);
    let mut pci = three.clone();
    pci["ports"][1]["device"] = json!("0000:03:00.0");
    assert_eq!(changes(&two, &pci), ["-ports[c]"]);
    assert_eq!(changes(&pci, &two), ["-ports[c]"]);
    let mut renamed = bridge(&["a", "z"]);
    renamed["ports"][1]["device"] = json!("net_null_b");
    assert_eq!(changes(&two, &renamed), ["+ports[b]", "-ports[z]"]);
}

#[test]
fn ports_keep_their_places() {
    let running = config(&bridge(&["a", "b", "c"]));
    let places = |config: &Config| {
        let place = |port: &Port| {
            if port.is_present() {
                port.name.clone()
            } else {
                format!("({})", port.name)
            }
        };
        config.ports.iter().map(place).collect::<Vec<_>>()
    };
    let without = config(&bridge(&["d", "c", "a"]))
        .in_place_of(&running)
        .unwrap();
    assert_eq!(places(&without), ["a", "(b)", "c", "d"]);
    // What runs is read back as it is written; no file can name such a port.
    let written = serde_json::to_value(&without).unwrap();
    assert_eq!(written["ports"][1]["device"], "absent");
    assert_eq!(serde_json::from_value::<Config>(written).unwrap(), without);
    let mut absent = bridge(&["a", "b"]);
    absent["ports"][0]["device"] = json!("absent");
    let error = Config::parse(&absent.to_string(), "v.json").unwrap_err();
    assert!(
        error
            .to_string()
            .contains(r#"(net_af_packet0,iface=eth1), got "absent""#),
        "{error}"
    );
    let back = config(&bridge(&["e", "b", "c"]))
        .in_place_of(&without)
        .unwrap();
    assert_eq!(places(&back), ["(a)", "b", "c", "(d)", "e"]);
    let segments = back.segments();
    assert_eq!(segments.len(), 6);
    assert_eq!(back.resolve().sketch_ports, [1, 2, 4]);

    let names: Vec<_> = (0..63).map(|n| format!("p{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut many = bridge(&names);
    many["dpdk"] = json!({ "mbufs": 262_143 });
    let full = config(&many).in_place_of(&running).unwrap_err();
    assert!(full.to_string().contains("has had 64 ports"), "{full}");
}

#[test]
fn queues_that_are_left_open_stay_as_many() {
    let mut left_open = bridge(&["a", "b"]);
    left_open["ports"][0]
        .as_object_mut()
        .unwrap()
        .remove("rx_queues");
    let mut running = config(&left_open);
    assert_eq!(running.rx_queues(0), 2);
    // The device had only one.
    running.ports[0].rx_queues = Some(1);
    let again = config(&left_open).in_place_of(&running).unwrap();
    assert_eq!(again.rx_queues(0), 1);
    assert_eq!(running.diff(&again), []);
}

#[test]
fn a_file_is_read_again_without_counting_cpus_anew() {
    let mut value = bridge(&["a", "b"]);
    value.as_object_mut().unwrap().remove("workers");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), value.to_string()).unwrap();
    let mut running = Config::load(file.path()).unwrap();
    running.workers = config(&bridge(&["a", "b"])).workers;
    let again = Config::load_again(file.path(), &running).unwrap();
    assert_eq!(running.diff(&again), []);
    std::fs::write(file.path(), "{").unwrap();
    assert!(Config::load_again(file.path(), &running).is_err());
}

#[test]
fn changes_say_what_to_do() {
    let old = config(&bridge(&["a", "b"]));
    let mut new = old.clone();
    new.ports[0].mtu = 9_000;
    new.measurement.enabled = false;
    let words: Vec<_> = old.diff(&new).iter().map(ToString::to_string).collect();
    let expected = [
        "ports[a].mtu: the device was set up for it; restart the switch to change it",
        "measurement.enabled: takes effect when an epoch begins",
    ];
    let mut words: Vec<_> = words.iter().map(String::as_str).collect();
    words.sort_by_key(|words| words.starts_with("measurement"));
    assert_eq!(words, expected);
}
