//! The configuration of a station, in JSON.

use std::net::{SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};

use contract::config::document::{self, Check, Invalid, KeyPath, ensure};
use contract::config::{ConfigError, Http, Nats};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use topology::ospf::database::Names;
use topology::ospf::deserialize_server;
use topology::source::Source;

/// The configuration of a station. Only `nats.servers` is required. All stations of one NATS must have the same
/// `reports`, `history` and `replicas`.
#[derive(Debug, Clone, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The connection, as in a switch's `report.nats`.
    pub nats: Nats,
    /// HTTP server for answers, configured like a switch's; default `127.0.0.1:9465`.
    #[default(Http { listen: Some(SocketAddr::from(([127, 0, 0, 1], 9465))), ..Http::default() })]
    pub http: Http,
    /// File of the topology: JSON, Rocketfuel or GML, as read by `vernier plan`; routers are switches of the same name.
    /// If omitted, the topology follows from the reports: switches, the wires between them, and LLDP neighbours.
    pub topology: Option<PathBuf>,
    /// Alternative to `topology`: FRR's ospfd on a router of the area, which is followed live. The IPv4 address of its
    /// API, and its port if that is not 2607.
    #[serde(deserialize_with = "deserialize_server")]
    pub ospf: Option<SocketAddrV4>,
    /// With `ospf`, names of routers by their ids: names of switches, or of probers' nodes.
    pub names: Names,
    /// Paths with their own series on the page for Prometheus, at most 64; default none.
    #[schemars(length(max = 64))]
    pub paths: Vec<Ends>,
    /// Memory in MiB for the history, 1 to 1,048,576; default 256. The oldest minutes are evicted first.
    #[schemars(range(min = 1, max = 1_048_576))]
    #[default = 256]
    pub memory_mib: u32,
    /// Number of segments with histories at this station, used to find rises of delay and loss, 0 to 10,000,000;
    /// default 20,000. Each takes about 16 KiB; a station has the histories of its partitions. 0 turns histories off.
    #[schemars(range(max = 10_000_000))]
    #[default = 20_000]
    pub located_segments: u32,
    /// Switches whose last values JetStream and the stations keep, 1 to 1,000,000; default 10,000. Beyond it, the
    /// switch that has been silent the longest is forgotten.
    #[schemars(range(min = 1, max = 1_000_000))]
    #[default = 10_000]
    pub switches_max: u32,
    /// MiB that JetStream keeps of all stations' histories of segments, 16 to 16,777,216; default 512. About 10 KiB a
    /// segment.
    #[schemars(range(min = 16, max = 16_777_216))]
    #[default = 512]
    pub located_mib: u32,
    /// How long JetStream keeps reports, and how many MiB; default 24 hours, 2,048 MiB.
    #[default(Kept { hours: 24, mib: 2_048 })]
    pub reports: Kept,
    /// Reports of one switch that JetStream keeps, 100 to 10,000,000; default 100,000. The oldest is dropped first, so
    /// that a switch that floods takes no room from others.
    #[schemars(range(min = 100, max = 10_000_000))]
    #[default = 100_000]
    pub messages_per_switch: u32,
    /// How long JetStream keeps minutes, and how many MiB; default 168 hours, 4,096 MiB. A switch that has been silent
    /// for so long is forgotten.
    #[default(Kept { hours: 168, mib: 4_096 })]
    pub history: Kept,
    /// Replicas of each stream, 1 to 5; default 1. 3 need a cluster.
    #[schemars(range(min = 1, max = 5))]
    #[default = 1]
    pub replicas: u32,
}

/// The ends of a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// A switch, `edge-1`, or its port, `edge-1:lan`.
    pub from: String,
    /// A switch or its port, likewise.
    pub to: String,
    /// Only segments of this class; by default all classes joined.
    pub class: Option<String>,
}

/// Limits of a stream. The oldest messages are dropped as soon as either limit is reached.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Hours, 1 to 100,000.
    #[schemars(range(min = 1, max = 100_000))]
    pub hours: u32,
    /// MiB, 16 to 16,777,216.
    #[schemars(range(min = 16, max = 16_777_216))]
    pub mib: u32,
}

impl Settings {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// If the file is not a valid configuration, with line and key, or a value is out of range.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        document::load(file, Self::check)
    }

    /// Creates the settings for a station without a file.
    pub fn of(nats: Nats) -> Self {
        Self {
            nats,
            ..Self::default()
        }
    }

    /// Returns the source of the topology, unless it follows from the reports.
    pub fn source(&self) -> Option<Source> {
        let ospf = |server| Source::ospf(server, self.names.clone(), None);
        let file = || self.topology.clone().map(Source::file);
        self.ospf.map(ospf).or_else(file)
    }

    /// Returns the MiB for the last values of all switches: 16 KiB each, enough for a hundred segments; at least 64.
    pub(crate) fn states_mib(&self) -> u32 {
        (self.switches_max / 64).max(64)
    }

    /// Checks every range, and keys that depend on each other.
    ///
    /// # Errors
    /// [`Faults`](document::Faults): the keys, and the expected values.
    pub fn check(&self) -> Check {
        let root = KeyPath::default();
        if let Some((key, expected, got)) = self.nats.fault() {
            return ensure(false, root.key("nats").key(key), expected, got);
        }
        document::ranges(self)?;
        document::http(&root.key("http"), &self.http)?;
        let said = |path, words: String| Err(Invalid::said(path, words).into());
        if self.topology.is_some() && self.ospf.is_some() {
            return said(root, "expected either `topology` or `ospf`".to_owned());
        }
        if !self.names.is_empty() && self.ospf.is_none() {
            let path = root.key("names");
            return said(path, "expected with `ospf` only".to_owned());
        }
        for (n, ends) in self.paths.iter().enumerate() {
            if self.paths[..n].contains(ends) {
                let Ends { from, to, .. } = ends;
                let path = root.key("paths").index(n);
                return said(path, format!("{from} > {to} is listed twice"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_which_key_and_what_was_expected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("station.json");
        let load = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Settings::load(&file)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        load(r#"{"nats": {"servers": ["nats://a"]}, "replicas": 3}"#).unwrap();
        for (text, expected) in [
            (
                r#"{"nats": {"servers": []}}"#,
                "nats.servers: expected 1 to 16",
            ),
            (
                r#"{"nats": {"servers": ["nats://a"]}, "replicas": 9}"#,
                "replicas: expected 1 to 5, got 9",
            ),
            (
                r#"{"nats": {"servers": ["nats://a"]}, "hours": 9}"#,
                "hours: expected one of the keys history, http",
            ),
            (
                r#"{"nats": {"servers": ["nats://a"]}, "topology": "a.json", "ospf": "127.0.0.1:2607"}"#,
                "either `topology` or `ospf`",
            ),
            (
                r#"{"nats": {"servers": ["nats://a"]}, "names": {"10.0.0.1": "a"}}"#,
                "names: expected with `ospf` only",
            ),
            (
                r#"{"nats": {"servers": ["nats://a"]}, "paths": [{"from": "a", "to": "b"}, {"from": "a", "to": "b"}]}"#,
                "paths[1]: a > b is listed twice",
            ),
            (
                r#"{"nats": {"servers": ["nats://a"]}, "http": {"listen": "0.0.0.0:1"}}"#,
                "http.listen: expected",
            ),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
