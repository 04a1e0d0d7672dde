//! Reports.

use super::{Check, KeyPath, ensure};
use crate::config::Report;

pub(super) fn report(path: &KeyPath, report: Option<&Report>) -> Check {
    let Some((key, expected)) = report.and_then(|report| report.nats.fault()) else {
        return Ok(());
    };
    let got = "other keys beside it, or other words";
    ensure(false, path.key("nats").key(key), expected, got)
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, HostConfig};
    use serde_json::{Value, json};

    fn refusal(nats: &Value) -> String {
        let mut config: Value = serde_json::from_str(include_str!("../demo.json")).unwrap();
        config["report"] = json!({ "nats": nats });
        let error = Config::parse(&config.to_string(), "vernier.json").unwrap_err();
        let host = json!({ "report": { "nats": nats } }).to_string();
        assert!(HostConfig::parse(&host, "host.json").is_err());
        error.to_string()
    }

    #[test]
    fn a_connection_that_cannot_be_is_refused_with_what_was_expected() {
        for (nats, expected) in [
            (
                json!({ "servers": [] }),
                "report.nats.servers: expected 1 to 16",
            ),
            (
                json!({ "servers": ["10.0.0.1"] }),
                "report.nats.servers: expected 1 to 16",
            ),
            (
                json!({ "servers": ["nats://a"], "key_file": "k" }),
                "report.nats.cert_file: expected `cert_file` with",
            ),
            (
                json!({ "servers": ["nats://a"], "user": "u" }),
                "report.nats.user: expected `user` with",
            ),
            (
                json!({ "servers": ["nats://a"], "token_file": "t", "nkey_file": "n" }),
                "report.nats.credentials_file: expected one of",
            ),
        ] {
            let error = refusal(&nats);
            assert!(error.contains(expected), "{error}");
        }
    }
}
