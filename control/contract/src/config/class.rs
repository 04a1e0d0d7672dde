//! Traffic classes, and which packets belong to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Prefix;

/// A traffic class: a measurement equivalence class, and what class queues are made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name in labels: unique, 1 to 64 letters, digits, `.`, `_` or `-`.
    #[schemars(regex(pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub name: String,
    /// Weight of its packets in the LDS, 1 to 65,535, default 1: heavier classes are estimated more
    /// exactly at the expense of the others. Both ends of a wire with classes must give the same.
    #[serde(default = "weight")]
    #[schemars(range(min = 1, max = 65_535))]
    pub lds_weight: u32,
}

fn weight() -> u32 {
    1
}

/// Names packets; every key that is given must match, and a list matches if one of it does.
// The class has to be there: its default is no class's name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["class"]))]
pub struct Rule {
    /// The class of packets that match.
    pub class: String,
    /// Ports by which they come in, by name.
    #[schemars(length(min = 1))]
    pub ingress: Option<Vec<String>>,
    /// Priority code points of the outer VLAN tag, 0 to 7; frames without a tag do not match.
    #[schemars(length(min = 1), inner(range(max = 7)))]
    pub pcp: Option<Vec<u8>>,
    /// Differentiated services code points, 0 to 63 (RFC 2474).
    #[schemars(length(min = 1), inner(range(max = 63)))]
    pub dscp: Option<Vec<u8>>,
    /// Source prefix.
    pub source: Option<Prefix>,
    /// Destination prefix.
    pub destination: Option<Prefix>,
    /// Protocol above IP.
    pub protocol: Option<Protocol>,
    /// First and last source port (TCP, UDP, SCTP; not of later fragments).
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
}

/// A protocol above IP: a name, or a number (IANA).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected icmp, tcp, udp, icmpv6, sctp or a number from 0 to 255"
)]
pub enum Protocol {
    /// By name.
    Named(ProtocolName),
    /// By number.
    Number(u8),
}

/// Protocols with names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProtocolName {
    /// 1.
    Icmp,
    /// 6.
    Tcp,
    /// 17.
    Udp,
    /// 58.
    Icmpv6,
    /// 132.
    Sctp,
}

impl Protocol {
    /// The number (IANA).
    pub const fn number(self) -> u8 {
        match self {
            Self::Named(ProtocolName::Icmp) => 1,
            Self::Named(ProtocolName::Tcp) => 6,
            Self::Named(ProtocolName::Udp) => 17,
            Self::Named(ProtocolName::Icmpv6) => 58,
            Self::Named(ProtocolName::Sctp) => 132,
            Self::Number(number) => number,
        }
    }
}
