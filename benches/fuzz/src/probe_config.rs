//! Configurations of `vernier-probe`.
//!
//! Oracle: a refusal names the place and what was expected. Of an accepted configuration, rates, lengths and numbers of sessions are
//! within their limits.

use contract::config::document;
use probe::config::{Config, SESSIONS_MAX};

use crate::config::refused;

/// Any text.
pub fn probe_config(bytes: &[u8]) {
    let Some(text) = crate::text(bytes, 1 << 16) else {
        return;
    };
    let config = match document::parse(text, "fuzz.json", Config::check) {
        Ok(config) => config,
        Err(error) => return refused(&error),
    };
    assert!(config.sessions.len() + config.mset_room() <= SESSIONS_MAX);
    for session in &config.sessions {
        assert!(!session.gap().is_zero());
        assert!((44..=9_000).contains(&session.bytes()));
    }
}

/// The examples of the document, and further ones with other keys.
pub(super) fn examples() -> Vec<Vec<u8>> {
    let document = include_str!("../../../docs/probe.md");
    let blocks = document.split("```json\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    let others = [
        r#"{"sessions": [{"name": "a", "to": "[fe80::1%lo]:862", "from": "fe80::2%1"}]}"#,
        r#"{"reflector": {"limit_pps": null, "sessions_max": 0, "allowed_dscp": [0, 63]}, "clock": {"error_ns": 5, "source": "ptp"}}"#,
        r#"{"mset": {"topology": "a.json", "addresses": {"b": "10.0.0.1:5"}, "session": {"length": 9000, "key_file": "k"}}}"#,
    ];
    let all = blocks.chain(others);
    all.map(|text| text.as_bytes().to_vec()).collect()
}
