//! What Vernier publishes: plain data with serde, read by every view.
//!
//! ```text
//!  control core -- publishes --> snapshot::Snapshot (with history::History of each segment)
//!                                    |
//!            +-----------------------+----------------------+
//!            v                                              v
//!   answers: JSON of the HTTP paths (to a query)   Prometheus (package api)
//!            |
//!            v
//!   command line and live table (package console)
//! ```
//!
//! It does not estimate, serve or draw anything.
#![forbid(unsafe_code)]

pub mod answers;
pub mod history;
pub mod names;
pub mod query;
pub mod snapshot;
pub mod station;

/// Rounds a figure to seven digits for reports and stations.
#[expect(
    clippy::cast_possible_truncation,
    reason = "digits beyond the seventh are left out"
)]
pub fn float(value: f64) -> f32 {
    value as f32
}
