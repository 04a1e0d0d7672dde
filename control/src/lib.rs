//! Vernier's control core: computes what is published from the workers' measurements.
//!
//! ```text
//!                         data plane (package switch)
//!       counters |         | sealed shards       ^ empty shards
//!      (atomics) |         v                     |
//!  +-------------v---------------------------------------------+
//!  | core:  handover --> merge over workers --> estimate       |   one thread; nothing waits for it
//!  +------------------------------+----------------------------+
//!                                 v
//!                published: one snapshot (package records) per epoch
//!                                 |
//!          HTTP and Prometheus (package api), terminal (package console)
//! ```
//!
//! It does not touch packets or know DPDK (it builds and tests without), and no worker ever waits for it:
//! if it is late, epochs are not measured, and are counted.
#![forbid(unsafe_code)]

mod background;
pub mod contain;
pub mod core;
pub mod data_plane;
pub mod decode;
mod estimate;
pub mod flows;
mod merge;
pub mod published;
pub mod running;
pub mod wire;
