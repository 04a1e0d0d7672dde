//! An impairment box: forwards between two ports as a bad network would.
//!
//! ```text
//!            rules, the first that fits:  rewrite > loss > corruption > duplication
//!  left ---> class, hash --> arrive --------------------> rate limit > delay, jitter --> depart ---> right
//!                                 fates of what is lost         held back packets           |
//!                                        '------------------- transits ---------------------'
//!                                                                | ring
//!                                                          a thread that writes
//! ```
//!
//! - [`impairment`]: what is done to which packets, from the command line or a file.
//! - [`pipeline`]: one direction; a clock turned by hand is enough to drive it.
//! - [`rewrite`]: what a router would change.
//! - [`mutate`]: control frames made up from those seen, that must be rejected.
//! - [`flood`]: one hello, recorded and sent again as fast as the port takes it.
//! - [`record`]: what was done to each packet, written down by a thread of its own.
//! - [`bridge`]: two DPDK ports and the loop between them.
//!
//! The same seed and the same packets in the same order have the same fates. What it is not: a
//! router. It answers nothing and looks nothing up.
#![forbid(unsafe_code)]

pub mod bridge;
pub mod flood;
pub mod frame;
pub mod impairment;
pub mod mutate;
pub mod pipeline;
pub mod record;
pub mod rewrite;
