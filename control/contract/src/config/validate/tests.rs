use measure::packet::{FiveTuple, FlowKey};
use serde_json::{Value, json};

use super::*;
use crate::config::memory::Memory;
use crate::config::*;
use crate::text;

/// The first error of a valid configuration once it is changed.
fn error_of(mut config: Config, change: impl FnOnce(&mut Config)) -> String {
    validate(&config).unwrap();
    change(&mut config);
    validate(&config).unwrap_err().0[0].to_string()
}

fn demo() -> Value {
    serde_json::from_str(include_str!("../demo.json")).unwrap()
}

fn segment(ingress: usize, egress: usize) -> Segment {
    Segment {
        ingress,
        egress,
        class: 0,
        around: None,
    }
}

/// Names of a file are quoted in messages about it.
#[test]
fn no_message_commands_a_terminal() {
    let mut config = Config::demo().unwrap();
    config.ports[0].name = "a\u{1b}[31m\u{202e}".to_owned();
    let faults = validate(&config).unwrap_err().to_string();
    assert!(
        faults.contains("the name of a port (a[31m, west)"),
        "{faults}"
    );
    let lines = faults.lines().all(|line| line.chars().all(text::is_shown));
    assert!(lines, "{faults:?}");
}

#[test]
fn names_ports_and_forwarding_are_checked() {
    check(
        &demo(),
        r#"
        /name = "a b"
            name: expected 1 to 64 letters, digits, `.`, `_` or `-`, got "a b"
        /ports = []
            ports: expected 1 to 64 entries, got 0
        /ports = [{"name": "a", "device": "sink"}] * 65
            ports: expected 1 to 64 entries, got 65
        /ports/1/name = "east"
            ports[1].name: expected a unique name, got "east" again
        /ports/0/device = "net_null0" & /ports/1/device = "net_null0"
            ports[1].device: expected a unique device, such as net_pcap0 and net_pcap1, got "net_null0" again
        /ports/0/device = "net_pcap0,rx_pcap=a" & /ports/1/device = "net_pcap0,rx_pcap=b"
            ports[1].device: expected a unique device, such as net_pcap0 and net_pcap1, got "net_pcap0" again
        /ports/0/device = "03:00.1" & /ports/1/device = "0000:03:00.1,arg=1"
            ports[1].device: expected a unique device, such as net_pcap0 and net_pcap1, got "0000:03:00.1" again
        /ports/0/device = "net_af_packet0,iface=eth1" & /ports/1/device = "net_af_packet1,iface=eth1"
            ports[1].device: expected an interface that no other port receives from, got "eth1" again
        /ports/0/device = "net_af_xdp0,iface=eth1" & /ports/1/device = "net_af_xdp1,iface=eth1,start_queue=0"
            ports[1].device: expected an interface that no other port receives from, got "eth1, queue 0" again
        /ports/1/egress/queue_packets = 65537
            ports[1].egress.queue_packets: expected 1 to 65536, got 65537
        /forwarding/pairs = [["east", "north"]]
            forwarding.pairs[0][1]: expected the name of a port (east, west), got "north"
        /forwarding/pairs = [["east", "east"]]
            forwarding.pairs[0][1]: expected a port that is in no pair yet, got "east"
        /ports = [{"name": "a", "device": "sink"}] & /forwarding = {"mode": "bridge"}
            forwarding.mode: expected at least 2 ports to bridge, got 1
        "#,
    );
}

/// A bridge of three ports with VLANs, two classes in two queues, two workers.
fn rack() -> Value {
    let port = |name: &str| {
        json!({
            "name": name,
            "device": format!("net_null_{name}"),
            "rx_queues": 2,
            "egress": { "capacity_bps": 1_000_000_000 },
        })
    };
    let mut rack = json!({
        "ports": [port("a"), port("b"), port("c")],
        "forwarding": {
            "mode": "bridge",
            "stations": [{ "address": "02:00:00:00:00:01", "vlan": 7, "port": "a" }],
        },
        "classes": [{ "name": "voice", "lds_weight": 25 }, { "name": "rest" }],
        "rules": [
            { "class": "voice", "ingress": ["a"], "pcp": [5], "dscp": [46], "protocol": "udp",
              "source": "10.0.0.0/8", "source_ports": [5004, 5005] },
        ],
        "measurement": {
            "stamps": "packet",
            "segments": [{ "from": "a", "to": "b" }],
            "lds": {},
            "rli": { "policy": { "kind": "adaptive" }, "method": "anchored_sums" },
            "flows": { "select": { "rules": [{ "protocol": 6 }] } },
        },
        "workers": [
            { "core": 1, "queues": [["a", 0], ["b", 0], ["c", 0]] },
            { "core": 2, "queues": [["a", 1], ["b", 1], ["c", 1]] },
        ],
        "memory_budget_mib": 4096,
    });
    rack["ports"][0]["vlan"] = json!({ "mode": "trunk", "vlans": [7, 8], "native": 9 });
    rack["ports"][1]["vlan"] = json!({ "mode": "access", "vlan": 7 });
    rack["ports"][0]["egress"] = json!({
        "capacity_bps": 1_000_000_000,
        "burst_bytes": 3_000,
        "max_residency_us": 10_000,
        "owner": 1,
        "queues": [
            { "classes": ["voice"], "service": "strict", "packets": 64 },
            { "classes": ["rest"], "service": { "weight": 2 }, "packets": 1024, "bytes": 100_000,
              "red": { "min_packets": 100, "max_packets": 300, "probability": 0.1 } },
        ],
    });
    rack
}

