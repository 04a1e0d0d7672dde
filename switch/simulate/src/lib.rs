//! Switches in memory, by a clock turned by hand: the data plane's own code with no EAL, no thread and no real time.
//!
//! ```text
//!  tube   one worker: ports in memory, what a test asks of them
//!  rack   one switch: several workers by a configuration
//!  path   two switches' workers and exchanges, a path between them that a test disturbs
//! ```
//!
//! What is here is for tests: it panics where something does not hold.
#![forbid(unsafe_code)]

pub mod path;
pub mod rack;
pub mod tube;
pub mod world;
