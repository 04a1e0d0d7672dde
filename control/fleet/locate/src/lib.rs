//! Localisation: which segment of a path accounts for a rise of its delay or loss, and from when.
//!
//! ```text
//!  Report (a segment, an interval) --> Locator --> Segment: History, rises of delay and loss --> Finding
//!                                         \--> explain(a path's segments, end to end) --> PathBlame
//! ```
//!
//! Pure: no I/O, no clock; every report carries its time. Memory is bounded by the number of segments (about 16 KiB
//! each). Whether a change counts as a rise depends on each segment's own history and on the number of segments, so
//! that false alarms are rare over all of them; there is no threshold to set. For the method and its accuracy, see
//! docs/localisation.md.
#![forbid(unsafe_code)]

mod explain;
mod history;
mod locator;
mod report;
mod rise;
mod segment;

pub use explain::{Hop, Member, explain};
pub use locator::{Locator, MemoryError, PART_MAX};
pub use report::{BOUND_ERRORS, Finding, Found, Report, Rise, Signal, fault, seconds};
