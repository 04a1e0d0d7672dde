//! Flow keys from what people write: the inverse of how they are shown.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use super::{FlowKey, PROTOCOLS};

/// Why a text is no flow key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowKeyError {
    /// It is not made of two ends and a protocol.
    #[error(
        "expected SOURCE>DESTINATION/PROTOCOL, such as 10.0.0.1:1024>10.0.0.2:80/tcp, got {0:?}"
    )]
    Form(String),
    /// One end is no address.
    #[error(
        "expected an address, such as 10.0.0.1:80, [fd00::1]:80 or 02:00:00:00:00:01, got {0:?}"
    )]
    Address(String),
    /// The ends are of different kinds.
    #[error("expected two addresses of one kind, both with a port or both without, got {0:?}")]
    Mixed(String),
    /// No such protocol.
    #[error("expected tcp, udp, sctp, icmp, icmpv6 or a number from 0 to 255, got {0:?}")]
    Protocol(String),
    /// MAC addresses without an ethertype.
    #[error("expected an ethertype, and a VLAN if there is one, such as 0x0806/vlan7, got {0:?}")]
    Ethertype(String),
}

impl FromStr for FlowKey {
    type Err = FlowKeyError;

    /// Reads a key as it is displayed. Ports that are 0 at both ends may be left out, and a protocol
    /// with a name may have its number.
    fn from_str(text: &str) -> Result<Self, FlowKeyError> {
        let form = || FlowKeyError::Form(text.to_owned());
        let (ends, rest) = text.split_once('/').ok_or_else(form)?;
        let (source, destination) = ends.split_once('>').ok_or_else(form)?;
        if let Some(source) = mac(source) {
            let unknown = || FlowKeyError::Address(destination.to_owned());
            let destination = mac(destination).ok_or_else(unknown)?;
            let unknown = || FlowKeyError::Ethertype(rest.to_owned());
            let (ethertype, vlan) = tags(rest).ok_or_else(unknown)?;
            return Ok(Self::Ethernet {
                source,
                destination,
                vlan,
                ethertype,
            });
        }
        let end = |text: &str| end(text).ok_or_else(|| FlowKeyError::Address(text.to_owned()));
        let (source, source_port) = end(source)?;
        let (destination, destination_port) = end(destination)?;
        let mixed = || FlowKeyError::Mixed(ends.to_owned());
        if source_port.is_some() != destination_port.is_some() {
            return Err(mixed());
        }
        let source_port = source_port.unwrap_or(0);
        let destination_port = destination_port.unwrap_or(0);
        let protocol = protocol(rest).ok_or_else(|| FlowKeyError::Protocol(rest.to_owned()))?;
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(Self::V4 {
                source,
                destination,
                source_port,
                destination_port,
                protocol,
            }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(Self::V6 {
                source,
                destination,
                source_port,
                destination_port,
                protocol,
            }),
            _ => Err(mixed()),
        }
    }
}

/// `10.0.0.1`, `10.0.0.1:80`, `[fd00::1]` or `[fd00::1]:80`.
fn end(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Some(text) = text.strip_prefix('[') {
        let (address, rest) = text.split_once(']')?;
        let port = match rest {
            "" => None,
            rest => Some(number(rest.strip_prefix(':')?)?),
        };
        return Some((IpAddr::V6(address.parse().ok()?), port));
    }
    let (address, port) = match text.split_once(':') {
        Some((address, port)) => (address, Some(number(port)?)),
        None => (text, None),
    };
    Some((IpAddr::V4(address.parse::<Ipv4Addr>().ok()?), port))
}

fn protocol(text: &str) -> Option<u8> {
    let named = PROTOCOLS.iter().find(|(_, name)| *name == text);
    named.map(|(number, _)| *number).or_else(|| number(text))
}

/// `0x0806` or `0x0806/vlan7`.
fn tags(text: &str) -> Option<(u16, u16)> {
    let (ethertype, vlan) = match text.split_once('/') {
        Some((ethertype, vlan)) => (ethertype, number(vlan.strip_prefix("vlan")?)?),
        None => (text, 0),
    };
    let digits = ethertype.strip_prefix("0x")?;
    let is_whole = digits.len() == 4 && is_hexadecimal(digits) && vlan < 4_096;
    let ethertype = u16::from_str_radix(digits, 16).ok()?;
    is_whole.then_some((ethertype, vlan))
}

/// `02:00:00:00:00:01`.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut bytes = text.split(':');
    for to in &mut mac {
        let digits = bytes.next().filter(|digits| digits.len() == 2)?;
        let byte = is_hexadecimal(digits).then_some(digits)?;
        *to = u8::from_str_radix(byte, 16).ok()?;
    }
    bytes.next().is_none().then_some(mac)
}

