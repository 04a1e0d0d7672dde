//! Encoding is beside the algorithms: none of them imports the codec.

use std::fs;
use std::path::{Path, PathBuf};

/// Who may name the codec: itself, the wire that sends what it makes, and the list of modules.
const MAY: [&str; 5] = ["codec", "codec.rs", "wire", "wire.rs", "lib.rs"];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn no_algorithm_imports_the_codec() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut read = 0;
    for file in files(&source) {
        let name = file.strip_prefix(&source).unwrap();
        if MAY.iter().any(|may| name.starts_with(may)) {
            continue;
        }
        read += 1;
        for (number, line) in (1..).zip(fs::read_to_string(&file).unwrap().lines()) {
            let code = line.split("//").next().unwrap_or_default();
            assert!(!code.contains("codec"), "{}:{number}", name.display());
        }
    }
    assert!(read > 50, "{read} files: too few to say anything");
}
