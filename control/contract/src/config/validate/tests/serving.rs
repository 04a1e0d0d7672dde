use serde_json::json;

use super::*;

#[test]
fn an_address_that_others_reach_needs_a_token_or_a_word() {
    let wanted = "http.listen: expected a loopback address, or `token_file` with what clients have \
                  to show, or `insecure` for anyone who can reach it, got ";
    for address in [
        "0.0.0.0:9464",
        "192.0.2.7:80",
        "[::]:9464",
        "[2001:db8::1]:1",
    ] {
        let listen = |c: &mut Config| c.http.listen = Some(address.parse().unwrap());
        assert_eq!(error(listen), format!("{wanted}{address}"));
        for guard in [
            json!({ "listen": address, "token_file": "/etc/vernier/token" }),
            json!({ "listen": address, "insecure": true }),
        ] {
            let mut rack = rack();
            rack["http"] = guard;
            Config::parse(&rack.to_string(), "rack").unwrap();
        }
    }
    for address in [
        json!("127.0.0.1:1"),
        json!("[::1]:9464"),
        json!("127.8.9.1:0"),
        json!(null),
    ] {
        let mut rack = rack();
        rack["http"] = json!({ "listen": address });
        Config::parse(&rack.to_string(), "rack").unwrap();
    }
}

#[test]
fn names_of_the_switch_are_names() {
    let mut rack = rack();
    rack["http"] = json!({ "hosts": ["edge-1", "edge-1.example.org"] });
    Config::parse(&rack.to_string(), "rack").unwrap();
    let expected = "expected 1 to 64 letters, digits, `.`, `_` or `-`, got";
    for wrong in ["edge-1:9464", "", "*", "http://edge-1"] {
        check(&[(
            "/http",
            json!({ "hosts": ["edge-1", wrong] }),
            &format!("http.hosts[1]: {expected} {wrong:?}"),
        )]);
    }
    check(&[(
        "/http",
        json!({ "hosts": vec!["a"; 65] }),
        "http.hosts: expected 0 to 64 entries, got 65",
    )]);
}

#[test]
fn what_prometheus_gets_is_checked() {
    let mut rack = rack();
    rack["prometheus"] = json!({ "include": ["vernier_*"], "pinned": [{ "protocol": 6 }] });
    Config::parse(&rack.to_string(), "rack").unwrap();
    check(&[
        (
            "/prometheus",
            json!({ "buckets_per_octave": 3 }),
            "prometheus.buckets_per_octave: expected 1, 2, 4 or 8, got 3",
        ),
        (
            "/prometheus",
            json!({ "top_flows": 1_001 }),
            "prometheus.top_flows: expected 0 to 1000, got 1001",
        ),
        (
            "/prometheus",
            json!({ "include": ["vernier_*", ""] }),
            "prometheus.include[1]: expected a metric's name, with `*` for any characters, got \"\"",
        ),
        (
            "/prometheus",
            json!({ "exclude": ["a b"] }),
            "prometheus.exclude[0]: expected a metric's name, with `*` for any characters, got \"a b\"",
        ),
        (
            "/prometheus",
            json!({ "exclude": vec!["a"; 65] }),
            "prometheus.exclude: expected 0 to 64 entries, got 65",
        ),
    ]);
}
