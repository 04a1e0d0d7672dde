//! The `vernier` tool as its user meets it: what it prints, and with which exit code.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::http::{Running, Server};
use contract::config::Config;
use control::published::Published;
use measure::packet::FlowKey;
use records::answers::Segments;
use records::snapshot::{
    FlowFigures, FlowList, FlowRecord, FlowTotals, Flows, Reload, ReloadOutcome, Segment,
    SegmentName, Snapshot,
};

fn vernier(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vernier"))
        .args(arguments)
        .env_remove("VERNIER_URL")
        .env_remove("VERNIER_TOKEN_FILE")
        .output()
        .unwrap()
}

/// Exit code, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = vernier(arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn serve() -> Running {
    let segment = Segment {
        ingress: "east".to_owned(),
        egress: "west".to_owned(),
        ..Segment::default()
    };
    let snapshot = Snapshot {
        segments: vec![segment],
        ..Snapshot::default()
    };
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    server.serve(Arc::new(Published::new(snapshot))).unwrap()
}

#[test]
fn segments_are_printed_as_a_table_or_as_json() {
    let server = serve();
    let url = server.address().to_string();
    let (code, out, _) = run(&["segments", "--url", &url]);
    assert_eq!(code, 0);
    assert!(
        out.starts_with("segment ") && out.contains("\neast>west "),
        "{out}"
    );
    let (code, out, _) = run(&["segments", "--json", "--url", &url]);
    assert_eq!(code, 0);
    let segments: Segments = serde_json::from_str(&out).unwrap();
    assert_eq!(segments.segments[0].name(), "east>west");
}

#[test]
fn an_absent_switch_is_a_failure_with_one_message() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let (code, out, error) = run(&["segments", "--url", &free.to_string()]);
    assert_eq!((code, out.as_str()), (1, ""));
    let start = format!("vernier: no switch answers at http://{free}: ");
    assert!(
        error.starts_with(&start) && error.contains("vernierd"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn the_live_table_needs_a_terminal() {
    let (code, _, error) = run(&["top", "--url", &serve().address().to_string()]);
    assert_eq!(code, 1);
    assert!(
        error.contains("needs a terminal; `vernier segments`"),
        "{error}"
    );
}

#[test]
fn check_accepts_the_embedded_demo_and_says_what_it_would_use() {
    let demo = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../contract/src/config/demo.json"
    );
    let (code, out, _) = run(&["check", demo, "--offline"]);
    assert_eq!(code, 0);
    assert!(out.contains("segments    2: east>west, west>east"), "{out}");
}

/// What `check --json` and others print.
fn json(arguments: &[&str]) -> (i32, serde_json::Value) {
    let (code, out, error) = run(arguments);
    let value = serde_json::from_str(&out);
    (code, value.unwrap_or_else(|_| panic!("{out}\n{error}")))
}

/// An address at which nobody answers.
fn nobody() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn check_says_that_no_switch_answers_unless_it_need_not_ask() {
    let demo = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../contract/src/config/demo.json"
    );
    let (code, out, _) = run(&["check", demo, "--url", &nobody()]);
    assert_eq!(code, 0);
    let last = out.lines().last().unwrap();
    assert!(
        last.starts_with("a reload was not looked at: no switch answers at "),
        "{last}"
    );
    let (code, out, _) = run(&["check", demo, "--offline"]);
    assert_eq!((code, out.contains("reload")), (0, false), "{out}");
    let (code, checked) = json(&["check", demo, "--offline", "--json"]);
    assert_eq!(
        (code, &checked["valid"], &checked["reload"]),
        (0, &true.into(), &serde_json::Value::Null)
    );
    assert_eq!(checked["segments"], 2);
    let (code, checked) = json(&["check", "/nowhere/v.json", "--json"]);
    assert_eq!((code, &checked["valid"]), (2, &false.into()));
}

