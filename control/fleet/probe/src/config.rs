//! The configuration of `vernier-probe`, in JSON.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::config::document::{
    self, Check, KeyPath, count_within, ensure, name, unique, within,
};
use contract::config::{self, ConfigError, Http, Nats, number};
use nix::net::if_::if_nametoindex;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use smart_default::SmartDefault;
use topology::Role;
use topology::ospf::deserialize_server;

use crate::socket::{Stamped, scope_id};
use crate::wire::{ClockSource, ErrorEstimate, Format, Kind, Mode, least_bytes};

/// The port of STAMP (RFC 8762, section 4.1).
pub const PORT: u16 = 862;

/// Most sessions of a configuration.
pub const SESSIONS_MAX: usize = 50_000;

/// Bytes around a UDP payload on Ethernet: preamble 8, header 14, checksum 4, gap 12, IP 20 or 40, UDP 8.
const OVERHEAD_BYTES: (u32, u32) = (66, 86);

/// The configuration file.
#[derive(Debug, Clone, PartialEq, SmartDefault, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The reflector; `None`: there is none.
    pub reflector: Option<ReflectorConfig>,
    /// Sessions to measure, at most 50,000.
    pub sessions: Vec<SessionConfig>,
    /// Length of an interval in ms, 100 to 3,600,000, default 1,000.
    #[default = 1_000]
    pub interval_ms: u64,
    /// Preferred source of timestamps, default `kernel`. If it has none, the next best is used.
    pub timestamps: Stamped,
    /// The clock of this machine.
    pub clock: Clock,
    /// HTTP server for results, default `127.0.0.1:9469`.
    #[default(Http { listen: Some(SocketAddr::from(([127, 0, 0, 1], 9469))), ..Http::default() })]
    pub http: Http,
    /// Sessions that follow the m-set of a node; `None`: only `sessions`.
    pub mset: Option<MsetConfig>,
    /// Reports of every interval to NATS JetStream; `None`: no reports.
    pub report: Option<ReportConfig>,
}

/// The session-reflector.
#[derive(Debug, Clone, PartialEq, SmartDefault, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReflectorConfig {
    /// Addresses to listen on, optionally with ports (default 862); 1 to 64. Default all of IPv4 and of
    /// IPv6.
    #[default(vec![
        IpAddr::from(Ipv4Addr::UNSPECIFIED).into(),
        IpAddr::from(Ipv6Addr::UNSPECIFIED).into(),
    ])]
    pub listen: Vec<Address>,
    /// File with the key of base packets; requests must be authenticated with it.
    pub key_file: Option<PathBuf>,
    /// File with the key of TLVs. `None`: that of `key_file`.
    pub tlv_key_file: Option<PathBuf>,
    /// Limit of sessions with counts, 0 (stateless) to 1,000,000, default 10,000. Requests of further sessions are
    /// answered without state.
    #[default = 10_000]
    pub sessions_max: usize,
    /// Seconds after which a silent session may be evicted, 1 to 86,400, default 300.
    #[default = 300]
    pub idle_s: u64,
    /// Limit of answers a second to one source address, 1 to 10,000,000, default 20,000. `None`: no limit.
    #[default(Some(20_000))]
    pub limit_pps: Option<u32>,
    /// DSCP values that a class of service TLV may request, 0 to 63 each. `None`: all.
    pub allowed_dscp: Option<Vec<u8>>,
}

