//! How answers are served.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FlowRule;

/// The HTTP server: Prometheus and JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address and port, loopback unless you mean it; none: no server.
    pub listen: Option<SocketAddr>,
    /// File with the token (one line, 16 characters at least) that clients have to show as
    /// `Authorization: Bearer <token>`. An address that is not loopback needs one.
    pub token_file: Option<PathBuf>,
    /// Serve anyone who can reach the address, without a token.
    pub insecure: bool,
    /// Names by which clients without a token may ask (the header `Host`), besides addresses and
    /// `localhost`: at most 64. Prometheus asks by the name in its `targets`.
    #[schemars(length(max = 64), inner(regex(pattern = "^[A-Za-z0-9._-]+$")))]
    pub hosts: Vec<String>,
}

/// What is written for Prometheus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prometheus {
    /// Most flows with series of their own, 0 to 1,000, default 50; all others are folded into one
    /// series of each segment, `flow="other"`.
    #[schemars(range(max = 1_000))]
    pub top_flows: u32,
    /// Seconds for which a flow keeps its series at least, 1 to 86,400, default 120.
    #[schemars(range(min = 1, max = 86_400))]
    pub top_hold_s: u32,
    /// Flows that have series of their own before others, at most 256 rules.
    #[schemars(length(max = 256))]
    pub pinned: Vec<FlowRule>,
    /// Names of the metrics that are written, with `*` for any characters; none: all. At most 64.
    #[schemars(length(max = 64), inner(regex(pattern = "^[A-Za-z0-9_:*]+$")))]
    pub include: Vec<String>,
    /// Names of metrics that are not written, likewise.
    #[schemars(length(max = 64), inner(regex(pattern = "^[A-Za-z0-9_:*]+$")))]
    pub exclude: Vec<String>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 9464))),
            token_file: None,
            insecure: false,
            hosts: Vec::new(),
        }
    }
}

impl Default for Prometheus {
    fn default() -> Self {
        Self {
            top_flows: 50,
            top_hold_s: 120,
            pinned: Vec::new(),
            include: Vec::new(),
            exclude: Vec::new(),
        }
    }
}
