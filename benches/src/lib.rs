//! Benchmarks of Vernier beside its peers.
//!
//! ```text
//! vernier-bench throughput
//!   capture     two files of 64-byte frames, which net_pcap replays without end
//!   hugepages   memory for every contender alike, given back at the end
//!   contender   testpmd and vernierd: one run of each, in a process of its own
//!   throughput  rounds in turn, medians of the rounds' ratios, limits
//!   report      the table, benches/results/throughput.{md,json}
//!
//! vernier-accuracy tables | dump | decode | lda | rli
//!   accuracy    every method against exact truth; CSV files in and out
//!   machine     where and of what the figures are
//! ```
//!
//! Machines are noisy and shared, so nothing here compares a figure with one of another day: what
//! is held against a limit is the ratio of two runs of the same round.
//!
//! Microbenchmarks are in `benches/` (`make bench-micro`); what they time and count is in
//! [`fastpath`].
#![forbid(unsafe_code)]

pub mod accuracy;
pub mod capture;
pub mod contender;
pub mod fastpath;
pub mod hugepages;
pub mod machine;
pub mod report;
pub mod throughput;
