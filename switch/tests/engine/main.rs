//! The engine: packets through workers, ports in memory or DPDK's virtual devices, counted exactly.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod address_flood;
mod around;
mod changes;
mod classes;
mod flooding;
mod forwarding;
mod losses;
mod memory;
mod odd_frames;
mod references;
mod renumbered_segments;
mod skewed_counters;
mod soak;
mod two_workers;
mod vlan_stacks;
mod wire;
