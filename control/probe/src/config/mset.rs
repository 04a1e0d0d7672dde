//! The key `mset`: sessions to the members of this node's m-set.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use contract::config::document::{Check, KeyPath, ensure, name, within};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use topology::Role;
use topology::ospf::deserialize_server;

use super::check::check_target;
use super::{Address, SessionConfig};

/// Probes what the m-set of a node asks for, as it changes. Either `topology` or `ospf`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MsetConfig {
    /// The network: a file as `vernier mset` reads it. It is read again when it changes.
    #[serde(default)]
    pub topology: Option<PathBuf>,
    /// FRR's ospfd on a router of the area: the IPv4 address of its API, with its port unless that is 2607.
    #[serde(default, deserialize_with = "deserialize_server")]
    pub ospf: Option<SocketAddrV4>,
    /// Names of routers by their ids, with `ospf`.
    #[serde(default)]
    pub names: BTreeMap<Ipv4Addr, String>,
    /// With `ospf`: what this node advertises itself as, `m-server` or `m-router`. `None`: nothing.
    #[serde(default)]
    pub advertise: Option<Role>,
    /// The node whose m-set it is. `None`: that of `report`, or the host's name.
    #[serde(default)]
    pub node: Option<String>,
    /// The m-routers. `None`: those that the topology names so.
    #[serde(default)]
    pub routers: Option<Vec<String>>,
    /// Routers with an m-server. `None`: those that the topology names so or, if it names none, all that are no m-routers.
    #[serde(default)]
    pub servers: Option<Vec<String>>,
    /// Reflectors by node. With `ospf`, a node without one is reached at its router's own address (a prefix of 32 bits).
    #[serde(default)]
    pub addresses: BTreeMap<String, Address>,
    /// How long an old m-set is measured beside a new one, in s, 0 to 86,400, default 60.
    #[serde(default = "transition_s")]
    pub transition_s: u64,
    /// How each session is: the keys of `sessions` without `name`, `node` and `to`.
    #[serde(
        default = "template",
        deserialize_with = "session",
        serialize_with = "keys"
    )]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub session: SessionConfig,
}

/// Keys that each session gets by its node.
const OWN_KEYS: [&str; 3] = ["name", "node", "to"];

fn transition_s() -> u64 {
    60
}

/// With a name and an address that stand for any (RFC 5737).
fn template() -> SessionConfig {
    let to = SocketAddr::from(([192, 0, 2, 1], super::PORT));
    SessionConfig::new("mset", to.into())
}

fn session<'de, D: Deserializer<'de>>(from: D) -> Result<SessionConfig, D::Error> {
    let mut keys = serde_json::Map::deserialize(from)?;
    if let Some(key) = OWN_KEYS.iter().find(|key| keys.contains_key(**key)) {
        return Err(D::Error::custom(format!(
            "`{key}` is each node's own: leave it out"
        )));
    }
    let template = template();
    keys.insert("name".to_owned(), template.name.into());
    keys.insert("to".to_owned(), String::from(template.to).into());
    serde_json::from_value(keys.into()).map_err(D::Error::custom)
}

/// As [`session`] reads it.
fn keys<S: Serializer>(session: &SessionConfig, to: S) -> Result<S::Ok, S::Error> {
    let mut keys = serde_json::to_value(session).map_err(S::Error::custom)?;
    if let Some(keys) = keys.as_object_mut() {
        keys.retain(|key, _| !OWN_KEYS.contains(&key.as_str()));
    }
    keys.serialize(to)
}

impl MsetConfig {
    /// The session to a reflector at a node; `lane` is from 0 where there are several.
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

    /// Checks names, times, and what goes with `ospf` only.
    pub(super) fn check(&self, path: &KeyPath) -> Check {
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

    /// The template, with an address of the family that it is sent from.
    pub(super) fn example(&self) -> SessionConfig {
        let mut example = self.session.clone();
        if example.from.is_some_and(|from| from.ip.is_ipv6()) {
            example.to = SocketAddr::from((IPV6, super::PORT)).into();
        }
        example
    }
}

/// For documentation (RFC 3849).
const IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