#[test]
fn two_configurations_are_compared_key_by_key() {
    let demo = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../contract/src/config/demo.json"
    );
    let mut changed: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(demo).unwrap()).unwrap();
    changed["name"] = "other".into();
    changed["measurement"]["rli"] =
        serde_json::json!({ "policy": { "kind": "count", "packets": 9 } });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), changed.to_string()).unwrap();
    let file = file.path().to_str().unwrap();
    let (code, out, error) = run(&["config", "diff", demo, file]);
    assert_eq!((code, error.as_str()), (1, ""));
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert!(
        lines[0].starts_with("measurement.rli: null -> {\"method\":\"auto\""),
        "{out}"
    );
    assert!(lines[0].ends_with("(live)"), "{out}");
    assert_eq!(
        lines[1],
        "name: \"demo\" -> \"other\" (takes a restart: measurement points are named by it)"
    );
    assert_eq!(lines.len(), 2);
    let (code, differences) = json(&["config", "diff", demo, file, "--json"]);
    let packets = differences
        .as_array()
        .unwrap()
        .iter()
        .find_map(|one| one["new"]["policy"]["packets"].as_u64());
    assert_eq!((code, packets), (1, Some(9)));
    assert_eq!(
        run(&["config", "diff", demo, demo]),
        (0, String::new(), String::new())
    );
    assert_eq!(run(&["config", "diff", demo, "/nowhere"]).0, 2);
    assert_eq!(run(&["config", "diff", demo, "--url", &nobody()]).0, 2);
}

#[test]
fn a_size_is_a_plan_with_its_configuration() {
    let (code, plan) = json(&[
        "size",
        "--packets-per-second",
        "1e5",
        "--flows",
        "20000",
        "--json",
    ]);
    assert_eq!(code, 0);
    let measurement = &plan["configuration"]["measurement"];
    assert_eq!(measurement["lds"]["cells"], plan["lds"]["cells"]);
    assert_eq!(measurement["lda"]["banks"], plan["lda"]["banks"]);
    let (code, _, error) = run(&["size", "--packets-per-second", "0"]);
    assert_eq!(code, 2);
    assert!(
        error.starts_with("vernier: LDA: the number of packets a second is 0;"),
        "{error}"
    );
    assert_eq!(run(&["size"]).0, 2);
}

#[test]
fn shells_get_a_completion() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = run(&["completion", shell]);
        assert!(code == 0 && out.contains("segments"), "{shell}");
    }
}

#[test]
fn a_token_file_that_cannot_be_read_is_a_usage_error() {
    let (code, _, error) = run(&["segments", "--token-file", "/nowhere/token"]);
    assert_eq!(code, 2);
    assert!(
        error.starts_with("vernier: /nowhere/token: cannot read the token: "),
        "{error}"
    );
}

#[test]
fn ports_are_printed_too() {
    let server = serve();
    let url = server.address().to_string();
    let (code, out, _) = run(&["ports", "--url", &url]);
    assert!(code == 0 && out.starts_with("port "), "{out}");
}

#[test]
fn a_bad_configuration_is_a_usage_error_that_says_where() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{ "ports": [{ "nam": "east" }] }"#).unwrap();
    let path = file.path().to_str().unwrap();
    let (code, out, error) = run(&["check", path]);
    assert_eq!((code, out.as_str()), (2, ""));
    let expected = format!(
        "vernier: {path}:1:22: ports[0].nam: unknown field `nam`, expected one of `name`, \
         `device`, `mtu`, `rx_queues`, `vlan`, `max_stations`, `egress`, `wire`\n"
    );
    assert_eq!(error, expected);
    let (code, _, error) = run(&["check", "/nowhere/v.json"]);
    assert_eq!(code, 2);
    let expected = "vernier: /nowhere/v.json: cannot read the configuration: No such file or \
                    directory (os error 2)\n";
    assert_eq!(error, expected);
}

