#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;
use crate::key_file;

#[test]
fn a_seed_is_a_run() {
    let key = key_file().unwrap();
    for seed in [1, 2] {
        let hash = || World::new(seed, key.path()).unwrap().run().hash;
        assert_eq!(hash(), hash(), "seed {seed}");
    }
}
