//! What a plugin sees of a program's ports, with this test as the program.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up fails")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Burst, eal, frame, pool, receive_all};
use dpdk_bindings::{
    Errno, Host, HostError, Mempool, PassingMbuf, Port, PortConfig, StampField, Tap,
};

/// Counts packets, and stamps them if requested.
struct Counting {
    packets: AtomicUsize,
    stamp: Option<StampField>,
}

impl Counting {
    fn leak(stamp: Option<StampField>) -> &'static Self {
        Box::leak(Box::new(Self {
            packets: AtomicUsize::new(0),
            stamp,
        }))
    }

    fn packets(&self) -> usize {
        self.packets.load(Ordering::Relaxed)
    }
}

impl Tap for Counting {
    fn pass(&self, burst: &mut [PassingMbuf<'_>]) {
        self.packets.fetch_add(burst.len(), Ordering::Relaxed);
        for (mbuf, n) in burst.iter_mut().zip(0..) {
            if let Some(stamp) = &self.stamp {
                stamp.set(mbuf, [n; 3]);
            }
        }
    }
}

/// Sends seven packets through a ring; returns how many of those received are stamped.
fn stamped<'p>(port: &Port<'p>, pool: &'p Mempool<'p>, stamp: &StampField) -> usize {
    let mut burst: Burst<'p> = (0..7).map(|n| frame(pool, n)).collect();
    assert_eq!(port.tx_queue(0).unwrap().transmit(&mut burst), 7);
    let received = receive_all(&mut port.rx_queue(0).unwrap());
    let stamped = received.iter().filter(|mbuf| stamp.get(mbuf).is_some());
    stamped.count()
}

#[test]
fn a_program_is_seen_from_its_first_started_port_on_and_taps_outlive_ports() {
    let eal = eal();
    let pool = pool(&eal);
    assert!(
        matches!(Host::find(), Err(HostError::Own)),
        "EAL is ours, and a host would outlive it"
    );
    assert!(eal.host().unwrap().is_none(), "no port yet");
    let config = PortConfig {
        rx_queues: 1,
        tx_queues: 1,
        ..PortConfig::default()
    };
    let attached = eal.attach("net_ring0").unwrap();
    assert!(eal.host().unwrap().is_none(), "not started yet");
    let port = attached.start(&config, &pool).unwrap();
    let host = eal.host().unwrap().unwrap();
    assert!(!host.is_secondary() && host.tsc_hz() == eal.tsc_hz());
    assert!(!host.cpus().is_empty());

    let ports = host.ports();
    let [seen] = ports.as_slice() else {
        panic!("{ports:?}");
    };
    assert_eq!((seen.id, seen.name.as_str()), (port.id(), "net_ring0"));
    assert_eq!((seen.rx_queues, seen.tx_queues), (1, 1));
    assert_eq!(host.is_up(seen), Some(true));

    let stamp = StampField::register_in(&host).unwrap();
    let (given, offered) = (Counting::leak(Some(stamp)), Counting::leak(None));
    host.tap_received(seen, 0, given).unwrap();
    host.tap_sent(seen, 0, offered).unwrap();
    assert_eq!(host.tap_sent(seen, 1, offered).unwrap_err().code(), 22);

    // The driver is called only by the thread that polls the port.
    assert_eq!(host.device(seen), None);
    assert_eq!(stamped(&port, &pool, &stamp), 7);
    assert_eq!((offered.packets(), given.packets()), (7, 7));
    let device = host.device(seen).unwrap();
    assert_eq!(
        (device.driver.as_str(), device.interface),
        ("net_ring", None)
    );
    assert_eq!(host.is_up(seen), Some(true));

    // After the port is removed, nothing of it can be read.
    drop(port);
    assert!(host.ports().is_empty());
    assert_eq!((host.device(seen), host.is_up(seen)), (None, None));
    assert_eq!(
        host.tap_received(seen, 0, given).unwrap_err(),
        Errno::ENODEV
    );

    // A port with the same number is a different port, but is already tapped.
    let port = eal
        .attach("net_ring1")
        .unwrap()
        .start(&config, &pool)
        .unwrap();
    let again = host.port(seen.id).unwrap();
    assert_eq!(again.name, "net_ring1");
    assert_ne!(again.life, seen.life);
    assert_eq!(host.is_up(seen), None, "the old one is not the new one");
    assert_eq!(host.device(&again), None, "this one has not been asked");
    assert_eq!(stamped(&port, &pool, &stamp), 7);
    assert_eq!((offered.packets(), given.packets()), (14, 14));
    assert_eq!(host.device(&again).unwrap().driver, "net_ring");
}
