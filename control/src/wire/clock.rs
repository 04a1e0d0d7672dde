//! The system's clock, and how good it is: what the line is drawn by that workers read TAI from
//! ([`SharedLine`]).

mod discipline;
mod tai;

use contract::wire::clock::{SharedLine, TaiLine};

pub use discipline::{Discipline, KernelClock};
pub use tai::{ClockSource, ClockStatus, SystemTime, TaiClock};

#[cfg(test)]
mod tests;
