//! `librte_vernier.so`: measures the ports of any DPDK program, unmodified.
//!
//! EAL loads it (`-d FILE`), and finds nothing of it but a constructor. That starts one thread, which
//! waits until the program has configured a port, and then shows itself all packets that receive queues
//! give and that transmit queues are offered:
//!
//! ```text
//!  the program's threads                                     ours, off the program's CPUs
//!  rte_eth_rx_burst ── Arrivals: parse, hash, stamp          vernier-plugin: control core
//!        ... the program ...                                   HostDataPlane: ports, queues, plans
//!  rte_eth_tx_burst ── Departures: stamp off, record            for queues that rest
//!                        one shard for each queue ── sealed ──> epochs, estimates ── vernier-http
//! ```
//!
//! The stamp is 24 bytes in the mbuf and a flag, which alone is proof: a copy that carries it is as
//! good as the packet, and it is taken off when the packet is recorded, so that one that is offered
//! again counts once. What is offered is not always sent. Only the driver knows, and it is not asked: it
//! may be on its way out ([`dpdk_bindings::Host`]).
//!
//! Nothing of it can stop the program: on the program's threads it never waits and takes no memory;
//! it catches its panics, and switches itself off with one line in DPDK's log.

#![cfg_attr(
    test,
    allow(dead_code, reason = "nothing starts the plugin in its unit tests")
)]

mod arrivals;
mod data_plane;
mod departures;
mod open_vswitch;
mod ports;
mod program;
mod stamp;
mod start;
mod taps;
mod telemetry;

use dpdk_bindings::HugePages;

/// Tables of many megabytes lie in huge pages, wherever they are made.
#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

// A unit test is a program of its own.
#[cfg(not(test))]
dpdk_bindings::plugin!(start::start);
