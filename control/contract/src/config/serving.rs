//! Output of the switch: HTTP, metrics for Prometheus, reports to NATS, flows by IPFIX.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::class::flow_rules;
use super::document::{Check, KeyPath, all, each, ensure, name};
use super::{FlowRule, number};
use crate::address::deserialize_listen;

/// The HTTP server for Prometheus and JSON.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address and port; `:9464` is that port on all addresses. Keep it on loopback unless you need remote
    /// access. `null` disables the server.
    #[serde(deserialize_with = "deserialize_listen")]
    #[default(Some(SocketAddr::from(([127, 0, 0, 1], 9464))))]
    pub listen: Option<SocketAddr>,
    /// File with the token (one line, at least 16 characters) that clients send as `Authorization:
    /// Bearer <token>`. Required for an address other than loopback.
    pub token_file: Option<PathBuf>,
    /// Serve anyone who can reach the address, without a token.
    pub insecure: bool,
    /// Host names (header `Host`) that clients without a token may use in addition to addresses and
    /// `localhost`, at most 64. Prometheus uses the name in its `targets`.
    #[schemars(length(max = 64), inner(regex(pattern = "^[A-Za-z0-9._-]+$")))]
    pub hosts: Vec<String>,
}

/// Which metrics are written for Prometheus.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prometheus {
    /// Most flows with series of their own, 0 to 1,000, default 50; all others are added up in one
    /// series for each segment, `flow="other"`.
    #[schemars(range(max = 1_000))]
    #[default = 50]
    pub top_flows: u32,
    /// Seconds for which a flow keeps its series at least, 1 to 86,400, default 120.
    #[schemars(range(min = 1, max = 86_400))]
    #[default = 120]
    pub top_hold_s: u32,
    /// Flows that get series of their own first, at most 256 rules.
    #[schemars(length(max = 256))]
    pub pinned: Vec<FlowRule>,
    /// Buckets in each octave (a factor of 2) of a segment's delay histogram: 1, 2, 4 or 8, default 4.
    /// `histogram_quantile` is off by at most one bucket: 25 % with 4, 12.5 % with 8. Each segment with
    /// packets has 26 times as many series, and 4 more.
    #[schemars(range(min = 1, max = 8))]
    #[default = 4]
    pub buckets_per_octave: u32,
    /// Names of the metrics to write, at most 64, with `*` for any characters. If empty, all
    /// metrics are written.
    #[schemars(length(max = 64), inner(regex(pattern = "^[A-Za-z0-9_:*]+$")))]
    pub include: Vec<String>,
    /// Names of metrics to leave out, likewise.
    #[schemars(length(max = 64), inner(regex(pattern = "^[A-Za-z0-9_:*]+$")))]
    pub exclude: Vec<String>,
}

impl Prometheus {
    /// Octaves of the histogram of a segment's delay: from 2^7 ns (128 ns) to 2^33 ns (8.6 s). Fixed, so that
    /// histograms of all hosts and releases can be added.
    const OCTAVES: std::ops::Range<u32> = 7..33;

    /// Bounds of the buckets in ns, ascending, without `+Inf`. Each is also a bound of
    /// [`measure::histogram::Histogram`], so that counts are exact, and a bound with any more buckets an
    /// octave.
    pub fn bounds_ns(&self) -> impl Iterator<Item = u64> + Clone + use<> {
        let buckets = u64::from(self.buckets_per_octave);
        let of_octave = move |octave: u32| {
            let least_ns = 1_u64 << octave;
            (0..buckets).map(move |n| least_ns + n * least_ns / buckets)
        };
        Self::OCTAVES
            .flat_map(of_octave)
            .chain([1 << Self::OCTAVES.end])
    }

    /// Series of the histogram of one segment: its bounds, `+Inf`, sum and count.
    pub fn series_per_histogram(&self) -> usize {
        self.bounds_ns().count() + 3
    }
}

/// Reports of every epoch to NATS JetStream ([reports](report.md)). Only `nats.servers` is
/// required.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The connection.
    pub nats: Nats,
    /// Most flows in a report, those with the most packets, 0 to 100; default 10.
    #[serde(default = "number::<u32, 10>")]
    #[schemars(range(max = 100))]
    pub top_flows: u32,
    /// Memory in KiB for reports that no server has stored yet, 64 to 1,048,576; default 16,384. When it is
    /// full, the oldest are dropped and counted.
    #[serde(default = "number::<u32, 16_384>")]
    #[schemars(range(min = 64, max = 1_048_576))]
    pub spool_kib: u32,
}

