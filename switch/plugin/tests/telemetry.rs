//! DPDK's own telemetry of a program, with the plugin's commands.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::testpmd::Testpmd;
use support::{Plugin, capture};

/// Returns the output of `dpdk-telemetry.py` for a command.
fn ask(prefix: &str, command: &str) -> Value {
    let mut asked = Command::new("dpdk-telemetry.py")
        .args(["-f", prefix])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(asked.stdin.take().unwrap(), "{command}").unwrap();
    let said = asked.wait_with_output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap();
    // A line about the program comes before the response.
    let name = command.split(',').next().unwrap();
    let answer = said.lines().find_map(|line| {
        line.strip_prefix("--> ")
            .or(Some(line))
            .filter(|line| line.starts_with(&format!("{{\"{name}\"")))
    });
    let answer: Value = serde_json::from_str(answer.unwrap_or_else(|| panic!("{said}"))).unwrap();
    answer[name].clone()
}

#[test]
fn telemetry_lists_segments_and_flows() {
    let settings = json!({ "measurement": { "interval_ms": 100, "flows": { "slots": 256 } } });
    let Some(plugin) = Plugin::with(settings) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flows.pcap");
    capture(&file, 20);
    let devices = [0, 1].map(|n| format!("net_pcap{n},rx_pcap={},infinite_rx=1", file.display()));
    let prefix = format!("vernier-telemetry-{}", std::process::id());
    let of_prefix = format!("--file-prefix={prefix}");
    let eal = ["-m", "512", "--no-huge", &of_prefix];
    let mut testpmd = Testpmd::with_eal(&eal, Some(&plugin), &devices, &["--forward-mode=io"]);
    testpmd.tell("start");
    plugin.wait("/api/v1/flows?limit=100", "flows", |answer| {
        (answer["flows"].as_array()?.len() == 40).then_some(())
    });
    plugin.wait("/api/v1/segments", "delays of a minute", |answer| {
        let segments = answer["segments"].as_array()?.iter();
        let with = segments.filter(|segment| segment["last_minute"].is_object());
        (with.count() == 2).then_some(())
    });
    let all = |table: &Value, column: &str| table[column].as_array().unwrap().clone();
    let segments = ask(&prefix, "/vernier/segments");
    assert_eq!(all(&segments, "from").len(), 2, "{segments}");
    let [packets, mean, max] = ["packets", "mean_ns", "max_ns"].map(|key| all(&segments, key));
    for ((packets, mean), max) in packets.iter().zip(mean).zip(max) {
        assert!(packets.as_u64().unwrap() > 0, "{segments}");
        assert!(
            mean.as_u64().unwrap() <= max.as_u64().unwrap(),
            "{segments}"
        );
    }
    let one = ask(&prefix, "/vernier/segments,net_pcap1");
    assert_eq!(
        (&one["from"], &one["to"]),
        (&json!(["net_pcap0"]), &json!(["net_pcap1"]))
    );
    assert_eq!(all(&ask(&prefix, "/vernier/flows"), "flow").len(), 10);
    let flows = ask(&prefix, "/vernier/flows,3");
    assert_eq!(all(&flows, "bytes").len(), 3);
    assert!(
        flows["flow"][0].as_str().unwrap().starts_with("10.0.0.1:1"),
        "{flows}"
    );
    assert!(ask(&prefix, "/vernier/flows,many").is_null());
    testpmd.quit_quietly();
}