/// Changes to a JSON document, one by one, with their expected results: `/pointer = VALUE & /pointer = VALUE` on a
/// line, and the expectation on the next. `VALUE * N` repeats the entries of a list.
pub(in crate::config) fn changed<'c>(
    valid: &Value,
    cases: &'c str,
) -> impl Iterator<Item = (Value, &'c str)> {
    let mut lines = cases.lines().map(str::trim).filter(|line| !line.is_empty());
    std::iter::from_fn(move || {
        let (changes, expected) = (lines.next()?, lines.next()?);
        let mut json = valid.clone();
        for change in changes.split(" & ") {
            let (place, value) = change.split_once(" = ").unwrap();
            put(&mut json, place, value);
        }
        Some((json, expected))
    })
}

fn put(json: &mut Value, place: &str, value: &str) {
    let (value, times) = value.split_once(" * ").unwrap_or((value, "1"));
    let mut value = serde_json::from_str(value).unwrap();
    if let Value::Array(items) = &mut value {
        *items = vec![items.clone(); times.parse().unwrap()].concat();
    }
    let (parent, key) = place.rsplit_once('/').unwrap();
    match json.pointer_mut(parent).unwrap() {
        Value::Array(array) => array[key.parse::<usize>().unwrap()] = value,
        object => object[key] = value,
    }
}

fn errors(json: &Value) -> Vec<String> {
    let error = Config::parse(&json.to_string(), "v.json").unwrap_err();
    let errors = error.to_string();
    let errors = errors.lines().map(|line| line.split_once(": ").unwrap().1);
    errors.map(str::to_owned).collect()
}

/// Checks a list of faults: a change ([`changed`]) to a valid configuration, and the error, or its beginning followed
/// by `...`.
fn check(valid: &Value, cases: &str) {
    Config::parse(&valid.to_string(), "valid").unwrap();
    for (json, expected) in changed(valid, cases) {
        let errors = errors(&json);
        let is_expected = |error: &String| match expected.strip_suffix("...") {
            Some(start) => error.starts_with(start),
            None => error == expected,
        };
        assert!(errors.iter().any(is_expected), "{expected}\n{errors:#?}");
    }
}

#[test]
fn workers_and_their_queues_are_checked() {
    check(
        &rack(),
        r#"
        /workers/1/core = 1
            workers[1].core: expected a CPU of its own, got 1 again
        /workers/1/queues = null
            workers[1]: expected `queues` for every worker, or for none, got a worker without
        /workers/1/queues/0 = ["z", 1]
            workers[1].queues[0][0]: expected the name of a port (a, b, c), got "z"
        /workers/1/queues/0 = ["a", 2]
            workers[1].queues[0][1]: expected 0 to 1, got 2
        /workers/1/queues/0 = ["a", 0]
            workers[1].queues[0]: expected a queue that no worker serves yet, got ("a", 0) again
        /workers/1/queues = [["a", 1], ["c", 1]]
            workers: expected a worker with ["b", 1] among its `queues`, got none
        /workers = [{}] * 65
            workers: expected 0 to 64 entries, got 65
        /ports/2 = { "name": "c", "device": "sink", "rx_queues": 2 }
            ports[2].rx_queues: expected 1, because only DPDK devices have more, got 2
        /memory_budget_mib = 0
            memory_budget_mib: expected 1 to 1048576, got 0
        "#,
    );
}

#[test]
fn the_rack_s_round_trip_is_exact() {
    let config = Config::parse(&rack().to_string(), "").unwrap();
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(Config::parse(&text, "").unwrap(), config);
}

#[test]
fn a_budget_that_is_too_small_says_how_much_is_needed() {
    let memory = Memory::of(&Config::parse(&rack().to_string(), "").unwrap());
    let needed = memory.total_mib();
    let mut rack = rack();
    rack["memory_budget_mib"] = json!(needed);
    Config::parse(&rack.to_string(), "").unwrap();
    let most = memory.largest().unwrap().purpose;
    let less = needed - 1;
    rack["memory_budget_mib"] = json!(less);
    assert_eq!(
        errors(&rack),
        [format!(
            "memory_budget_mib: expected at least {needed} (mostly {most}), got {less}"
        )],
    );
}

#[test]
fn classes_and_rules_are_checked() {
    check(
        &rack(),
        r#"
        /classes = [{"name": "c"}] * 9
            classes: expected 0 to 8 entries, got 9
        /classes/1/name = "voice"
            classes[1].name: expected a unique name, got "voice" again
        /rules/0/class = "cctv"
            rules[0].class: expected the name of a class (voice, rest), got "cctv"
        /rules = [{ "class": "rest" }] * 257
            rules: expected 0 to 256 entries, got 257
        /rules/0/ingress = ["a", "z"]
            rules[0].ingress[1]: expected the name of a port (a, b, c), got "z"
        /rules/0/ingress = []
            rules[0].ingress: expected at least one value (or omit the key), got none
        /rules/0/pcp = [0, 8]
            rules[0].pcp[1]: expected 0 to 7, got 8
        /rules/0/source_ports = [5, 4]
            rules[0].source_ports: expected the first port, then the last, got [5, 4]
        /rules/0/destination = "2001:db8::/32"
            rules[0].destination: expected an IPv4 prefix like `source`, got 2001:db8::/32
        /rules/0/protocol = "icmp"
            rules[0].protocol: expected a protocol with ports (tcp, udp or sctp), because the rule has ports, got 1
        /rules/0/protocol = "upd"
            rules[0].protocol: expected "icmp", "tcp", "udp", "icmpv6" or "sctp", or a whole number or null, got "upd"; did you mean `udp`?
        "#,
    );
}

