//! Vernier's control core: turns sealed synopses into published answers.
#![forbid(unsafe_code)]

pub mod config;
pub mod counters;
pub mod handover;
