//! STAMP, the Simple Two-way Active Measurement Protocol (RFC 8762, RFC 8972): session-sender and session-reflector.
//!
//! ```text
//!  config --> engine: one thread, all sockets
//!               |-- session   (x thousands) requests, replies, intervals --> result::SessionResult --> published::Outlet
//!               |-- reflector (bounded tables) replies in place
//!               wire: packets, TLVs, HMACs, timestamps       socket: UDP with the kernel's timestamps
//!             published --> http: JSON, Prometheus            reporting --> report: NATS JetStream
//!             mset: file or OSPF --> topology --> sessions that come and go
//! ```
//!
//! Sessions and reflector have neither sockets nor clocks, so that tests can set the time.
//!
//! This crate knows nothing of switches and does not locate anything.
#![forbid(unsafe_code)]

pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod engine;
pub mod http;
pub mod metrics;
pub mod mset;
pub mod opener;
pub mod published;
pub mod reflector;
pub mod reporting;
pub mod result;
pub mod send_faults;
pub mod session;
pub mod socket;
mod table;
pub mod wire;
