//! The `vernier` tool as its user meets it: what it prints, and with which exit code.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;

use api::http::{Running, Server};
use control::published::{Lookup, Published};
use records::answers::Segments;
use records::snapshot::{Segment, Snapshot};

mod plugin_args;
mod running;
mod terminal;
mod widths;

fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_vernier"));
    tool.env_remove("VERNIER_URL");
    said(tool.env_remove("VERNIER_TOKEN_FILE").args(arguments))
}

/// Exit code, standard output, standard error.
fn said(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The built-in configuration.
const DEMO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../contract/src/config/demo.json"
);

/// Runs the tool, which ends with `code` and prints `part`; lines begin and end with `\n`.
fn expect(arguments: &[&str], code: i32, part: &str) {
    let (own, out, error) = run(arguments);
    let text = format!("\n{out}{error}");
    assert!(
        own == code && text.contains(part),
        "{arguments:?}: {own}{text}"
    );
}

fn server() -> Server {
    Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap()
}

/// A switch with this snapshot, and its address.
fn serve(snapshot: Snapshot) -> (Running, String) {
    let running = server().serve(Arc::new(Published::new(snapshot))).unwrap();
    let url = running.address().to_string();
    (running, url)
}

/// A switch with a segment.
fn serve_one() -> (Running, String) {
    let segment = Segment {
        ingress: "east".to_owned(),
        egress: "west".to_owned(),
        ..Segment::default()
    };
    serve(Snapshot {
        segments: vec![segment],
        ..Snapshot::default()
    })
}

#[test]
fn segments_and_ports_are_printed_as_a_table_or_as_json() {
    let (_server, url) = serve_one();
    expect(&["segments", "--url", &url], 0, "\nsegment ");
    expect(&["segments", "--url", &url], 0, "\neast>west ");
    expect(&["ports", "--url", &url], 0, "\nport ");
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
    let (_server, url) = serve_one();
    let words = "needs a terminal; `vernier segments`";
    expect(&["top", "--url", &url], 1, words);
}

#[test]
fn check_accepts_the_embedded_demo_and_says_what_it_would_use() {
    let segments = "segments    2: east>west, west>east";
    let check = ["check", DEMO, "--offline", "--static"];
    expect(&check, 0, segments);
    let (_, out, _) = run(&check);
    assert!(out.starts_with("valid: 2 ports, 1 worker, "), "{out}");
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
    let unasked = "\na reload was not checked: no switch answers at ";
    expect(&["check", DEMO, "--static", "--url", &nobody()], 0, unasked);
    let (code, out, _) = run(&["check", DEMO, "--offline", "--static"]);
    assert_eq!((code, out.contains("reload")), (0, false), "{out}");
    let (code, checked) = json(&["check", DEMO, "--offline", "--static", "--json"]);
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
    // Alone, in a folder without `vernierd`.
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("vernier");
    std::fs::copy(env!("CARGO_BIN_EXE_vernier"), &alone).unwrap();
    let output = std::process::Command::new(alone)
        .args(["check", DEMO, "--offline"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    assert!(output.status.success());
    let out = String::from_utf8_lossy(&output.stdout);
    let unchecked = "\nthis machine was not checked: there is no vernierd here\n";
    assert!(out.contains(unchecked), "{out}");
}

#[test]
fn two_configurations_are_compared_key_by_key() {
    let mut changed: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(DEMO).unwrap()).unwrap();
    changed["name"] = "other".into();
    let measurement = changed["measurement"].as_object_mut();
    measurement.unwrap().remove("rli");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), changed.to_string()).unwrap();
    let file = file.path().to_str().unwrap();
    let (code, out, error) = run(&["config", "diff", DEMO, file]);
    assert_eq!((code, error.as_str()), (1, ""));
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    let start = "measurement.rli: {\"method\":\"auto\"";
    assert!(lines[0].starts_with(start), "{out}");
    assert!(lines[0].ends_with(" -> null (live)"), "{out}");
    assert_eq!(
        lines[1],
        "name: \"demo\" -> \"other\" (needs a restart: measurement points are named after it)"
    );
    assert_eq!(lines.len(), 2);
    let (code, differences) = json(&["config", "diff", DEMO, file, "--json"]);
    let mut differences = differences.as_array().unwrap().iter();
    let packets = differences.find_map(|one| one["old"]["policy"]["packets"].as_u64());
    assert_eq!((code, packets), (1, Some(20)));
    assert_eq!(
        run(&["config", "diff", DEMO, DEMO]),
        (0, String::new(), String::new())
    );
    expect(&["config", "diff", DEMO, "/nowhere"], 2, "");
    expect(&["config", "diff", DEMO, "--url", &nobody()], 2, "");
}

#[test]
fn a_size_is_a_plan_with_its_configuration() {
    let demand = "size --packets-per-second 1e5 --flows 20000 --json";
    let (code, plan) = json(&demand.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 0);
    let measurement = &plan["configuration"]["measurement"];
    assert_eq!(measurement["lds"]["cells"], plan["lds"]["cells"]);
    assert_eq!(measurement["lda"]["banks"], plan["lda"]["banks"]);
    let none = "\nvernier: LDA: the number of packets a second is 0;";
    expect(&["size", "--packets-per-second", "0"], 2, none);
    expect(&["size"], 2, "");
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
    let expected = "links[0].to: expected the name of a node, not \"d\"";
    expect(&arguments, 2, &format!("\nvernier: {file}: {expected}\n"));
}

#[test]
fn shells_get_a_completion() {
    for shell in ["bash", "zsh", "fish"] {
        expect(&["completion", shell], 0, "segments");
    }
}

#[test]
fn a_token_file_that_cannot_be_read_is_a_usage_error() {
    let unreadable = "\nvernier: /nowhere/token: cannot read the token: ";
    expect(
        &["segments", "--token-file", "/nowhere/token"],
        2,
        unreadable,
    );
}

#[test]
fn a_bad_configuration_is_a_usage_error_that_says_where() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{ "ports": [{ "nam": "east" }] }"#).unwrap();
    let path = file.path().to_str().unwrap();
    let (code, out, error) = run(&["check", path]);
    assert_eq!((code, out.as_str()), (2, "4 errors\n"));
    let expected = format!(
        "vernier: {path}:1:22: ports[0].nam: expected one of the keys device, egress, max_stations, mtu, name, \
         rx_queues, vlan, wire, got `nam`; did you mean `name`?"
    );
    assert!(error.lines().any(|line| line == expected), "{error}");
    assert!(
        error.lines().all(|line| line.starts_with("vernier: ")),
        "{error}"
    );
    let expected = "\nvernier: /nowhere/v.json: cannot read the configuration: No such file or \
                    directory (os error 2)\n";
    expect(&["check", "/nowhere/v.json"], 2, expected);
}

#[test]
fn usage_errors_have_code_2_and_the_version_is_the_tool_s() {
    expect(&["frob"], 2, "");
    let version = concat!("vernier ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run(&["--version"]), (0, version.to_owned(), String::new()));
}
