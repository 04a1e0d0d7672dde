//! A configuration that passes `vernierd --check` starts here; one that cannot start is refused with the reason.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::namespace::ip;
use testkit::pcap::Writer;

use crate::support::{free_address, is_root, key_file, skip, vernierd, written};

/// Two ports of a bridge, with members put into it (JSON pointers).
fn config(changes: &[(&str, Value)]) -> Value {
    let mut config = json!({
        "ports": [{ "name": "a", "device": "generate:flows=9" }, { "name": "b", "device": "sink" }],
        "forwarding": { "mode": "bridge" },
        "measurement": { "hash_seed": "00112233445566778899aabbccddeeff" },
        "workers": [{ "idle": "sleep" }],
        "http": { "listen": free_address().to_string() },
        "dpdk": { "hugepages": false },
    });
    for (place, value) in changes {
        let (parent, key) = place.rsplit_once('/').unwrap();
        match config.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
            object => object[key] = value.clone(),
        }
    }
    config
}

/// Exit code, and output on standard error.
fn said(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), words)
}

/// Its check and its start.
fn check_and_start(file: &Path) -> [(Option<i32>, String); 2] {
    let mut check = vernierd();
    check.args(["--check", "--config"]).arg(file);
    let mut start = vernierd();
    start.args(["--duration", "0.1", "--config"]).arg(file);
    [said(&mut check), said(&mut start)]
}

/// Both end with this code and all these messages.
#[track_caller]
fn assert_said(file: &Path, code: i32, wanted: &[&str]) {
    for (found, words) in check_and_start(file) {
        assert_eq!(found, Some(code), "{wanted:?}: {words}");
        for wanted in wanted {
            assert!(words.contains(wanted), "{wanted:?}: {words}");
        }
        assert!(!words.contains("0123456789abcdef"), "a token: {words}");
    }
}

/// Its check without a look at the machine.
fn check_text(file: &Path) -> (Option<i32>, String) {
    said(
        vernierd()
            .args(["--check", "--static", "--config"])
            .arg(file),
    )
}

/// A file that only its owner may read.
fn write_private(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
}

