//! Export of flows and segments to an IPFIX collector.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Flows and segments to an IPFIX collector ([IPFIX](ipfix.md)); needs `collector` only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ipfix {
    /// The collector: `udp://host:4739` or `tcp://host:4739`.
    pub collector: String,
    /// Seconds between two exports, 1 to 3,600; none: every epoch is exported by itself.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3_600))]
    pub interval_s: Option<u32>,
    /// Seconds after which templates are sent again over UDP, 1 to 3,600; default 60.
    #[serde(default = "template_s")]
    #[schemars(range(min = 1, max = 3_600))]
    pub template_s: u32,
    /// Largest message in bytes, 1,024 to 65,000; default 1,400, which fits an Ethernet frame with its headers.
    #[serde(default = "message_bytes")]
    #[schemars(range(min = 1_024, max = 65_000))]
    pub message_bytes: u16,
    /// The observation domain in messages, 0 to 4,294,967,295; default 1.
    #[serde(default = "observation_domain")]
    pub observation_domain: u32,
    /// Private enterprise number of Vernier's own elements, 1 to 4,294,967,295; default 32,473, that of examples (RFC 5612).
    #[serde(default = "enterprise")]
    #[schemars(range(min = 1))]
    pub enterprise: u32,
}

/// How messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A message a datagram.
    Udp,
    /// Messages in a row.
    Tcp,
}

fn template_s() -> u32 {
    60
}

fn message_bytes() -> u16 {
    1_400
}

fn observation_domain() -> u32 {
    1
}

fn enterprise() -> u32 {
    32_473
}

impl Ipfix {
    /// An export to this collector, all else as by default.
    pub fn to(collector: impl Into<String>) -> Self {
        Self {
            collector: collector.into(),
            interval_s: None,
            template_s: template_s(),
            message_bytes: message_bytes(),
            observation_domain: observation_domain(),
            enterprise: enterprise(),
        }
    }

    /// Transport, and host and port; `None` where `collector` names none.
    pub fn target(&self) -> Option<(Transport, &str)> {
        let schemes = [("udp://", Transport::Udp), ("tcp://", Transport::Tcp)];
        let mut targets = schemes.iter().filter_map(|(scheme, transport)| {
            Some((*transport, self.collector.strip_prefix(scheme)?))
        });
        let (transport, target) = targets.next()?;
        let (host, port) = target.rsplit_once(':')?;
        let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_graphic() && c != '/');
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        (is_host && is_port).then_some((transport, target))
    }

    /// See `interval_s`.
    pub fn interval(&self) -> Duration {
        Duration::from_secs(self.interval_s.unwrap_or(0).into())
    }

    /// See `template_s`.
    pub fn template_interval(&self) -> Duration {
        Duration::from_secs(self.template_s.into())
    }
}
