//! Commands that ask a switch with flows, reloads or a token.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::config::Config;
use measure::packet::{FiveTuple, FlowKey};
use records::snapshot::{
    FlowFigures, FlowList, FlowName, FlowRecord, FlowTotals, Flows, Reload, ReloadOutcome,
    SegmentName, Status,
};

use super::*;

/// A key of a flow, and its name.
fn flow(source_port: u16) -> (FlowKey, String) {
    let key = FlowKey::Ip(FiveTuple {
        source: Ipv4Addr::new(10, 0, 0, 1).into(),
        destination: Ipv4Addr::new(10, 0, 0, 2).into(),
        source_port,
        destination_port: 80,
        protocol: 6,
    });
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
            mean_ns: Some(1_000.0 / f64::from(n)),
            ..FlowFigures::default()
        };
        FlowRecord {
            name: FlowName::Key(flow(n).0),
            segment: 0,
            first_epoch: 0,
            last_epoch: 7,
            last: figures,
            total: figures,
            quantiles: None,
            estimates: None,
            references: None,
        }
    });
    let list = FlowList {
        epoch: Some(7),
        segments: vec![Arc::new(segment)],
        flows: flows.collect(),
        wire: None,
    };
    let status = Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        switch: "demo".to_owned(),
        measuring: true,
        epoch: Some(7),
        interval_ms: 250,
        epoch_end_unix_s: Some(1_700_000_000.0),
        ..Status::default()
    };
    Snapshot {
        status,
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
        out.contains("not tracked, and no sketch of the last whole epoch has a packet of it"),
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
    let live =
        "would change, at the end of an epoch:\n  ports[east].egress.queue_packets: 512 -> 64\n";
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
    assert_eq!(run(&["check", path, "--offline", "--static"]).0, 0);
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
            let mut snapshot = busy();
            snapshot.generation = 4;
            snapshot.reload = Some(Reload {
                number,
                outcome,
                message: "a.b, c".to_owned(),
            });
            published.publish(snapshot, Lookup::default());
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
    let expected = "generation 4 is in use; changed:\n  a.b\n  c\n".to_owned();
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
        code == 1 && error.contains("within 1 s: the file is being read"),
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
        code == 1 && error.contains("needs a token; name the file"),
        "{code} {error}"
    );
    let demo = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../contract/src/config/demo.json"
    );
    let (code, out, _) = run(&["check", demo, "--url", &url]);
    assert!(
        code == 0 && out.contains("\na reload was not checked: the switch at"),
        "{out}"
    );
}
