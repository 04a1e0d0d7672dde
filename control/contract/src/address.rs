//! Addresses in text form.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

/// An Ethernet address, written `02:00:00:00:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress(pub [u8; 6]);

/// An IP prefix, written `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    /// Its first address.
    pub address: IpAddr,
    /// Its length: 0 to 32, or 0 to 128 for IPv6.
    pub bits: u8,
}

/// Not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct AddressError {
    text: String,
    expected: &'static str,
}

impl FromStr for MacAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError {
            text: text.to_owned(),
            expected: "an Ethernet address such as 02:00:00:00:00:01",
        };
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts
                .next()
                .filter(|part| part.len() == 2)
                .ok_or_else(error)?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        if parts.next().is_some() {
            return Err(error());
        }
        Ok(Self(octets))
    }
}

impl MacAddress {
    /// Whether it is a unicast address other than zero; the lowest bit of the first octet marks a group (IEEE 802,
    /// clause 8.2).
    pub(crate) fn is_individual(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, octet) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ":" };
            write!(f, "{separator}{octet:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Prefix {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError {
            text: text.to_owned(),
            expected: "a prefix such as 10.0.0.0/8 or 2001:db8::/32, or an address",
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().map_err(|_| error())?,
            None => bits_max,
        };
        if bits > bits_max {
            return Err(error());
        }
        Ok(Self { address, bits })
    }
}

impl Prefix {
    /// Whether the prefix contains an address; never one of the other family.
    pub fn contains(&self, address: IpAddr) -> bool {
        let is_alike = |own: u128, other: u128, bits_max: u32| {
            let rest = bits_max.saturating_sub(self.bits.into());
            (own ^ other).checked_shr(rest).unwrap_or(0) == 0
        };
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                is_alike(own.to_bits().into(), other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => is_alike(own.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Parses an address to listen on, with its port. A port alone, `:9464`, means all addresses of IPv4 and IPv6.
///
/// # Errors
/// [`AddressError`] for any other text.
pub fn listen_address(text: &str) -> Result<SocketAddr, AddressError> {
    let named = |host: &str| match host {
        "" => Some(IpAddr::from(Ipv6Addr::UNSPECIFIED)),
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        _ => None,
    };
    let with_name = || {
        let (host, port) = text.rsplit_once(':')?;
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| digits)?;
        Some(SocketAddr::new(named(host)?, port))
    };
    let address = text.parse().ok().or_else(with_name);
    address.ok_or_else(|| AddressError {
        text: text.to_owned(),
        expected: "an address with a port, such as 127.0.0.1:9464, [::1]:9464, localhost:9464, or :9464 for all addresses",
    })
}

/// Deserializes [`listen_address`], or `null`.
pub(crate) fn deserialize_listen<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text: Option<String> = Deserialize::deserialize(from)?;
    let address = text.map(|text| listen_address(&text));
    address.transpose().map_err(D::Error::custom)
}

/// Types that are a single string in JSON, as displayed and parsed.
macro_rules! as_text {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = <$name as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )*};
}
pub(crate) use as_text;

as_text!(MacAddress, Prefix);

macro_rules! with_pattern {
    ($($name:ident: $description:literal, $pattern:literal;)*) => {$(
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "description": $description,
                    "pattern": $pattern,
                })
            }
        }
    )*};
}

// The patterns catch typos in an editor; `FromStr` decides.
with_pattern! {
    MacAddress: "An Ethernet address, written `02:00:00:00:00:01`.",
        "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$";
    Prefix: "An IP prefix, written `10.0.0.0/8`, or one address.",
        "^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$";
}

#[cfg(test)]
mod tests;
