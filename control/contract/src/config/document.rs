//! What reads any JSON configuration of ours: text to a value, checks, and errors that say where. The switch's own
//! configuration is read by it, and that of other programs.
//!
//! [`read_file`], then [`parse_json`], then checks that return [`Invalid`], which [`value_error`] places in the text.

pub use super::parse::{parse_json, read_file, value_error};
pub use super::validate::{
    Check, Faults, Invalid, KeyPath, all, count_within, ensure, http, name, suggestion, unique,
    within,
};