#[test]
fn vlans_are_checked() {
    check(
        &rack(),
        r#"
        /forwarding = {"mode": "patch", "pairs": [["a", "b"]]}
            ports[0].vlan: expected no VLANs in mode patch, which passes every frame as it is, got some
        /ports/1/vlan/vlan = 4095
            ports[1].vlan.vlan: expected 1 to 4094, got 4095
        /ports/0/vlan/vlans = [7, 0]
            ports[0].vlan.vlans[1]: expected 1 to 4094, got 0
        /ports/0/vlan/vlans = [7, 7]
            ports[0].vlan.vlans[1]: expected a VLAN once, got 7 again
        /ports/0/vlan/vlans = "all"
            ports[0].vlan.vlans: expected a list or null, got "all"
        /ports/0/vlan = { "mode": "trunk", "vlans": [] }
            ports[0].vlan.vlans: expected at least one VLAN, or a `native` one, got none
        /ports/0/vlan/native = 0
            ports[0].vlan.native: expected 1 to 4094, got 0
        "#,
    );
}

#[test]
fn stations_are_checked() {
    let station = |address: &str, vlan: u16, port: &str| json!({ "address": address, "vlan": vlan, "port": port });
    check(
        &rack(),
        r#"
        /forwarding/stations/0 = {"address": "03:00:00:00:00:01", "vlan": 7, "port": "a"}
            forwarding.stations[0].address: expected a unicast MAC address other than zero, got 03:00:00:00:00:01
        /forwarding/stations/0 = {"address": "02:00:00:00:00:1", "vlan": 7, "port": "a"}
            forwarding.stations[0].address: "02:00:00:00:00:1" is not an Ethernet address such as 02:00:00:00:00:01
        /forwarding/stations/0 = {"address": "02:00:00:00:00:01", "vlan": 7, "port": "z"}
            forwarding.stations[0].port: expected the name of a port (a, b, c), got "z"
        /forwarding/stations/0 = {"address": "02:00:00:00:00:01", "vlan": 6, "port": "a"}
            forwarding.stations[0].vlan: expected a VLAN of port a (7, 8, 9), got 6
        /forwarding/stations/0 = {"address": "02:00:00:00:00:01", "vlan": 8, "port": "b"}
            forwarding.stations[0].vlan: expected a VLAN of port b (7), got 8
        /forwarding/stations/0 = {"address": "02:00:00:00:00:01", "vlan": 8, "port": "c"}
            forwarding.stations[0].vlan: expected a VLAN of port c (0, because it has no VLANs), got 8
        /forwarding/stations = [{"address": "02:00:00:00:00:01", "vlan": 7, "port": "a"}, {"address": "02:00:00:00:00:01", "vlan": 7, "port": "b"}]
            forwarding.stations[1].address: expected an address once in a VLAN, got ("02:00:00:00:00:01", 7) again
        "#,
    );
    let mut full = rack();
    let stations = [1, 2].map(|n| station(&format!("02:00:00:00:00:0{n}"), 7, "a"));
    full["forwarding"]["stations"] = stations.to_vec().into();
    full["forwarding"]["fdb_entries"] = json!(1);
    let error = Config::parse(&full.to_string(), "")
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("expected 0 to 1 stations (`fdb_entries`), got 2"),
        "{error}"
    );
}

#[test]
fn segments_and_sketches_are_checked() {
    check(
        &rack(),
        r#"
        /measurement/segments/0 = { "from": "a", "to": "a" }
            measurement.segments[0].to: expected a port other than a, got "a"
        /measurement/segments/0/from = "z"
            measurement.segments[0].from: expected the name of a port (a, b, c), got "z"
        /measurement/segments = [{ "from": "a", "to": "b" }] * 2
            measurement.segments[1]: expected a segment once, got ("a", "b") again
        /measurement/segments = []
            measurement.segments: expected at least one segment (or omit the key for all), got none
        /measurement/lds/rows = [1, 1, 1, 1, 1]
            measurement.lds.rows: expected 1 to 4 entries, got 5
        /measurement/lds/rows = [0.1, 1.5]
            measurement.lds.rows[1]: expected over 0, up to 1, got 1.5
        /measurement/lds/rows = [1e-12]
            measurement.lds: expected rows that can be laid out, got row 0 samples with probability 0.000000000001; give it 2^-32 to 1
        /measurement/lds = { "cells": 16, "virtual_cells": 6 }
            measurement.lds.virtual_cells: expected no more than a row has (5 cells), got 6
        /measurement/lda = { "banks": [{ "rows": 1, "probability": 1e-12 }] }
            measurement.lda.banks: expected banks that can be laid out, got bank 0 samples with probability 0.000000000001; give it 2^-32 to 1
        "#,
    );
}

