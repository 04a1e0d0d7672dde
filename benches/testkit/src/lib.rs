//! What the benches share, and no more:
//!
//! - [`process`]: child processes that end with their owner, and waiting that the user can interrupt.
//! - [`pcap`]: captures, written and read.
//! - [`frames`]: which frames are control frames.
//! - [`transits`]: the record of the impairment box.
//!
//! What it is not: it measures nothing and prints nothing.
#![forbid(unsafe_code)]

pub mod frames;
pub mod pcap;
pub mod process;
pub mod transits;
