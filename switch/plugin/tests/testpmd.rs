//! Debian's unmodified `dpdk-testpmd` with the plugin.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use contract::units::duration_ns;
use serde_json::{Value, json};
use support::testpmd::Testpmd;
use support::{Plugin, capture};
use testkit::page::{Expected, Page, cells, list, text};

/// Two devices that repeat this capture for ever.
fn captures(folder: &Path, flows: u16) -> [String; 2] {
    let file: PathBuf = folder.join("flows.pcap");
    capture(&file, flows);
    let file = file.display();
    [0, 1].map(|n| format!("net_pcap{n},rx_pcap={file},infinite_rx=1"))
}

/// A sum over all ports that testpmd prints, such as `TX-packets:`.
fn total(said: &str, what: &str) -> u64 {
    let all = said.rsplit_once("Accumulated forward statistics for all ports");
    let figure = all.unwrap().1.split_once(what).unwrap().1;
    figure.split_whitespace().next().unwrap().parse().unwrap()
}

fn sum(snapshot: &Value, list: &str, of: &str) -> u64 {
    let ports = snapshot[list].as_array().unwrap();
    ports
        .iter()
        .map(|port| port[of].as_u64().unwrap_or(0))
        .sum()
}

/// testpmd that swaps MAC addresses of 50 flows each way, measured with these settings, and the folder of its capture.
fn swapping(settings: Value) -> Option<(tempfile::TempDir, Plugin, Testpmd)> {
    Some(swapping_with(Plugin::with(settings)?))
}

fn swapping_with(plugin: Plugin) -> (tempfile::TempDir, Plugin, Testpmd) {
    let folder = tempfile::tempdir().unwrap();
    let devices = captures(folder.path(), 50);
    let mut testpmd = Testpmd::start(Some(&plugin), &devices, &["--forward-mode=macswap"]);
    // Packets before it has both ports are not counted.
    plugin.wait_for_ports(2);
    testpmd.tell("start");
    (folder, plugin, testpmd)
}

#[test]
fn flows_are_measured_and_every_packet_is_counted() {
    let settings = json!({ "measurement": {
        "interval_ms": 100, "lds": { "cells": 3_000 }, "flows": { "slots": 1_024 },
    } });
    let Some((_folder, plugin, testpmd)) = swapping(settings) else {
        return;
    };
    // Both directions, each flow with its own delay.
    let flows = plugin.wait("/api/v1/flows?limit=200", "a hundred flows", |answer| {
        let flows = answer["flows"].as_array()?.clone();
        (flows.len() == 100).then_some(flows)
    });
    plugin.wait("/api/v1/status", "free slots", |answer| {
        (answer["flows"]["free_slots"].as_u64()? > 0).then_some(())
    });
    for flow in &flows {
        let name = flow["flow"].as_str().unwrap();
        assert!(
            name.starts_with("10.0.0.1:1") && name.ends_with(">10.0.0.2:9/udp"),
            "{name}"
        );
    }
    plugin.wait("/metrics", "delays of flows and segments", |page| {
        let series = [
            "vernier_flow_delay_seconds_count",
            "vernier_segment_delay_seconds_bucket",
        ];
        let page = page.as_str()?;
        series
            .iter()
            .all(|series| page.contains(series))
            .then_some(())
    });
    agrees(&plugin, 2);
    is_counted(&plugin, testpmd);
}

#[test]
fn an_lda_alone_counts_and_estimates_as_well() {
    for stamps in ["burst", "packet"] {
        let settings = json!({ "measurement": { "interval_ms": 100, "stamps": stamps } });
        let Some((_folder, plugin, testpmd)) = swapping(settings) else {
            return;
        };
        agrees(&plugin, 2);
        let is_udp = |line: &&str| line.contains("kind=\"udp\"") && !line.ends_with(" 0");
        plugin.wait("/metrics", "UDP packets of two ports", |page| {
            (page.as_str()?.lines().filter(is_udp).count() == 2).then_some(())
        });
        is_counted(&plugin, testpmd);
    }
}

/// Expected content of the page's table of segments.
fn segments(plugin: &Plugin) -> Option<(Option<u64>, Expected)> {
    let answer = plugin.json("/api/v1/segments")?;
    let mut expected = Expected::new();
    for segment in list(&answer["segments"]) {
        let key = ["ingress", "egress", "class"].map(|name| text(&segment[name]));
        let stamped = &segment["last"]["stamped"];
        cells(
            &mut expected,
            &key.join(" "),
            &[
                ("mean", &stamped["mean_ns"], &duration_ns),
                ("p99", &stamped["p99_ns"], &duration_ns),
                ("max", &stamped["max_ns"], &duration_ns),
            ],
        );
    }
    Some((answer["epoch"].as_u64(), expected))
}

