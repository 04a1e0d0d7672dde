//! Reports.

use super::{Check, KeyPath, ensure};
use crate::config::Report;

pub(super) fn report(path: &KeyPath, report: Option<&Report>) -> Check {
    let Some((key, expected, got)) = report.and_then(|report| report.nats.fault()) else {
        return Ok(());
    };
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
                json!({ "servers": ["nats://a", "10.0.0.1"] }),
                "without user and password, got \"10.0.0.1\"",
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
                json!({ "servers": ["tls://a"], "token_file": "t", "nkey_file": "n" }),
                "report.nats.credentials_file: expected one of",
            ),
            (
                json!({ "servers": ["nats://user:password@127.0.0.1"] }),
                "without user and password, got one with `@`",
            ),
        ] {
            let error = refusal(&nats);
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Anyone on the way could read it.
    #[test]
    fn a_password_goes_unencrypted_to_loopback_only_unless_the_configuration_says_insecure() {
        let accepted = |nats: &Value| {
            let mut config: Value = serde_json::from_str(include_str!("../demo.json")).unwrap();
            config["report"] = json!({ "nats": nats });
            Config::parse(&config.to_string(), "vernier.json").map(drop)
        };
        for secret in [
            json!({ "user": "u", "password_file": "p" }),
            json!({ "token_file": "t" }),
        ] {
            let with = |servers: Value, more: Value| {
                let mut nats = secret.clone();
                nats["servers"] = servers;
                nats.as_object_mut()
                    .unwrap()
                    .extend(more.as_object().unwrap().clone());
                nats
            };
            for server in [
                "nats://10.0.0.9:4222",
                "nats://nats.example",
                "nats://[2001:db8::1]",
                "nats://localhost.example",
            ] {
                let error = refusal(&with(json!(["nats://127.0.0.1", server]), json!({})));
                assert!(
                    error.contains("report.nats.servers: expected `tls://`"),
                    "{error}"
                );
                assert!(error.contains("`insecure`"), "{error}");
                accepted(&with(json!([server]), json!({ "insecure": true }))).unwrap();
                accepted(&with(json!([server]), json!({ "ca_file": "ca" }))).unwrap();
            }
            for server in [
                "nats://127.0.0.1:4222",
                "nats://[::1]:4222",
                "nats://localhost",
                "tls://10.0.0.9",
            ] {
                accepted(&with(json!([server]), json!({}))).unwrap();
            }
        }
        // Only a signature is sent.
        accepted(&json!({ "servers": ["nats://10.0.0.9"], "nkey_file": "n" })).unwrap();
    }
}