/// A connection to NATS. Files with secrets may be readable by owner and group only; they are read once, at
/// start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Nats {
    /// Servers of one cluster, 1 to 16: `nats://host:4222`, or `tls://host:4222` to require TLS.
    #[schemars(length(min = 1, max = 16))]
    pub servers: Vec<String>,
    /// File with the CA certificates (PEM) to check the servers against. If omitted, the system's.
    pub ca_file: Option<PathBuf>,
    /// File with the client certificate (PEM), for servers that ask for one; needs `key_file`.
    pub cert_file: Option<PathBuf>,
    /// File with its private key (PEM), a secret.
    pub key_file: Option<PathBuf>,
    /// File with credentials (`.creds`: JWT and seed), a secret. At most one of `credentials_file`,
    /// `nkey_file`, `token_file` and `user`.
    pub credentials_file: Option<PathBuf>,
    /// File with the seed of an nkey in one line, a secret.
    pub nkey_file: Option<PathBuf>,
    /// File with a token in one line, a secret.
    pub token_file: Option<PathBuf>,
    /// Name of the user; needs `password_file`.
    pub user: Option<String>,
    /// File with the user's password in one line, a secret.
    pub password_file: Option<PathBuf>,
    /// Allow sending a password or token unencrypted to another machine (`nats://` without `ca_file`), where
    /// anyone on the path can read it; default false.
    pub insecure: bool,
}

impl Nats {
    /// A connection to these servers, without credentials.
    pub fn to(server: impl Into<String>) -> Self {
        Self {
            servers: vec![server.into()],
            ..Self::default()
        }
    }

    /// Returns the first key that rules out a connection, its expected value, and its value.
    pub fn fault(&self) -> Option<(&'static str, &'static str, String)> {
        let is_server = |server: &String| {
            let mut host = ["nats://", "tls://"].iter();
            let host = host.find_map(|scheme| server.strip_prefix(scheme));
            let is_fit = |c: char| c.is_ascii_graphic() && c != '@';
            host.is_some_and(|host| !host.is_empty() && host.chars().all(is_fit))
        };
        let is_secret_shown = self.token_file.is_some() || self.user.is_some();
        let is_plain = |server: &String| self.ca_file.is_none() && is_plain(server);
        let ways = [
            self.credentials_file.is_some(),
            self.nkey_file.is_some(),
            self.token_file.is_some(),
            self.user.is_some(),
        ];
        let one_of_both = || "one of them".to_owned();
        let odd = self.servers.iter().find(|server| !is_server(server));
        if self.servers.is_empty() || odd.is_some() {
            let got = match odd {
                None => "none".to_owned(),
                // It may be a password.
                Some(server) if server.contains('@') => "one with `@`".to_owned(),
                Some(server) => format!("{server:?}"),
            };
            Some((
                "servers",
                "1 to 16 servers as `nats://host:4222` or `tls://host:4222`, without user and password",
                got,
            ))
        } else if self.cert_file.is_some() != self.key_file.is_some() {
            let expected = "`cert_file` with `key_file`, or neither";
            Some(("cert_file", expected, one_of_both()))
        } else if self.user.is_some() != self.password_file.is_some() {
            let expected = "`user` with `password_file`, or neither";
            Some(("user", expected, one_of_both()))
        } else if ways.iter().filter(|given| **given).count() > 1 {
            let expected = "one of `credentials_file`, `nkey_file`, `token_file` and `user`";
            Some(("credentials_file", expected, "several".to_owned()))
        } else if is_secret_shown
            && !self.insecure
            && let Some(server) = self.servers.iter().find(|server| is_plain(server))
        {
            Some((
                "servers",
                "`tls://`, or `nats://` with `ca_file`, where a password or token goes to another machine, or `insecure` to \
                 send it unencrypted",
                format!("{server:?}"),
            ))
        } else {
            None
        }
    }
}

/// Whether data for this server leaves the machine unencrypted.
fn is_plain(server: &str) -> bool {
    let Some(rest) = server.strip_prefix("nats://") else {
        return false;
    };
    let host = match rest.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => rest.split([':', '/']).next(),
    };
    let host = host.unwrap_or_default();
    let is_loopback = |address: IpAddr| address.is_loopback();
    !(host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback))
}

