#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn key() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "000102030405060708090a0b0c0d0e0f").unwrap();
    let only_owner = std::fs::Permissions::from_mode(0o600);
    file.as_file().set_permissions(only_owner).unwrap();
    file
}

#[test]
fn a_seed_is_a_run() {
    let key = key();
    for seed in [1, 2] {
        let hash = || World::new(seed, key.path()).unwrap().run().hash;
        assert_eq!(hash(), hash(), "seed {seed}");
    }
}
