//! Offers traffic to a switch and sees what comes back.
//!
//! ```text
//!  vernier-pktgen, one thread on one CPU            the switch
//!   frames --> pace --> wire a  ---- memif or NIC ---->  port
//!   counts, delays of probes <-- wire b <--------------  port
//! ```
//!
//! - [`frames`]: what is sent, made once from a `generate:` source; every n-th frame is a probe
//!   that carries its time of sending.
//! - [`wire`]: two ports, a side each; real ones, or a model in tests.
//! - [`trial`]: one rate for a while, counted exactly.
//! - [`search`]: the highest rate within a loss limit, in the manner of RFC 2544 section 26.1.
//! - [`dut`]: a `vernierd` of one's own over `net_memif`.
//!
//! What it is not: a hardware tester. Sender and receiver share a clock and a core, and on a machine
//! where others run as well, losses and tails are theirs as much as the switch's.
#![forbid(unsafe_code)]

pub mod dut;
pub mod frames;
pub mod report;
pub mod search;
pub mod trial;
pub mod wire;
