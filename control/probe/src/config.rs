//! The configuration of `vernier-probe`, in JSON.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::config::document;
use contract::config::{ConfigError, Http};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reflector::ClockSource;
use crate::session::{Spacing, least_bytes};
use crate::socket::StampsWanted;
use crate::wire::packet::Mode;
use crate::wire::time::{ErrorEstimate, Format};
use crate::wire::tlv::Kind;

mod address;
mod check;
mod mset;
mod report;

pub use address::Address;
pub use mset::MsetConfig;
pub use report::ReportConfig;

/// The port of STAMP (RFC 8762, section 4.1).
pub const PORT: u16 = 862;

/// Packets a second that a reflector answers one source address, unless the configuration says otherwise: some tenths of a CPU.
const LIMIT_PPS: u32 = 20_000;

/// Most sessions of a configuration.
pub const SESSIONS_MAX: usize = 50_000;

/// Bytes around a UDP payload on Ethernet: preamble 8, header 14, checksum 4, gap 12, IP 20 or 40, UDP 8.
const OVERHEAD_BYTES: (u32, u32) = (66, 86);

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Answers others; `None`: no reflector.
    #[serde(default)]
    pub reflector: Option<ReflectorConfig>,
    /// What is measured, at most 50,000.
    #[serde(default)]
    pub sessions: Vec<SessionConfig>,
    /// Length of an interval in ms, 100 to 3,600,000, default 1,000.
    #[serde(default = "interval_ms")]
    pub interval_ms: u64,
    /// Whose timestamps are taken, default `kernel`.
    #[serde(default)]
    pub timestamps: StampsWanted,
    /// The clock of this machine.
    #[serde(default)]
    pub clock: Clock,
    /// Where answers are served, default `127.0.0.1:9469`.
    #[serde(default = "http")]
    pub http: Http,
    /// Sessions that follow the m-set of a node; `None`: there are none but `sessions`.
    #[serde(default)]
    pub mset: Option<MsetConfig>,
    /// Reports of every interval to NATS JetStream; `None`: there are none.
    #[serde(default)]
    pub report: Option<ReportConfig>,
}

/// The session-reflector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReflectorConfig {
    /// Addresses, with ports or without (862); 1 to 64. Default all of IPv4 and of IPv6.
    pub listen: Vec<Address>,
    /// File with the key of base packets: requests have to be authenticated by it.
    pub key_file: Option<PathBuf>,
    /// File with the key of TLVs. `None`: that of `key_file`.
    pub tlv_key_file: Option<PathBuf>,
    /// Most sessions that it keeps counts of, 0 (stateless) to 1,000,000, default 10,000. Others are answered without.
    pub sessions_max: usize,
    /// Seconds after which a silent session makes room for another, 1 to 86,400, default 300.
    pub idle_s: u64,
    /// Most packets a second that one source address is answered, 1 to 10,000,000, default 20,000. `None`: any number.
    pub limit_pps: Option<u32>,
    /// Values of DSCP that a class of service TLV may ask for, 0 to 63 each. `None`: all.
    pub allowed_dscp: Option<Vec<u8>>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionConfig {
    /// Its name in results, of its own: 1 to 64 letters, digits, `.`, `_` or `-`.
    pub name: String,
    /// Name of the node where the reflector stands, for reports. `None`: the session's name.
    #[serde(default)]
    pub node: Option<String>,
    /// Class of the traffic that this session stands for, for reports; default `all`.
    #[serde(default = "class")]
    pub class: String,
    /// The reflector: address, with a port or without (862).
    pub to: Address,
    /// Address, with a port or without, that is sent from. `None`: any.
    #[serde(default)]
    pub from: Option<Address>,
    /// DSCP of requests, 0 to 63, default 0.
    #[serde(default)]
    pub dscp: u8,
    /// Mean gap between packets in ms, 0.01 to 3,600,000. Either this, or `share` and `link_bps`; default 1,000.
    #[serde(default)]
    pub interval_ms: Option<f64>,
    /// Share of the link that requests take, over 0 to 1, Ethernet's overhead with them.
    #[serde(default)]
    pub share: Option<f64>,
    /// Bit rate of the link, 1,000 to 1,000,000,000,000.
    #[serde(default)]
    pub link_bps: Option<u64>,
    /// How packets are spaced, default `poisson`.
    #[serde(default)]
    pub schedule: Spacing,
    /// Bytes of a request, without its UDP header: 44 (with a key 112) and what TLVs need, up to 9,000. `None`: the fewest.
    #[serde(default)]
    pub length: Option<usize>,
    /// File with the key of base packets: with it the session is authenticated.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// File with the key of TLVs. `None`: that of `key_file`.
    #[serde(default)]
    pub tlv_key_file: Option<PathBuf>,
    /// How long a reply is waited for, in ms, 10 to 60,000, default 1,000.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// What the reflector is asked for besides.
    #[serde(default)]
    pub tlvs: Vec<Asked>,
}

