//! libFuzzer's entry to every target: the environment variable `FUZZ_TARGET` names the one.
#![no_main]

use std::sync::LazyLock;

/// The target that is asked for.
static CHOSEN: LazyLock<fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = fuzz::TARGETS.into_iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET={name}: no such target"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| CHOSEN.1(bytes));