#[test]
fn what_cannot_start_here_is_refused_by_name() {
    // Long: a table of faults.
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    for (name, text, mode) in [
        ("text", "no capture", 0o600),
        ("open", "0123456789abcdef", 0o644),
        ("empty", "", 0o600),
    ] {
        std::fs::write(place(name), text).unwrap();
        std::fs::set_permissions(place(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let device = |device: &str| vec![("/ports/0/device", json!(device))];
    let listen = |listen: &str| vec![("/http", json!({ "listen": listen, "insecure": true }))];
    let with_token = |file: &str| {
        let http = json!({ "listen": free_address().to_string(), "token_file": place(file) });
        vec![("/http", http)]
    };
    let dpdk = |dpdk: Value| vec![("/dpdk", dpdk)];
    let key = |file: &str| {
        let keys = json!([{ "id": 1, "file": place(file) }]);
        vec![("/wire", json!({ "switch": 1, "keys": keys }))]
    };
    let nats =
        json!({ "nats": { "servers": ["nats://127.0.0.1"], "credentials_file": place("none") } });
    let nothing = place("none").display().to_string();
    let cases = [
        (device("net_nonsense0"), "ports[0].device"),
        (
            device("net_af_packt0,iface=lo"),
            "did you mean `net_af_packet`?",
        ),
        (device("net_af_packet0,iface=nosuch0"), "\"nosuch0\""),
        (device("net_af_packet0"), "iface=eth1"),
        (device("net_af_xdp0,iface=nosuch0"), "\"nosuch0\""),
        (device("net_pcap0,iface=nosuch0"), "\"nosuch0\""),
        (device("net_tap0,remote=nosuch0"), "\"nosuch0\""),
        (device(&format!("net_pcap0,rx_pcap={nothing}")), &nothing),
        (device("0000:ff:1f.7"), "0000:ff:1f.7"),
        (device("ff:1f.7"), "0000:ff:1f.7"),
        (device(&format!("replay:{nothing}")), &nothing),
        (
            device(&format!("replay:{}", place("text").display())),
            "neither a pcap",
        ),
        (vec![("/workers/0/core", json!(99_999))], "workers[0].core"),
        (with_token("none"), "http.token_file"),
        (with_token("empty"), "http.token_file"),
        (listen(&taken), "http.listen"),
        (listen("192.0.2.1:9464"), "http.listen"),
        (
            dpdk(json!({ "hugepages": true, "memory_mib": 1_048_576 })),
            "free hugepages",
        ),
        (
            dpdk(json!({ "memory_mib": 1_048_576 })),
            "this machine has free",
        ),
        (
            dpdk(json!({ "memory_mib": 16 })),
            "packet buffers of dpdk.mbufs",
        ),
        (
            dpdk(json!({ "eal_args": ["--nonsense"] })),
            "dpdk.eal_args[0]",
        ),
        (dpdk(json!({ "eal_args": ["--help"] })), "dpdk.eal_args[0]"),
        (key("none"), "wire.keys[0].file"),
        (key("open"), "wire.keys[0].file"),
        (vec![("/report", nats)], "report.nats"),
    ];
    for (changes, wanted) in cases {
        let (_folder, file) = written(&config(&changes).to_string());
        let (code, words) = check_text(&file);
        assert_eq!(code, Some(0), "{wanted} elsewhere: {words}");
        assert_said(&file, 2, &[wanted]);
    }
    let (_folder, file) = written(&config(&with_token("open")).to_string());
    let open = place("open").display().to_string();
    assert_said(&file, 2, &["http.token_file", &open, "chmod o="]);
}

#[test]
fn the_verdict_comes_first() {
    let faults = [
        ("/workers/0/core", json!(99_999)),
        ("/measurement/interval_ms", json!(1)),
    ];
    for (changes, verdict) in [
        (&[][..], "valid: 2 ports, 1 worker, "),
        (&faults, "2 errors\n"),
    ] {
        let (_folder, file) = written(&config(changes).to_string());
        let output = vernierd().args(["--check", "--config"]).arg(&file).output();
        let out = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(out.starts_with(verdict), "{out}");
    }
}

#[test]
fn a_clock_that_is_not_synchronised_is_said_before_a_wire_is_started() {
    let is_synchronised = dpdk_bindings::kernel_clock().unwrap().is_synchronised;
    let wire = json!({ "trusted": true });
    let port = json!({ "name": "trunk", "device": "net_null0", "wire": wire });
    for (clock, is_said) in [
        (json!({}), !is_synchronised),
        (json!({ "error_ns": 500 }), false),
    ] {
        let changes = [
            ("/ports/0", port.clone()),
            ("/wire", json!({ "switch": 1, "clock": clock })),
        ];
        let (_folder, file) = written(&config(&changes).to_string());
        let output = vernierd().args(["--check", "--config"]).arg(&file).output();
        let words = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(words.starts_with("valid: "), "{words}");
        assert_eq!(
            words.contains("no wire measures one-way delays"),
            is_said,
            "{words}"
        );
    }
}

#[test]
fn an_address_in_use_comes_with_the_option_for_another() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (code, words) = said(vernierd().args(["--listen", &taken]));
    let start = format!("vernierd: cannot serve HTTP on {taken}: ");
    assert_eq!(code, Some(2), "{words}");
    assert!(
        words.starts_with(&start) && words.contains("--listen 127.0.0.1:0"),
        "{words}"
    );
    assert_eq!(words.lines().count(), 1, "{words}");
    let (code, words) = said(vernierd().args(["--listen", "192.0.2.1:9464"]));
    assert!(
        code == Some(2) && words.contains("http.token_file"),
        "{words}"
    );
}

#[test]
fn vernier_asks_vernierd() {
    let vernier = Path::new(env!("CARGO_BIN_EXE_vernierd")).with_file_name("vernier");
    if !vernier.is_file() {
        return skip("vernier is not built beside vernierd");
    }
    for (core, code, wanted) in [
        (json!(null), 0, "a switch would start here"),
        (json!(99_999), 2, "a switch would NOT start here"),
    ] {
        let (_folder, file) = written(&config(&[("/workers/0/core", core)]).to_string());
        let mut check = Command::new(&vernier);
        let output = check
            .args(["check", "--offline"])
            .arg(&file)
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{out}");
        assert!(out.contains(wanted), "{out}");
    }
}

#[test]
fn all_faults_are_said_at_once_with_their_lines() {
    let changes = [
        ("/ports/0/device", json!("net_af_packet0,iface=nosuch0")),
        ("/workers/0/core", json!(99_999)),
        ("/http/token_file", json!("/nowhere/token")),
    ];
    let text = serde_json::to_string_pretty(&config(&changes)).unwrap();
    let (_folder, file) = written(&text);
    for (code, words) in check_and_start(&file) {
        assert_eq!(code, Some(2), "{words}");
        for (key, value) in [
            ("ports[0].device", "nosuch0"),
            ("workers[0].core", "99999"),
            ("http.token_file", "/nowhere"),
        ] {
            let line = text.lines().position(|line| line.contains(value)).unwrap() + 1;
            let place = format!("{}:{line}:", file.display());
            let said = words
                .lines()
                .any(|words| words.contains(&place) && words.contains(key));
            assert!(said, "{place} {key}: {words}");
        }
    }
}

#[test]
fn a_range_hides_no_device() {
    let changes = [
        ("/ports/0/device", json!("net_af_packet0,iface=nosuch0")),
        ("/workers/0/core", json!(99_999)),
        ("/measurement/interval_ms", json!(1)),
        ("/forwarding/ageing_s", json!("long")),
        ("/dpdk/nonsense", json!(1)),
    ];
    let all = [
        "nosuch0",
        "99999",
        "interval_ms: expected 10 to 60000",
        "ageing_s: expected",
        "nonsense",
    ];
    let config = config(&changes);
    let mut ranges = config.clone();
    ranges["forwarding"] = json!({ "mode": "bridge" });
    ranges["dpdk"] = json!({ "hugepages": false });
    for (config, wanted) in [(&config, &all[..]), (&ranges, &all[..3])] {
        let (_folder, file) = written(&serde_json::to_string_pretty(config).unwrap());
        assert_said(&file, 2, wanted);
        for (_, words) in check_and_start(&file) {
            assert_eq!(words.lines().count(), wanted.len(), "{words}");
        }
        // Errors that can be found without checking the machine.
        let (code, words) = check_text(&file);
        assert_eq!(code, Some(2), "{words}");
        assert!(
            words.contains("interval_ms") && !words.contains("nosuch0"),
            "{words}"
        );
    }
}

#[test]
fn files_that_editors_of_windows_wrote_are_read_or_get_a_hint() {
    let hint = "byte order mark (EF BB BF); save it as UTF-8 without one";
    let (_folder, file) = written(&format!("\u{feff}{}", config(&[])));
    assert_said(&file, 2, &["vernier.json: cannot read", hint]);
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    let http = json!({ "listen": "127.0.0.1:0", "token_file": token });
    let (_folder, file) = written(&config(&[("/http", http)]).to_string());
    // It may end as Windows ends a line, and not otherwise.
    for (text, code, wanted) in [
        ("\u{feff}0123456789abcdef\r\n", 2, hint),
        ("0123456789abcdef\r\n", 0, ""),
        ("0123456789abcdef \n", 2, ""),
        ("0123456789abcdef\nfedcba9876543210\n", 2, ""),
    ] {
        write_private(&token, text);
        let key = if code == 2 { "http.token_file" } else { "" };
        assert_said(&file, code, &[wanted, key]);
    }
}

#[test]
fn addresses_to_listen_on_are_those_that_people_write() {
    let not_one = "\"example.com:9464\" is not an address with a port, such as 127.0.0.1:9464";
    for (listen, code, wanted) in [
        ("localhost:0", 0, ""),
        (":0", 0, ""),
        ("example.com:9464", 2, not_one),
    ] {
        let http = json!({ "listen": listen, "insecure": true });
        let (_folder, file) = written(&config(&[("/http", http)]).to_string());
        assert_said(&file, code, &[wanted]);
    }
}

/// A capture of three packets, two of them years after the first.
fn late_packets(file: &Path) {
    let mut capture = Writer::new(File::create(file).unwrap()).unwrap();
    for second in [0, 1_700_000_000, 1_700_000_001] {
        capture.write_at(second, 0, &[0; 60]).unwrap();
    }
}

#[test]
fn packets_that_are_due_in_years_are_said_by_the_check_the_start_and_the_summary() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("late.pcap");
    late_packets(&capture);
    let device = json!(format!("replay:{}", capture.display()));
    let (_folder, file) = written(&config(&[("/ports/0/device", device)]).to_string());
    assert_said(
        &file,
        0,
        &["2 of the 3 packets of the capture", "53.9 years"],
    );
    let summary = folder.path().join("summary.json");
    let mut run = vernierd();
    run.args(["--duration", "0.1", "--config"])
        .arg(&file)
        .arg("--summary-json")
        .arg(&summary);
    let (code, words) = said(&mut run);
    assert_eq!(code, Some(0), "{words}");
    assert!(
        words.contains("port a: 2 of 3 packets of the capture"),
        "{words}"
    );
    let summary: Value = serde_json::from_str(&std::fs::read_to_string(summary).unwrap()).unwrap();
    let capture = json!([{ "port": "a", "file": capture, "packets": 3, "left_packets": 2 }]);
    assert_eq!(summary["captures"], capture);
}

/// In a namespace of its own, whose ends of a veth pair have two queues.
#[test]
fn what_the_driver_of_an_interface_will_refuse_is_said_before() {
    if !is_root("network interfaces") {
        return;
    }
    testkit::namespace::enter().unwrap();
    let queues = "numrxqueues 2 numtxqueues 2";
    ip(&format!(
        "link add vmtu0 {queues} type veth peer name vmtu1 {queues}"
    ))
    .unwrap();
    for (device, mtu, wanted) in [
        ("af_packet0", 9_000, "mtu: expected 46 to 1500"),
        ("af_xdp0", 9_000, "mtu: expected 68 to"),
        (
            "af_xdp0,start_queue=5",
            1_500,
            "device: expected 0 to 1 as a queue",
        ),
        (
            "af_xdp0,queue_count=2",
            1_500,
            "device: expected queue_count=1 at most",
        ),
    ] {
        let device = format!("net_{device},iface=vmtu0");
        let changes = [
            ("/ports/0/device", json!(device)),
            ("/ports/0/mtu", json!(mtu)),
            ("/http", json!({ "listen": null })),
        ];
        let (_folder, file) = written(&config(&changes).to_string());
        assert_said(&file, 2, &[&format!("ports[0].{wanted}")]);
    }
}

/// Fifty: every kind of device, both ways of forwarding, every method.
#[test]
fn what_the_check_passes_starts() {
    if !is_root("network interfaces") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    key_file(folder.path());
    let capture = folder.path().join("one.pcap");
    let mut writer = Writer::new(File::create(&capture).unwrap()).unwrap();
    writer.write(&[0; 60]).unwrap();
    writer.finish().unwrap();
    let capture = capture.display();
    let devices = [
        ["generate:flows=9".to_owned(), "sink".to_owned()],
        ["net_null0".to_owned(), "net_ring0".to_owned()],
        [
            format!("net_pcap0,rx_pcap={capture}"),
            "net_null0".to_owned(),
        ],
        [
            format!("replay:{capture}?loop=0"),
            "generate:side=1,flows=9".to_owned(),
        ],
        [
            "net_af_packet0,iface=lo".to_owned(),
            "net_tap0,iface=vcheck0".to_owned(),
        ],
    ];
    let forwarding = [
        json!({ "mode": "patch", "pairs": [["a", "b"]] }),
        json!({ "mode": "bridge" }),
    ];
    let measurement = [
        json!({}),
        json!({ "enabled": false }),
        json!({ "lda": { "banks": [{ "rows": 64, "probability": 1 }] }, "stamps": "packet" }),
        json!({ "lds": { "cells": 4096 }, "flows": { "slots": 64 } }),
        json!({ "rli": { "policy": { "kind": "count", "packets": 100 } } }),
    ];
    for [a, b] in &devices {
        for forwarding in &forwarding {
            for measurement in &measurement {
                let changes = [
                    ("/ports/0/device", json!(a)),
                    ("/ports/1/device", json!(b)),
                    ("/forwarding", forwarding.clone()),
                    ("/measurement", measurement.clone()),
                    ("/http", json!({ "listen": null })),
                ];
                let (_folder, file) = written(&config(&changes).to_string());
                assert_said(&file, 0, &[]);
            }
        }
    }
}
