//! Commands that ask a switch with flows, reloads or a token.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
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
            more: None,
        }
    });
    let list = FlowList {
        epoch: Some(7),
        segments: vec![Arc::new(segment)],
        flows: flows.collect(),
        wire_times: None,
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

#[test]
fn flows_are_listed_in_the_order_and_part_that_is_wanted() {
    let (_server, url) = serve(busy());
    let (code, out, _) = run(&["flows", "--url", &url]);
    assert_eq!(code, 0);
    let names = out.lines().map(|line| line.split(' ').next().unwrap());
    let expected = ["flow", &flow(3).1, &flow(2).1, &flow(1).1, "1"];
    assert!(names.eq(expected), "{out}");
    let mean = ["flows", "--sort", "mean", "--limit", "1", "--offset", "1"];
    let (code, page) = json(&[&mean[..], &["--json", "--url", &url]].concat());
    assert_eq!(
        (code, &page["matching"], &page["offset"]),
        (0, &3.into(), &1.into())
    );
    assert_eq!(page["flows"][0]["flow"], flow(2).1);
    let third = ["flows", "--contains", ":3>", "--ascending"];
    let (_, page) = json(&[&third[..], &["--json", "--url", &url]].concat());
    assert_eq!(
        (&page["matching"], &page["flows"][0]["flow"]),
        (&1.into(), &flow(3).1.into())
    );
    let none = ["flows", "--egress", "east", "--url", &url];
    expect(&none, 0, "\nno flow\n");
    let (_, page) = json(&["flows", "--ended", "--json", "--url", &url]);
    assert_eq!(
        (&page["state"], &page["matching"]),
        (&"ended".into(), &0.into())
    );
    expect(&["flows", "--sort", "size", "--url", &url], 2, "");
    expect(&["flows", "--limit", "999999", "--url", &url], 2, "limit");
}

#[test]
fn one_flow_is_found_by_its_parts_and_by_its_name() {
    let (_server, url) = serve(busy());
    let by_parts = ["flow", "10.0.0.1:2", "10.0.0.2:80", "tcp", "--url", &url];
    let (code, out, error) = run(&by_parts);
    assert_eq!((code, error.as_str()), (0, ""));
    expect(&by_parts, 0, "east>west: tracked, its last packet 0s ago");
    expect(&by_parts, 0, "epoch 7            200");
    let (code, by_name, _) = run(&["flow", &flow(2).1, "--url", &url]);
    assert_eq!((code, by_name), (0, out));
    let (_, answer) = json(&[&by_parts[..], &["--json"]].concat());
    assert_eq!(answer["tracked"][0]["last"]["packets"], 200);
    let unknown = "not tracked, and no sketch of the last whole epoch has a packet of it";
    expect(&["flow", &flow(9).1, "--url", &url], 0, unknown);
    let words = "expected an address, such as 10.0.0.1:80";
    expect(&["flow", "10.0.0.1>/tcp", "--url", &url], 2, words);
    let half = ["flow", "10.0.0.1:2", "10.0.0.2:80", "--url", &url];
    expect(&half, 2, "");
}

#[test]
fn a_part_of_a_flow_lists_what_matches_or_shows_the_only_one() {
    let (_server, url) = serve(busy());
    for part in ["10.0.0.1", "10.0.0.0/24", ":80/tcp"] {
        expect(&["flow", part, "--url", &url], 0, "\n1 to 3 of 3 flows\n");
    }
    let only = format!("\n{}  epoch 7\n", flow(2).1);
    expect(&["flow", "10.0.0.1:2>", "--url", &url], 0, &only);
    expect(&["flow", "10.0.0.7", "--url", &url], 0, "\nno flow\n");
    let (_, page) = json(&["flow", "10.0.0.1", "--json", "--url", &url]);
    assert_eq!(page["matching"], 3);
}

#[test]
fn rows_are_printed_as_csv() {
    let (_server, url) = serve(busy());
    let arguments = ["flows", "-o", "csv", "--sort", "mean", "--url", &url];
    let (code, out, _) = run(&arguments);
    let mut lines = out.lines();
    let headings: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| headings.iter().position(|one| *one == name).unwrap();
    let (name, packets) = (column("flow"), column("last.packets"));
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[name].to_owned(), cells[packets].to_owned())
    });
    let expected = (1..4).map(|n| (flow(n).1, (100 * n).to_string()));
    assert!(code == 0 && rows.eq(expected), "{out}");
}

#[test]
fn the_course_of_a_segment_is_a_table() {
    let mut snapshot = Snapshot::example();
    let sample = records::history::Sample {
        packets: 10,
        sum_ns: 4_000.0,
        ..Default::default()
    };
    for segment in &mut snapshot.segments {
        segment.history.add(0, 250, &sample);
        segment.history.add(400, 250, &sample);
    }
    let (_server, url) = serve(snapshot);
    let history = ["history", "west>east", "--url", &url];
    let (code, out, _) = run(&history);
    let rows: Vec<_> = out.lines().collect();
    assert_eq!(
        (code, rows.len(), rows[0]),
        (0, 4, "west>east, by 10 s"),
        "{out}"
    );
    assert!(
        rows[1].starts_with("from (UTC)  packets  lost    mean"),
        "{out}"
    );
    assert!(rows[3].contains("10     0  400 ns"), "{out}");
    let (_, all, _) = run(&["history", "--last", "1h", "--url", &url]);
    assert!(
        all.contains("east>west, by 60 s\n") && all.contains("\nwest>east, by 60 s\n"),
        "{all}"
    );
    expect(
        &["history", "east>east", "--url", &url],
        0,
        "\nno segment\n",
    );
    expect(
        &["history", "east", "--url", &url],
        2,
        "expected a segment such as",
    );
    let (_, csv, _) = run(&[&history[..], &["-o", "csv"]].concat());
    assert!(
        csv.contains("segments.ingress") && csv.lines().count() == 3,
        "{csv}"
    );
}

