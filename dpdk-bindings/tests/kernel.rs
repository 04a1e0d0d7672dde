//! `net_af_packet` over a veth: links, several queues. Needs root.

#![allow(
    clippy::unwrap_used,
    reason = "what does not work as it should fails the test"
)]

mod common;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use common::{Burst, Veth, eal, frame, ip, pool};
use dpdk_bindings::{Eal, Mbuf, Mempool, Port, PortConfig};

fn wait_for_link(port: &Port<'_>, up: bool) {
    let began = Instant::now();
    while port.is_up() != up {
        let is_patient = began.elapsed() < Duration::from_secs(10);
        assert!(is_patient, "link stays {}", !up);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A port that starts while loopback is busy receives none of its packets.
fn nothing_of_loopback_is_received(eal: &Eal, pool: &Mempool<'_>, veth: &Veth) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    // It ends with this process, even if the test fails.
    std::thread::spawn(move || {
        loop {
            let _ = socket.send(&[0; 64]);
        }
    });
    for n in 2..5 {
        let device = format!("net_af_packet{n},iface={},framecnt=4096", veth.ours);
        let attached = eal.attach(&device).unwrap();
        let port = attached.start(&PortConfig::default(), pool).unwrap();
        let mut rx = port.rx_queue(0).unwrap();
        let is_loopback = |mbuf: &Mbuf<'_>| mbuf.head()[26..30] == [127, 0, 0, 1];
        assert!(
            !common::receive_all(&mut rx).iter().any(is_loopback),
            "start {n}"
        );
    }
}

#[test]
fn links_of_interfaces_are_seen_and_queues_share_them() {
    let Some(veth) = Veth::new(0) else { return };
    let eal = eal();
    let pool = pool(&eal);
    let config = PortConfig {
        rx_queues: 2,
        tx_queues: 2,
        ..PortConfig::default()
    };
    let start = |n: usize, interface: &str| {
        let device = format!("net_af_packet{n},iface={interface},qpairs=2");
        eal.attach(&device).unwrap().start(&config, &pool).unwrap()
    };
    let (near, far) = (start(0, &veth.ours), start(1, &veth.theirs));
    assert_eq!(
        (near.info().rx_queues_max, near.info().tx_queues_max),
        (2, 2)
    );

    // Both ends see when the link at either end goes down and comes up.
    for interface in [&veth.ours, &veth.theirs] {
        for up in [true, false, true] {
            let state = if up { "up" } else { "down" };
            assert!(ip(&format!("link set {interface} {state}")));
            wait_for_link(&near, up);
            wait_for_link(&far, up);
        }
    }
    // If this end takes the link down, it is down at the other end.
    for up in [false, true] {
        near.set_link(up).unwrap();
        wait_for_link(&near, up);
        wait_for_link(&far, up);
    }

    // Packets sent by any queue arrive at some queue of the other end. The first burst after a link loss fails with the
    // error of the loss; the kernel sends it along with the next.
    let mut txs = [near.tx_queue(0).unwrap(), near.tx_queue(1).unwrap()];
    let mut rxs = [far.rx_queue(0).unwrap(), far.rx_queue(1).unwrap()];
    for (n, tx) in [(0, 0), (1, 1), (0, 0), (1, 1)] {
        // A group address and an unused EtherType, so nothing answers.
        let numbers = 0x0300_0000 + 16 * n..0x0300_0010 + 16 * n;
        let mut burst: Burst = numbers.map(|number| frame(&pool, number)).collect();
        for mbuf in &mut burst {
            mbuf.head_mut()[12..14].copy_from_slice(&[0x88, 0xb5]);
        }
        assert_eq!(txs[tx].transmit(&mut burst), 16);
    }
    let (began, mut seen) = (Instant::now(), [false; 32]);
    while seen.contains(&false) {
        assert!(began.elapsed() < Duration::from_secs(10), "{seen:?}");
        for rx in &mut rxs {
            let mut burst = Burst::new();
            rx.receive(&mut burst);
            let is_ours = |mbuf: &&Mbuf<'_>| mbuf.head()[12..14] == [0x88, 0xb5];
            let ours = burst.iter().filter(is_ours);
            ours.for_each(|mbuf| seen[common::number(mbuf) as usize & 31] = true);
        }
    }
    drop((txs, rxs, near, far));
    nothing_of_loopback_is_received(&eal, &pool, &veth);
}
