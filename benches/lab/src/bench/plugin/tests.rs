use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use contract::config::{Http, Measurement};
use serde_json::Value;

use super::*;
use crate::bench::vernierd::tests::segment;

fn snapshot(epoch: u64, received_packets: u64) -> Snapshot {
    let mut snapshot = Snapshot {
        segments: vec![segment(received_packets, 10)],
        ..Snapshot::default()
    };
    snapshot.epoch = Some(epoch);
    snapshot.interval_ms = 500;
    snapshot
}

#[test]
fn a_rate_counts_only_if_the_packets_were_measured() {
    let measured = |epoch, packets| Measured::of(&snapshot(epoch, packets)).unwrap();
    let (from, to) = (measured(7, 100), measured(9, 1_000));
    to.check(&from, 900.0).unwrap();
    to.check(&from, 1_000.0).unwrap();
    let error = to.check(&from, 1_800.0).unwrap_err().to_string();
    assert!(error.contains("50 % of the packets"), "{error}");
    assert_eq!(Measured::of(&Snapshot::default()), None);
}

#[test]
fn the_end_of_an_epoch_is_waited_for() {
    let mut process = Process::start(Command::new("sleep").arg("60")).unwrap();
    // Each query of the switch finds a later epoch.
    let looks = AtomicU64::new(0);
    let mut latest = || {
        let epoch = looks.fetch_add(1, Ordering::Relaxed);
        Some(snapshot(epoch, 1_000 * epoch))
    };
    let from = epoch_end(&mut latest, &mut process).unwrap();
    let to = epoch_end(&mut latest, &mut process).unwrap();
    assert!(from.epoch > 0 && to.epoch > from.epoch, "{from:?} {to:?}");
    to.check(&from, 2_000.0).unwrap();
}

#[test]
fn drivers_are_the_latest() {
    let folder = tempfile::tempdir().unwrap();
    let error = drivers(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no drivers"), "{error}");
    for name in ["pmds-23.0", "pmds-24.1", "tools"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    assert_eq!(
        drivers(folder.path()).unwrap(),
        folder.path().join("pmds-24.1")
    );
}

#[test]
fn it_is_set_up_for_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::for_tests(folder.path());
    if tempfile::tempdir_in(LIBRARIES).is_err() {
        return eprintln!("SKIPPED: a folder in {LIBRARIES} needs root");
    }
    let error = Plugin::install(&bench, Extent::Lda, 1_000).unwrap_err();
    assert!(error.to_string().contains("-p plugin"), "{error}");

    fs::write(&bench.plugin, "library").unwrap();
    fs::write(bench.plugin.with_file_name(VHOST), "object").unwrap();
    let plugin = Plugin::install(&bench, Extent::Lda, 1_000).unwrap();
    let [_, library, _, drivers] = plugin.arguments();
    assert_eq!(fs::read_to_string(&library).unwrap(), "library");
    assert!(Path::new(&drivers).is_dir(), "{drivers}");
    let json: Value = serde_json::from_slice(&fs::read(&plugin.config).unwrap()).unwrap();
    let of = |key: &str| json[key].clone();
    let measurement: Measurement = serde_json::from_value(of("measurement")).unwrap();
    assert!(measurement.lda.is_some() && measurement.flows.is_none());
    let http: Http = serde_json::from_value(of("http")).unwrap();
    assert!(
        http.listen
            .is_some_and(|address| address.ip().is_loopback())
    );
    drop(plugin);
    assert!(!Path::new(&library).exists());
}
