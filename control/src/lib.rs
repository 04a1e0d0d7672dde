//! Vernier's control core: turns sealed synopses into published answers.
#![forbid(unsafe_code)]

pub mod check;
pub mod config;
pub mod core;
pub mod counters;
mod estimate;
pub mod export;
pub mod handover;
pub mod http;
mod merge;
pub mod snapshot;
pub mod top;
pub mod units;
pub mod view;
