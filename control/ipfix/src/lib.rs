//! IPFIX (RFC 7011): flows and segments of a switch to a collector, over UDP or TCP.
//!
//! ```text
//!  control::published --snapshot--> compose: what was counted since --Record--> encoder: messages --> link: UDP, TCP
//!                                               element: ids, types, names         |
//!                                   exporter: a thread, when what is due ----------+
//! ```
//!
//! What it is not: it measures nothing, keeps no queue, and neither workers nor control core wait for it. A collector that is
//! away or slow gets fewer records, each over more epochs.
//!
//! Messages are encoded here, in some 150 lines. `netgauze-flow-pkt`, the best kept crate, generates a type for every element of
//! IANA's and of four vendors' registries at build time, with an HTTP client among its dependencies, to encode a record field by field.
#![forbid(unsafe_code)]

mod compose;
mod element;
mod encoder;
mod exporter;
#[cfg(test)]
#[path = "../tests/reader/mod.rs"]
mod reader;

pub use exporter::{Running, start};