/// A session. The default is a template with a placeholder for its name and address (RFC 5737).
#[derive(Debug, Clone, PartialEq, SmartDefault, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionConfig {
    /// Unique name in results: 1 to 64 letters, digits, `.`, `_` or `-`.
    #[default("mset".to_owned())]
    pub name: String,
    /// Name of the reflector's node, for reports. `None`: the session's name.
    pub node: Option<String>,
    /// Class of the traffic that this session represents, for reports; default `all`.
    #[serde(default = "class")]
    #[default(class())]
    pub class: String,
    /// The reflector's address, optionally with a port (default 862).
    #[default(SocketAddr::from(([192, 0, 2, 1], PORT)).into())]
    pub to: Address,
    /// Address to send from, optionally with a port. `None`: any.
    pub from: Option<Address>,
    /// DSCP of requests, 0 to 63, default 0.
    #[serde(default)]
    pub dscp: u8,
    /// Mean gap between packets in ms, 0.01 to 3,600,000; default 1,000. Excludes `share` and `link_bps`.
    pub interval_ms: Option<f64>,
    /// Share of the link that requests use, above 0 and at most 1, including Ethernet's overhead.
    pub share: Option<f64>,
    /// Bit rate of the link, 1,000 to 1,000,000,000,000.
    pub link_bps: Option<u64>,
    /// How packets are spaced, default `poisson`.
    #[serde(default)]
    pub schedule: Spacing,
    /// Bytes of a request, without its UDP header: 44 (112 with a key) plus TLVs, up to 9,000. `None`: the minimum.
    pub length: Option<usize>,
    /// File with the key of base packets; turns on authenticated mode.
    pub key_file: Option<PathBuf>,
    /// File with the key of TLVs. `None`: that of `key_file`.
    pub tlv_key_file: Option<PathBuf>,
    /// How long to wait for a reply, in ms, 10 to 60,000, default 1,000.
    #[serde(default = "number::<u64, 1_000>")]
    #[default = 1_000]
    pub timeout_ms: u64,
    /// TLVs to request of the reflector.
    #[serde(default)]
    pub tlvs: Vec<Kind>,
}

/// How packets are spaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Exponentially distributed gaps (RFC 2330, section 11.1.1), which do not miss what is periodic in the network.
    #[default]
    Poisson,
    /// Equal gaps (RFC 3432).
    Periodic,
}

/// The clock of this machine, as packets describe it to the other end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Clock {
    /// Set this only if you vouch for the clock: its greatest error against UTC, 0 to 1,000,000,000 ns. `None`: it is
    /// not synchronised.
    pub error_ns: Option<u32>,
    /// The source of its time, default `local`.
    pub source: ClockSource,
}

fn class() -> String {
    "all".to_owned()
}

impl Clock {
    /// The error estimate as packets carry it.
    pub fn estimate(&self) -> ErrorEstimate {
        // An unsynchronised clock may be off by any amount: use the greatest whole second of the format.
        let error_ns = self.error_ns.map_or(1_000_000_000, u64::from);
        ErrorEstimate::new(self.error_ns.is_some(), Format::Ntp, error_ns)
    }
}

