//! `vernierd`: assembles data plane, control core, HTTP server and live table, and reloads.
//!
//! ```text
//!  main (arguments, signals, log) -> run (devices, workers, control core, server) -> live (table)
//!                                     |
//!                                    data_plane: links, lowered ports, FDB, removals, watchdog (service)
//!                                    platform: DPDK's ports, as used by reloads
//!  main -> resources (files, addresses; machine: what is there) -> run; `--check` ends before
//! ```
//!
//! It does not forward or measure anything itself.
#![forbid(unsafe_code)]

pub mod cli;
pub mod data_plane;
mod interface_records;
pub mod live;
pub mod machine;
pub mod options;
mod platform;
pub mod privileges;
mod removals;
pub mod resources;
pub mod run;
pub mod service;