#[test]
fn a_watched_answer_is_printed_again() {
    let (server, url) = serve(busy());
    let mut tool = Command::new(env!("CARGO_BIN_EXE_vernier"));
    tool.args(["flows", "--watch", "0.01", "--limit", "1", "--url", &url]);
    tool.stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = tool.spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let headings = lines
        .map(Result::unwrap)
        .filter(|line| line.starts_with("flow "));
    assert_eq!(headings.take(3).count(), 3);
    // It goes on when the switch is gone.
    drop(server);
    let errors = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let errors = errors
        .map(Result::unwrap)
        .filter(|line| line.contains("no switch answers"));
    assert_eq!(errors.take(2).count(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn status_classes_and_configuration_are_printed() {
    let (_server, url) = serve(busy());
    let flows = "\nflows      3 tracked";
    expect(&["status", "--url", &url], 0, flows);
    let (_, status) = json(&["status", "--json", "--url", &url]);
    assert_eq!(status["switch"], "demo");
    expect(&["classes", "--url", &url], 0, "\nclass ");
    assert!(json(&["classes", "--json", "--url", &url]).1["classes"].is_array());
    let (code, config) = json(&["config", "show", "--url", &url]);
    assert_eq!((code, &config["name"]), (0, &"demo".into()));
}

#[test]
fn check_and_diff_compare_with_what_runs() {
    let (_server, url) = serve(busy());
    let text = std::fs::read_to_string(DEMO).unwrap();
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
    let (check, diff) = (
        ["check", path, "--url", &url],
        ["config", "diff", path, "--url", &url],
    );
    expect(&check, 0, " would change nothing\n");
    assert_eq!(run(&diff), (0, String::new(), String::new()));

    change("/ports/0/egress/queue_packets", 64.into());
    let live = "ports[east].egress.queue_packets: 512 -> 64";
    let words = format!("would change, at the end of an epoch:\n  {live}\n");
    expect(&check, 0, &words);
    assert_eq!(run(&diff), (1, format!("{live} (live)\n"), String::new()));

    change("/measurement/interval_ms", 100.into());
    expect(&check, 3, "REFUSED");
    expect(&check, 3, "interval_ms: 250 -> 100");
    let (code, checked) = json(&["check", path, "--json", "--url", &url]);
    let reload = &checked["reload"];
    assert_eq!(
        (code, &reload["is_refused"], &reload["switch"]),
        (3, &true.into(), &"demo".into())
    );
    assert_eq!(reload["changes"].as_array().unwrap().len(), 2);
    expect(&["check", path, "--offline", "--static"], 0, "");
}

/// A switch that takes up a reload once it is asked for.
fn serve_reloads(outcomes: &'static [ReloadOutcome]) -> (Running, String) {
    let wanted = Arc::new(AtomicBool::new(false));
    let published = Arc::new(Published::new(busy()));
    let running = server().with_reload(Arc::clone(&wanted));
    let running = running.serve(Arc::clone(&published)).unwrap();
    let url = running.address().to_string();
    std::thread::spawn(move || {
        while !wanted.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        for &outcome in outcomes {
            let mut snapshot = busy();
            snapshot.generation = 4;
            snapshot.reload = Some(Reload {
                number: 1,
                outcome,
                message: "a.b, c".to_owned(),
            });
            published.publish(snapshot, Lookup::default());
            std::thread::sleep(Duration::from_millis(150));
        }
    });
    (running, url)
}

#[test]
fn a_reload_is_waited_for_and_its_outcome_told() {
    use ReloadOutcome::{Done, Reading, Refused, Unchanged, UnderWay};
    let done: &[ReloadOutcome] = &[Reading, UnderWay, Done];
    for (outcomes, expected) in [
        (done, "generation 4 is in use; changed:\n  a.b\n  c\n"),
        (
            &[Reading, Unchanged],
            "the configuration is the same as before\n",
        ),
    ] {
        let (_server, url) = serve_reloads(outcomes);
        let printed = (0, expected.to_owned(), String::new());
        assert_eq!(run(&["reload", "--url", &url]), printed);
    }

    let (_server, url) = serve_reloads(&[Refused]);
    let (code, reload, error) = run(&["reload", "--json", "--url", &url]);
    let reload: serde_json::Value = serde_json::from_str(&reload).unwrap();
    assert_eq!((code, &reload["outcome"]), (3, &"refused".into()));
    let refused = "vernier: the reload is refused, and nothing has changed: a.b, c\n";
    assert_eq!(error, refused);

    let (_server, url) = serve_reloads(&[Reading]);
    let slow = ["reload", "--timeout", "1", "--url", &url];
    expect(&slow, 1, "within 1 s: the file is being read");
}

#[test]
fn a_switch_without_a_file_refuses_to_reload() {
    let (_server, url) = serve(busy());
    let (code, out, error) = run(&["reload", "--url", &url]);
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
    let right = write("right", "0123456789abcdef\n");
    let wrong = write("wrong", "fedcba9876543210\n");
    let server = server().with_token(&right).unwrap();
    let server = server.serve(Arc::new(Published::new(busy()))).unwrap();
    let url = server.address().to_string();
    let status = ["status", "--url", &url];
    for (file, code, words) in [(&right, 0, ""), (&wrong, 1, "does not take the token")] {
        let token = ["--token-file", file.to_str().unwrap()];
        expect(&[&status[..], &token].concat(), code, words);
    }
    expect(&status, 1, "needs a token; name the file");
    let unasked = "\na reload was not checked: the switch at";
    expect(&["check", DEMO, "--url", &url], 0, unasked);
}
