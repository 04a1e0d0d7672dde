//! Latency synopses and estimators: pure algorithms, no DPDK, no I/O.
#![deny(unsafe_code)]

pub mod histogram;
pub mod lda;
pub mod moments;
pub mod packet;
pub mod shard;
pub mod sight;
pub mod synopsis;
pub mod time;
