//! A driver's functions other than those of queues are called by one thread at a time. This test replaces the functions
//! of DPDK that call the driver, and counts concurrent calls.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up fails")]

mod common;

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{eal, pool};
use dpdk_bindings::{Port, PortConfig};

/// DPDK's for a driver that lacks an operation.
const ENOTSUP: c_int = -95;

static INSIDE: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);
static MET: AtomicUsize = AtomicUsize::new(0);

/// An operation of the driver, which takes some time.
fn operate() -> c_int {
    let others = INSIDE.fetch_add(1, Ordering::SeqCst);
    MET.fetch_add((others > 0).into(), Ordering::SeqCst);
    CALLS.fetch_add(1, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(1));
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    ENOTSUP
}

// SAFETY: the shim's calls find these first, and nothing else calls them: same names, same arguments
// (rte_ethdev.h).
#[unsafe(no_mangle)]
extern "C" fn rte_eth_stats_get(_port: u16, _stats: *mut c_void) -> c_int {
    operate()
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn rte_eth_link_get_nowait(_port: u16, _link: *mut c_void) -> c_int {
    operate()
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn rte_eth_dev_set_link_up(_port: u16) -> c_int {
    operate()
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn rte_eth_dev_set_link_down(_port: u16) -> c_int {
    operate()
}

#[test]
fn a_driver_is_asked_by_one_thread_at_a_time() {
    let eal = eal();
    let pool = pool(&eal);
    let port = eal.attach("net_null0").unwrap();
    let port = port.start(&PortConfig::default(), &pool).unwrap();
    let ask = |port: &Port<'_>| {
        for _ in 0..10 {
            port.stats();
            port.is_up();
            assert!(port.set_link(true).is_err() && port.set_link(false).is_err());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let port = port.clone();
            scope.spawn(move || ask(&port));
        }
    });
    let (calls, met) = (CALLS.load(Ordering::SeqCst), MET.load(Ordering::SeqCst));
    assert!(calls >= 4 * 10 * 4, "{calls} calls came through");
    assert_eq!(met, 0, "concurrent calls, of {calls} in total");
}
