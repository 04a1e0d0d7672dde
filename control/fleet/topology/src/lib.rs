//! Networks as the planner sees them: routers, links with weights, all shortest paths, and which routers to upgrade.
//!
//! ```text
//!  file --> read: json, rocketfuel, gml --> Topology --> Paths --> Segments of a set of m-routers
//!  ospfd --> ospf: api, lsa, database ------^               |--> plan: greedy, search, random
//!                                                          |--> mset: who monitors what; chain: segments of a path
//!                                                          \--> transition: old and new sets after a change
//! ```
//!
//! It knows nothing of a running switch, and it prints nothing; only [`ospf::client`] talks to another program, and [`source`] follows it or a file. After MPLANE (Kompella et al., "Router Support for
//! Fine-Grained Latency Measurements", ToN 2012, section VI): routers that measure (m-routers) divide the paths between all routers into segments.
#![forbid(unsafe_code)]

pub mod chain;
pub mod mset;
pub mod ospf;
pub mod paths;
pub mod plan;
pub mod read;
pub mod source;
#[cfg(test)]
mod tests;
mod topology;
pub mod transition;

pub use read::{Link, Node, Record};
pub use topology::{LINKS_MAX, ROUTERS_MAX, Role, Router, Topology, Weight};
