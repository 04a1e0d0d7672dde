//! VLAN tags over every driver for kernel interfaces: a frame arrives as it was sent, whatever its tags. Needs root.

#![allow(
    clippy::unwrap_used,
    reason = "what does not work as it should fails the test"
)]

mod common;

use std::time::{Duration, Instant};

use common::{Burst, Veth, eal, ip, start};
use dpdk_bindings::{Mempool, Port};

/// Bytes after the addresses of each frame: an outer tag, an inner tag, the `EtherType`.
const STACKS: [&[u16]; 13] = [
    &[],
    &[0x8100, 0x600a],
    // Priority tags.
    &[0x8100, 0x0000],
    &[0x8100, 0xb000],
    &[0x88a8, 0x600a],
    &[0x88a8, 0x0000],
    &[0x9100, 0x600a],
    &[0x9200, 0x600a],
    &[0x88a8, 0x600a, 0x8100, 0x0014],
    &[0x8100, 0x600a, 0x8100, 0x0014],
    &[0x8100, 0x600a, 0x88a8, 0x0014],
    &[0x88a8, 0xffff, 0x88a8, 0x1001],
    &[0x9100, 0x600a, 0x8100, 0x0014],
];

/// A group address and an unused `EtherType`, so nothing answers.
fn frame(stack: &[u16], number: u8) -> Vec<u8> {
    let mut bytes = vec![3, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    bytes.extend(stack.iter().flat_map(|field| field.to_be_bytes()));
    bytes.extend([0x88, 0xb5, number]);
    bytes.resize(80, number);
    bytes
}

/// Checks that frames sent by `from` arrive unchanged at `to`.
fn pass<'p>(pool: &'p Mempool<'p>, from: &Port<'p>, to: &Port<'p>) {
    let way = format!("{} to {}", from.info().driver, to.info().driver);
    let frames: Vec<_> = (STACKS.iter().zip(1..))
        .map(|(stack, number)| frame(stack, number))
        .collect();
    let (mut tx, mut rx) = (from.tx_queue(0).unwrap(), to.rx_queue(0).unwrap());
    for sent in &frames {
        let mut burst: Burst = [pool.alloc_frame(sent, 80).unwrap()].into_iter().collect();
        let began = Instant::now();
        while tx.transmit(&mut burst) == 0 {
            assert!(began.elapsed() < Duration::from_secs(10), "{way}");
        }
        let received = loop {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "{way}: lost {sent:x?}"
            );
            let mut arrived = Burst::new();
            rx.receive(&mut arrived);
            let ours = arrived.iter().find(|mbuf| mbuf.head()[..6] == sent[..6]);
            if let Some(ours) = ours {
                break ours.head().to_vec();
            }
        };
        assert!(received.starts_with(sent), "{way}: {sent:x?} {received:x?}");
    }
    assert_eq!(to.stats().rx_errors, 0, "{way}");
}

#[test]
fn frames_keep_their_tags_over_every_driver_for_interfaces() {
    if Veth::new(9).is_none() {
        return;
    }
    let eal = eal();
    // net_af_xdp keeps 2048 buffers a queue.
    let pool = eal.mempool("test", 8191, 128, 2048).unwrap();
    let drivers = [
        ("net_af_packet", ""),
        ("net_af_xdp", ",start_queue=0,queue_count=1"),
        ("net_pcap", ""),
    ];
    let pairs = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2)];
    for (number, (near, far)) in pairs.into_iter().enumerate() {
        let veth = Veth::new(number).unwrap();
        let start = |driver: usize, end: &str, interface: &str| {
            let (driver, extra) = drivers[driver];
            let device = format!("{driver}_{end}{number},iface={interface}{extra}");
            start(&eal, &device, &pool)
        };
        let (near, far) = (start(near, "a", &veth.ours), start(far, "b", &veth.theirs));
        pass(&pool, &near, &far);
        pass(&pool, &far, &near);
    }
    // The kernel has the other end of a tap.
    let tap = format!("vg{}t", std::process::id());
    let near = start(&eal, &format!("net_tap_t,iface={tap}"), &pool);
    assert!(ip(&format!("link set {tap} up")));
    let far = start(&eal, &format!("net_af_packet_t,iface={tap}"), &pool);
    pass(&pool, &near, &far);
    pass(&pool, &far, &near);
}