#[test]
fn references_and_flows_are_checked() {
    check(
        &rack(),
        r#"
        /measurement/rli/policy = { "kind": "either", "packets": 1, "interval_us": 0 }
            measurement.rli.policy.interval_us: expected 1 to 10000000, got 0
        /ports/1/egress/capacity_bps = null
            measurement.rli.policy.kind: expected `egress.capacity_bps` on every egress port, which adaptive needs, got none on b
        /measurement/stamps = "burst"
            measurement.rli.method: expected `measurement.stamps` to be `packet` with anchored_sums, got `burst`
        /measurement/flows/select = { "sampled": 1.5 }
            measurement.flows.select.sampled: expected 0 to 1, got 1.5
        /measurement/flows/select/rules = [{}, { "source_ports": [2, 1] }]
            measurement.flows.select.rules[1].source_ports: expected the first port, then the last, got [2, 1]
        /measurement/flows/select/rules = []
            measurement.flows.select.rules: expected 1 to 256 entries, got 0
        "#,
    );
    // A port that no measured segment leaves by needs no capacity.
    let mut rack = rack();
    rack["ports"][2]["egress"] = json!({});
    Config::parse(&rack.to_string(), "").unwrap();
}

#[test]
fn a_patch_panel_measures_patched_pairs_only() {
    let mut config = Config::demo().unwrap();
    config.ports.push(Port {
        name: "north".to_owned(),
        ..config.ports[0].clone()
    });
    let measured = |from: &str, to: &str| {
        vec![SegmentPorts {
            from: from.to_owned(),
            to: to.to_owned(),
        }]
    };
    config.measurement.segments = Some(measured("west", "east"));
    validate(&config).unwrap();
    assert_eq!(config.segments(), [segment(1, 0)]);
    let to_north = |config: &mut Config| {
        config.measurement.segments = Some(measured("west", "north"));
    };
    assert_eq!(
        error_of(config, to_north),
        "measurement.segments[0].to: expected the port that west is patched to, got \"north\"",
    );
}

/// The demo with three more ports.
fn with_ports() -> Config {
    let mut config = Config::demo().unwrap();
    let port = |name: &str| Port {
        name: name.to_owned(),
        ..Config::demo().unwrap().ports[0].clone()
    };
    config.ports.extend(["in", "out", "dmz"].map(port));
    config
}

fn device(name: &str, ports: &[&str]) -> Around {
    Around {
        name: name.to_owned(),
        ports: ports.iter().map(|&port| port.to_owned()).collect(),
        timeout_ms: 1_000,
        packets: 1_000,
    }
}

#[test]
fn around_a_device_leads_from_each_of_its_ports_to_each_other() {
    let mut config = with_ports();
    config.measurement.around = vec![device("fw", &["out", "in", "dmz"])];
    validate(&config).unwrap();
    let inside = 2;
    let around = &config.segments()[inside..];
    assert!(around.iter().all(|segment| segment.around == Some(0)));
    let names = around.iter().map(|s| config.segment_ends(s));
    let names: Vec<_> = names.map(|[from, to]| format!("{from}>{to}")).collect();
    assert_eq!(
        names,
        [
            "fw:out>fw:in",
            "fw:out>fw:dmz",
            "fw:in>fw:out",
            "fw:in>fw:dmz",
            "fw:dmz>fw:out",
            "fw:dmz>fw:in"
        ]
    );
    assert_eq!((config.around(2), config.around(0)), (Some((0, 1)), None));
    // They have no sketch and no references.
    assert_eq!(config.resolve().sketch_ports, [0, 1]);
    assert!(
        !around
            .iter()
            .any(|segment| config.resolve().sends(0, segment))
    );
}

#[test]
fn devices_and_their_ports_are_checked() {
    check(
        &serde_json::to_value(with_ports()).unwrap(),
        r#"
        /measurement/around = [{"name": "fw", "ports": ["in"]}]
            measurement.around[0].ports: expected 2 to 16 entries, got 1
        /measurement/around = [{"name": "in", "ports": ["in", "out"]}]
            measurement.around[0].name: expected a name that no port has, got "in"
        /measurement/around = [{"name": "f w", "ports": ["in", "out"]}]
            measurement.around[0].name: expected 1 to 64 letters, digits, `.`, `_` or `-`, got "f w"
        /measurement/around = [{"name": "fw", "ports": ["in", "in"]}]
            measurement.around[0].ports[1]: expected a port that leads to no other device, got "in" again
        /measurement/around = [{"name": "fw", "ports": ["in", "out"]}, {"name": "fw", "ports": ["dmz", "west"]}]
            measurement.around[1].name: expected a unique name, got "fw" again
        /measurement/around = [{"name": "fw", "ports": ["in", "north"]}]
            measurement.around[0].ports[1]: expected the name of a port (east, west, in, out, dmz), got "north"
        "#,
    );
}

#[test]
fn a_bridge_measures_every_ordered_pair() {
    let mut config = Config::demo().unwrap();
    config.forwarding = Forwarding::Bridge {
        ageing_s: 300,
        fdb_entries: 1024,
        stations: Vec::new(),
        flood_limit_pps: 1,
    };
    config.ports = (0..PORTS_MAX)
        .map(|n| Port {
            name: format!("p{n}"),
            ..config.ports[0].clone()
        })
        .collect();
    validate(&config).unwrap();
    let segments = config.segments();
    assert_eq!(segments.len(), 4_032);
    assert_eq!(segments[..2], [segment(0, 1), segment(0, 2)]);
    assert_eq!(segments[4_031], segment(63, 62));
    config.measurement.enabled = false;
    assert_eq!(config.segments(), Vec::new());
}

