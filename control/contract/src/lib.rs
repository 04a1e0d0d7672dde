//! Types shared by Vernier's data plane and control core.
//!
//! ```text
//!    data plane (switch)                                     control core (control)
//!    worker --- counters (atomics) ------------------------> reads
//!    worker --- handover: sealed shards, new flows --------> merges
//!           <-- handover: empty shards, flow commands ------
//!    worker --- wire::handover: shards, heard frames ------> pairs epochs
//!           <-- wire::handover: frames to send, sessions ---
//!    worker <-- wire::clock: the line to read TAI by --------- draws it
//!    worker --- lldp: the last frame of each port ---------> reads the neighbour's name
//!    worker <-> fdb: stations and their ports <------------> its master copy
//!    change: another generation -------------------------> accepts or rejects it
//!
//!    config: the description of a switch that both are built from; check: the resources it would use
//! ```
//!
//! Every ring is bounded, with one writer and one reader; neither side waits for the other.
//!
//! It does not know DPDK, serve or estimate anything.
#![forbid(unsafe_code)]

pub mod address;
pub mod change;
pub mod check;
pub mod config;
pub mod counters;
pub mod fdb;
pub mod file;
pub mod handover;
pub mod ids;
pub mod limits;
pub mod lldp;
pub mod metric;
pub mod secret;
pub mod sync;
pub mod text;
pub mod units;
pub mod wire;

pub use measure::labelled_enum;