impl SessionConfig {
    fn least_bytes(&self) -> usize {
        let mode = Mode::of(self.key_file.is_some());
        let has_hmac = self.key_file.is_some() || self.tlv_key_file.is_some();
        least_bytes(mode, &self.tlvs, has_hmac)
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
    /// The node whose m-set is followed, if there is an `mset`: its own `node`, else that of `report`, else
    /// the host's name.
    pub fn mset_node(&self) -> Option<String> {
        let own = self.mset.as_ref()?.node.clone();
        let reports = || self.report.as_ref().map(ReportConfig::node);
        Some(own.or_else(reports).unwrap_or_else(host))
    }

    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`]: the file is not readable or not JSON, or it has an unknown key or a value out of
    /// range.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        document::load(path, Self::check)
    }
}

/// An address, optionally with a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The port, if there is one.
    pub port: Option<u16>,
    /// The zone of a link-local IPv6 address, as the number of an interface; 0: none.
    pub scope_id: u32,
}

impl Address {
    /// With its own port, or else this one.
    pub fn with_port(self, port: u16) -> SocketAddr {
        let mut address = SocketAddr::new(self.ip, self.port.unwrap_or(port));
        if let SocketAddr::V6(v6) = &mut address {
            v6.set_scope_id(self.scope_id);
        }
        address
    }

    /// Whether this is a link-local address without a zone.
    fn lacks_zone(&self) -> bool {
        let is_link_local = matches!(self.ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        is_link_local && self.scope_id == 0
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        Self {
            ip,
            port: None,
            scope_id: 0,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self {
            ip: address.ip(),
            port: Some(address.port()),
            scope_id: scope_id(address),
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
            let ip: IpAddr = match bare {
                Some(bare) => bare.parse::<Ipv6Addr>().ok()?.into(),
                None => plain.parse().ok()?,
            };
            Some(Self::from(ip))
        });
        let mut address = address.ok_or_else(|| {
            format!(
                "{text:?} is not an address such as 192.0.2.1, 192.0.2.1:862, 2001:db8::1, [2001:db8::1]:862 or \
                 [fe80::1%eth0]:862"
            )
        })?;
        // IPv6 sockets do not reach IPv4.
        address.ip = address.ip.to_canonical();
        if let Some(zone) = zone {
            if !matches!(address.ip, IpAddr::V6(ip) if ip.is_unicast_link_local()) {
                return Err(format!(
                    "{text:?} has a zone (%), which belongs to link-local addresses (fe80::/10) only"
                ));
            }
            address.scope_id = interface(zone).ok_or_else(|| {
                format!("{text:?}: there is no interface {zone:?} (see `ip link`)")
            })?;
        }
        Ok(address)
    }
}

/// An address without its zone, and the zone: everything from `%` to the bracket or the end.
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

/// The number of an interface, from its number or name.
fn interface(zone: &str) -> Option<u32> {
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

/// Probes the nodes of a node's m-set, as it changes. Needs either `topology` or `ospf`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MsetConfig {
    /// The network, as a file that `vernier mset` reads. It is read again whenever it changes.
    pub topology: Option<PathBuf>,
    /// The IPv4 address of the API of FRR's ospfd on a router of the area, optionally with its port
    /// (default 2607).
    #[serde(default, deserialize_with = "deserialize_server")]
    pub ospf: Option<SocketAddrV4>,
    /// Names of routers by router ID; only with `ospf`.
    #[serde(default)]
    pub names: BTreeMap<Ipv4Addr, String>,
    /// The role that this node advertises, `m-server` or `m-router`; only with `ospf`. `None`: it
    /// advertises nothing.
    pub advertise: Option<Role>,
    /// The node whose m-set to follow. `None`: that of `report`, or the host's name.
    pub node: Option<String>,
    /// The m-routers. `None`: those that the topology marks as such.
    pub routers: Option<Vec<String>>,
    /// Routers with an m-server. `None`: those that the topology marks as such, or if it marks none, all except the
    /// m-routers.
    pub servers: Option<Vec<String>>,
    /// Reflectors by node. With `ospf`, a node without one is probed at its router's own address (a prefix of 32
    /// bits).
    #[serde(default)]
    pub addresses: BTreeMap<String, Address>,
    /// How long the old m-set is measured beside a new one, in s, 0 to 86,400, default 60.
    #[serde(default = "number::<u64, 60>")]
    pub transition_s: u64,
    /// Template of the sessions: the keys of `sessions` without `name`, `node` and `to`.
    #[serde(default, deserialize_with = "session")]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub session: SessionConfig,
}

/// Keys that each session gets from its node.
const OWN_KEYS: [&str; 3] = ["name", "node", "to"];

fn session<'de, D: Deserializer<'de>>(from: D) -> Result<SessionConfig, D::Error> {
    let mut keys = serde_json::Map::deserialize(from)?;
    if let Some(key) = OWN_KEYS.iter().find(|key| keys.contains_key(**key)) {
        return Err(D::Error::custom(format!(
            "`{key}` differs by node; omit it"
        )));
    }
    let template = SessionConfig::default();
    keys.insert("name".to_owned(), template.name.into());
    keys.insert("to".to_owned(), String::from(template.to).into());
    serde_json::from_value(keys.into()).map_err(D::Error::custom)
}

impl MsetConfig {
    /// The session to a reflector at a node. `lane` counts from 0 if there are several.
    pub fn session(&self, node: &str, to: Address, lane: usize) -> SessionConfig {
        let number = if lane == 0 {
            String::new()
        } else {
            format!("_{}", lane + 1)
        };
        SessionConfig {
            name: format!("mset.{node}{number}"),
            node: Some(node.to_owned()),
            to,
            ..self.session.clone()
        }
    }

    /// Checks names, times, and the keys that need `ospf`.
    fn check(&self, path: &KeyPath) -> Check {
        ensure(
            self.topology.is_some() != self.ospf.is_some(),
            path.clone(),
            "either `topology` or `ospf`",
            "both or neither",
        )?;
        if let Some(node) = &self.node {
            name(path.key("node"), node)?;
        }
        for (node, address) in &self.addresses {
            name(path.key("addresses"), node)?;
            check_target(path.key("addresses"), *address)?;
        }
        let is_live = self.ospf.is_some();
        let advertises = self.advertise.is_some();
        ensure(
            is_live || (self.names.is_empty() && !advertises),
            path.clone(),
            "`names` and `advertise` with `ospf` only",
            "`topology`",
        )?;
        ensure(
            self.advertise != Some(Role::Plain),
            path.key("advertise"),
            "`m-server` or `m-router`",
            "plain",
        )?;
        within(path.key("transition_s"), self.transition_s, 0..=86_400)
    }

    /// The template with an address of the same family as `from`.
    fn example(&self) -> SessionConfig {
        let mut example = self.session.clone();
        if example.from.is_some_and(|from| from.ip.is_ipv6()) {
            example.to = SocketAddr::from((IPV6, PORT)).into();
        }
        example
    }
}

/// Reserved for documentation (RFC 3849).
const IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Limit of the name of a node or a prober.
const NAME_MAX: usize = 64;

/// Suffix of the default name of a prober: its node's name alone may be that of a switch.
const SUFFIX: &str = ".probe";

/// Reports of every interval to NATS JetStream. Only `nats.servers` is required.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportConfig {
    /// Name of this prober's node: that of the switch there, or of the router in the topology. `None`: the host's
    /// name.
    pub node: Option<String>,
    /// Name under which no other prober and no switch reports. `None`: the node's name with `.probe`
    /// appended.
    pub name: Option<String>,
    /// The connection, with the same keys as in a switch.
    pub nats: Nats,
    /// Memory in KiB for reports that no server has acknowledged yet, 64 to 1,048,576; default 16,384.
    #[serde(default = "number::<u32, 16_384>")]
    pub spool_kib: u32,
}

/// The host's name.
fn host() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

impl ReportConfig {
    /// The node of this prober.
    pub fn node(&self) -> String {
        self.node.clone().unwrap_or_else(host)
    }

    /// The name under which it reports.
    pub fn name(&self) -> String {
        let of_node = || format!("{}{SUFFIX}", self.node());
        self.name.clone().unwrap_or_else(of_node)
    }

    /// The settings of the sender.
    pub fn settings(&self) -> config::Report {
        config::Report {
            nats: self.nats.clone(),
            top_flows: 0,
            spool_kib: self.spool_kib,
        }
    }

    /// Checks names, connection and spool. `timeout_ms` is the longest of a session; reports wait for it.
    fn check(&self, path: &KeyPath, interval_ms: u64, timeout_ms: u64) -> Check {
        name(path.key("node"), &self.node())?;
        let own = self.name();
        if self.name.is_none() {
            let expected = format!("`name`, as {own} is longer than {NAME_MAX} characters");
            ensure(own.len() <= NAME_MAX, path.clone(), expected, "none")?;
        }
        name(path.key("name"), &own)?;
        if let Some((key, expected, got)) = self.nats.fault() {
            return ensure(false, path.key("nats").key(key), expected, got);
        }
        within(path.key("spool_kib"), self.spool_kib, 64..=1_048_576)?;
        let longest_ms = 1_000 + 2 * interval_ms;
        ensure(
            timeout_ms <= longest_ms,
            path.clone(),
            format!(
                "`timeout_ms` of {longest_ms} at most in every session (1000 and two intervals), as a report waits for it"
            ),
            timeout_ms,
        )
    }
}

/// Limit of packets that are under way or in open intervals, over all sessions: about 100 bytes each.
const PACKETS_MAX: f64 = 4e6;

/// The same for one session.
const SESSION_PACKETS_MAX: f64 = 1e5;

impl Config {
    /// Checks every range and reference; the first violation is the error.
    ///
    /// # Errors
    /// [`Faults`](document::Faults)
    pub fn check(&self) -> Check {
        let root = KeyPath::default();
        within(root.key("interval_ms"), self.interval_ms, 100..=3_600_000)?;
        if let Some(error_ns) = self.clock.error_ns {
            let path = root.key("clock").key("error_ns");
            within(path, error_ns, 0..=1_000_000_000)?;
        }
        document::http(&root.key("http"), &self.http)?;
        if let Some(reflector) = &self.reflector {
            check_reflector(&root.key("reflector"), reflector)?;
        }
        let sessions = root.key("sessions");
        let count = self.sessions.len();
        count_within(sessions.clone(), count, 0..=SESSIONS_MAX, "sessions")?;
        let mut names = HashSet::new();
        let mut packets = 0.0;
        for (index, session) in self.sessions.iter().enumerate() {
            let path = sessions.index(index);
            let (at, own) = (path.key("name"), session.name.as_str());
            name(at.clone(), own)?;
            unique(&mut names, own, at, "a unique name")?;
            packets += self.check_session(&path, session)?;
        }
        ensure(
            packets <= PACKETS_MAX,
            sessions,
            format!("{PACKETS_MAX} packets within an interval and a time-out, over all sessions"),
            packets.ceil(),
        )?;
        let template = self.mset.as_ref().map(MsetConfig::example);
        if let Some(mset) = &self.mset {
            let path = root.key("mset");
            mset.check(&path)?;
            self.check_session(&path.key("session"), &mset.example())?;
            let node = self.mset_node().unwrap_or_default();
            name(path.key("node"), &node)?;
        }
        if let Some(report) = &self.report {
            let sessions = self.sessions.iter().chain(&template);
            let timeouts = sessions.map(|session| session.timeout_ms);
            let longest_ms = timeouts.max().unwrap_or_default();
            report.check(&root.key("report"), self.interval_ms, longest_ms)?;
        }
        let has_sessions = !self.sessions.is_empty() || self.mset.is_some();
        let is_idle = self.reflector.is_none() && !has_sessions;
        ensure(
            !is_idle,
            root.key("sessions"),
            "a session, a reflector, or `mset`",
            "neither",
        )
    }

    /// How many sessions an m-set may add to the configured ones.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of sessions, limited below"
    )]
    pub fn mset_room(&self) -> usize {
        let Some(mset) = &self.mset else { return 0 };
        let taken: f64 = self
            .sessions
            .iter()
            .map(|session| self.packets(session))
            .sum();
        let left = (PACKETS_MAX - taken).max(0.0) / self.packets(&mset.example()).max(1e-9);
        (left as usize).min(SESSIONS_MAX - self.sessions.len().min(SESSIONS_MAX))
    }

    /// Packets of a session within an interval and a time-out.
    fn packets(&self, session: &SessionConfig) -> f64 {
        let kept_ms = self.interval_ms + session.timeout_ms;
        kept_ms as f64 / 1e3 / session.gap().as_secs_f64().max(1e-9)
    }

    /// Checks a session; returns how many of its packets are in memory.
    fn check_session(&self, path: &KeyPath, session: &SessionConfig) -> Check<f64> {
        if let Some(node) = &session.node {
            name(path.key("node"), node)?;
        }
        name(path.key("class"), &session.class)?;
        within(path.key("dscp"), session.dscp, 0..=63)?;
        within(path.key("timeout_ms"), session.timeout_ms, 10..=60_000)?;
        check_target(path.key("to"), session.to)?;
        let same = |from: &Address| from.ip.is_ipv4() == session.to.ip.is_ipv4();
        ensure(
            session.from.as_ref().is_none_or(same),
            path.key("from"),
            "an address of the same family as `to`",
            session.from.map_or_else(String::new, String::from),
        )?;
        let mut asked = HashSet::new();
        for (index, tlv) in session.tlvs.iter().enumerate() {
            let path = path.key("tlvs").index(index);
            unique(&mut asked, tlv, path, "each TLV once")?;
        }
        check_rate(path, session)?;
        let least = session.least_bytes();
        let bytes = session.bytes();
        ensure(
            bytes == least || (least + 4..=9_000).contains(&bytes),
            path.key("length"),
            format!("{least}, or {} to 9000", least + 4),
            bytes,
        )?;
        let kept_ms = self.interval_ms + session.timeout_ms;
        let packets = self.packets(session);
        ensure(
            packets <= SESSION_PACKETS_MAX,
            path.clone(),
            format!(
                "a rate of {SESSION_PACKETS_MAX} packets at most within an interval and a time-out ({kept_ms} ms)"
            ),
            packets.ceil(),
        )?;
        Ok(packets)
    }
}

/// Checks that an address can be that of one reflector.
fn check_target(path: KeyPath, to: Address) -> Check {
    let is_broadcast = matches!(to.ip, IpAddr::V4(ip) if ip.is_broadcast());
    let expected = if to.port == Some(0) || to.ip.is_unspecified() {
        "the reflector's address and port"
    } else if to.ip.is_multicast() || is_broadcast {
        "the address of one reflector, not a multicast or broadcast address"
    } else if to.lacks_zone() {
        "a link-local address with its zone, such as [fe80::1%eth0]:862"
    } else {
        return Ok(());
    };
    ensure(false, path, expected, String::from(to))
}

fn check_rate(path: &KeyPath, session: &SessionConfig) -> Check {
    let SessionConfig {
        interval_ms,
        share,
        link_bps,
        ..
    } = session;
    if let Some(interval_ms) = *interval_ms {
        within(path.key("interval_ms"), interval_ms, 0.01..=3_600_000.0)?;
        let one = share.is_none() && link_bps.is_none();
        let expected = "either `interval_ms`, or `share` and `link_bps`";
        return ensure(one, path.clone(), expected, "both");
    }
    if let Some(share) = *share {
        let is_share = share > 0.0 && share <= 1.0;
        ensure(is_share, path.key("share"), "over 0 to 1", share)?;
    }
    if let Some(link_bps) = *link_bps {
        within(path.key("link_bps"), link_bps, 1_000..=1_000_000_000_000)?;
    }
    ensure(
        share.is_some() == link_bps.is_some(),
        path.clone(),
        "`share` and `link_bps` together",
        "one of them",
    )
}

fn check_reflector(path: &KeyPath, reflector: &ReflectorConfig) -> Check {
    let ReflectorConfig {
        listen,
        sessions_max,
        ..
    } = reflector;
    count_within(path.key("listen"), listen.len(), 1..=64, "addresses")?;
    within(path.key("sessions_max"), *sessions_max, 0..=1_000_000)?;
    within(path.key("idle_s"), reflector.idle_s, 1..=86_400)?;
    if let Some(limit_pps) = reflector.limit_pps {
        within(path.key("limit_pps"), limit_pps, 1..=10_000_000)?;
    }
    for (index, dscp) in reflector.allowed_dscp.iter().flatten().enumerate() {
        within(path.key("allowed_dscp").index(index), *dscp, 0..=63)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
