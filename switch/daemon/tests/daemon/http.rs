//! The real `vernierd` over HTTP: figures, access to them, and reloads.
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use crate::support::Daemon;
use serde_json::{Value, json};

const TOKEN: &str = "correct-horse-battery-staple";

fn config(flows: u32) -> Value {
    json!({
        "ports": [
            { "name": "east", "device": format!("generate:flows={flows},rate=10000") },
            { "name": "west", "device": "sink" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["east", "west"]] },
        "measurement": {
            "interval_ms": 100,
            "flows": { "slots": 1024, "select": "all" },
        },
    })
}

fn token_file() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "{TOKEN}").unwrap();
    let private = std::fs::Permissions::from_mode(0o600);
    file.as_file().set_permissions(private).unwrap();
    file
}

/// Status and JSON of a request with the token, or without.
fn request(switch: &Daemon, method: &str, path: &str, with_token: bool) -> (u16, Value) {
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build();
    let agent = ureq::Agent::new_with_config(agent);
    let mut request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("http://{}{path}", switch.address))
        .header("X-Vernier", "reload");
    if with_token {
        request = request.header("Authorization", format!("Bearer {TOKEN}"));
    }
    let mut answer = agent.run(request.body(()).unwrap()).unwrap();
    let json = answer.body_mut().read_json().unwrap();
    (answer.status().as_u16(), json)
}

#[test]
fn who_shows_the_token_sees_everything_and_may_reload() {
    let file = token_file();
    let guarded = |flows| {
        let mut config = config(flows);
        config["http"] = json!({ "token_file": file.path() });
        config
    };
    let mut switch = Daemon::start(guarded(50));
    for (method, path) in [
        ("GET", "/api/v1/status"),
        ("POST", "/api/v1/reload"),
        ("GET", "/nowhere"),
    ] {
        let (status, answer) = request(&switch, method, path, false);
        assert_eq!(status, 401, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains("Bearer"));
    }
    let ask = |switch: &Daemon, path: &str| request(switch, "GET", path, true).1;
    switch.wait_for(|switch| {
        let flows = ask(switch, "/api/v1/flows?limit=3&sort=total_packets");
        flows["matching"].as_u64() >= Some(20) && flows["flows"].as_array().unwrap().len() == 3
    });
    let name = ask(&switch, "/api/v1/flows?limit=1")["flows"][0]["flow"].clone();
    let name = name.as_str().unwrap().replace('>', "%3E");
    let flow = ask(&switch, &format!("/api/v1/flow?flow={name}"));
    assert_eq!(flow["tracked"][0]["egress"], "west", "{flow:#}");
    switch.wait_for(|switch| {
        let epochs = ask(switch, "/api/v1/epochs?width_s=1&egress=west");
        let buckets = epochs["segments"][0]["courses"][0]["buckets"].clone();
        buckets.as_array().is_some_and(|buckets| buckets.len() >= 2)
    });
    let held = ask(&switch, "/api/v1/config");
    assert_eq!(held["ports"][0]["device"], "generate:flows=50,rate=10000");

    // A reload, as often as it is asked for: with a change, and without one.
    let file = switch.folder.path().join("vernier.json");
    let mut changed: Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    changed["measurement"]["flows"]["slots"] = json!(2_048);
    std::fs::write(&file, changed.to_string()).unwrap();
    let (status, answer) = request(&switch, "POST", "/api/v1/reload", true);
    assert_eq!((status, answer), (202, json!({ "after": 0 })));
    switch
        .wait_for(|switch| ask(switch, "/api/v1/config")["measurement"]["flows"]["slots"] == 2_048);
    switch.wait_for(|switch| ask(switch, "/api/v1/status")["generation"] == 1);
    switch.stop();
}

#[test]
fn a_web_page_reaches_no_path_by_a_name_of_its_own() {
    let mut config = config(5);
    config["http"] = json!({ "hosts": ["edge-1"] });
    let switch = Daemon::start(config);
    let status = |method: &str, path: &str, host: &str| {
        let mut page = TcpStream::connect(switch.address).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}:{}\r\nX-Vernier: reload\r\n\
             Connection: close\r\n\r\n",
            switch.address.port()
        );
        page.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        page.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let index = switch.get("/").unwrap();
    let paths = index.lines().filter_map(|line| line.strip_prefix("  "));
    let paths: Vec<_> = paths.filter_map(|path| path.split(' ').next()).collect();
    assert!(paths.contains(&"/metrics") && paths.len() > 10, "{index}");
    for path in paths.into_iter().chain(["/nowhere"]) {
        for method in ["GET", "POST"] {
            assert_eq!(status(method, path, "evil.example"), 403, "{path}");
        }
    }
    for host in ["127.0.0.1", "localhost", "[::1]", "edge-1", "EDGE-1"] {
        assert_eq!(status("GET", "/metrics", host), 200, "{host}");
    }
    assert_eq!(status("POST", "/api/v1/reload", "edge-1"), 202);
    let refused: Option<u32> = switch.metric("vernier_http_rejected_total{reason=\"host\"}");
    assert!(refused > Some(20), "{refused:?}");
    switch.stop();
}
