//! Documents that are made from the code: written, or compared. Tests of other packages in such a folder include this file.

use std::path::{Path, PathBuf};

/// The environment variable by which tests write documents instead of comparing them.
const WRITE: &str = "VERNIER_WRITE_DOCS";

/// A file of the project.
pub fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// Writes a document, or compares the existing one with its expected text.
pub fn keep(path: &str, wanted: &str) {
    let file = project(path);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(file, wanted).unwrap();
        return;
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    let differs = wanted
        .lines()
        .zip(found.lines().chain([""].into_iter().cycle()));
    let differs = differs
        .enumerate()
        .find(|(_, (wanted, found))| wanted != found);
    if let Some((line, (wanted, found))) = differs {
        let line = line + 1;
        panic!(
            "{path}:{line} is not current; `make docs` renews it\n  has   {found}\n  wants {wanted}"
        );
    }
    assert_eq!(
        wanted, found,
        "{path} is not current; `make docs` renews it"
    );
}
