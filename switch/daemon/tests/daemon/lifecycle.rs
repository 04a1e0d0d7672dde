//! `vernierd` as its users meet it: started with one command, given nonsense, stopped.
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{
    Daemon, assert_conserved, assert_segments_add_up, free_address, interrupt, number, shared, sum,
    vernierd, written,
};
use serde_json::{Value, json};
use testkit::process::Process;
use testkit::terminal::Terminal;

fn generated(rate: u64) -> Value {
    json!({
        "ports": [
            { "name": "east", "device": format!("generate:flows=500,rate={rate}"),
              "egress": { "capacity_bps": 400_000_000 } },
            { "name": "west", "device": format!("generate:flows=200,rate={rate},burst=16,side=1"),
              "egress": { "capacity_bps": 400_000_000 } },
        ],
        "forwarding": { "mode": "patch", "pairs": [["east", "west"]] },
        "measurement": { "interval_ms": 100, "lda": { "banks": [
            { "rows": 256, "probability": 0.5 }, { "rows": 256, "probability": 0.05 } ] } },
        "workers": [{ "idle": "sleep" }],
    })
}

/// Runs to the end and returns (exit code, standard output, standard error).
fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Runs a configuration that cannot work; nothing may be left behind.
fn run_config(config: &str) -> (Option<i32>, String) {
    let (_folder, file) = written(config);
    let mut command = vernierd();
    command.args(["--duration", "1", "--config"]).arg(&file);
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id().to_string();
    let output = child.wait_with_output().unwrap();
    for left in std::fs::read_dir("/var/run/dpdk")
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = left.file_name().to_string_lossy().into_owned();
        assert!(
            !name.ends_with(&format!("-{id}")),
            "left behind: /var/run/dpdk/{name}"
        );
    }
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// The parts that an error message must have, and that it is a single message.
fn assert_says(words: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(words.contains(wanted), "{wanted:?} is not in: {words}");
    }
    assert!(!words.contains("panicked"), "{words}");
}

#[test]
fn estimates_hold_against_the_stamped_truth() {
    let mut switch = Daemon::start(generated(30_000));
    let total = |switch: &Daemon, field: &str| -> u64 {
        let segments = switch.json("/api/v1/segments").unwrap();
        sum(&segments["segments"], |segment| {
            number(&segment["total"][field])
        })
    };
    switch.wait_for(|switch| total(switch, "estimated_epochs") >= 60);
    let (within, estimated) = (
        total(&switch, "within_bound_epochs"),
        total(&switch, "estimated_epochs"),
    );
    assert!(
        within as f64 >= 0.9 * estimated as f64,
        "nominal 98 %: {within} of {estimated} epochs within the bound"
    );
    let summary = switch.stop();
    assert_conserved(&summary["snapshot"]);
    assert_segments_add_up(&summary["snapshot"], 1_000);
}

#[test]
fn an_unprivileged_user_needs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // The program and its libraries must be readable for the user; the folder is.
    let program = folder.path().join("vernierd");
    std::fs::copy(env!("CARGO_BIN_EXE_vernierd"), &program).unwrap();
    run(Command::new("chmod")
        .args(["-R", "a+rx"])
        .arg(folder.path()));
    let id = Command::new("id").arg("-u").output().unwrap();
    let mut command = if id.stdout == b"0\n" {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program);
        command
    } else {
        Command::new(&program)
    };
    let config = folder.path().join("vernier.json");
    let mut quiet = generated(5_000);
    quiet["http"] = json!({ "listen": free_address().to_string() });
    std::fs::write(&config, quiet.to_string()).unwrap();
    let (code, table, words) = run(command
        .current_dir("/")
        .stdin(Stdio::null())
        .args(["--live", "--duration", "2", "--config"])
        .arg(&config));
    assert_eq!(code, Some(0), "{words}");
    assert_says(&table, &["east", "west", "LDA"]);
}

