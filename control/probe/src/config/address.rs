//! Addresses as people write them.

use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An address, with a port or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The port, if there is one.
    pub port: Option<u16>,
    /// The zone of an IPv6 address of link-local scope, as a number; 0: none.
    pub scope_id: u32,
}

impl Address {
    /// With a port: its own, or this one.
    pub fn with_port(self, port: u16) -> SocketAddr {
        let mut address = SocketAddr::new(self.ip, self.port.unwrap_or(port));
        if let SocketAddr::V6(v6) = &mut address {
            v6.set_scope_id(self.scope_id);
        }
        address
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let scope_id = match address {
            SocketAddr::V6(v6) => v6.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        Self {
            ip: address.ip(),
            port: Some(address.port()),
            scope_id,
        }
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        // `fe80::1%3` is parsed with a port only.
        let with_zone = format!("[{bare}]:0").parse::<SocketAddr>().ok();
        let ip = bare
            .parse()
            .ok()
            .or_else(|| with_zone.map(|address| address.ip()));
        let ip = ip.ok_or_else(|| {
            format!("{text:?} is not an address such as 192.0.2.1, 192.0.2.1:862, 2001:db8::1 or [2001:db8::1]:862")
        })?;
        Ok(Self {
            ip,
            port: None,
            scope_id: with_zone.map_or(0, |address| Self::from(address).scope_id),
        })
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        match address.port {
            Some(port) => address.with_port(port).to_string(),
            None => address.ip.to_string(),
        }
    }
}
