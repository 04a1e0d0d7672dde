//! IPFIX (RFC 7011): exports a switch's flows and segments to a collector, over UDP or TCP.
//!
//! ```text
//!  control::published --snapshot--> compose: what was counted since --Record--> encoder: messages --> link: UDP, TCP
//!                                               element: ids, types, names         |
//!                                   exporter: a thread, when what is due ----------+
//! ```
//!
//! It does not measure or queue anything, and never blocks workers or control core. A collector that is down or slow
//! gets fewer records, each covering more epochs.
//!
//! Messages are encoded here, in some 150 lines. The best-maintained crate, `netgauze-flow-pkt`, generates a type for
//! every element of the registries of IANA and four vendors at build time, depends on an HTTP client, and encodes a
//! record field by field.
#![forbid(unsafe_code)]

mod compose;
mod element;
mod encoder;
mod exporter;
#[cfg(test)]
#[path = "../tests/reader/mod.rs"]
mod reader;

pub use exporter::{Running, start};
