//! Reports of benchmarks: the parts of every page in `benches/results`.
//!
//! ```text
//! samples --statistics--> figures ----------> Table (Markdown)
//!                            |
//!                            +--limit--> Checks (kept or missed, a verdict line) --> exit code
//!
//! machine   where the figures come from, and their commit
//! write     the page and the JSON file
//! ```
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

mod limit;
mod machine;
pub mod statistics;
mod table;

pub use limit::{Check, Checks, Limit};
pub use machine::{BUILD, Machine, now_utc, output_of};
pub use statistics::{given, significant};
pub use table::Table;

/// Folder of the results of all benches.
pub const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../results");

/// Writes `name.md` for people and `name.json` for programs into `folder`, which is created if necessary.
///
/// # Errors
/// When a file cannot be written.
pub fn write(folder: &Path, name: &str, page: &str, data: &impl Serialize) -> Result<()> {
    write_page(folder, name, page)?;
    let json = serde_json::to_string_pretty(data)?;
    write_file(&folder.join(format!("{name}.json")), &(json + "\n"))
}

/// Writes `name.md` alone.
///
/// # Errors
/// When the file cannot be written.
pub fn write_page(folder: &Path, name: &str, page: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    write_file(&folder.join(format!("{name}.md")), page)
}

fn write_file(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        write(&inner, "a.b", "# Page\n", &[1, 2]).unwrap();
        let read = |name: &str| fs::read_to_string(inner.join(name)).unwrap();
        assert_eq!(read("a.b.md"), "# Page\n");
        assert_eq!(read("a.b.json"), "[\n  1,\n  2\n]\n");
        let error = write_page(&inner.join("a.b.md"), "x", "").unwrap_err();
        assert!(error.to_string().starts_with("cannot create"), "{error}");
    }
}
