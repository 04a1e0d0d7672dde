//! Runs the committed corpus and the seeds through every target, without libFuzzer.
//!
//! Inputs that once found a bug stay in the corpus permanently.
#![expect(
    clippy::unwrap_used,
    reason = "a test says what must hold in the plainest way"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Largest number of truncations of each input, spread over its first bytes.
const CUTS: usize = 100;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// A target's inputs with their names.
fn inputs((name, _, seeds): fuzz::Target) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(corpus().join(name)).unwrap();
    let committed = files.map(|entry| {
        let path = entry.unwrap().path();
        (path.display().to_string(), std::fs::read(path).unwrap())
    });
    let seeds = (0..).zip(seeds());
    let seeds = seeds.map(|(n, seed)| (format!("seed {n} of {name}"), seed));
    committed.chain(seeds).collect()
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let targets: BTreeSet<_> = fuzz::TARGETS.map(|(name, ..)| name.to_owned()).into();
    let folders = std::fs::read_dir(corpus()).unwrap();
    let folders: BTreeSet<_> = folders
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(targets, folders);
}

#[test]
fn targets_hold_on_the_corpus() {
    for target in fuzz::TARGETS {
        let (name, run, _) = target;
        let inputs = inputs(target);
        assert!(inputs.len() >= 5, "{name}: {} inputs", inputs.len());
        for (input, bytes) in inputs {
            println!("{input}");
            run(&bytes);
        }
    }
}

#[test]
fn targets_hold_on_inputs_cut_anywhere() {
    for target in fuzz::TARGETS {
        for (input, bytes) in inputs(target) {
            println!("{input}");
            let step = bytes.len().div_ceil(CUTS).max(1);
            (0..bytes.len())
                .step_by(step)
                .for_each(|length| target.1(&bytes[..length]));
        }
    }
}
