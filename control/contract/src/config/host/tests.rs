use super::super::{Lda, Lds};
use super::*;

fn parse(text: &str) -> HostConfig {
    HostConfig::parse(text, "plugin.json").unwrap()
}

fn error(text: &str) -> String {
    HostConfig::parse(text, "plugin.json")
        .unwrap_err()
        .to_string()
}

#[test]
fn everything_may_be_left_out() {
    let host = parse("{}");
    assert_eq!(host, HostConfig::default());
    assert_eq!(host.name, "vernier");
    assert_eq!(host.measurement.lda, Some(Lda::default()));
    assert_eq!(host.measurement.lds, None);
    assert_eq!(host.http, Http::default());
    let slots = |text| parse(text).measurement.flows.map(|flows| flows.slots);
    assert_eq!(slots("{}"), Some(16_384));
    assert_eq!(
        slots(r#"{"measurement": {"interval_ms": 500}}"#),
        Some(16_384)
    );
    assert_eq!(
        slots(r#"{"measurement": {"flows": {"slots": 64}}}"#),
        Some(64)
    );
    assert_eq!(slots(r#"{"measurement": {"flows": null}}"#), None);
}

#[test]
fn a_host_s_ports_become_a_whole_configuration() {
    let host = parse(
        r#"{
            "name": "ovs",
            "classes": [{ "name": "gold" }, { "name": "rest" }],
            "rules": [{ "class": "gold", "dscp": [46] }],
            "measurement": { "lds": {} },
            "memory_budget_mib": 512,
            "http": { "listen": "127.0.0.1:9465" },
            "prometheus": { "top_flows": 3 }
        }"#,
    );
    let ports = [("net0", true), ("gone", false), ("0000:03:00.0", true)];
    let config = host.config(&ports.map(|(name, there)| (name.to_owned(), there)));
    assert_eq!(config.forwarding, Forwarding::Host);
    let devices: Vec<_> = config.ports.iter().map(|port| &port.device).collect();
    let dpdk = |name: &str| Device::Dpdk(name.to_owned());
    assert_eq!(
        devices,
        [&dpdk("net0"), &Device::Absent, &dpdk("0000:03:00.0")]
    );
    assert_eq!(config.ports[2].name, "0000:03:00.0");
    assert_eq!(config.measurement.lds, Some(Lds::default()));
    assert_eq!(
        (config.name.as_str(), config.memory_budget_mib),
        ("ovs", Some(512))
    );
    assert_eq!((config.rules.len(), config.prometheus.top_flows), (1, 3));
    assert!(config.workers.is_empty());
    assert_eq!(config.segments().len(), 2 * 2 * 2);
}

#[test]
fn errors_say_where_and_what_to_do() {
    assert_eq!(
        error(r#"{"ports": []}"#),
        "plugin.json:1:11: ports: expected one of the keys classes, http, ipfix, measurement, \
         memory_budget_mib, name, port_names, prometheus, report, rules, got `ports`"
    );
    assert_eq!(
        error("{\n  \"measurement\": { \"interval_ms\": 1 }\n}"),
        "plugin.json:2:35: measurement.interval_ms: expected 10 to 60000, got 1"
    );
    assert!(error(r#"{"http": {"listen": "0.0.0.0:1"}}"#).contains("http.listen: expected a"));
    assert!(error(r#"{"name": "a b"}"#).contains("name: expected 1 to 64 letters"));
    assert!(error(r#"{"rules": [{"class": "x"}]}"#).contains("rules[0].class: expected the"));
    assert!(
        HostConfig::load("/nowhere/p.json")
            .unwrap_err()
            .to_string()
            .starts_with("/nowhere")
    );
}

#[test]
fn what_means_nothing_in_a_host_is_refused() {
    let rli = r#"{"measurement": {"rli": {"policy": {"kind": "count", "packets": 100}}}}"#;
    assert_eq!(
        error(rli),
        "plugin.json:1:25: measurement.rli: a host's packets are stamped one by one; reference \
         packets are not injected in a host; omit the key"
    );
    let ports = "a host's ports are not known in advance; omit the key to measure all of them";
    assert_eq!(
        error(r#"{"measurement": {"segments": [{"from": "a", "to": "b"}]}}"#),
        format!("plugin.json:1:30: measurement.segments: {ports}")
    );
    let around = r#"{"measurement": {"around": [{"name": "fw", "ports": ["a", "b"]}]}}"#;
    assert!(error(around).contains("measurement.around: packets around a device are matched in"));
    assert_eq!(
        error(r#"{"rules": [{"class": "all", "ingress": ["a"]}]}"#),
        format!("plugin.json:1:40: rules[0].ingress: {ports}")
    );
}

#[test]
fn ports_may_have_other_names_each_its_own() {
    let host = parse(r#"{"port_names": {"0000:03:00.0": "dpdk0", "/run/vm 1.sock": "vm1"}}"#);
    assert_eq!(host.port_names["/run/vm 1.sock"], "vm1");
    let twice = r#"{"port_names": {"a": "x", "b": "x"}}"#;
    assert_eq!(
        error(twice),
        "plugin.json:1:32: port_names.b: expected a unique name, got \"x\" again"
    );
    let slash = r#"{"port_names": {"a": "x/y"}}"#;
    assert!(error(slash).contains("port_names.a: expected 1 to 64 letters"));
}
