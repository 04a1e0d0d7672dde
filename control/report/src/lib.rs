//! Measurement state packets (MSPs, MPLANE section VI): what a switch, or a prober, reports of its epochs over NATS JetStream.
//!
//! ```text
//!  control::published --snapshot--> compose --+
//!                      another sender::Reporter --Report--> msp (protobuf) --> spool (bounded) --> sender --> JetStream
//!                                                             ^                                       |
//!                                 vernier-station: decode ----+               connection, subject <---+
//! ```
//!
//! What it is not: it measures nothing, and neither workers nor control core wait for it.
#![forbid(unsafe_code)]

pub mod client;
pub mod compose;
pub mod connection;
pub mod msp;
pub mod sender;
pub mod subject;

pub use records::float;
pub use records::names::Names;
