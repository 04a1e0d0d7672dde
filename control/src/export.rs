//! The published snapshot in the forms that others read.

pub mod process;
pub mod prometheus;