#[test]
fn usage_errors_have_code_2_and_the_version_is_the_tool_s() {
    assert_eq!(run(&["frob"]).0, 2);
    let version = concat!("vernier ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run(&["--version"]), (0, version.to_owned(), String::new()));
}

/// A key of a flow, and its name.
fn flow(source_port: u16) -> (FlowKey, String) {
    let key = FlowKey::V4 {
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
        source_port,
        destination_port: 80,
        protocol: 6,
    };
    (key, format!("10.0.0.1:{source_port}>10.0.0.2:80/tcp"))
}

/// A switch of the built-in configuration that tracks three flows.
fn busy() -> Snapshot {
    let segment = SegmentName {
        ingress: "east".to_owned(),
        egress: "west".to_owned(),
        class: "all".to_owned(),
    };
    let flows = (1..4_u16).map(|n| {
        let figures = FlowFigures {
            packets: 100 * u64::from(n),
            mean_ns: 1_000.0 / f64::from(n),
            ..FlowFigures::default()
        };
        FlowRecord {
            key: flow(n).0,
            segment: 0,
            first_epoch: 0,
            last_epoch: 7,
            last: figures,
            total: figures,
            estimate: None,
            rli_mean_ns: None,
        }
    });
    let list = FlowList {
        epoch: Some(7),
        segments: vec![Arc::new(segment)],
        flows: flows.collect(),
    };
    Snapshot {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        switch: "demo".to_owned(),
        measuring: true,
        epoch: Some(7),
        interval_ms: 250,
        epoch_end_unix_s: Some(1_700_000_000.0),
        flows: Some(Flows {
            totals: FlowTotals {
                tracked: 3,
                ..FlowTotals::default()
            },
            list: Arc::new(list),
            ..Flows::default()
        }),
        config: Some(Arc::new(Config::demo().unwrap())),
        ..Snapshot::default()
    }
}

fn serve_busy() -> Running {
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    server.serve(Arc::new(Published::new(busy()))).unwrap()
}

#[test]
fn flows_are_listed_in_the_order_and_part_that_is_wanted() {
    let server = serve_busy();
    let url = server.address().to_string();
    let (code, out, _) = run(&["flows", "--url", &url]);
    assert_eq!(code, 0);
    let names: Vec<_> = out
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        names,
        ["flow", &flow(3).1, &flow(2).1, &flow(1).1, "1"],
        "{out}"
    );
    let mean = ["flows", "--sort", "mean", "--limit", "1", "--offset", "1"];
    let (code, page) = json(&[&mean[..], &["--json", "--url", &url]].concat());
    assert_eq!(
        (code, &page["matching"], &page["offset"]),
        (0, &3.into(), &1.into())
    );
    assert_eq!(page["flows"][0]["flow"], flow(2).1);
    let (_, page) = json(&[
        "flows",
        "--contains",
        ":3>",
        "--ascending",
        "--json",
        "--url",
        &url,
    ]);
    assert_eq!(
        (&page["matching"], &page["flows"][0]["flow"]),
        (&1.into(), &flow(3).1.into())
    );
    let (code, out, _) = run(&["flows", "--egress", "east", "--url", &url]);
    assert!(code == 0 && out.ends_with("ago\nno flow\n"), "{code} {out}");
    let (_, page) = json(&["flows", "--ended", "--json", "--url", &url]);
    assert_eq!(
        (&page["state"], &page["matching"]),
        (&"ended".into(), &0.into())
    );
    assert_eq!(run(&["flows", "--sort", "size", "--url", &url]).0, 2);
    let (code, _, error) = run(&["flows", "--limit", "999999", "--url", &url]);
    assert!(code == 2 && error.contains("limit"), "{code} {error}");
}

