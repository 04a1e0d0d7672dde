//! Reports to NATS JetStream, and the connection that they take.

use std::net::IpAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reports of every epoch to NATS JetStream ([reports](report.md)); needs `nats.servers` only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The connection.
    pub nats: Nats,
    /// Most flows in a report, those with the most packets, 0 to 100; default 10.
    #[serde(default = "top_flows")]
    #[schemars(range(max = 100))]
    pub top_flows: u32,
    /// Memory in KiB for reports that no server has taken yet, 64 to 1,048,576; default 16,384. When it is full the oldest
    /// are dropped, and counted.
    #[serde(default = "spool_kib")]
    #[schemars(range(min = 64, max = 1_048_576))]
    pub spool_kib: u32,
}

/// A connection to NATS. Files with secrets may be readable by their owner and group only; they are read once, at start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Nats {
    /// Servers of one cluster, 1 to 16: `nats://host:4222`, or `tls://host:4222` where TLS is demanded.
    #[schemars(length(min = 1, max = 16))]
    pub servers: Vec<String>,
    /// File of the certificates (PEM) that the servers' are checked against; none: those of the system.
    pub ca_file: Option<PathBuf>,
    /// File of the certificate (PEM) that is shown to servers which ask for one; with `key_file`.
    pub cert_file: Option<PathBuf>,
    /// File of its key (PEM), a secret.
    pub key_file: Option<PathBuf>,
    /// File of credentials (`.creds`: JWT and seed), a secret. At most one of `credentials_file`, `nkey_file`, `token_file`
    /// and `user`.
    pub credentials_file: Option<PathBuf>,
    /// File of an nkey's seed in one line, a secret.
    pub nkey_file: Option<PathBuf>,
    /// File of a token in one line, a secret.
    pub token_file: Option<PathBuf>,
    /// A user's name; with `password_file`.
    pub user: Option<String>,
    /// File of the user's password in one line, a secret.
    pub password_file: Option<PathBuf>,
    /// Whether a password or a token may be sent unencrypted to another machine: to `nats://` without `ca_file`, where anyone on
    /// the path can read it; default false.
    pub insecure: bool,
}

fn top_flows() -> u32 {
    10
}

fn spool_kib() -> u32 {
    16_384
}

impl Nats {
    /// A connection to these servers, without credentials.
    pub fn to(server: impl Into<String>) -> Self {
        Self {
            servers: vec![server.into()],
            ..Self::default()
        }
    }

    /// Returns the first key that no connection can be made with, its expected value, and its value.
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