/// Digits and nothing else: the standard library takes a sign, too.
fn number<T: FromStr>(text: &str) -> Option<T> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_key() -> impl Strategy<Value = FlowKey> {
        let port = || prop_oneof![Just(0), any::<u16>()];
        let protocol = || prop_oneof![Just(6), Just(17), Just(1), Just(58), any::<u8>()];
        let v4 = (any::<[u32; 2]>(), port(), port(), protocol()).prop_map(
            |([source, destination], source_port, destination_port, protocol)| FlowKey::V4 {
                source: source.into(),
                destination: destination.into(),
                source_port,
                destination_port,
                protocol,
            },
        );
        // Addresses with runs of zeros and with IPv4 inside are written in forms of their own.
        let address = || {
            prop_oneof![
                any::<u128>(),
                any::<u32>().prop_map(u128::from),
                any::<u32>().prop_map(|v4| 0xffff << 32 | u128::from(v4))
            ]
        };
        let v6 = (address(), address(), port(), port(), protocol()).prop_map(
            |(source, destination, source_port, destination_port, protocol)| FlowKey::V6 {
                source: source.into(),
                destination: destination.into(),
                source_port,
                destination_port,
                protocol,
            },
        );
        let vlan = prop_oneof![Just(0), 0..4_096_u16];
        let ethernet = (any::<[[u8; 6]; 2]>(), vlan, any::<u16>()).prop_map(
            |([source, destination], vlan, ethertype)| FlowKey::Ethernet {
                source,
                destination,
                vlan,
                ethertype,
            },
        );
        prop_oneof![v4, v6, ethernet]
    }

    proptest! {
        #[test]
        fn a_key_that_is_shown_is_read_again(key in any_key()) {
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }

        /// What is read is a key that is shown and read again, whatever the text was.
        #[test]
        fn any_text_is_a_key_or_an_error(
            text in prop_oneof!["\\PC*", "[0-9a-f.:>/\\[\\]+x]{0,40}"],
        ) {
            if let Ok(key) = text.parse::<FlowKey>() {
                prop_assert_eq!(key.to_string().parse(), Ok(key));
            }
        }

        #[test]
        fn a_key_with_a_wrong_character_is_never_a_panic(
            key in any_key(),
            at in any::<prop::sample::Index>(),
            wrong in any::<char>(),
        ) {
            let mut text: Vec<char> = key.to_string().chars().collect();
            let at = at.index(text.len());
            text[at] = wrong;
            let _ = text.into_iter().collect::<String>().parse::<FlowKey>();
        }
    }

    #[test]
    fn other_ways_to_write_a_key_are_understood() {
        for (text, shown) in [
            ("10.0.0.1:1>10.0.0.2:2/6", "10.0.0.1:1>10.0.0.2:2/tcp"),
            ("10.0.0.1:0>10.0.0.2:0/icmp", "10.0.0.1>10.0.0.2/icmp"),
            ("[fd00:0::1]:0>[::]:5/017", "[fd00::1]:0>[::]:5/udp"),
            (
                "02:00:00:00:00:0A>ff:ff:ff:ff:ff:ff/0x0806/vlan0",
                "02:00:00:00:00:0a>ff:ff:ff:ff:ff:ff/0x0806",
            ),
        ] {
            assert_eq!(text.parse::<FlowKey>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn errors_say_what_was_expected() {
        let error = |text: &str| text.parse::<FlowKey>().unwrap_err().to_string();
        for (text, wanted) in [
            ("", "expected SOURCE>DESTINATION/PROTOCOL"),
            ("10.0.0.1:1-10.0.0.2:2/tcp", "10.0.0.1:1024>10.0.0.2:80/tcp"),
            (
                "10.0.0.1:1>10.0.0.2:2",
                "expected SOURCE>DESTINATION/PROTOCOL",
            ),
            ("10.0.0.256:1>10.0.0.2:2/tcp", "got \"10.0.0.256:1\""),
            ("10.0.0.1:+1>10.0.0.2:2/tcp", "got \"10.0.0.1:+1\""),
            (
                "10.0.0.1>10.0.0.2:2/tcp",
                "both with a port or both without",
            ),
            ("10.0.0.1>[fd00::1]/tcp", "two addresses of one kind"),
            ("fd00::1>fd00::2/tcp", "[fd00::1]:80"),
            ("10.0.0.1>10.0.0.2/ttp", "expected tcp, udp, sctp"),
            ("10.0.0.1>10.0.0.2/256", "got \"256\""),
            ("02:00:00:00:00:01>10.0.0.2/0x0806", "got \"10.0.0.2\""),
            ("02:00:00:00:00:01>02:00:00:00:00:02/tcp", "got \"tcp\""),
            (
                "02:00:00:00:00:01>02:00:00:00:00:02/0x0806/vlan4096",
                "expected an ethertype",
            ),
        ] {
            let error = error(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
