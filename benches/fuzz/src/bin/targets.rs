//! libFuzzer's entry to every target; the environment variable `FUZZ_TARGET` selects one. With `FUZZ_SEEDS` it only
//! writes the seeds of all targets into that folder, and prints the targets' names.
#![no_main]

use std::process::exit;
use std::sync::LazyLock;

/// The selected target.
static CHOSEN: LazyLock<fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = fuzz::TARGETS.into_iter().find(|(known, ..)| *known == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET={name}: no such target"))
});

fn write_seeds() {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS") else {
        return;
    };
    if let Err(error) = fuzz::write_seeds(folder.as_ref()) {
        eprintln!("{}: {error}", folder.display());
        exit(1);
    }
    for (name, ..) in fuzz::TARGETS {
        println!("{name}");
    }
    exit(0);
}

libfuzzer_sys::fuzz_target!(init: write_seeds(), |bytes: &[u8]| CHOSEN.1(bytes));
