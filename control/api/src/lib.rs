//! Vernier's answers over HTTP: JSON and Prometheus' text, made from the published snapshot.
//!
//! ```text
//!  control::published::Published --> http (JSON: records::answers) <-- command line, browsers, scripts
//!                                    prometheus (/metrics)         <-- Prometheus
//!                                    process (the process's own metrics)
//!  threads that log ----------------> log (the programs' log, which nobody waits for)
//! ```
//!
//! What it is not: it changes nothing in the switch, except that a reload may be requested.
#![forbid(unsafe_code)]

pub mod http;
pub mod log;
pub mod process;
pub mod prometheus;
