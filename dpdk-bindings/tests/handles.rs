//! Queues that move to threads and back, ports that are added and removed meanwhile, and links.

#![allow(
    clippy::unwrap_used,
    reason = "what does not work as it should fails the test"
)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::{Burst, eal, frame, number, pool, receive_all};
use dpdk_bindings::{LinkError, PortConfig, StartError, free_bulk};

#[test]
fn ports_come_and_go_while_others_run() {
    let eal = eal();
    let (near, far) = (
        pool(&eal),
        eal.mempool_near(Some(0), "far", 1023, 0, 2048).unwrap(),
    );
    let two = PortConfig {
        rx_queues: 2,
        tx_queues: 2,
        ..PortConfig::default()
    };
    let error = eal.attach("net_ring0").unwrap().start_with(&two, &[&near]);
    assert!(matches!(error, Err(StartError::Pools { pools: 1, .. })));
    let port = eal
        .attach("net_ring0")
        .unwrap()
        .start_with(&two, &[&near, &far])
        .unwrap();
    assert_eq!(port.rx_queues(), 2);

    // Its queues are independent; each keeps the port open, on whichever thread it is.
    let (mut rx, mut tx) = (port.rx_queue(1).unwrap(), port.tx_queue(1).unwrap());
    assert!(port.rx_queue(1).is_none() && port.rx_queue(2).is_none());
    drop(port);
    let (stop, turns) = (AtomicBool::new(false), AtomicU32::new(0));
    let (rx, tx) = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut burst = Burst::new();
            while !stop.load(Ordering::Relaxed) {
                burst.push(frame(&near, turns.load(Ordering::Relaxed)));
                assert_eq!((tx.transmit(&mut burst), rx.receive(&mut burst)), (1, 1));
                assert_eq!(number(&burst[0]), turns.fetch_add(1, Ordering::Relaxed));
                free_bulk(&mut burst);
            }
            (rx, tx)
        });
        // Meanwhile ports are added and removed.
        for round in 0..50 {
            let seen = turns.load(Ordering::Relaxed);
            let other = eal.attach(&format!("net_null{}", round % 3)).unwrap();
            drop(other.start(&two, &far).unwrap());
            while turns.load(Ordering::Relaxed) == seen && !worker.is_finished() {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
        worker.join().unwrap()
    });
    assert!(turns.load(Ordering::Relaxed) >= 50);
    assert_eq!(eal.port_names(), ["net_ring0"]);

    // When the last handle is dropped, queued packets return to their pool, and the device's name is free again.
    let mut tx = tx;
    let mut burst: Burst = (0..32).map(|n| frame(&near, n)).collect();
    assert_eq!(tx.transmit(&mut burst), 32);
    drop(tx);
    assert_eq!(eal.port_names(), ["net_ring0"]);
    drop(rx);
    assert!(eal.port_names().is_empty());
    assert_eq!(near.available(), near.capacity());

    links(&eal, &near);
}

fn links(eal: &dpdk_bindings::Eal, pool: &dpdk_bindings::Mempool<'_>) {
    let start = |device: &str| {
        let config = PortConfig::default();
        eal.attach(device).unwrap().start(&config, pool).unwrap()
    };
    let ring = start("net_ring1");
    let (mut rx, mut tx) = (ring.rx_queue(0).unwrap(), ring.tx_queue(0).unwrap());
    assert!(ring.is_up());
    for up in [false, true] {
        ring.set_link(up).unwrap();
        assert_eq!(ring.is_up(), up);
        let mut burst: Burst = [frame(pool, 3)].into_iter().collect();
        assert_eq!(tx.transmit(&mut burst), 1, "a ring has no wire to lose");
        assert_eq!(receive_all(&mut rx).len(), 1);
    }
    let null = start("net_null0");
    let error = null.set_link(false).unwrap_err();
    assert!(matches!(error, LinkError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("net_null"), "{error}");
    assert!(null.is_up());
}