/// Export of flows and segments to an IPFIX collector ([IPFIX](ipfix.md)). Only `collector` is
/// required.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ipfix {
    /// The collector: `udp://host:4739` or `tcp://host:4739`.
    pub collector: String,
    /// Seconds between two exports, 1 to 3,600. If omitted, every epoch is exported separately.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3_600))]
    pub interval_s: Option<u32>,
    /// Seconds after which templates are sent again over UDP, 1 to 3,600; default 60.
    #[serde(default = "number::<u32, TEMPLATE_S>")]
    #[schemars(range(min = 1, max = 3_600))]
    pub template_s: u32,
    /// Largest message in bytes, 1,024 to 65,000; default 1,400, which fits an Ethernet frame with its
    /// headers.
    #[serde(default = "number::<u16, MESSAGE_BYTES>")]
    #[schemars(range(min = 1_024, max = 65_000))]
    pub message_bytes: u16,
    /// The observation domain in messages, 0 to 4,294,967,295; default 1.
    #[serde(default = "number::<u32, OBSERVATION_DOMAIN>")]
    pub observation_domain: u32,
    /// Private enterprise number of Vernier's own elements, 1 to 4,294,967,295; default 32,473, which is
    /// reserved for examples (RFC 5612).
    #[serde(default = "number::<u32, ENTERPRISE>")]
    #[schemars(range(min = 1))]
    pub enterprise: u32,
}

/// How messages are transported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// One datagram for each message.
    Udp,
    /// A stream of messages.
    Tcp,
}

const TEMPLATE_S: u32 = 60;
const MESSAGE_BYTES: u32 = 1_400;
const OBSERVATION_DOMAIN: u32 = 1;
const ENTERPRISE: u32 = 32_473;

impl Ipfix {
    /// An export to this collector, with defaults for all else.
    pub fn to(collector: impl Into<String>) -> Self {
        Self {
            collector: collector.into(),
            interval_s: None,
            template_s: number::<_, TEMPLATE_S>(),
            message_bytes: number::<_, MESSAGE_BYTES>(),
            observation_domain: number::<_, OBSERVATION_DOMAIN>(),
            enterprise: number::<_, ENTERPRISE>(),
        }
    }

    /// Transport, and host and port; `None` if `collector` is invalid.
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

    /// `interval_s`.
    pub fn interval(&self) -> Duration {
        Duration::from_secs(self.interval_s.unwrap_or(0).into())
    }
}

/// Checks that an address beyond loopback has a token, or consent to serve without one.
///
/// # Errors
/// [`super::document::Invalid`] if it has neither.
pub fn http(path: &KeyPath, http: &Http) -> Check {
    let (path, hosts) = (path.key("listen"), path.key("hosts"));
    let hosts = each(&hosts, &http.hosts, |path, host| name(path, host));
    let Some(address) = http.listen else {
        return hosts;
    };
    let is_guarded = address.ip().is_loopback() || http.token_file.is_some() || http.insecure;
    let expected = "a loopback address, or `token_file` with what clients have to show, or `insecure` for \
                    anyone who can reach it";
    all([hosts, ensure(is_guarded, path, expected, address)])
}

pub(super) fn prometheus(path: &KeyPath, prometheus: &Prometheus) -> Check {
    let (key, buckets) = (
        path.key("buckets_per_octave"),
        prometheus.buckets_per_octave,
    );
    all([
        flow_rules(&path.key("pinned"), &prometheus.pinned),
        ensure(buckets.is_power_of_two(), key, "1, 2, 4 or 8", buckets),
        patterns(&path.key("include"), &prometheus.include),
        patterns(&path.key("exclude"), &prometheus.exclude),
    ])
}

fn patterns(path: &KeyPath, patterns: &[String]) -> Check {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_:*".contains(c);
    let expected = "a metric's name, with `*` for any characters";
    each(path, patterns, |path, pattern| {
        let holds = !pattern.is_empty() && pattern.chars().all(is_plain);
        ensure(holds, path, expected, format!("{pattern:?}"))
    })
}

pub(super) fn report(path: &KeyPath, report: Option<&Report>) -> Check {
    let Some((key, expected, got)) = report.and_then(|report| report.nats.fault()) else {
        return Ok(());
    };
    ensure(false, path.key("nats").key(key), expected, got)
}

pub(super) fn ipfix(path: &KeyPath, ipfix: Option<&Ipfix>) -> Check {
    let Some(Ipfix { collector, .. }) = ipfix.filter(|ipfix| ipfix.target().is_none()) else {
        return Ok(());
    };
    let expected = "`udp://host:4739` or `tcp://host:4739`";
    let path = path.key("collector");
    ensure(false, path, expected, format!("{collector:?}"))
}