#[test]
fn one_flow_is_found_by_its_parts_and_by_its_name() {
    let server = serve_busy();
    let url = server.address().to_string();
    let by_parts = ["flow", "10.0.0.1:2", "10.0.0.2:80", "tcp", "--url", &url];
    let (code, out, error) = run(&by_parts);
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(
        out.contains("east>west: tracked, its last packet 0s ago"),
        "{out}"
    );
    assert!(out.contains("epoch 7            200"), "{out}");
    let (code, by_name, _) = run(&["flow", &flow(2).1, "--url", &url]);
    assert_eq!((code, by_name), (0, out));
    let (_, answer) = json(&[&by_parts[..], &["--json"]].concat());
    assert_eq!(answer["tracked"][0]["last"]["packets"], 200);
    let (code, out, _) = run(&["flow", &flow(9).1, "--url", &url]);
    assert_eq!(code, 0);
    assert!(
        out.contains("not tracked, and no sketch of the last whole epoch holds a packet of it"),
        "{out}"
    );
    let (code, _, error) = run(&["flow", "10.0.0.1", "--url", &url]);
    assert!(
        code == 2 && error.contains("SOURCE>DESTINATION/PROTOCOL"),
        "{code} {error}"
    );
    assert_eq!(
        run(&["flow", "10.0.0.1:2", "10.0.0.2:80", "--url", &url]).0,
        2
    );
}

#[test]
fn status_classes_and_configuration_are_printed() {
    let server = serve_busy();
    let url = server.address().to_string();
    let (code, out, _) = run(&["status", "--url", &url]);
    assert!(code == 0 && out.contains("\nflows      3 tracked"), "{out}");
    assert_eq!(
        json(&["status", "--json", "--url", &url]).1["switch"],
        "demo"
    );
    let (code, out, _) = run(&["classes", "--url", &url]);
    assert!(code == 0 && out.starts_with("class "), "{out}");
    assert!(json(&["classes", "--json", "--url", &url]).1["classes"].is_array());
    let (code, config) = json(&["config", "show", "--url", &url]);
    assert_eq!((code, &config["name"]), (0, &"demo".into()));
}

#[test]
fn check_and_diff_compare_with_what_runs() {
    let server = serve_busy();
    let url = server.address().to_string();
    let demo = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../contract/src/config/demo.json"
    );
    let text = std::fs::read_to_string(demo).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    // A switch does not tell its seed: whatever stands in the file is no difference.
    value["measurement"]["hash_seed"] = "00112233445566778899aabbccddeeff".into();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("v.json");
    let path = file.to_str().unwrap();
    let mut change = |key: &str, to: serde_json::Value| {
        *value.pointer_mut(key).unwrap() = to;
        std::fs::write(&file, value.to_string()).unwrap();
    };
    change("/ports/0/egress/queue_packets", 512.into());
    let (code, out, _) = run(&["check", path, "--url", &url]);
    assert!(
        code == 0 && out.ends_with(" would change nothing\n"),
        "{code} {out}"
    );
    assert_eq!(
        run(&["config", "diff", path, "--url", &url]),
        (0, String::new(), String::new())
    );

    change("/ports/0/egress/queue_packets", 64.into());
    let (code, out, _) = run(&["check", path, "--url", &url]);
    let live = "would change, at an epoch's turn:\n  ports[east].egress.queue_packets: 512 -> 64\n";
    assert!(code == 0 && out.ends_with(live), "{code} {out}");
    let (code, out, _) = run(&["config", "diff", path, "--url", &url]);
    assert_eq!(
        (code, out.as_str()),
        (1, "ports[east].egress.queue_packets: 512 -> 64 (live)\n")
    );

    change("/measurement/interval_ms", 100.into());
    let (code, out, _) = run(&["check", path, "--url", &url]);
    assert!(
        code == 3 && out.contains("REFUSED") && out.contains("interval_ms: 250 -> 100"),
        "{out}"
    );
    let (code, checked) = json(&["check", path, "--json", "--url", &url]);
    let reload = &checked["reload"];
    assert_eq!(
        (code, &reload["is_refused"], &reload["switch"]),
        (3, &true.into(), &"demo".into())
    );
    assert_eq!(reload["changes"].as_array().unwrap().len(), 2);
    assert_eq!(run(&["check", path, "--offline"]).0, 0);
}

