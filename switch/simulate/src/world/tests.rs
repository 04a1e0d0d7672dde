#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;
use crate::key_file;

#[test]
fn a_seed_is_a_run_and_breaks_no_rule() {
    let key = key_file().unwrap();
    for seed in [1, 2] {
        let run = || {
            let outcome = World::new(seed, key.path()).unwrap().run();
            assert!(outcome.violation.is_none(), "seed {seed}: {outcome:#?}");
            outcome.hash
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}

/// Combinations of faults, and the least number of usable epochs that wires still have.
const SCENES: [(&[Fault], u64); 6] = [
    (&[], 100),
    (&[Fault::DataLost, Fault::ControlLost], 100),
    (&[Fault::DataReordered, Fault::ControlReordered], 100),
    (
        &[
            Fault::DataDoubled,
            Fault::ControlDoubled,
            Fault::ControlCorrupted,
        ],
        100,
    ),
    (&[Fault::Replay, Fault::Forgery, Fault::HelloFlood], 50),
    (&[Fault::LinkFlap, Fault::Kill, Fault::ClockStep], 1),
];

#[test]
fn wires_tell_the_truth_whatever_goes_wrong_and_recover() {
    let key = key_file().unwrap();
    for (seed, (faults, usable_min)) in (0..).zip(SCENES) {
        let (random, menu) = (Pcg64::seed_from_u64(seed), faults::Menu::only(faults));
        let world = World::made(random, menu, false, key.path()).unwrap();
        let outcome = world.run_until(FAULTY_NS + QUIET_NS + EPOCH_NS);
        assert!(outcome.violation.is_none(), "{faults:?}: {outcome:#?}");
        let usable = outcome.figures.counts[&Count::OnWires];
        assert!(usable >= usable_min, "{faults:?}: {usable} epochs usable");
        let mut came = faults
            .iter()
            .filter(|fault| outcome.figures.faults.contains_key(&format!("{fault:?}")));
        assert!(
            faults.is_empty() || came.next().is_some(),
            "{faults:?}: none came"
        );
    }
}
