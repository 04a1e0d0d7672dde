//! Reports: who says it, and to whom.

use contract::config::document::{Check, KeyPath, ensure, name, within};
use contract::config::{self, Nats};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest name of a node or a prober.
const NAME_MAX: usize = 64;

/// What the name of a prober is that has none of its own: its node's with this at the end, as a switch may have the node's.
const SUFFIX: &str = ".probe";

/// Reports of every interval to NATS JetStream; needs `nats.servers` only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportConfig {
    /// Name of the node where this prober stands: of the switch there, or of the router in the topology. `None`: the host's name.
    #[serde(default)]
    pub node: Option<String>,
    /// Name that no other prober and no switch reports under. `None`: the node's, with `.probe` at the end.
    #[serde(default)]
    pub name: Option<String>,
    /// The connection, as a switch's.
    pub nats: Nats,
    /// Memory in KiB for reports that no server has taken yet, 64 to 1,048,576; default 16,384.
    #[serde(default = "spool_kib")]
    pub spool_kib: u32,
}

fn spool_kib() -> u32 {
    16_384
}

/// The host's name.
pub(super) fn host() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

impl ReportConfig {
    /// Where this prober stands.
    pub fn node(&self) -> String {
        self.node.clone().unwrap_or_else(host)
    }

    /// The name that it reports under.
    pub fn name(&self) -> String {
        let of_node = || format!("{}{SUFFIX}", self.node());
        self.name.clone().unwrap_or_else(of_node)
    }

    /// As the sender takes it.
    pub fn settings(&self) -> config::Report {
        config::Report {
            nats: self.nats.clone(),
            top_flows: 0,
            spool_kib: self.spool_kib,
        }
    }

    /// Checks names, connection and spool; `timeout_ms` is the longest of a session, and holds reports up.
    pub(super) fn check(&self, path: &KeyPath, interval_ms: u64, timeout_ms: u64) -> Check {
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