/// A switch that takes up a reload once it is asked for.
fn serve_reloads(outcomes: &'static [(u64, ReloadOutcome)]) -> Running {
    let wanted = Arc::new(AtomicBool::new(false));
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let published = Arc::new(Published::new(busy()));
    let running = server.with_reload(Arc::clone(&wanted));
    let running = running.serve(Arc::clone(&published)).unwrap();
    std::thread::spawn(move || {
        while !wanted.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        for &(number, outcome) in outcomes {
            published.publish(
                Snapshot {
                    generation: 4,
                    reload: Some(Reload {
                        number,
                        outcome,
                        message: "a.b, c".to_owned(),
                    }),
                    ..busy()
                },
                None,
            );
            std::thread::sleep(Duration::from_millis(150));
        }
    });
    running
}

#[test]
fn a_reload_is_waited_for_and_its_outcome_told() {
    use ReloadOutcome::{Done, Reading, Refused, Unchanged, UnderWay};
    let server = serve_reloads(&[(1, Reading), (1, UnderWay), (1, Done)]);
    let url = server.address().to_string();
    let expected = "generation 4 holds; changed:\n  a.b\n  c\n".to_owned();
    assert_eq!(
        run(&["reload", "--url", &url]),
        (0, expected, String::new())
    );

    let server = serve_reloads(&[(1, Reading), (1, Unchanged)]);
    let (code, out, _) = run(&["reload", "--url", &server.address().to_string()]);
    assert_eq!(
        (code, out.as_str()),
        (0, "the configuration is the same as before\n")
    );

    let server = serve_reloads(&[(1, Refused)]);
    let (code, reload, error) = run(&["reload", "--json", "--url", &server.address().to_string()]);
    let reload: serde_json::Value = serde_json::from_str(&reload).unwrap();
    assert_eq!((code, &reload["outcome"]), (3, &"refused".into()));
    assert_eq!(
        error,
        "vernier: the reload is refused, and nothing has changed: a.b, c\n"
    );

    let server = serve_reloads(&[(1, Reading)]);
    let slow = [
        "reload",
        "--timeout",
        "1",
        "--url",
        &server.address().to_string(),
    ];
    let (code, _, error) = run(&slow);
    assert!(
        code == 1 && error.contains("within 1 s: it is being read"),
        "{code} {error}"
    );
}

#[test]
fn a_switch_without_a_file_refuses_to_reload() {
    let server = serve_busy();
    let (code, out, error) = run(&["reload", "--url", &server.address().to_string()]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(error.contains("--config FILE"), "{error}");
}

#[test]
fn a_token_is_shown_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, token: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, token).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    };
    let (right, wrong) = (
        write("right", "0123456789abcdef\n"),
        write("wrong", "fedcba9876543210\n"),
    );
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let server = server.with_token(&right).unwrap();
    let server = server.serve(Arc::new(Published::new(busy()))).unwrap();
    let url = server.address().to_string();
    let shown = |path: &Path| {
        run(&[
            "status",
            "--url",
            &url,
            "--token-file",
            path.to_str().unwrap(),
        ])
    };
    assert_eq!(shown(&right).0, 0);
    let (code, _, error) = shown(&wrong);
    assert!(
        code == 1 && error.contains("does not take the token"),
        "{code} {error}"
    );
    let (code, _, error) = run(&["status", "--url", &url]);
    assert!(
        code == 1 && error.contains("wants a token; name the file"),
        "{code} {error}"
    );
    let demo = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../contract/src/config/demo.json"
    );
    let (code, out, _) = run(&["check", demo, "--url", &url]);
    assert!(
        code == 0 && out.contains("\na reload was not looked at: the switch at"),
        "{out}"
    );
}
