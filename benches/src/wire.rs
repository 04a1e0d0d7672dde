//! What two switches say of the path between them, held against what happened to each packet.
//!
//! ```text
//!  host a -- switch 1 ---------- vernier-impair ---------- switch 2 -- host b
//!              | stamps              | passages               | stamps
//!              '------> truth: joined by packet hash <--------'
//! ```
//!
//! - [`frames`]: which frames are control frames.
//! - [`passages`]: what the box did to each packet, as it writes it down.
//! - [`stamps`]: when each switch saw each packet, as its test recorder writes it down.
//! - [`truth`]: both switches' stamps joined, by epoch and by flow.
//! - [`chance`]: how much of an epoch probability says is usable.
//! - [`testbed`]: all of it together, run after run.

pub mod chance;
pub mod frames;
pub mod passages;
pub mod stamps;
pub mod testbed;
pub mod truth;
