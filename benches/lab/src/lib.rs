//! What the benchmarks of throughput and the microbenchmarks share.
//!
//! ```text
//! vernier-lab bench throughput | plugin | steps | profile | scrape
//!   testpmd, Open vSwitch and vernierd, each run in a process of its own, alternating
//!   captures ([`capture`]) -> net_pcap -> contender -> rate; medians of the rounds' ratios, limits
//!
//! cargo bench -p lab
//!   pieces of the fast path ([`fastpath`]): nanoseconds, and instructions by callgrind
//! ```
//!
//! Machines are noisy and shared, so nothing here compares a figure with one of another day: a limit
//! is on the ratio of two runs of the same round.
#![forbid(unsafe_code)]

pub mod capture;
pub mod fastpath;
