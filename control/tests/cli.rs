//! The `vernier` tool as its user meets it: what it prints, and with which exit code.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::sync::Arc;

use control::http::{Running, Segments, Server};
use control::snapshot::{Published, Segment, Snapshot};

fn vernier(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vernier"))
        .args(arguments)
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
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/demo.json");
    let (code, out, _) = run(&["check", demo]);
    assert_eq!(code, 0);
    assert!(out.contains("segments    2: east>west, west>east"), "{out}");
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
         `device`, `mtu`, `rx_queues`, `vlan`, `egress`\n"
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
