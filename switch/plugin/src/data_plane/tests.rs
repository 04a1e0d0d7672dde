use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contract::change::Change;
use contract::ids::GenerationId;
use dpdk_bindings::{Eal, EalOptions, Host, PortConfig, StampField};
use measure::packet::Hasher;
use measure::time::{Epoch, EpochSchedule, TickRate};
use records::snapshot::ReloadOutcome;
use switch::classify::Classifier;

use super::*;
use crate::arrivals::Stamper;
use crate::taps::Taps;

fn rate() -> TickRate {
    TickRate::from_hz(1_000_000_000)
}

/// Makes this process a host program with one port.
fn host() -> Host<'static> {
    let options = EalOptions {
        memory_mib: 64,
        ..EalOptions::default()
    };
    let eal: &'static Eal = Box::leak(Box::new(Eal::init("plugin", &options).unwrap()));
    let pool = Box::leak(Box::new(eal.mempool("plugin", 1023, 0, 2048).unwrap()));
    let port = eal.attach("net_null0").unwrap();
    std::mem::forget(port.start(&PortConfig::default(), pool).unwrap());
    eal.host().unwrap().unwrap()
}

/// A plugin in that program, with the settings in `file`; setting the returned flag requests a reload.
fn data_plane(file: &Path) -> (HostDataPlane, Arc<AtomicBool>) {
    let host = host();
    let settings = HostConfig::load(file).unwrap();
    let config = settings.config(&[]);
    let stamper = Stamper {
        field: StampField::register_in(&host).unwrap(),
        hasher: Hasher::new([7; 16]),
        classifier: Arc::new(Classifier::from_config(&config)),
        has_classes: false,
        stamps_packets: false,
        hashing: config.shard_layout(rate()).unwrap().hashing(),
    };
    let schedule = EpochSchedule::new(Ticks(0), 1_000_000, 100_000);
    let wanted = Arc::new(AtomicBool::new(false));
    let orders = Orders {
        wanted: Arc::clone(&wanted),
        file: Some(file.to_owned()),
    };
    let program = Program::new(host, None, settings, rate(), Taps::new(stamper, schedule));
    let plane = HostDataPlane::new(program, orders, VhostWarning::default());
    (plane, wanted)
}

fn poll(plane: &mut HostDataPlane) -> Option<Box<Change>> {
    let status = CoreStatus {
        epoch: Epoch(5),
        generation: plane.program.number,
        is_busy: false,
        stalled_workers: 0,
    };
    let events = plane.poll(status).into_iter();
    let mut changes = events.filter_map(|event| match event {
        Event::Change(change) => Some(change),
        _ => None,
    });
    changes.next()
}

/// Polls until a change is offered.
fn offered(plane: &mut HostDataPlane) -> Box<Change> {
    loop {
        if let Some(change) = poll(plane) {
            return change;
        }
        std::thread::yield_now();
    }
}

/// Every way in which the control core refuses a change.
fn errors() -> [ChangeError; 6] {
    let message = "no such wire".to_owned();
    [
        ChangeError::Busy {
            number: GenerationId(1),
        },
        ChangeError::Stale {
            number: GenerationId(1),
            present: GenerationId(2),
        },
        ChangeError::Ends {
            ends: 2,
            workers: 1,
        },
        ChangeError::Wire {
            port: PortIndex(0),
            message,
        },
        ChangeError::Segments {
            configured: 1,
            laid_out: 2,
        },
        ChangeError::Fault,
    ]
}

#[test]
fn a_reload_that_the_control_core_refuses_keeps_the_settings_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vernier.json");
    let write = |slots: u32| {
        let text = format!(r#"{{ "measurement": {{ "flows": {{ "slots": {slots} }} }} }}"#);
        std::fs::write(&file, text).unwrap();
    };
    write(256);
    let (mut plane, wanted) = data_plane(&file);
    offered(&mut plane);
    plane.answer(Ok(()));
    let before = plane.program.settings.clone();

    write(512);
    for error in errors() {
        wanted.store(true, Ordering::Relaxed);
        let change = offered(&mut plane);
        assert_ne!(change.config, before.config(&plane.program.ports.names()));
        plane.answer(Err(error.clone()));
        let reload = plane.reconfigurer.last().unwrap();
        assert_eq!(reload.outcome, ReloadOutcome::Refused, "{error}");
        assert!(reload.message.contains(&error.to_string()), "{reload:?}");
        assert!(plugin::is_at_work(), "{error}");
        assert_eq!(plane.program.settings, before);
        assert!(poll(&mut plane).is_none(), "{error}: nothing else changed");
    }
    // Queues added in between get plans from the settings in use.
    wanted.store(true, Ordering::Relaxed);
    offered(&mut plane);
    plane.program.has_changed = true;
    plane.answer(Err(ChangeError::Fault));
    let again = offered(&mut plane);
    assert_eq!(again.config, before.config(&plane.program.ports.names()));
    plane.answer(Ok(()));
    // A refused change can be requested again.
    wanted.store(true, Ordering::Relaxed);
    offered(&mut plane);
    plane.answer(Ok(()));
    assert_ne!(plane.program.settings, before);
    assert!(plugin::is_at_work());
}