#[test]
fn a_capture_is_replayed_and_no_packet_is_lost_uncounted() {
    let Some(capture) = shared("traces/backbone-20190123-part1.pcap") else {
        return;
    };
    let mut switch = Daemon::start(json!({
        "ports": [
            { "name": "in", "device": format!("replay:{}?speed=0.1", capture.display()) },
            { "name": "out", "device": "sink" },
        ],
        "forwarding": { "mode": "bridge" },
        "measurement": { "interval_ms": 50 },
        "workers": [{ "idle": "sleep" }],
    }));
    let received = |switch: &Daemon| number(&switch.snapshot().unwrap()["ports"][0]["rx_packets"]);
    switch.wait_for(|switch| received(switch) >= 4667);
    let summary = switch.stop();
    let snapshot = &summary["snapshot"];
    assert_eq!(
        snapshot["ports"][0]["rx_packets"], 4667,
        "played once, whole"
    );
    assert_conserved(snapshot);
}

#[test]
fn a_bad_configuration_is_one_clear_message_and_exit_code_2() {
    for (config, wanted) in [
        ("{\n  \"ports\": ?", &["vernier.json:2:"][..]),
        (
            r#"{"ports": [], "forwarding": {"mode": "bridge"}}"#,
            &["ports"],
        ),
        (
            r#"{"ports":[{"name":"a","device":"sink","egress":{"capasity_bps":1}}],
               "forwarding":{"mode":"bridge"}}"#,
            &["ports[0].egress", "capasity_bps", "capacity_bps"],
        ),
        (
            r#"{"ports":[{"name":"a","device":"sink","mtu":"big"}],"forwarding":{"mode":"bridge"}}"#,
            &["ports[0].mtu", "big"],
        ),
        (
            r#"{"ports":[{"name":"a","device":"generate:flows=none"},{"name":"b","device":"sink"}],
               "forwarding":{"mode":"bridge"}}"#,
            &["ports[0].device", "flows", "none"],
        ),
        (
            r#"{"ports":[{"name":"a","device":"sink"},{"name":"b","device":"sink"}],
               "forwarding":{"mode":"patch","pairs":[["a","c"]]}}"#,
            &["forwarding.pairs[0]", "\"c\""],
        ),
        // What DPDK refuses.
        (
            r#"{"ports":[{"name":"a","device":"net_memif0,role=teacher"},{"name":"b","device":"sink"}],
               "forwarding":{"mode":"bridge"},"http":{"listen":null}}"#,
            &["port a", "net_memif0"],
        ),
        (
            r#"{"ports":[{"name":"a","device":"net_pcap0,nonsense=1"},{"name":"b","device":"sink"}],
               "forwarding":{"mode":"bridge"},"http":{"listen":null}}"#,
            &["port a", "net_pcap0"],
        ),
    ] {
        let (code, words) = run_config(config);
        assert_eq!(code, Some(2), "{config}: {words}");
        assert_says(&words, wanted);
    }
    for (argument, file) in [
        ("--config", "/nowhere/vernier.json"),
        ("--pcap", "/nowhere/to.pcap"),
    ] {
        let (code, _, words) = run(vernierd().args([argument, file]));
        assert_eq!(code, Some(2), "{words}");
        assert_says(&words, &[file, "No such file"]);
    }
    assert_eq!(run(vernierd().arg("--nonsense")).0, Some(2));
    assert_eq!(run(vernierd().args(["--duration", "never"])).0, Some(2));
}

#[test]
fn a_check_says_what_would_be_used_and_starts_nothing() {
    let (_folder, file) = written(&generated(1000).to_string());
    let (code, report, words) = run(vernierd().args(["--check", "--config"]).arg(&file));
    assert_eq!(code, Some(0), "{words}");
    assert_says(&report, &["east", "west"]);
}

