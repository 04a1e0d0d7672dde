//! Measurement state packets (MSPs, MPLANE section VI): reports of a switch's or prober's epochs over NATS JetStream.
//!
//! ```text
//!  control::published --snapshot--> compose --+
//!                      another sender::Reporter --Report--> msp (protobuf) --> spool (bounded) --> sender --> JetStream
//!                                                             ^                                       |
//!                                 vernier-station: decode ----+               connection, subject <---+
//! ```
//!
//! It does not measure anything, and never blocks workers or control core.
#![forbid(unsafe_code)]

pub mod client;
pub mod compose;
pub mod connection;
pub mod msp;
pub mod sender;
pub mod subject;

pub use records::float;
pub use records::names::Names;
