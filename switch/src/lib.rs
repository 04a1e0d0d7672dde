//! Vernier's data plane: the engine and its parts.
//!
//! ```text
//!  receive, stamp ── decide ── parse, hash, tag ── egress queue
//!    packet_io       decide     worker               egress
//!
//!  shaper ── stamp ── transmit ── record ── epochs: sealed shards to the control core
//!  egress    meter    packet_io   meter     meter
//! ```
//!
//! [`worker`] is the loop; the modules that it calls are named above. [`packet_io`] is the boundary to
//! DPDK, with a second implementation in memory on which everything is tested exactly. [`wiring`]
//! makes devices and workers from a configuration; package `daemon` runs them, and [`reconfigurer`]
//! changes them while packets flow.
//!
//! It is not a router, a firewall or a protocol stack: a frame leaves unchanged, or is a counted drop with
//! a named reason.
#![forbid(unsafe_code)]

pub mod classify;
pub mod decide;
pub mod departing;
pub mod egress;
pub mod flows;
pub mod generation;
pub mod idle;
pub mod meter;
pub mod packet_io;
pub mod preflight;
pub mod reconfigurer;
pub mod references;
pub mod source;
pub mod wire;
pub mod wiring;
pub mod worker;
