//! Export by IPFIX.

use super::{Check, KeyPath, ensure};
use crate::config::Ipfix;

pub(super) fn ipfix(path: &KeyPath, ipfix: Option<&Ipfix>) -> Check {
    let Some(ipfix) = ipfix else {
        return Ok(());
    };
    ensure(
        ipfix.target().is_some(),
        path.key("collector"),
        "`udp://host:4739` or `tcp://host:4739`",
        format!("{:?}", ipfix.collector),
    )
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, HostConfig, Ipfix, Transport};
    use serde_json::{Value, json};

    #[test]
    fn a_collector_is_a_transport_a_host_and_a_port() {
        let target = |collector: &str| {
            let ipfix = Ipfix::to(collector);
            ipfix
                .target()
                .map(|(transport, host)| (transport, host.to_owned()))
        };
        let host = |host: &str| host.to_owned();
        assert_eq!(
            target("udp://a.example:4739"),
            Some((Transport::Udp, host("a.example:4739")))
        );
        assert_eq!(
            target("tcp://[::1]:1"),
            Some((Transport::Tcp, host("[::1]:1")))
        );
        for wrong in [
            "",
            "a:4739",
            "udp://a",
            "udp://:1",
            "tcp://a:0",
            "tcp://a:65536",
            "sctp://a:1",
            "udp://a/b:1",
        ] {
            assert_eq!(target(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn another_collector_is_refused_with_what_was_expected() {
        let mut config: Value = serde_json::from_str(include_str!("../demo.json")).unwrap();
        config["ipfix"] = json!({ "collector": "10.0.0.9:4739" });
        let error = Config::parse(&config.to_string(), "vernier.json").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("ipfix.collector: expected `udp://host:4739`"),
            "{error}"
        );
        let host = json!({ "ipfix": config["ipfix"] }).to_string();
        assert!(HostConfig::parse(&host, "host.json").is_err());
    }
}