#[test]
fn the_page_shows_what_the_plugin_measures() {
    let settings = json!({ "measurement": { "interval_ms": 1_000, "flows": { "slots": 1_024 } } });
    let Some((folder, plugin, _testpmd)) = swapping(settings) else {
        return;
    };
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/screenshots");
    let mut page = Page::open(&plugin.address.to_string(), folder.path(), pictures).unwrap();
    page.go("segments").unwrap();
    page.shows(|| segments(&plugin).filter(|(_, expected)| expected.len() >= 6))
        .unwrap();
    page.go("overview").unwrap();
    page.pictures("plugin").unwrap();
}

#[test]
fn tables_lie_in_huge_pages_although_testpmd_locks_its_memory() {
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if enabled.is_ok_and(|enabled| enabled.contains("[never]")) {
        return support::skip("the kernel has no transparent huge pages");
    }
    let settings = json!({ "measurement": {
        "interval_ms": 100, "lds": { "cells": 200_000 }, "flows": { "slots": 100_000 },
    } });
    let Some((_folder, plugin, testpmd)) = swapping(settings) else {
        return;
    };
    plugin.wait("/api/v1/flows?limit=200", "a hundred flows", |answer| {
        (answer["flows"].as_array()?.len() == 100).then_some(())
    });
    let (asked, huge) = testpmd.huge_kib();
    // Three shards for each of two queues.
    assert!(asked > 6 * 6_000, "{asked} KiB");
    assert!(huge * 2 > asked, "{huge} of {asked} KiB");
    assert!(testpmd.quit().0.success());
}

/// Waits until the LDAs of this number of segments agree with the stamps.
fn agrees(plugin: &Plugin, segments: usize) {
    let agree = |answer: &Value| {
        let totals = answer["segments"].as_array()?.iter();
        let agreeing = totals.map(|one| &one["total"]).filter(|total| {
            let [estimated, within] = ["estimated_epochs", "within_bound_epochs"]
                .map(|key| total[key].as_u64().unwrap_or(0));
            estimated > 5 && within * 10 >= estimated * 9
        });
        (agreeing.count() == segments).then_some(())
    };
    plugin.wait("/api/v1/segments", "LDAs that agree with the stamps", agree);
}

/// Stops testpmd. The packets that it reports as forwarded must equal those counted, and the plugin must not have
/// complained.
fn is_counted(plugin: &Plugin, testpmd: Testpmd) {
    let complained = counted(plugin, testpmd);
    assert!(!complained.contains("VERNIER"), "{complained}");
}

/// Stops testpmd, and compares the packets that it reports as forwarded with those counted; returns the plugin's
/// complaints.
fn counted(plugin: &Plugin, mut testpmd: Testpmd) -> String {
    testpmd.tell("stop");
    testpmd.wait_for("Accumulated forward statistics for all ports", 1);
    let said = testpmd.said();
    let offered = total(&said, "TX-packets:") + total(&said, "TX-dropped:");
    let received = total(&said, "RX-packets:");
    let what = format!("{offered} packets counted as sent");
    plugin.wait("/api/v1/snapshot", &what, |snapshot| {
        // Packets that testpmd discards before it starts are also received.
        let is_all = sum(snapshot, "ports", "rx_packets") >= received;
        (is_all && sum(snapshot, "ports", "tx_packets") == offered).then_some(())
    });
    let (status, _, complained) = testpmd.quit();
    assert!(status.success(), "{complained}");
    complained
}

#[test]
fn a_second_copy_refuses_and_the_first_measures() {
    let Some(mut plugin) = Plugin::with(json!({ "measurement": { "interval_ms": 100 } })) else {
        return;
    };
    plugin.load_twice();
    let (_folder, plugin, testpmd) = swapping_with(plugin);
    testpmd.wait_for_complaint();
    agrees(&plugin, 2);
    let complained = counted(&plugin, testpmd);
    let ours = complained.lines().filter(|line| line.contains("VERNIER"));
    let ours: Vec<_> = ours.collect();
    let first = plugin.file().display().to_string();
    assert!(
        ours.len() == 1
            && ours[0].contains("another copy of this plugin")
            && ours[0].contains(&first),
        "{complained}"
    );
}

/// The parts that do not change between runs; `net_null` draws random addresses.
fn known(said: &str) -> Vec<&str> {
    let lines = said.lines();
    let drawn = |line: &&str| !line.starts_with("MAC address:") && !line.starts_with("Port ");
    lines.filter(drawn).collect()
}