#[test]
fn measurement_and_memory_are_checked() {
    check(
        &demo(),
        r#"
        /measurement/interval_ms = 9
            measurement.interval_ms: expected 10 to 60000, got 9
        /measurement/grace_ms = 125
            measurement.grace_ms: expected less than half of interval_ms (250), got 125
        /measurement/hash_seed = "12"
            measurement.hash_seed: expected 32 hexadecimal digits, got 2 characters, or others
        /measurement/lda/banks = []
            measurement.lda.banks: expected 1 to 16 entries, got 0
        /measurement/lda/banks/0/probability = 0.0
            measurement.lda.banks[0].probability: expected over 0, up to 1, got 0
        /measurement/lda/banks = [{"rows": 1, "probability": 0.75}] * 2
            measurement.lda.banks: expected probabilities that add up to 1 at most (samples are disjoint), got 1.5
        /dpdk = {"mbufs": 0}
            dpdk.mbufs: expected 1024 to 4194304, got 0
        "#,
    );
}

#[test]
fn egress_queues_are_checked() {
    check(
        &rack(),
        r#"
        /ports/0/egress/queues/1/classes = ["rest", "voice"]
            ports[0].egress.queues[1].classes[1]: expected a class that is in no queue yet, got "voice"
        /ports/0/egress/queues/1/classes = []
            ports[0].egress.queues[1].classes: expected at least one class, got none
        /ports/0/egress/queues/1/classes = ["bulk"]
            ports[0].egress.queues[1].classes[0]: expected the name of a class (voice, rest), got "bulk"
        /ports/0/egress/queues = [{ "classes": ["rest"] }]
            ports[0].egress.queues: expected a queue for class voice, got none
        /ports/0/egress/queues/1/bytes = 1521
            ports[0].egress.queues[1].bytes: expected 1522 (a frame of the MTU) to 1073741824, got 1521
        /ports/0/egress/queues/1/red/max_packets = 1025
            ports[0].egress.queues[1].red.max_packets: expected 1 to 1024, got 1025
        /ports/0/egress/queues/1/red/min_packets = 300
            ports[0].egress.queues[1].red.min_packets: expected 0 to 299, got 300
        /ports/0/egress/queue_packets = 64
            ports[0].egress.queue_packets: expected no such key beside `queues`, which have their own `packets` and `bytes`, got 64
        /ports/0/egress/queue_bytes = 64000
            ports[0].egress.queue_bytes: expected no such key beside `queues`, which have their own `packets` and `bytes`, got 64000
        /ports/1/egress/queue_bytes = 64
            ports[1].egress.queue_bytes: expected 1522 (a frame of the MTU) to 1073741824, got 64
        /ports/2/egress = { "burst_bytes": 9 }
            ports[2].egress.burst_bytes: expected `capacity_bps` beside it, got none
        /ports/0/egress/owner = 2
            ports[0].egress.owner: expected 0 to 1, got 2
        "#,
    );
}

#[test]
fn an_address_that_others_reach_needs_a_token_or_a_word() {
    let wanted = "http.listen: expected a loopback address, or `token_file` with what clients have \
                  to show, or `insecure` for anyone who can reach it, got ";
    for address in [
        "0.0.0.0:9464",
        "192.0.2.7:80",
        "[::]:9464",
        "[2001:db8::1]:1",
    ] {
        let mut open = rack();
        open["http"] = json!({ "listen": address });
        assert_eq!(errors(&open), [format!("{wanted}{address}")]);
        for guard in [
            json!({ "listen": address, "token_file": "/etc/vernier/token" }),
            json!({ "listen": address, "insecure": true }),
        ] {
            let mut rack = rack();
            rack["http"] = guard;
            Config::parse(&rack.to_string(), "rack").unwrap();
        }
    }
    for address in [
        json!("127.0.0.1:1"),
        json!("[::1]:9464"),
        json!("127.8.9.1:0"),
        json!(null),
    ] {
        let mut rack = rack();
        rack["http"] = json!({ "listen": address });
        Config::parse(&rack.to_string(), "rack").unwrap();
    }
}

#[test]
fn names_of_the_switch_are_names() {
    let mut rack = rack();
    rack["http"] = json!({ "hosts": ["edge-1", "edge-1.example.org"] });
    Config::parse(&rack.to_string(), "rack").unwrap();
    let expected = "expected 1 to 64 letters, digits, `.`, `_` or `-`, got";
    for wrong in ["edge-1:9464", "", "*", "http://edge-1"] {
        rack["http"] = json!({ "hosts": ["edge-1", wrong] });
        let expected = format!("http.hosts[1]: {expected} {wrong:?}");
        assert!(errors(&rack).contains(&expected), "{expected}");
    }
    check(
        &demo(),
        r#"
        /http = {} & /http/hosts = ["a"] * 65
            http.hosts: expected 0 to 64 entries, got 65
        "#,
    );
}

