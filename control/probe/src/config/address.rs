//! Addresses as people write them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use nix::net::if_::if_nametoindex;
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
    /// The zone of an IPv6 address of link-local scope: the number of an interface; 0: none.
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

    /// Whether it is a link-local address that names no link.
    pub(super) fn lacks_zone(&self) -> bool {
        let is_link_local = matches!(self.ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        is_link_local && self.scope_id == 0
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
        let (plain, zone) = without_zone(&text);
        let address = plain.parse::<SocketAddr>().map(Self::from).ok();
        let address = address.or_else(|| {
            let bare = plain
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            let ip = match bare {
                Some(bare) => bare.parse::<Ipv6Addr>().ok()?.into(),
                None => plain.parse().ok()?,
            };
            Some(Self {
                ip,
                port: None,
                scope_id: 0,
            })
        });
        let mut address = address.ok_or_else(|| {
            format!(
                "{text:?} is not an address such as 192.0.2.1, 192.0.2.1:862, 2001:db8::1, [2001:db8::1]:862 or \
                 [fe80::1%eth0]:862"
            )
        })?;
        // Sockets for IPv6 do not reach IPv4.
        address.ip = address.ip.to_canonical();
        if let Some(zone) = zone {
            if !matches!(address.ip, IpAddr::V6(ip) if ip.is_unicast_link_local()) {
                return Err(format!(
                    "{text:?} has a zone (%), which belongs to link-local addresses (fe80::/10) only"
                ));
            }
            address.scope_id = number(zone).ok_or_else(|| {
                format!("{text:?}: there is no interface {zone:?} (see `ip link`)")
            })?;
        }
        Ok(address)
    }
}

/// An address without its zone, and the zone: all from `%` to the bracket, or the end.
fn without_zone(text: &str) -> (String, Option<&str>) {
    let Some((head, rest)) = text.split_once('%') else {
        return (text.to_owned(), None);
    };
    let end = if head.starts_with('[') {
        rest.find(']').unwrap_or(rest.len())
    } else {
        rest.len()
    };
    let (zone, tail) = rest.split_at(end);
    (format!("{head}{tail}"), Some(zone))
}

/// The number of an interface, by itself or by name.
fn number(zone: &str) -> Option<u32> {
    let by_number = zone.parse().ok().filter(|number| *number > 0);
    by_number.or_else(|| if_nametoindex(zone).ok())
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        match (address.port, address.scope_id) {
            (Some(port), _) => address.with_port(port).to_string(),
            (None, 0) => address.ip.to_string(),
            (None, zone) => format!("{}%{zone}", address.ip),
        }
    }
}
