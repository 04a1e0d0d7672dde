//! The examples are configurations.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lints treat as ordinary functions"
)]

use std::path::Path;

use contract::check;
use contract::config::Config;

fn example(name: &str) -> Config {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    Config::load(examples.join(name)).unwrap()
}

#[test]
fn every_example_is_valid_and_described() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let words = std::fs::read_to_string(examples.join("README.md")).unwrap();
    let mut found = 0;
    for file in std::fs::read_dir(&examples).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        if Path::new(&file)
            .extension()
            .is_some_and(|end| end == "json")
        {
            assert!(words.contains(&format!("[{file}]({file})")), "{file}");
            assert!(check::report(&example(&file)).starts_with("switch "));
            found += 1;
        }
    }
    assert!(found >= 3, "{found}");
}

/// Its section in `examples/README.md`.
#[test]
fn two_workers_share_the_bridge_and_one_owns_the_uplink() {
    let config = example("classes.json");
    let owners: Vec<_> = (0..3).map(|port| config.owner(port)).collect();
    assert_eq!(owners, [None, None, Some(0)]);
    let mut open = config.clone();
    for worker in &mut open.workers {
        worker.queues = None;
    }
    assert_eq!(open.assignment(), config.assignment());
    assert_eq!(config.segments().len(), 4 * 3);
    assert_eq!(config.queue_of_class(2), [0, 1, 2, 0, 0, 0, 0, 0]);
}
