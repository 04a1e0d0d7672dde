//! `librte_vernier.so`: measures the ports of any DPDK program, unmodified.
//!
//! EAL loads it (`-d FILE`), which runs its constructor. The constructor starts a thread that waits until the program
//! has configured a port, and then registers callbacks for all packets that receive queues return and that are offered
//! to transmit queues:
//!
//! ```text
//!  the program's threads                                     ours, off the program's CPUs
//!  rte_eth_rx_burst ── Arrivals: parse, hash, stamp          vernier-plugin: control core
//!        ... the program ...                                   HostDataPlane: ports, queues, plans
//!  rte_eth_tx_burst ── Departures: stamp off, record            for idle queues
//!                        one shard for each queue ── sealed ──> epochs, estimates ── vernier-http
//! ```
//!
//! The stamp consists of 24 bytes in the mbuf and a flag, which shows that they are valid. A copy has the same stamp as
//! its packet. The stamp is removed when the packet is recorded, so that a packet that is offered again counts once.
//! Packets that are offered are not always sent; only the driver knows, but it cannot be asked safely, because it may
//! be about to be removed ([`dpdk_bindings::Host`]).
//!
//! It cannot stop the program: on the program's threads it never waits and allocates no memory. It catches its own
//! panics, and then disables itself with one line in DPDK's log.

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

/// Tables of many megabytes are on huge pages, wherever they are allocated.
#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

// Unit tests are host programs themselves.
#[cfg(not(test))]
dpdk_bindings::plugin!(start::start);
