//! EAL's start, and threads that become lcores.

#![allow(
    clippy::unwrap_used,
    reason = "what does not work as it should fails the test"
)]

mod common;

use common::{eal, frame, pool};
use dpdk_bindings::{Eal, EalError, EalOptions, LcoreError, Mbuf, allowed_cpus, tsc};

#[test]
fn main_thread_floats_and_workers_are_pinned() {
    let nul = Eal::init(
        "test",
        &EalOptions {
            extra: vec!["a\0b".into()],
            ..EalOptions::default()
        },
    );
    assert!(matches!(nul, Err(EalError::Argument { argument }) if argument == "a\0b"));

    let before = allowed_cpus();
    let eal = eal();
    assert_eq!(allowed_cpus(), before, "EAL does not pin its caller");
    let again = Eal::init("test", &EalOptions::default());
    assert!(matches!(again, Err(EalError::AlreadyInitialised)));

    the_counter_has_its_rate(&eal);
    assert!(matches!(
        eal.register_thread(before[0]),
        Err(LcoreError::AlreadyRegistered)
    ));
    assert_eq!(
        allowed_cpus(),
        before,
        "a refused thread stays where it was"
    );

    std::thread::scope(|scope| {
        scope.spawn(|| {
            dpdk_bindings::keep_to_cpus(&before[..1]).unwrap();
            assert_eq!(allowed_cpus(), before[..1]);
            assert_eq!(
                dpdk_bindings::keep_to_cpus(&[70_000]).unwrap_err().code(),
                22
            );
        });
    });
    assert_eq!(allowed_cpus(), before, "one thread's affinity is its own");

    let pool = pool(&eal);
    let cpu = before[before.len() - 1];
    let mbuf = frame(&pool, 42);
    let returned: Mbuf = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let error = eal.register_thread(100_000).unwrap_err();
            assert!(
                error.to_string().contains(&format!("{before:?}")),
                "{error}"
            );
            for _ in 0..300 {
                // More registrations than there are lcores: each returns its lcore.
                drop(eal.register_thread(cpu).unwrap());
            }
            let registration = eal.register_thread(cpu).unwrap();
            assert_eq!(allowed_cpus(), [cpu]);
            let copy = mbuf.copy(&pool).unwrap();
            drop(mbuf);
            drop(registration);
            copy
        });
        worker.join().unwrap()
    });
    assert_eq!(common::number(&returned), 42);
    drop(returned);
    assert_eq!(
        pool.available(),
        pool.capacity(),
        "caches of lcores that ended are counted"
    );
}

fn the_counter_has_its_rate(eal: &Eal) {
    let (start, hz) = (tsc::now(), eal.tsc_hz());
    std::thread::sleep(std::time::Duration::from_millis(100));
    let seconds = (tsc::now() - start) as f64 / hz as f64;
    assert!((0.09..1.0).contains(&seconds), "{seconds} s at {hz} Hz");
}
