//! Measurement state packets (MSPs, MPLANE section VI): what a switch reports of its epochs over NATS JetStream.
//!
//! ```text
//!  control::published --snapshot--> compose --Report--> msp (protobuf) --> spool (bounded) --> sender --> JetStream
//!                                                        ^                                       |
//!                            vernier-station: decode ----+               connection, subject <---+
//! ```
//!
//! What it is not: it measures nothing, and neither workers nor control core wait for it.
#![forbid(unsafe_code)]

pub mod compose;
pub mod connection;
pub mod msp;
pub mod sender;
mod spool;
pub mod subject;
