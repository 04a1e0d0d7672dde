//! Hundreds of devices, one after another, in one process; and one that is unplugged.

mod common;

use std::ffi::{CStr, c_char, c_int};
use std::time::{Duration, Instant};

use common::{eal, pool, receive_all, write_capture};
use dpdk_bindings::{PortConfig, StampField};

#[test]
fn devices_come_and_go() {
    let eal = eal();
    StampField::register(&eal).unwrap();
    let pool = pool(&eal);
    let folder = tempfile::tempdir().unwrap();
    let start = Instant::now();
    for round in 0..200 {
        let input = folder.path().join(format!("{round}.pcap"));
        write_capture(&input, &vec![vec![0; 60]; round]);
        let device = format!("net_pcap0,rx_pcap={}", input.display());
        let attached = eal.attach(&device).unwrap();
        assert_eq!(attached.id(), 0, "port numbers are given back");
        let port = attached.start(&PortConfig::default(), &pool).unwrap();
        assert_eq!(receive_all(&mut port.rx_queue(0).unwrap()).len(), round);
    }
    let elapsed = start.elapsed();
    println!("200 devices in {elapsed:?}");
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
    assert_eq!(pool.available(), pool.capacity());

    // The maximum number of ports at once; one more is refused, and after a removal there is room again.
    let attach = |n: usize| eal.attach(&format!("net_null{n}"));
    let all: Vec<_> = (0..32).map(|n| attach(n).unwrap()).collect();
    let error = attach(32).unwrap_err().to_string();
    assert!(
        error.contains("net_null32") && error.contains("did not start"),
        "{error}"
    );
    drop(all);
    let port = attach(32).unwrap();
    assert_eq!(eal.port_names(), [port.name()]);
    drop(port);

    // The kernel requests one device (`make nic` does this): only this device reports it, not its successor.
    let start = |n: usize| {
        let attached = attach(n).unwrap();
        attached.start(&PortConfig::default(), &pool).unwrap()
    };
    let (port, other) = (start(1), start(10));
    pull(c"net_null1");
    assert!(port.is_pulled() && !other.is_pulled());
    let id = port.id();
    drop(port);
    let successor = start(1);
    assert_eq!(successor.id(), id);
    assert!(!successor.is_pulled());
}

/// The action of EAL when `vfio-pci` is about to unplug a device.
fn pull(device: &CStr) {
    unsafe extern "C" {
        fn rte_dev_event_callback_process(device: *const c_char, event: c_int);
    }
    const REMOVE: c_int = 1;
    // SAFETY: EAL is initialised, and the name is NUL-terminated (rte_dev.h).
    unsafe { rte_dev_event_callback_process(device.as_ptr(), REMOVE) }
}
