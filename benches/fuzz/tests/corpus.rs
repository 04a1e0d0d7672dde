//! The committed corpus through every target, without libFuzzer.
//!
//! Inputs that once broke something stay here for good.

use std::path::Path;

#[test]
fn targets_hold_on_the_corpus() {
    for (name, target) in fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        let mut inputs = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            target(&std::fs::read(path).unwrap());
            inputs += 1;
        }
        assert!(inputs >= 10, "{name}: {inputs} inputs");
    }
}

#[test]
fn targets_hold_on_inputs_cut_anywhere() {
    for (name, target) in fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        for entry in std::fs::read_dir(folder).unwrap() {
            let input = std::fs::read(entry.unwrap().path()).unwrap();
            for length in 0..input.len().min(200) {
                target(&input[..length]);
            }
        }
    }
}