#[test]
fn ctrl_c_ends_cleanly_with_a_summary() {
    let mut config = generated(1000);
    config["http"] = json!({ "listen": free_address().to_string() });
    let (_folder, file) = written(&config.to_string());
    let mut command = vernierd();
    command.args(["--live", "--config"]).arg(&file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Process::start(&mut command).unwrap();
    let table = process.child.stdout.take().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let (is_success, log) = interrupt(process);
    assert!(is_success, "{log}");
    let table = std::io::read_to_string(table).unwrap();
    assert_says(&table, &["east", "west"]);
}

#[test]
fn a_switch_with_devices_forwards_on_when_the_terminal_of_its_table_is_closed() {
    let mut terminal = Terminal::open(80).unwrap();
    let config = json!({
        "ports": [
            { "name": "east", "device": "net_ring0" },
            { "name": "west", "device": "sink" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["east", "west"]] },
    });
    let mut switch = Daemon::start_as(config, |command| {
        command.arg("--live").env("TERM", "xterm");
        command.stdin(terminal.stream().unwrap());
        command.stdout(terminal.stream().unwrap());
    });
    let log = switch.take_log();
    let mut drawn = [0; 64];
    terminal.controller.read_exact(&mut drawn).unwrap();
    drop(terminal);
    let mut lines = BufReader::new(log).lines();
    let is_said = |line: String| line.contains("the switch runs on until SIGTERM");
    assert!(lines.any(|line| is_said(line.unwrap())));
    let alive = switch.snapshot().unwrap();
    assert_eq!(alive["state"], "running");
    drop(lines);
    switch.stop();
}

#[test]
fn a_reader_that_goes_is_no_failure() {
    let (_folder, file) = written(&generated(1000).to_string());
    for arguments in [
        &["--check"] as &[_],
        &["--live", "--duration", "10"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = vernierd();
        command.args(arguments).arg("--config").arg(&file);
        let output = command.stdout(writer).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {words}");
        for word in ["panic", "pipe"] {
            assert!(!words.contains(word), "{arguments:?}: {words}");
        }
    }
}

#[test]
fn an_eal_that_does_not_start_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vernier.json");
    for (argument, wanted) in [
        ("--iova-mode=qq", "--iova-mode"),
        ("--proc-type=third", "--proc-type"),
    ] {
        let mut config = generated(1000);
        config["http"] = json!({ "listen": null });
        config["dpdk"] = json!({ "eal_args": [argument] });
        std::fs::write(&file, config.to_string()).unwrap();
        let (code, page, words) = run(vernierd().args(["--duration", "1", "--config"]).arg(&file));
        assert_eq!((code, page.as_str()), (Some(2), ""), "{argument}: {words}");
        assert_says(&words, &["vernierd: ", wanted]);
        // The other lines are about the machine.
        let others = words.lines().filter(|line| !line.contains(" WARN "));
        assert_eq!(others.count(), 1, "{words}");
        assert!(
            !words.contains("FATAL") && !words.contains("Usage"),
            "{words}"
        );
    }
}

#[test]
fn packets_are_switched_whatever_panics_in_the_control_core() {
    let panics = "core=3,upkeep=3,epoch=3,estimate=3,publish=3";
    let mut switch = Daemon::start_as(generated(5_000), |command| {
        command.env("VERNIER_INJECT_PANICS", panics);
    });
    let contained = |switch: &Daemon, part: &str| -> Option<u64> {
        switch.metric(&format!(
            "vernier_contained_panics_total{{part=\"{part}\"}}"
        ))
    };
    for part in ["core", "upkeep", "epoch", "estimate", "publish"] {
        switch.wait_for(|switch| contained(switch, part) == Some(3));
    }
    assert_eq!(contained(&switch, "flows"), Some(0));
    let epoch = |switch: &Daemon| switch.json("/api/v1/status").unwrap()["epoch"].as_u64();
    let before = epoch(&switch);
    switch.wait_for(|switch| epoch(switch) > before);
    assert_conserved(&switch.stop()["snapshot"]);
}

/// The control core fails completely: the workers continue, and clients are informed.
#[test]
fn packets_are_switched_without_a_control_core() {
    let switch = Daemon::start_as(generated(5_000), |command| {
        let all = format!("core={}", u64::MAX);
        command.env("VERNIER_INJECT_PANICS", all);
    });
    let refused = |switch: &Daemon, path: &str| {
        let answer = switch.answer(path);
        answer.filter(|(status, text)| *status == 503 && text.contains("the control core"))
    };
    let began = Instant::now();
    while refused(&switch, "/healthz").is_none() {
        assert!(
            began.elapsed() < Duration::from_mins(2),
            "no reader learns it"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(refused(&switch, "/readyz").is_some());
    let summary = switch.stop();
    assert_conserved(&summary["snapshot"]);
    let ports = summary["snapshot"]["ports"].as_array().unwrap();
    for port in ports {
        assert!(port["tx_packets"].as_u64().unwrap() > 0, "{port:#}");
    }
}