/// TLVs that a session can send (RFC 8972).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// Ports and addresses at the reflector.
    Location,
    /// Its clock and how it takes timestamps.
    TimestampInformation,
    /// DSCP and ECN as they arrive there.
    ClassOfService,
    /// Packets received and sent there.
    DirectMeasurement,
    /// When the reply before really left.
    FollowUpTelemetry,
}

/// The clock of this machine, as other ends are informed of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Clock {
    /// You vouch for the clock: it is off UTC by so many nanoseconds at most, 0 to 1,000,000,000. `None`: it is not synchronised.
    pub error_ns: Option<u32>,
    /// Where it gets its time from, default `local`.
    pub source: ClockSource,
}

fn interval_ms() -> u64 {
    1_000
}

fn class() -> String {
    "all".to_owned()
}

fn timeout_ms() -> u64 {
    1_000
}

fn http() -> Http {
    Http {
        listen: Some(SocketAddr::from(([127, 0, 0, 1], 9_469))),
        ..Http::default()
    }
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        let any = |ip| Address {
            ip,
            port: None,
            scope_id: 0,
        };
        Self {
            listen: vec![
                any(Ipv4Addr::UNSPECIFIED.into()),
                any(Ipv6Addr::UNSPECIFIED.into()),
            ],
            key_file: None,
            tlv_key_file: None,
            sessions_max: 10_000,
            idle_s: 300,
            limit_pps: Some(LIMIT_PPS),
            allowed_dscp: None,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            reflector: None,
            sessions: Vec::new(),
            interval_ms: interval_ms(),
            timestamps: StampsWanted::default(),
            clock: Clock::default(),
            http: http(),
            mset: None,
            report: None,
        }
    }
}

impl Clock {
    /// As packets carry it.
    pub fn estimate(&self) -> ErrorEstimate {
        // An unsynchronised clock may be off by anything: the format's greatest whole second.
        let error_ns = self.error_ns.map_or(1_000_000_000, u64::from);
        ErrorEstimate::new(self.error_ns.is_some(), Format::Ntp, error_ns)
    }
}

impl SessionConfig {
    /// A session with these names and addresses, and defaults.
    pub fn new(name: impl Into<String>, to: Address) -> Self {
        Self {
            name: name.into(),
            node: None,
            class: class(),
            to,
            from: None,
            dscp: 0,
            interval_ms: None,
            share: None,
            link_bps: None,
            schedule: Spacing::default(),
            length: None,
            key_file: None,
            tlv_key_file: None,
            timeout_ms: timeout_ms(),
            tlvs: Vec::new(),
        }
    }

    /// The TLVs that are sent.
    pub fn kinds(&self) -> Vec<Kind> {
        let kind = |asked: &Asked| match asked {
            Asked::Location => Kind::Location,
            Asked::TimestampInformation => Kind::TimestampInformation,
            Asked::ClassOfService => Kind::ClassOfService,
            Asked::DirectMeasurement => Kind::DirectMeasurement,
            Asked::FollowUpTelemetry => Kind::FollowUpTelemetry,
        };
        self.tlvs.iter().map(kind).collect()
    }

    fn least_bytes(&self) -> usize {
        let mode = if self.key_file.is_some() {
            Mode::Authenticated
        } else {
            Mode::Open
        };
        let has_hmac = self.key_file.is_some() || self.tlv_key_file.is_some();
        least_bytes(mode, &self.kinds(), has_hmac)
    }

    /// Bytes of a request.
    pub fn bytes(&self) -> usize {
        self.length.unwrap_or_else(|| self.least_bytes())
    }

    /// The mean gap between packets.
    pub fn gap(&self) -> Duration {
        let seconds = match (self.share, self.link_bps) {
            (Some(share), Some(link_bps)) => {
                let overhead = if self.to.ip.is_ipv4() {
                    OVERHEAD_BYTES.0
                } else {
                    OVERHEAD_BYTES.1
                };
                let bits = (self.bytes() as f64 + f64::from(overhead)) * 8.0;
                bits / (share * link_bps as f64)
            }
            _ => self.interval_ms.unwrap_or(1_000.0) / 1e3,
        };
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

impl Config {
    /// The node whose m-set is followed, where one is: its own, that of reports, or the host's name.
    pub fn mset_node(&self) -> Option<String> {
        let own = self.mset.as_ref()?.node.clone();
        let reports = || self.report.as_ref().map(ReportConfig::node);
        Some(own.or_else(reports).unwrap_or_else(report::host))
    }

    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`]: not readable, not JSON, an unknown key, a value out of range.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let (text, origin) = document::read_file(path)?;
        Self::parse(&text, &origin)
    }

    /// Reads and checks a configuration; `origin` names it in errors.
    ///
    /// # Errors
    /// [`ConfigError`]: not JSON, an unknown key, a value out of range.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ConfigError> {
        let config: Self = document::parse_json(text, origin)?;
        config
            .check()
            .map_err(|invalid| document::value_error(origin, text, invalid))?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
