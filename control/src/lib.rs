//! Vernier's control core: turns what the workers measured into published answers.
//!
//! ```text
//!                         data plane (package switch)
//!       counters |         | sealed shards       ^ empty shards
//!      (atomics) |         v                     |
//!  +-------------v---------------------------------------------+
//!  | core:  handover --> merge over workers --> estimate       |   one thread, never waited for
//!  +------------------------------+----------------------------+
//!                                 v
//!                     one published snapshot per epoch
//!          +----------------+-----+----------+----------------+
//!          v                v                v                v
//!  export::prometheus   http (JSON)   view (plain text)   top (terminal)
//!                           ^
//!                           +-- client <-- cli: the command line tool, vernier
//! ```
//!
//! Every view reads the same immutable [`snapshot::Snapshot`], so all of them agree. [`config`] is
//! the one description of a switch that data plane and control core are built from, and [`check`]
//! says what it would use.
//!
//! What it is not: it touches no packet, knows nothing of DPDK (it builds and tests without), and
//! no worker ever waits for it: when it is late, epochs go unmeasured and are counted.
#![forbid(unsafe_code)]

mod background;
pub mod check;
pub mod cli;
pub mod client;
pub mod config;
pub mod contain;
pub mod core;
pub mod counters;
pub mod data_plane;
pub mod decode;
#[cfg(test)]
mod documents;
mod estimate;
pub mod export;
pub mod fdb;
mod file;
pub mod flows;
pub mod handover;
pub mod history;
pub mod http;
mod merge;
mod secret;
pub mod snapshot;
mod sync;
pub mod top;
pub mod units;
pub mod view;
pub mod wire;

pub use secret::SecretAccess;