#[test]
fn a_program_says_and_returns_what_it_always_did() {
    let Some(plugin) = Plugin::with(json!({})) else {
        return;
    };
    let devices = ["net_null0".to_owned(), "net_null1".to_owned()];
    let run = |plugin: Option<&Plugin>| {
        let mut testpmd = Testpmd::start(plugin, &devices, &[]);
        testpmd.tell("show port info all");
        testpmd.tell("show config fwd");
        testpmd.wait_for("forwarding", 1);
        if let Some(plugin) = plugin {
            plugin.wait_for_ports(2);
        }
        testpmd.quit()
    };
    let (without, with) = (run(None), run(Some(&plugin)));
    assert!(without.0.success());
    assert_eq!(known(&without.1), known(&with.1));
    assert_eq!((without.0, without.2), (with.0, with.2));
}

#[test]
fn whatever_is_wrong_turns_it_off_with_one_line_and_the_program_runs_on() {
    let Some(mut plugin) = Plugin::install() else {
        return;
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let wrong = [
        (
            "{ \"measurement\": { \"interval_ms\": 1 } }".to_owned(),
            "interval_ms",
        ),
        ("{ \"ports\": [] }".to_owned(), "ports"),
        ("{".to_owned(), "vernier.json"),
        (
            json!({ "http": { "listen": taken } }).to_string(),
            taken.as_str(),
        ),
        (
            json!({ "memory_budget_mib": 1, "http": { "listen": plugin.address.to_string() } })
                .to_string(),
            "memory_budget_mib",
        ),
    ];
    let devices = ["net_null0".to_owned(), "net_null1".to_owned()];
    for (settings, word) in wrong {
        plugin.write_settings(&settings);
        let mut testpmd = Testpmd::start(Some(&plugin), &devices, &["--forward-mode=io"]);
        testpmd.tell("start");
        testpmd.wait_for_complaint();
        testpmd.tell("stop");
        testpmd.wait_for("Accumulated forward statistics for all ports", 1);
        assert!(total(&testpmd.said(), "TX-packets:") > 0);
        let (status, _, complained) = testpmd.quit();
        let lines: Vec<_> = complained
            .lines()
            .filter(|line| line.contains("VERNIER"))
            .collect();
        assert!(status.success() && lines.len() == 1, "{word}: {complained}");
        assert!(
            lines[0].contains("disabled, the program runs on without it")
                && lines[0].contains(word),
            "{word}: {}",
            lines[0]
        );
    }
}

/// How long queues are added and removed: a minute in CI.
fn soak() -> Duration {
    let seconds = std::env::var("VERNIER_SOAK_SECONDS").ok();
    Duration::from_secs(
        seconds
            .and_then(|text| text.parse().ok())
            .unwrap_or(10)
            .min(60),
    )
}

fn change_queues(testpmd: &mut Testpmd, queues: usize) {
    for command in [
        "stop",
        "port stop all",
        &format!("port config all rxq {queues}"),
        &format!("port config all txq {queues}"),
        "port start all",
        "start",
    ] {
        testpmd.tell(command);
    }
}

fn replace_a_port(testpmd: &mut Testpmd) {
    for command in [
        "stop",
        "port stop 1",
        "port close 1",
        "port attach net_null1",
        "port start all",
        "start",
    ] {
        testpmd.tell(command);
    }
}

#[test]
fn soak_ports_and_queues_come_and_go_under_load() {
    let settings = json!({ "measurement": { "interval_ms": 50, "flows": { "slots": 256 } } });
    let Some(plugin) = Plugin::with(settings) else {
        return;
    };
    let devices = ["net_null0".to_owned(), "net_null1".to_owned()];
    let mut testpmd = Testpmd::start(Some(&plugin), &devices, &["--forward-mode=io"]);
    testpmd.tell("start");
    let began = Instant::now();
    let (mut round, mut resident) = (0, 0);
    while began.elapsed() < soak() {
        round += 1;
        change_queues(&mut testpmd, 1 + round % 4);
        if round % 5 == 0 {
            replace_a_port(&mut testpmd);
        }
        testpmd.wait_for("Accumulated forward statistics", round + round / 5);
        std::thread::sleep(Duration::from_millis(300));
        if round == 10 {
            resident = testpmd.resident_kib();
        }
    }
    // When nothing changes any more, epochs are usable again.
    plugin.wait_for_good_epochs();
    let page = plugin.get("/metrics").unwrap();
    let marked = page.lines().filter_map(|line| {
        let value = line.strip_prefix("vernier_segment_unusable_epochs_total")?;
        value
            .contains("reason=\"link\"")
            .then(|| value.rsplit_once(' ').unwrap().1)
    });
    let marked: f64 = marked.map(|value| value.parse::<f64>().unwrap()).sum();
    assert!(marked > 0.0, "no epoch was marked:\n{page}");
    let grown = testpmd.resident_kib().saturating_sub(resident);
    assert!(
        round < 12 || grown < 20_000,
        "{grown} KiB more after {round} rounds"
    );
    testpmd.tell("stop");
    testpmd.quit_quietly();
}
