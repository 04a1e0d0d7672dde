//! Switches in memory, by a clock turned by hand: the data plane's own code with no EAL, no thread and no real time.
//!
//! ```text
//!  tube   one worker: ports in memory, what a test asks of them
//!  rack   one switch: several workers by a configuration
//!  path   two switches' workers and exchanges, a path between them that a test disturbs
//! ```
//!
//! What is here is for tests: it panics where something does not hold.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

pub mod fleet;
pub mod path;
pub mod rack;
pub mod tube;
pub mod world;

/// `../shared`, where third-party captures are; `None`, said aloud, where it is not. CI has it.
pub fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared")
        .join(path);
    if path.exists() {
        return Some(path);
    }
    skip(&format!("{} is not there", path.display()));
    None
}

/// Says that a test was skipped, which CI does not accept.
///
/// # Panics
/// In CI.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "not to be skipped in CI: {why}"
    );
    eprintln!("SKIPPED: {why}");
}
