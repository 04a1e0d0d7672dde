mod classes;
mod forwarding;
mod measurement;
mod ports;
mod serving;
mod wire;

use serde_json::{Value, json};

use super::*;
use crate::config::{
    Around, Device, Forwarding, Lda, LdaBank, PORTS_MAX, Port, Segment, SegmentPorts,
};

/// The first error of a valid configuration once it is changed.
fn error_of(mut config: Config, change: impl FnOnce(&mut Config)) -> String {
    validate(&config).unwrap();
    change(&mut config);
    validate(&config).unwrap_err().0[0].to_string()
}

fn error(change: impl FnOnce(&mut Config)) -> String {
    error_of(Config::demo().unwrap(), change)
}

fn lda(config: &mut Config) -> &mut Lda {
    config.measurement.lda.as_mut().unwrap()
}

fn segment(ingress: usize, egress: usize) -> Segment {
    Segment {
        ingress,
        egress,
        class: 0,
        around: None,
    }
}

fn pair(a: &str, b: &str) -> Forwarding {
    Forwarding::Patch {
        pairs: vec![(a.to_owned(), b.to_owned())],
        link_loss_forwarding: false,
    }
}

fn bridge(ageing_s: u32) -> Forwarding {
    Forwarding::Bridge {
        ageing_s,
        fdb_entries: 1,
        stations: Vec::new(),
        flood_limit_pps: 1,
    }
}

fn devices(config: &mut Config, devices: [&str; 2]) {
    for (port, device) in config.ports.iter_mut().zip(devices) {
        port.device = Device::Dpdk(device.to_owned());
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
    // Long: a table.
    let cases = [
        (
            error(|c| c.name = "a b".to_owned()),
            "name: expected 1 to 64 letters, digits, `.`, `_` or `-`, got \"a b\"",
        ),
        (
            error(|c| c.ports.clear()),
            "ports: expected 1 to 64 entries, got 0",
        ),
        (
            error(|c| c.ports = vec![c.ports[0].clone(); 65]),
            "ports: expected 1 to 64 entries, got 65",
        ),
        (
            error(|c| c.ports[1].name = "east".to_owned()),
            "ports[1].name: expected a name of its own, got \"east\" again",
        ),
        (
            error(|c| {
                for port in &mut c.ports {
                    port.device = Device::Dpdk("net_null0".to_owned());
                }
            }),
            "ports[1].device: expected a device of its own, such as net_pcap0 and net_pcap1, got \"net_null0\" again",
        ),
        (
            error(|c| devices(c, ["net_pcap0,rx_pcap=a", "net_pcap0,rx_pcap=b"])),
            "ports[1].device: expected a device of its own, such as net_pcap0 and net_pcap1, got \"net_pcap0\" again",
        ),
        (
            error(|c| devices(c, ["03:00.1", "0000:03:00.1,arg=1"])),
            "ports[1].device: expected a device of its own, such as net_pcap0 and net_pcap1, got \"0000:03:00.1\" again",
        ),
        (
            error(|c| {
                devices(
                    c,
                    ["net_af_packet0,iface=eth1", "net_af_packet1,iface=eth1"],
                );
            }),
            "ports[1].device: expected an interface that no other port receives from, got \"eth1\" again",
        ),
        (
            error(|c| {
                devices(
                    c,
                    [
                        "net_af_xdp0,iface=eth1",
                        "net_af_xdp1,iface=eth1,start_queue=0",
                    ],
                );
            }),
            "ports[1].device: expected an interface that no other port receives from, got \"eth1, queue 0\" again",
        ),
        (
            error(|c| c.ports[1].egress.queue_packets = 65_537),
            "ports[1].egress.queue_packets: expected 1 to 65536, got 65537",
        ),
        (
            error(|c| c.forwarding = pair("east", "north")),
            "forwarding.pairs[0][1]: expected the name of a port (east, west), got \"north\"",
        ),
        (
            error(|c| c.forwarding = pair("east", "east")),
            "forwarding.pairs[0][1]: expected a port that is in no pair yet, got \"east\"",
        ),
        (
            error(|c| {
                c.ports.truncate(1);
                c.forwarding = bridge(300);
            }),
            "forwarding.mode: expected at least 2 ports to bridge, got 1",
        ),
    ];
    for (got, expected) in cases {
        assert_eq!(got, expected);
    }
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

/// The rack's errors when a value is put somewhere (a JSON pointer).
fn rack_errors(place: &str, value: Value) -> Vec<String> {
    let mut rack = rack();
    let (parent, key) = place.rsplit_once('/').unwrap();
    match rack.pointer_mut(parent).unwrap() {
        Value::Array(array) => array[key.parse::<usize>().unwrap()] = value,
        object => object[key] = value,
    }
    let error = Config::parse(&rack.to_string(), "v.json").unwrap_err();
    let errors = error.to_string();
    let errors = errors.lines().map(|line| line.split_once(": ").unwrap().1);
    errors.map(str::to_owned).collect()
}

fn check(cases: &[(&str, Value, &str)]) {
    Config::parse(&rack().to_string(), "rack").unwrap();
    for (place, value, expected) in cases {
        let errors = rack_errors(place, value.clone());
        assert!(
            errors.iter().any(|error| error == expected),
            "{expected}\n{errors:#?}"
        );
    }
}

#[test]
fn workers_and_their_queues_are_checked() {
    check(&[
        (
            "/workers/1/core",
            json!(1),
            "workers[1].core: expected a CPU of its own, got 1 again",
        ),
        (
            "/workers/1/queues",
            json!(null),
            "workers[1]: expected `queues` for every worker, or for none, got a worker without",
        ),
        (
            "/workers/1/queues/0",
            json!(["z", 1]),
            "workers[1].queues[0][0]: expected the name of a port (a, b, c), got \"z\"",
        ),
        (
            "/workers/1/queues/0",
            json!(["a", 2]),
            "workers[1].queues[0][1]: expected 0 to 1, got 2",
        ),
        (
            "/workers/1/queues/0",
            json!(["a", 0]),
            "workers[1].queues[0]: expected a queue that no worker serves yet, got (\"a\", 0) again",
        ),
        (
            "/workers/1/queues",
            json!([["a", 1], ["c", 1]]),
            "workers: expected a worker with [\"b\", 1] among its `queues`, got none",
        ),
        (
            "/workers",
            vec![json!({}); 65].into(),
            "workers: expected 0 to 64 entries, got 65",
        ),
        (
            "/ports/2",
            json!({ "name": "c", "device": "sink", "rx_queues": 2 }),
            "ports[2].rx_queues: expected 1, since only DPDK devices have more, got 2",
        ),
        (
            "/memory_budget_mib",
            json!(0),
            "memory_budget_mib: expected 1 to 1048576, got 0",
        ),
    ]);
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
    assert_eq!(
        rack_errors("/memory_budget_mib", json!(less)),
        [format!(
            "memory_budget_mib: expected {needed} at least (most goes to: {most}), got {less}"
        )],
    );
}