#[test]
fn what_prometheus_gets_is_checked() {
    let mut rack = rack();
    rack["prometheus"] = json!({ "include": ["vernier_*"], "pinned": [{ "protocol": 6 }] });
    Config::parse(&rack.to_string(), "rack").unwrap();
    check(
        &rack,
        r#"
        /prometheus = { "buckets_per_octave": 3 }
            prometheus.buckets_per_octave: expected 1, 2, 4 or 8, got 3
        /prometheus = { "top_flows": 1001 }
            prometheus.top_flows: expected 0 to 1000, got 1001
        /prometheus = { "include": ["vernier_*", ""] }
            prometheus.include[1]: expected a metric's name, with `*` for any characters, got ""
        /prometheus = { "exclude": ["a b"] }
            prometheus.exclude[0]: expected a metric's name, with `*` for any characters, got "a b"
        /prometheus = {} & /prometheus/exclude = ["a"] * 65
            prometheus.exclude: expected 0 to 64 entries, got 65
        "#,
    );
}

/// The demo with a wire at its first port.
fn wired() -> Config {
    let mut config = Config::demo().unwrap();
    config.measurement.hash_seed = Some("00".repeat(16));
    config.wire = Some(WireSwitch {
        switch: 7,
        keys: vec![key(1)],
        key: None,
        clock: crate::config::WireClock::default(),
    });
    config.ports[0].device = Device::Dpdk("net_ring0".to_owned());
    config.ports[0].egress = crate::config::Egress::default();
    config.ports[0].wire = Some(Wire::default());
    config
}

fn key(id: u16) -> WireKey {
    WireKey {
        id,
        file: "wire.key".into(),
    }
}

/// The same as JSON.
fn wired_json() -> Value {
    serde_json::to_value(wired()).unwrap()
}

fn refused_wire(change: impl FnOnce(&mut Wire)) -> String {
    let mut config = wired();
    validate(&config).unwrap();
    change(config.ports[0].wire.as_mut().unwrap());
    validate(&config).unwrap_err().0[0].to_string()
}

#[test]
fn a_wire_needs_a_device_a_seed_a_number_and_keys() {
    check(
        &wired_json(),
        r#"
        /ports/0/device = "sink"
            ports[0].wire: expected no such key: only a DPDK device...
        /measurement/enabled = false
            ports[0].wire: expected `measurement.enabled`...
        /measurement/hash_seed = null
            ports[0].wire: expected `measurement.hash_seed`, the same at both ends...
        /wire = null
            ports[0].wire: expected `wire.switch`, this switch's number...
        /wire/keys = []
            ports[0].wire.trusted: expected `keys` here, or `wire.keys` beside `ports`, or true, got false
        /ports/0/rx_queues = 2
            ports[0].rx_queues: expected 1, or no such key...
        /ports/0/mtu = 575
            ports[0].mtu: expected 576 to 9000, got 575
        /workers = [{}, {}] & /ports/0/egress/owner = 1
            ports[0].egress.owner: expected 0, the worker that serves the port...
        "#,
    );
    let mut trusted = wired();
    trusted.wire.as_mut().unwrap().keys.clear();
    trusted.ports[0].wire.as_mut().unwrap().trusted = true;
    validate(&trusted).unwrap();
}

#[test]
fn keys_are_numbered_from_1_and_each_once_and_a_wire_sends_under_one() {
    let key = |id: u16| json!({ "id": id, "file": "wire.key" });
    let mut many = wired_json();
    many["wire"]["keys"] = (1..18).map(key).collect();
    assert_eq!(
        errors(&many),
        ["wire.keys: expected 0 to 16 entries, got 17"]
    );
    check(
        &wired_json(),
        r#"
        /wire/keys/0/id = 0
            wire.keys[0].id: expected 1 to 65535, got 0
        /wire/keys = [{"id": 3, "file": "wire.key"}] * 2
            wire.keys[1].id: expected a unique number, got 3 again
        /wire/key = 2
            wire.key: expected the `id` of one of `keys`, got 2
        /wire/keys/0/file = ""
            wire.keys[0].file: expected a file's name, got none
        /wire/keys/0/file = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"
            wire.keys[0].file: expected the name of the file that holds the key, got what looks like a key
        /ports/0/wire/key = 9
            ports[0].wire.key: expected the `id` of one of `keys`, got 9
        /ports/0/wire/keys = [{"id": 3, "file": "wire.key"}] * 2
            ports[0].wire.keys[1].id: expected a unique number, got 3 again
        /ports/0/wire/keys = [{"id": 3, "file": "wire.key"}] & /ports/0/wire/key = 1
            ports[0].wire.key: expected the `id` of one of `keys`, got 1
        "#,
    );
}

#[test]
fn what_a_wire_says_of_itself_is_checked() {
    check(
        &wired_json(),
        r#"
        /ports/0/wire/ethertype = 2048
            ports[0].wire.ethertype: expected a type that no other protocol has, such as 34997, got 2048
        /ports/0/wire/classes = ["all"]
            ports[0].wire.classes: expected no such key on a direct link, where all classes are measured together, got some
        /ports/0/wire/rli = {"method": "anchored_sums"}
            ports[0].wire.rli.method: expected auto, sums, linear or left: anchored_sums is for queues inside the switch, got anchored_sums
        /ports/0/wire/lds = {"cells": 16}
            ports[0].wire.lds.virtual_cells: expected no more than a row has (4 cells), got 5
        /ports/0/wire/peer_switch = 7
            ports[0].wire.peer_switch: expected a number other than `wire.switch`, got 7
        /ports/0/wire/peer_port = "a b"
            ports[0].wire.peer_port: expected 1 to 64 letters, digits, `.`, `_` or `-`, got "a b"
        "#,
    );
}

