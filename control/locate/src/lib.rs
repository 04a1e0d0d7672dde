//! Localisation: which segment of a path accounts for a rise of its delay or loss, and from when.
//!
//! ```text
//!  Report (a segment, an interval) --> Locator --> Segment: History, Detector of delay, of loss --> Event
//!                                         \--> explain(a path's segments, end to end) --> Explanation
//! ```
//!
//! Pure: no I/O, no clock; every report carries its time. Memory is bounded by the number of segments (some 16 KiB each). What is a
//! change follows from each segment's own history and from the number of segments, so that false alarms are rare over
//! all of them; there is no threshold to set. How, and how well: docs/localisation.md.
#![forbid(unsafe_code)]

mod baseline;
mod clocks;
mod delay;
mod explain;
mod finding;
mod locator;
mod loss;
mod memory;
mod report;
mod segment;
mod tail;

pub use explain::{Cause, Estimate, Explanation, Hop, Member, State, Uncovered, explain};
pub use finding::{BOUND_ERRORS, Finding, Mean, Rise, Step};
pub use locator::{Locator, PART_MAX};
pub use memory::MemoryError;
pub use report::{Event, EventKind, Fault, FaultKind, Report, Signal};
