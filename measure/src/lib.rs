//! Latency synopses and estimators: pure algorithms, no DPDK, no I/O.
//!
//! ```text
//! frame --> packet::Hasher --> Sight --> point --> Synopsis      (per segment and worker)
//!            flow, packet      one packet           record
//!            hash, kind        at one end             |  epoch turns
//!                                                     v
//!                                                    seal --> merge (over workers) --> estimate
//!                                                     ^                                   |
//!                                                     +-- clear <--- reopen <-------------+
//! ```
//!
//! - [`packet`]: one pass over a frame yields its kind, its flow and packet hash, its flow key.
//! - [`sight`]: one packet seen at one end of a segment, 40 bytes.
//! - [`synopsis`]: what accumulates sights; five verbs: record, seal, merge, clear, encode.
//!   Synopses are linear: the sum of two is the synopsis of the union.
//! - [`lda`]: mean, deviation, interval and loss from sums at both ends, without per-packet state.
//! - [`moments`], [`histogram`]: exact figures where each packet's delay is known.
//! - [`shard`]: all of these for each segment of one worker.
//! - [`time`]: epochs and ticks.
//!
//! Recording allocates nothing, blocks on nothing and cannot fail.
//!
//! What it is not: it reads no clock, moves no packet, opens no file; it does not know which port
//! or class a segment stands for; it draws no conclusion from an estimate. The crate `switch`
//! takes the sights and the crate `control` publishes the answers.
#![deny(unsafe_code)]

pub mod cell;
pub mod chooser;
pub mod codec;
pub mod flows;
pub mod histogram;
pub mod lda;
pub mod lds;
pub mod moments;
pub mod packet;
mod prefetch;
pub mod rli;
pub mod shard;
pub mod sight;
pub mod sizing;
pub mod synopsis;
pub mod time;
