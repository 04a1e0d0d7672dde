//! What Vernier's data plane and control core share.
//!
//! ```text
//!    data plane (switch)                                     control core (control)
//!    worker --- counters (atomics) ------------------------> reads
//!    worker --- handover: sealed shards, new flows --------> merges
//!           <-- handover: empty shards, flow commands ------
//!    worker --- wire::handover: shards, heard frames ------> pairs epochs
//!           <-- wire::handover: frames to send, sessions ---
//!    worker <-- wire::clock: the line that TAI is read by -- draws it
//!    worker --- lldp: the last frame of each port ---------> reads who the neighbour is
//!    worker <-> fdb: what stations were learned where <----> its master copy
//!    change: another generation of what is measured -------> takes it, or refuses it
//!
//!    config: the one description of a switch that both are built from; check: what it would use
//! ```
//!
//! Every ring has a bound, one writer and one reader; nobody waits for the other side.
//!
//! What it is not: it knows no DPDK, serves nothing and estimates nothing.
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
