//! The `vernier` tool as its user meets it: what it prints, and with which exit code.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Output};
use std::sync::Arc;

use api::http::{Running, Server};
use control::published::{Lookup, Published};
use records::answers::Segments;
use records::snapshot::{Segment, Snapshot};

mod plugin_args;
mod running;
mod terminal;

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
    let free = nobody();
    let (code, out, error) = run(&["segments", "--url", &free]);
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
    let (code, out, _) = run(&["check", demo, "--offline", "--static"]);
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
    testkit::process::free_address().unwrap().to_string()
}

#[test]
fn check_says_that_no_switch_answers_unless_it_need_not_ask() {
    let demo = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../contract/src/config/demo.json"
    );
    let (code, out, _) = run(&["check", demo, "--static", "--url", &nobody()]);
    assert_eq!(code, 0);
    let last = out.lines().last().unwrap();
    assert!(
        last.starts_with("a reload was not checked: no switch answers at "),
        "{last}"
    );
    let (code, out, _) = run(&["check", demo, "--offline", "--static"]);
    assert_eq!((code, out.contains("reload")), (0, false), "{out}");
    let (code, checked) = json(&["check", demo, "--offline", "--static", "--json"]);
    assert_eq!(
        (code, &checked["valid"], &checked["reload"]),
        (0, &true.into(), &serde_json::Value::Null)
    );
    assert_eq!(checked["segments"], 2);
    let (code, checked) = json(&["check", "/nowhere/v.json", "--json"]);
    assert_eq!((code, &checked["valid"]), (2, &false.into()));
}

#[test]
fn check_gives_every_fault_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("v.json");
    let text = "{\n\"ports\": [],\n\"forwarding\": { \"mode\": \"brige\" },\n\"nam\": 1 }";
    std::fs::write(&file, text).unwrap();
    let (code, checked) = json(&["check", file.to_str().unwrap(), "--json"]);
    assert_eq!(code, 2);
    let faults = checked["faults"].as_array().unwrap();
    let places = faults
        .iter()
        .map(|fault| (fault["line"].as_u64(), fault["path"].as_str()));
    let expected = [
        (Some(2), Some("ports")),
        (Some(3), Some("forwarding.mode")),
        (Some(4), Some("nam")),
    ];
    assert_eq!(places.collect::<Vec<_>>(), expected);
    assert_eq!(faults[1]["found"], "\"brige\"; did you mean `bridge`?");
}

#[test]
fn check_says_where_no_switch_could_be_asked_to_look() {
    let demo = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../contract/src/config/demo.json"
    );
    // Alone, in a folder without `vernierd`.
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("vernier");
    std::fs::copy(env!("CARGO_BIN_EXE_vernier"), &alone).unwrap();
    let output = std::process::Command::new(alone)
        .args(["check", demo, "--offline"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    assert!(output.status.success());
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(
        out.ends_with("this machine was not checked: there is no vernierd here\n"),
        "{out}"
    );
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
    changed["measurement"]
        .as_object_mut()
        .unwrap()
        .remove("rli");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), changed.to_string()).unwrap();
    let file = file.path().to_str().unwrap();
    let (code, out, error) = run(&["config", "diff", demo, file]);
    assert_eq!((code, error.as_str()), (1, ""));
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert!(
        lines[0].starts_with("measurement.rli: {\"method\":\"auto\""),
        "{out}"
    );
    assert!(lines[0].ends_with(" -> null (live)"), "{out}");
    assert_eq!(
        lines[1],
        "name: \"demo\" -> \"other\" (needs a restart: measurement points are named by it)"
    );
    assert_eq!(lines.len(), 2);
    let (code, differences) = json(&["config", "diff", demo, file, "--json"]);
    let packets = differences
        .as_array()
        .unwrap()
        .iter()
        .find_map(|one| one["old"]["policy"]["packets"].as_u64());
    assert_eq!((code, packets), (1, Some(20)));
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
fn a_plan_of_upgrades_needs_no_switch() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("line.json");
    let file = file.to_str().unwrap();
    let nodes = r#""nodes": [{ "name": "a" }, { "name": "b" }, { "name": "c" }]"#;
    let write =
        |links| std::fs::write(file, format!("{{ {nodes}, \"links\": [{links}] }}")).unwrap();
    write(r#"{ "from": "a", "to": "b" }, { "from": "b", "to": "c" }"#);
    let svg = folder.path().join("plan.svg");
    let arguments = ["plan", "--topology", file, "--upgrade", "1"];
    let (code, plan) =
        json(&[&arguments[..], &["--json", "--svg", svg.to_str().unwrap()]].concat());
    assert_eq!(code, 0);
    let [none, one] = [0, 1].map(|step| &plan["plans"][0]["steps"][step]);
    assert_eq!(
        (&none["probe_hops"], &one["probe_hops"]),
        (&8.into(), &4.into())
    );
    assert_eq!(one["router"], "b");
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg "));
    write(r#"{ "from": "a", "to": "d" }"#);
    let (code, _, error) = run(&arguments);
    let expected =
        format!("vernier: {file}: links[0].to: expected the name of a node, not \"d\"\n");
    assert_eq!((code, error), (2, expected));
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
        "vernier: {path}:1:22: ports[0].nam: expected one of the keys device, egress, max_stations, mtu, name, \
         rx_queues, vlan, wire, got `nam`; did you mean `name`?"
    );
    assert!(error.lines().any(|line| line == expected), "{error}");
    assert!(
        error.lines().all(|line| line.starts_with("vernier: ")),
        "{error}"
    );
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