#[test]
fn a_peer_is_another_station_that_can_be_reached() {
    let mut valid = wired_json();
    valid["ports"][0]["wire"]["peer"] =
        json!({ "local": "192.0.2.1", "remote": "192.0.2.2", "gateway": "02:00:00:00:00:01" });
    check(
        &valid,
        r#"
        /ports/0/wire/peer/remote = "2001:db8::1"
            ports[0].wire.peer.remote: expected an address of the family of `local`, got 2001:db8::1
        /ports/0/wire/peer/remote = "192.0.2.1"
            ports[0].wire.peer.remote: expected an address other than `local`, got 192.0.2.1
        /ports/0/wire/peer/local = "224.0.0.1"
            ports[0].wire.peer.local: expected a unicast address, got 224.0.0.1
        /ports/0/wire/peer/gateway = "ff:ff:ff:ff:ff:ff"
            ports[0].wire.peer.gateway: expected a unicast MAC address, got ff:ff:ff:ff:ff:ff
        /ports/0/wire/peer/udp_port = 0
            ports[0].wire.peer.udp_port: expected 1 to 65535, got 0
        /ports/0/wire/classes = ["gold"]
            ports[0].wire.classes[0]: expected the name of a class (all), got "gold"
        /ports/0/wire/classes = ["all", "all"]
            ports[0].wire.classes[1]: expected a class once, got "all" again
        "#,
    );
    valid["ports"][1] = valid["ports"][0].clone();
    put(&mut valid, "/ports/1/name", r#""west""#);
    put(&mut valid, "/ports/1/device", r#""net_ring1""#);
    let twice = errors(&valid);
    assert!(
        twice[0].starts_with("ports[1].wire.peer: expected unique addresses"),
        "{twice:?}"
    );
}

#[test]
fn an_lda_either_follows_the_losses_or_has_banks() {
    let mut valid = wired_json();
    valid["ports"][0]["wire"]["lda"] = json!({ "adaptive": {} });
    check(
        &valid,
        r#"
        /ports/0/wire/lda/banks = [{"rows": 64, "probability": 0.5}]
            ports[0].wire.lda: expected either `adaptive` (`{}` for its defaults) or `banks`, got both
        /ports/0/wire/lda = {}
            ports[0].wire.lda: expected either `adaptive` (`{}` for its defaults) or `banks`, got neither
        /ports/0/wire/lda = {} & /ports/0/wire/lda/banks = [{"rows": 64, "probability": 0.5}] * 3
            ports[0].wire.lda.banks: expected probabilities that add up to 1...
        /ports/0/wire/lda/adaptive = {"rows": 31}
            ports[0].wire.lda.adaptive.rows: expected 32 to 65536...
        /ports/0/wire/lda/adaptive = {"worst_loss": 0.0}
            ports[0].wire.lda.adaptive.worst_loss: expected...
        /ports/0/wire/lda/adaptive = {"worst_loss": 1.5}
            ports[0].wire.lda.adaptive.worst_loss: expected...
        "#,
    );
}

#[test]
fn sizes_that_the_share_does_not_hold_are_refused_with_what_they_take() {
    let error = refused_wire(|wire| {
        wire.capacity_bps = Some(1_000_000_000);
        wire.lds = Some(WireLds {
            cells: Some(100_000),
            ..WireLds::default()
        });
    });
    // The demo's epochs: 250 ms.
    let expected = "ports[0].wire.share: expected at most 156250 bytes of control frames an epoch \
                    (0.005 of 1.00 Gbit/s for 250 ms), got ";
    assert!(error.starts_with(expected), "{error}");
    assert!(
        error.contains(" bytes too many: markers and the like "),
        "{error}"
    );
    // References are limited to their part of the share when they are sent, however many are configured.
    let mut config = wired();
    if let Some(wire) = &mut config.ports[0].wire {
        wire.capacity_bps = Some(1_000_000_000);
        wire.rli = Some(WireRli {
            policy: Some(RliPolicy::Time { interval_us: 10 }),
            method: RliMethod::Auto,
        });
    }
    validate(&config).unwrap();
    assert_eq!(config.wire_bytes(0).unwrap().references, 62_500);
    // So little that not even the least fits.
    let slow = refused_wire(|wire| wire.capacity_bps = Some(1_000));
    assert!(
        slow.contains("at most 0 bytes of control frames an epoch"),
        "{slow}"
    );
}

fn refusal_of_nats(nats: &Value) -> String {
    let mut config = demo();
    config["report"] = json!({ "nats": nats });
    let error = Config::parse(&config.to_string(), "vernier.json").unwrap_err();
    let host = json!({ "report": { "nats": nats } }).to_string();
    assert!(HostConfig::parse(&host, "host.json").is_err());
    error.to_string()
}

#[test]
fn a_connection_that_cannot_be_is_refused_with_what_was_expected() {
    for (nats, expected) in [
        (
            json!({ "servers": [] }),
            "report.nats.servers: expected 1 to 16",
        ),
        (
            json!({ "servers": ["nats://a", "10.0.0.1"] }),
            "without user and password, got \"10.0.0.1\"",
        ),
        (
            json!({ "servers": ["nats://a"], "key_file": "k" }),
            "report.nats.cert_file: expected `cert_file` with",
        ),
        (
            json!({ "servers": ["nats://a"], "user": "u" }),
            "report.nats.user: expected `user` with",
        ),
        (
            json!({ "servers": ["tls://a"], "token_file": "t", "nkey_file": "n" }),
            "report.nats.credentials_file: expected one of",
        ),
        (
            json!({ "servers": ["nats://user:password@127.0.0.1"] }),
            "without user and password, got one with `@`",
        ),
    ] {
        let error = refusal_of_nats(&nats);
        assert!(error.contains(expected), "{error}");
    }
}

/// Anyone on the way could read it.
#[test]
fn a_password_goes_unencrypted_to_loopback_only_unless_the_configuration_says_insecure() {
    let accepted = |nats: &Value| {
        let mut config = demo();
        config["report"] = json!({ "nats": nats });
        Config::parse(&config.to_string(), "vernier.json").map(drop)
    };
    for secret in [
        json!({ "user": "u", "password_file": "p" }),
        json!({ "token_file": "t" }),
    ] {
        let with = |servers: Value, more: Value| {
            let mut nats = secret.clone();
            nats["servers"] = servers;
            nats.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            nats
        };
        for server in [
            "nats://10.0.0.9:4222",
            "nats://nats.example",
            "nats://[2001:db8::1]",
            "nats://localhost.example",
        ] {
            let error = refusal_of_nats(&with(json!(["nats://127.0.0.1", server]), json!({})));
            assert!(
                error.contains("report.nats.servers: expected `tls://`"),
                "{error}"
            );
            assert!(error.contains("`insecure`"), "{error}");
            accepted(&with(json!([server]), json!({ "insecure": true }))).unwrap();
            accepted(&with(json!([server]), json!({ "ca_file": "ca" }))).unwrap();
        }
        for server in [
            "nats://127.0.0.1:4222",
            "nats://[::1]:4222",
            "nats://localhost",
            "tls://10.0.0.9",
        ] {
            accepted(&with(json!([server]), json!({}))).unwrap();
        }
    }
    // Only a signature is sent.
    accepted(&json!({ "servers": ["nats://10.0.0.9"], "nkey_file": "n" })).unwrap();
}

#[test]
fn a_collector_is_a_transport_a_host_and_a_port() {
    let target = |collector: &str| {
        let ipfix = Ipfix::to(collector);
        ipfix
            .target()
            .map(|(transport, host)| (transport, host.to_owned()))
    };
    let host = |host: &str| host.to_owned();
    assert_eq!(
        target("udp://a.example:4739"),
        Some((Transport::Udp, host("a.example:4739")))
    );
    assert_eq!(
        target("tcp://[::1]:1"),
        Some((Transport::Tcp, host("[::1]:1")))
    );
    for wrong in [
        "",
        "a:4739",
        "udp://a",
        "udp://:1",
        "tcp://a:0",
        "tcp://a:65536",
        "sctp://a:1",
        "udp://a/b:1",
    ] {
        assert_eq!(target(wrong), None, "{wrong}");
    }
}

#[test]
fn another_collector_is_refused_with_what_was_expected() {
    let mut config = demo();
    config["ipfix"] = json!({ "collector": "10.0.0.9:4739" });
    let error = Config::parse(&config.to_string(), "vernier.json").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("ipfix.collector: expected `udp://host:4739`"),
        "{error}"
    );
    let host = json!({ "ipfix": config["ipfix"] }).to_string();
    assert!(HostConfig::parse(&host, "host.json").is_err());
}

fn tcp(source: [u8; 4], destination_port: u16) -> FlowKey {
    FlowKey::Ip(FiveTuple {
        source: source.into(),
        destination: [192, 0, 2, 1].into(),
        source_port: 40_000,
        destination_port,
        protocol: 6,
    })
}

#[test]
fn rules_name_flows() {
    let rule: FlowRule = serde_json::from_value(json!({
        "source": "10.1.0.0/16", "protocol": 6, "destination_ports": [80, 443],
    }))
    .unwrap();
    assert!(rule.selects(&tcp([10, 1, 200, 3], 80)));
    assert!(rule.selects(&tcp([10, 1, 0, 0], 443)));
    assert!(!rule.selects(&tcp([10, 2, 200, 3], 80)));
    assert!(!rule.selects(&tcp([10, 1, 200, 3], 444)));
    // Prefixes keep to their family, and Ethernet has no addresses.
    let v6 = FlowKey::Ip(FiveTuple {
        source: "2001:db8::1".parse().unwrap(),
        destination: "::1".parse().unwrap(),
        source_port: 1,
        destination_port: 2,
        protocol: 17,
    });
    let ethernet = FlowKey::parse(&[0; 14]);
    for (source, is_v6) in [
        ("2001:db8::/32", true),
        ("2001:db8::/128", false),
        ("::/0", true),
        ("0.0.0.0/0", false),
    ] {
        let from = FlowRule {
            source: Some(source.parse().unwrap()),
            ..FlowRule::default()
        };
        assert_eq!(from.selects(&v6), is_v6, "{source}");
        assert!(!from.selects(&ethernet));
    }
    assert!(matches!(ethernet, FlowKey::Ethernet { .. }));
    assert!(FlowRule::default().selects(&ethernet));
}

#[test]
fn a_sample_is_the_share_asked_for() {
    for share in [0.0, 0.25, 1.0] {
        let below = FlowSelection::Sampled(share).sampled_below();
        let hashes = (0..10_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let chosen = hashes.filter(|hash| hash >> 32 < below).count();
        let got = chosen as f64 / 1e4;
        assert!((got - share).abs() < 0.01, "{got} of {share}");
    }
}
