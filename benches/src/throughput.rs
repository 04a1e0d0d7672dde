//! Throughput beside peers: who forwards how many packets a second, in turn, on the same CPU, from
//! the same captures.

pub mod bench;
pub mod contender;
pub mod hugepages;
pub mod load;
pub mod ovs;
pub mod plan;
pub mod plugin;
pub mod process;
pub mod profile;
pub mod report;
pub mod rounds;
pub mod steps;
pub mod testpmd;
pub mod vernierd;
