//! Settings of the station and of the plugin, from any text.
//!
//! Oracle: a refusal says what was expected, and for a wrong shape also where. Accepted settings are within their
//! limits, and the plugin's settings make a layout with and without ports.

use contract::config::document::parse_json;
use contract::config::{ConfigError, HostConfig};
use measure::time::TickRate;
use station::settings::Settings;

use crate::config::refused;

/// The first byte selects the program.
pub fn settings(bytes: &[u8]) {
    let Some((&whose, text)) = bytes.split_first() else {
        return;
    };
    let Some(text) = crate::text(text, 1 << 14) else {
        return;
    };
    match whose {
        b's' => station(text),
        b'p' => plugin(text),
        _ => {}
    }
}

fn station(text: &str) {
    let parsed: Result<Settings, ConfigError> = parse_json(text, "fuzz.json");
    let settings = match parsed {
        Ok(settings) => settings,
        Err(error) => return refused(&error),
    };
    if let Err(fault) = settings.check() {
        let fault = fault.to_string();
        assert!(
            fault.contains("expected") || fault.contains("twice"),
            "{fault}"
        );
        return;
    }
    assert!((1..=16).contains(&settings.nats.servers.len()));
    assert!(settings.paths.len() <= 64 && (1..=5).contains(&settings.replicas));
    assert!(settings.topology.is_none() || settings.ospf.is_none());
}

fn plugin(text: &str) {
    let host = match HostConfig::parse(text, "fuzz.json") {
        Ok(host) => host,
        Err(error) => return refused(&error),
    };
    let ports = [("a".to_owned(), true), ("b".to_owned(), false)];
    for ports in [&ports[..], &[]] {
        let config = host.config(ports);
        assert_eq!(config.ports.len(), ports.len());
        config
            .shard_layout(TickRate::from_hz(1_000_000_000))
            .unwrap();
        assert_eq!(config.diff(&config), []);
    }
}

/// Valid settings with many keys.
pub(crate) fn examples() -> Vec<Vec<u8>> {
    let texts = [
        r#"s{"nats": {"servers": ["nats://127.0.0.1:4222"]}}"#,
        r#"s{"nats": {"servers": ["nats://a", "tls://b:1"]}, "http": {"listen": "127.0.0.1:0"}, "topology": "a.json", "memory_mib": 1,
            "paths": [{"from": "a", "to": "b:c", "class": "all"}], "located_segments": 0, "reports": {"hours": 1, "mib": 16},
            "history": {"hours": 1, "mib": 16}, "replicas": 3}"#,
        r#"s{"nats": {"servers": ["nats://a"]}, "ospf": "127.0.0.1:2607", "names": {"10.0.0.1": "a"}}"#,
        "p{}",
        r#"p{"name": "ovs", "port_names": {"0000:00:01.0": "up"}, "measurement": {"interval_ms": 250, "flows": null}, "classes": [{"name": "gold"}],
            "rules": [{"class": "gold", "dscp": [46]}], "report": {"nats": {"servers": ["nats://a"]}}}"#,
        r#"p{"http": {"listen": "127.0.0.1:9464"}, "ipfix": {"collector": "udp://127.0.0.1:4739"}, "memory_budget_mib": 64}"#,
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
