//! Benchmarks of Vernier beside its peers.
//!
//! ```text
//! vernier-bench throughput | plugin | steps | profile | scrape
//!   capture     files of frames, which net_pcap replays without end
//!   throughput  testpmd, Open vSwitch and vernierd, each run in a process of its own, in turn;
//!               medians of the rounds' ratios, limits; benches/results/throughput.{md,json};
//!               testpmd and Open vSwitch with the plugin; benches/results/plugin.{md,json}
//!   scrape      what a large scrape costs; benches/results/scrape.md
//!   machine     where and of what the figures are
//! ```
//!
//! Machines are noisy and shared, so nothing here compares a figure with one of another day: what
//! is held against a limit is the ratio of two runs of the same round.
//!
//! Microbenchmarks are in `benches/` (`make bench-micro`); what they time and count is in
//! [`fastpath`].
#![forbid(unsafe_code)]

pub mod capture;
pub mod fastpath;
pub mod machine;
pub mod scrape;
pub mod throughput;
pub mod wire;
