//! Vernier's answers over HTTP: JSON and Prometheus' text, made from the published snapshot.
//!
//! ```text
//!  control::published::Published --> http (JSON: records::answers) <-- command line, browsers, scripts
//!                                    prometheus (/metrics)         <-- Prometheus
//!                                    process (the process's own metrics)
//!  threads that log ----------------> log (the programs' log, which never blocks them)
//! ```
//!
//! It does not change the switch, except to request a reload.
#![forbid(unsafe_code)]

pub mod http;
pub mod log;
pub mod process;
pub mod prometheus;
