//! The command line tool `vernier` and the live table: they read the HTTP API, and draw.
//!
//! ```text
//!  HTTP API --> client --> cli: tables (view) and commands
//!                     \--> top: the live table; vernierd --live feeds it from memory
//! ```
#![forbid(unsafe_code)]

pub mod cli;
pub mod client;
pub mod top;
pub mod view;
