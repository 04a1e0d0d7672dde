//! Reports of benchmarks: every page in `benches/results` is made of these parts.
//!
//! ```text
//! samples --statistics--> figures --number--> Table (Markdown)
//!                            |
//!                            +--limit--> Checks (kept or missed, a verdict line) --> exit code
//!
//! machine   where the figures come from, and their commit
//! results   the page and the JSON file
//! ```
#![forbid(unsafe_code)]

mod limit;
mod machine;
mod number;
mod results;
pub mod statistics;
mod table;

pub use limit::{Check, Checks, Limit};
pub use machine::{BUILD, Machine, now_utc, output_of};
pub use number::{given, significant};
pub use results::{RESULTS, write, write_page};
pub use table::Table;
