//! The network as one of its routers (FRR's ospfd with `-a`) knows it through OSPF, live.
//!
//! ```text
//!  ospfd --2607--> client: messages (api) --> Change --> Database: LSAs (lsa) --> View: topology, roles, addresses
//! ```
//!
//! FRR's OSPF API sends LSAs in binary: first the whole database, then every change, so that nothing is polled. Over
//! the same connection a node advertises that it measures ([`presence`]). Only the areas of that router are known.

use std::net::{Ipv4Addr, SocketAddrV4};

use serde::de::{Deserialize, Deserializer, Error};

pub mod api;
pub mod client;
pub mod database;
pub mod lsa;
pub mod presence;

/// Parses the address of an ospfd's API: an IPv4 address or `localhost`, optionally with a port (default
/// 2607).
///
/// # Errors
/// A description of what was expected.
pub fn server(text: &str) -> Result<SocketAddrV4, String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()),
        None => (text, Some(client::PORT)),
    };
    let address = match host {
        "localhost" => Some(Ipv4Addr::LOCALHOST),
        host => host.parse().ok(),
    };
    let server = address.zip(port);
    let server = server.map(|(address, port)| SocketAddrV4::new(address, port));
    server.ok_or_else(|| {
        format!("expected an IPv4 address, such as 127.0.0.1 or 127.0.0.1:2607, not {text:?}")
    })
}

/// Deserializes [`server`], or `null`.
///
/// # Errors
/// Those of `from`, and of [`server`].
pub fn deserialize_server<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<SocketAddrV4>, D::Error> {
    let text: Option<String> = Deserialize::deserialize(from)?;
    let server = text.map(|text| server(&text));
    server.transpose().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_server_may_have_a_port() {
        for (text, expected) in [
            ("10.0.0.1", "10.0.0.1:2607"),
            ("10.0.0.1:99", "10.0.0.1:99"),
            ("localhost", "127.0.0.1:2607"),
            ("localhost:99", "127.0.0.1:99"),
        ] {
            assert_eq!(super::server(text).unwrap().to_string(), expected);
        }
        for text in ["router", "", ":2607", "10.0.0.1:", "10.0.0.1:65536", "::1"] {
            let error = super::server(text).unwrap_err();
            assert!(error.contains("an IPv4 address") && error.ends_with(&format!("not {text:?}")));
        }
    }
}
