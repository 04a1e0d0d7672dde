//! The system's clock, and how good it is: workers read TAI from the line that is drawn here
//! ([`SharedLine`]).

mod discipline;
mod tai;

use contract::wire::clock::{SharedLine, TaiLine};

pub use discipline::{Discipline, ErrorSource, KernelClock};
pub use tai::{ClockSource, ClockStatus, SystemTime, TaiClock};

#[cfg(test)]
mod tests;
